"""Makes README's picture: the page of `gate demo` as a headless Chromium shows it.

    .venv/bin/python tests/picture.py docs/report.png [RUN]

RUN is a demo's directory that is there already; without it the demo runs first.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from browser import browsing

GATE = Path(sys.executable).with_name("gate")
MAX_BYTES = 300_000


def picture(into: Path, run: Path | None, folder: Path) -> None:
    """Write the picture of a run's page; of the demo's where there is no run."""
    if run is None:
        run = folder / "run"
        subprocess.run([GATE, "demo", "--quiet", "--out", run], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([GATE, "report", run, "-o", folder / "report.html"], check=True)
    with browsing(folder / "profile") as page:
        page.look(width=1120, height=1130)
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        page.open((folder / "report.html").as_uri())
        page.picture(into, whole=False)
    size = into.stat().st_size
    if size > MAX_BYTES:
        raise SystemExit(f"{into}: {size} bytes, more than {MAX_BYTES}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        picture(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None, Path(made))
