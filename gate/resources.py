"""Where the data folders are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

from gate.errors import GateError

PACKAGE = Path(__file__).resolve().parent


def sandbox_dir() -> Path:
    """The folder with the Dockerfile, the runner and the seccomp profile.

    Raises:
        GateError: The installation is incomplete.
    """
    return _required("sandbox")


def suites_dir() -> Path:
    """The folder with the bundled banks.

    Raises:
        GateError: The installation is incomplete.
    """
    return _required("suites")


def checkout_dir(name: str) -> Path | None:
    """A folder that only a checkout has, as `experiments`; None in an installation."""
    folder = PACKAGE.parent / name
    return folder if (PACKAGE.parent / "pyproject.toml").is_file() and folder.is_dir() else None


def _required(name: str) -> Path:
    folder = _find(name)
    if folder is None:
        raise GateError(f"gate's own folder {name!r} is missing beside {PACKAGE}: install gate again")
    return folder


def _find(name: str) -> Path | None:
    """A wheel's folder first: what lies beside an installed package is anybody's."""
    packed = PACKAGE / "_data"
    folder = packed / name if packed.is_dir() else PACKAGE.parent / name
    return folder if folder.is_dir() else None
