"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_S = 60.0


class Page:
    """One tab.

    Attributes:
        errors: What the console has said that is an error, and exceptions that nobody caught.
        requests: The addresses that the page asked for.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """One command, and its result."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": given}))
        while True:
            said = json.loads(self._connection.recv(timeout=START_S))
            if said.get("id") == number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result
            self._note(said)

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
            self.errors.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def open(self, address: str) -> float:
        """Load a page; how many seconds it took by the page's own clock until everything was there."""
        self._loaded = False
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._note(json.loads(self._connection.recv(timeout=START_S)))
        timing: float = self.run(
            "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventStart - t.startTime"
        )
        return timing / 1000

    def run(self, script: str) -> Any:
        """What a script returns in the page, as JSON, after all that it has set going."""
        wrapped = f"(async () => {{ {script} }})()"
        found = self.call("Runtime.evaluate", expression=wrapped, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Press and release one key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "")

    def look(self, *, width: int, height: int, dark: bool = False, media: str = "") -> None:
        """Set the window's size and what the reader prefers."""
        scheme = "dark" if dark else "light"
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write what is seen as a PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


def program() -> str | None:
    """The browser that is installed here."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A browser with one tab, ended with the block."""
    browser = program()
    assert browser is not None, "no Chromium here: apt-get install chromium"
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"]
    process = subprocess.Popen(
        [browser, *options, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect(_address(profile, process), max_size=1 << 28) as connection:
            yield Page(connection)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """The address of the browser's one tab."""
    from urllib.request import urlopen

    told = profile / "DevToolsActivePort"
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        if told.exists() and (lines := told.read_text().splitlines()):
            tabs = json.load(urlopen(f"http://127.0.0.1:{lines[0]}/json", timeout=10))
            found = [tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"]
            if found:
                return str(found[0])
        time.sleep(0.05)
    raise AssertionError("the browser did not start")
