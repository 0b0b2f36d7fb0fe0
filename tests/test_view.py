"""`gate view`: on loopback alone, runs below the folder alone, and what goes on is followed."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden import make
from reported import SCRIPTS, run_of

from gate.backends.jsonl import JsonlLedger, is_locked
from gate.cli.view import whole_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed run, one that is going on with half a line written, a damaged one, and a hostile one."""
    shutil.copytree(make.RUN, tmp_path / "runs" / "deep er" / "closed")
    shutil.copytree(make.RUN, tmp_path / "runs" / "open")
    ledger = tmp_path / "runs" / "open" / "ledger.jsonl"
    lines = ledger.read_bytes().split(b"\n")
    ledger.write_bytes(b"\n".join(lines[:12]) + b"\n" + lines[12][:40])
    shutil.copytree(make.RUN, tmp_path / "runs" / "damaged")
    (tmp_path / "runs" / "damaged" / "run.json").write_text("{")
    pool = {f"t/{number}": [f"{text} return 2"] for number, text in enumerate(SCRIPTS)}
    run_of(tmp_path / "runs" / "hostile", pool, bank=SCRIPTS[2])
    (tmp_path / "secret").mkdir()
    shutil.copytree(make.RUN, tmp_path / "secret" / "run")
    return tmp_path / "runs"


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    """A server over that folder, ended by Ctrl-C, which it takes as every command does."""
    command = [sys.executable, "-m", "gate", "view", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        yield int(address.rstrip("/").rpartition(":")[2])
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        process.stdout.close()


def ask(port: int, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    """The status and the text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_list_and_the_pages(port: int, folder: Path) -> None:
    """Every run is listed with its state, and each that can be read has its page; nothing hostile is markup."""
    status, text = ask(port, "/")
    assert status == 200
    for words in ("✓ closed", "‖ not closed", "✗ damaged", "3 of 4 tasks delivered", "tasks decided so far"):
        assert words in text
    assert "<img" not in text and "&lt;img src=x" in text
    for place, status in (("deep%20er/closed", 200), ("open", 200), ("hostile", 200), ("damaged", 500)):
        assert ask(port, f"/run/{place}/")[0] == status
    closed, going = ask(port, "/run/deep%20er/closed/")[1], ask(port, "/run/open/")[1]
    assert "3 of 4 (75.0 %) tasks delivered" in closed and "?state" not in closed
    assert "No headline" in going and "?state" in going


@pytest.mark.parametrize(
    "path",
    [
        "/run/../secret/run/",
        "/run/..%2fsecret%2frun/",
        "/run//etc/",
        "/etc/passwd",
        "/run/%00/",
        "/run/",
        "/favicon.ico",
    ],
)
def test_only_runs_below_the_folder_are_there(port: int, path: str) -> None:
    """No path leads out of the folder, whatever it is made of."""
    assert ask(port, path)[0] == 404


def test_only_this_machine_by_its_own_name_may_read(port: int) -> None:
    """Another Host is another site that would read along; what is no GET is refused."""
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", "[::1]"):
        assert ask(port, "/", host=host)[0] == 403
    assert ask(port, "/", host=f"localhost:{port}")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(port, "/", method=method)[0] == 501
    assert ask(port, "/", method="HEAD") == (200, "")


def test_a_page_follows_its_run(port: int, folder: Path) -> None:
    """When the ledger grows the state is another, and so is the page."""
    before, page = ask(port, "/run/open/?state")[1], ask(port, "/run/open/")[1]
    listed = ask(port, "/?state")[1]
    shutil.copyfile(make.RUN / "ledger.jsonl", folder / "open" / "ledger.jsonl")
    assert ask(port, "/run/open/?state")[1] != before and ask(port, "/?state")[1] != listed
    assert ask(port, "/run/open/")[1] != page
    assert ask(port, "/run/open/")[1] == ask(port, "/run/open/")[1]


def test_half_a_line_is_left_out_and_the_run_untouched(folder: Path) -> None:
    """Of a run that is being written the whole lines are read, from a copy."""
    before = (folder / "open" / "ledger.jsonl").read_bytes()
    with whole_lines(folder / "open") as readable:
        lines = (readable / "ledger.jsonl").read_bytes().splitlines(keepends=True)
        assert len(lines) == 12 and all(json.loads(line) for line in lines)
    assert not readable.exists() and (folder / "open" / "ledger.jsonl").read_bytes() == before
    with whole_lines(folder / "deep er" / "closed") as readable:
        assert readable == folder / "deep er" / "closed"


def test_a_ledger_that_is_written_is_known_as_such(tmp_path: Path) -> None:
    """Looking does not take the lock, so it never keeps a run from being resumed."""
    path = tmp_path / "ledger.jsonl"
    with JsonlLedger(path):
        assert is_locked(path)
    assert not is_locked(path) and not is_locked(tmp_path / "none")


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "--port", "99999"]])
def test_what_cannot_be_served(arguments: list[str], tmp_path: Path) -> None:
    """A folder that is not there, or no port: one sentence and exit 2."""
    said = subprocess.run(
        [sys.executable, "-m", "gate", "view", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
