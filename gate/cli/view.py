"""`gate view`: the runs and replays of a folder as pages, on this machine alone.

Theory of operation. A server on the loopback address answers GET and HEAD and nothing else.
It knows the runs that it finds below the folder, by their place there; whatever else a path
says is not found. A page is made from the record when it is asked for, and kept as long as
the ledger has not grown. Of a run that is going on the whole lines are read: the last one
may be in the middle of being written. Requests that name another host are refused, so that
no page from elsewhere can read along under a name of its own.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from gate.backends.content import FOLDER
from gate.backends.jsonl import is_locked
from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.recorded import read_recorded
from gate.cli.replayed import KIND
from gate.errors import GateError, SpecError
from gate.model import Json
from gate.report.about import about
from gate.report.content import compose
from gate.report.html import Entry, list_page, page

MAX_LEVELS = 4
_TAIL_BYTES = 1 << 16


@dataclass(slots=True)
class Shelf:
    """The runs below a folder, and the pages that were made of them."""

    folder: Path
    _pages: dict[Path, tuple[str, bytes]] = field(default_factory=dict)
    _drawing: threading.Lock = field(default_factory=threading.Lock)  # what draws the figures is not thread-safe

    def runs(self) -> dict[str, Path]:
        """The run directories, by their place in the folder."""
        return {found.relative_to(self.folder).as_posix(): found for found in _runs(self.folder, MAX_LEVELS)}

    def list(self) -> bytes:
        """The page that lists them, the newest first."""
        entries = [_entry(place, path) for place, path in self.runs().items()]
        entries.sort(key=lambda entry: entry.began, reverse=True)
        return list_page(entries, folder=self.folder.name or "/").encode()

    def list_state(self) -> str:
        """A text that changes when the list does."""
        return "\n".join(f"{place} {state_of(path)}" for place, path in self.runs().items())

    def page(self, place: str, path: Path) -> bytes:
        """The page of one run."""
        state = state_of(path)
        with self._drawing:
            known = self._pages.get(path)
            if known is None or known[0] != state:
                known = self._pages[path] = (state, _page(place, path))
            return known[1]


def _runs(folder: Path, levels: int) -> Iterator[Path]:
    if (folder / "run.json").is_file():
        yield folder
    elif levels:
        try:
            inside = sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink())
        except OSError:
            return
        for each in inside:
            if not each.name.startswith("."):
                yield from _runs(each, levels - 1)


def state_of(path: Path) -> str:
    """A text that changes whenever a run's record does."""
    try:
        told = (path / "ledger.jsonl").stat()
    except OSError:
        return "no ledger"
    return f"{told.st_size} {told.st_mtime_ns}"


def _page(place: str, path: Path) -> bytes:
    with whole_lines(path) as readable:
        recorded = read_recorded(readable)
    whole = compose([recorded])
    return page(whole, about=about(whole, [place], drawn=True), refresh=not recorded.source.closed).encode()


@contextmanager
def whole_lines(path: Path) -> Iterator[Path]:
    """A run that can be read: itself, or where its last line is not whole a copy without it."""
    ledger = path / "ledger.jsonl"
    try:
        with ledger.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 1))
            is_whole = file.read(1) in (b"\n", b"")
        if is_whole and _last_record(ledger).get("kind") == "closed":
            yield path
            return
        with tempfile.TemporaryDirectory() as folder:
            for name in ("run.json", "suites.jsonl.gz"):
                shutil.copyfile(path / name, Path(folder, name))
            data = ledger.read_bytes()
            Path(folder, "ledger.jsonl").write_bytes(data[: data.rfind(b"\n") + 1])
            Path(folder, FOLDER).symlink_to((path / FOLDER).resolve())
            yield Path(folder)
    except OSError as exc:
        raise SpecError(f"{path.name}: cannot be read ({exc.strerror}): see to the folder") from exc


def _last_record(ledger: Path) -> dict[str, Json]:
    """The last whole record; an empty one where there is none."""
    with ledger.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - _TAIL_BYTES))
        lines = file.read().split(b"\n")[1 if end > _TAIL_BYTES else 0 : -1]
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _entry(place: str, path: Path) -> Entry:
    """One line of the list; a run that cannot be read is listed as such."""
    href = f"/run/{quote(place)}/"
    try:
        config = RunDir(path).read_config()
        ledger = path / "ledger.jsonl"
        with ledger.open("rb") as file:
            began = json.loads(file.readline())["time"]
        last = _last_record(ledger)
        closed = last.get("kind") == "closed"
        state = "closed" if closed else "running" if is_locked(ledger) else "stopped"
        return Entry(
            href=href,
            began=str(began)[:16].replace("T", " "),
            kind="replay" if config.get("kind") == KIND else "run",
            bank=str(config["bank"]["name"]),
            what=str(config["options"].get("model") or config["source"]["spec"]),
            says=_closed_words(path, last) if closed else _going_words(ledger, config),
            state=state,
        )
    except (GateError, OSError, KeyError, TypeError, ValueError, AttributeError) as exc:
        return Entry(
            href=href, began="", kind="run", bank=place, what="", says=f"cannot be read: {exc}", state="damaged"
        )


def _closed_words(path: Path, last: dict[str, Json]) -> str:
    words = f"{last['delivered']} of {last['tasks']} tasks delivered"
    try:
        told = json.loads((path / "summary.json").read_bytes())
        right = told["rules"]["first_pass"]["success"] if "rules" in told else told["hidden"]["success"]
    except (OSError, ValueError, KeyError, TypeError):
        return words
    return f"{words}, {right} right"


def _going_words(ledger: Path, config: dict[str, Json]) -> str:
    decided = ledger.read_bytes().count(b'\n{"kind":"decision"')
    return f"{decided} of {config['bank'].get('tasks', '?')} tasks decided so far"


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gate", ""

    def do_GET(self) -> None:
        """Answer with a page, or with what tells whether it has changed."""
        if (self.headers.get("Host") or "").lower() not in self.server.hosts:
            self._answer(403, b"This server is for this machine alone.\n", "text/plain")
            return
        asked = urlsplit(self.path)
        place = unquote(asked.path).removeprefix("/run/").removesuffix("/") if asked.path != "/" else None
        shelf = self.server.shelf
        path = None if place is None else shelf.runs().get(place)
        if place is not None and path is None:
            self._answer(404, b"No such run here.\n", "text/plain")
        elif asked.query == "state":
            state = shelf.list_state() if path is None else state_of(path)
            self._answer(200, state.encode("utf-8", "backslashreplace"), "text/plain")
        elif path is None:
            self._answer(200, shelf.list(), "text/html")
        else:
            self._send_page(str(place), path)

    do_HEAD = do_GET

    def _send_page(self, place: str, path: Path) -> None:
        try:
            self._answer(200, self.server.shelf.page(place, path), "text/html")
        except GateError as exc:
            self._answer(500, f"{place}: {printing.escape(str(exc))}\n".encode(), "text/plain")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what is asked for is nobody's news."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, shelf: Shelf, port: int) -> None:
        self.shelf = shelf
        super().__init__(("127.0.0.1", port), _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}


def view(folder: Path, *, port: int) -> int:
    """Serve until Ctrl-C.

    Raises:
        SpecError: There is no such folder, or the port is taken.
    """
    if not folder.is_dir():
        raise SpecError(f"{folder}: is no folder: name one with runs in it")
    try:
        server = _Server(Shelf(folder.resolve()), port)
    except (OSError, OverflowError) as exc:
        raise SpecError(f"--port {port}: cannot be used ({exc}): name another, or none") from exc
    with server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        printing.say("gate: Ctrl-C ends it")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return exits.STOPPED
    return exits.DONE
