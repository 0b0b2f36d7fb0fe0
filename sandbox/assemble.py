"""Assemble a minimal root folder around the interpreter that runs this file.

    python3 assemble.py OUT

Theory of operation. Whatever Python runs this (Debian's, pyenv's, an official image's,
a venv's base) is laid out again under /usr/local, where it finds itself: CPython looks
for its library beside its own program, so nothing in it needs to be rewritten. With it
come the standard library without what a candidate has no use for, the shared libraries
that the loader itself names for the program and for each extension module, and the
loader. A folder `run/` beside this file becomes /opt/run. Everything is compiled with
unchecked hashes: the root will be read-only, so what is not compiled now is compiled
at each start, for about 100 ms.

Shared libraries all go into libc's own directory. The loader searches it by default, so
neither ld.so.cache nor an environment variable is needed, and a run path that pointed
into a user's home simply finds nothing.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

RUN_FOLDER = Path(__file__).resolve().parent / "run"

LEFT_OUT = (
    *("test", "tests", "_test*", "_xxtest*", "_ctypes_test*", "xxlimited*", "xxsubtype*"),
    *("idlelib", "tkinter", "_tkinter*", "turtle.py", "turtledemo"),  # no display
    *("ensurepip", "distutils", "lib2to3", "venv", "pydoc_data"),  # nothing is installed or looked up
    *("site-packages", "dist-packages", "sitecustomize.py", "usercustomize.py", "EXTERNALLY-MANAGED"),
    *("config-*", "*.a", "__pycache__"),
)
# The loader does not list this one: libc opens it by name when a thread ends early.
OPENED_BY_NAME = ("libgcc_s.so.1",)

# What LANG names. The interpreter does without, `locale.setlocale(LC_ALL, "")` raises; musl needs no files.
LOCALE = Path("/usr/lib/locale/C.utf8")

EMPTY_FOLDERS = ("dev", "proc", "src", "sys", "tmp")
PASSWD = "nobody:x:65534:65534:nobody:/tmp:\n"
GROUP = "nogroup:x:65534:\n"

ELF_64 = b"\x7fELF\x02"
PT_INTERP = 3
LISTED = re.compile(r"^\s*(\S+) => (/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)


def main(arguments: list[str]) -> None:
    """Assemble the root in the one folder that is named; it must be new or empty."""
    if len(arguments) != 1:
        raise SystemExit("usage: assemble.py OUT")
    if not hasattr(sys.flags, "safe_path"):
        raise SystemExit(f"assemble.py: Python {sys.version.split()[0]} has no -P flag: use 3.11 or newer")
    root = Path(arguments[0]).resolve()
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise SystemExit(f"assemble.py: {root} is not empty: name a new folder")
    assemble(root)


def assemble(root: Path) -> None:
    """Lay out everything under `root`, an empty folder."""
    program = Path("/proc/self/exe").resolve()  # never a venv's link or a shim
    library = Path(os.__file__).resolve().parent
    copied = root / "usr/local" / sys.platlibdir / library.name
    copy_program(program, root / "usr/local/bin", library.name)
    copy_library(library, copied)
    extensions = sorted(copied.rglob("*.so"))
    # Listed where they stand on the builder: a run path may start at the file's own folder.
    copy_shared(root, loader_of(program), [program, *(library / path.relative_to(copied) for path in extensions)])
    for path in extensions:
        place(path, path)
    if LOCALE.is_dir():
        shutil.copytree(LOCALE, root / LOCALE.relative_to("/"))
    write_rest(root)
    compile_all(root)
    settle_modes(root)


def copy_program(program: Path, folder: Path, name: str) -> None:
    """The interpreter as pythonX.Y, and python3 as a link to it."""
    place(program, folder / name)
    (folder / "python3").symlink_to(name)


def copy_library(library: Path, copied: Path) -> None:
    """The standard library, without what is left out and without the builder's own paths."""
    shutil.copytree(library, copied, ignore=shutil.ignore_patterns(*LEFT_OUT))
    # Without this folder, even an empty one, each start complains about exec_prefix.
    (copied / "lib-dynload").mkdir(exist_ok=True)
    if sys.base_prefix != "/usr":  # a home folder, perhaps; "/usr" tells nothing and matches too much
        for path in copied.glob("_sysconfigdata*.py"):
            path.write_text(path.read_text("utf-8").replace(sys.base_prefix, "/usr/local"), "utf-8")


def copy_shared(root: Path, loader: Path, files: list[Path]) -> None:
    """The loader, and all that it would load for some ELF files."""
    found = libraries(loader, files)
    home = next((path.parent for name, path in sorted(found.items()) if name.startswith("libc.")), loader.parent)
    found.update({name: home / name for name in OPENED_BY_NAME if (home / name).exists()})
    for name, path in found.items():
        place(path, root / home.relative_to("/") / name)
    place(loader, root / loader.relative_to("/"))


def place(source: Path, target: Path) -> None:
    """Write one ELF file, without its sections, where it belongs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(without_sections(source.read_bytes()))
    target.chmod(0o755)


def loader_of(program: Path) -> Path:
    """The program interpreter that an ELF program names (PT_INTERP)."""
    data = program.read_bytes()
    if not data.startswith(ELF_64):
        raise SystemExit(f"assemble.py: {program} is no 64-bit Linux program: run it with a Python for Linux")
    for kind, offset, size in segments(data):
        if kind == PT_INTERP:
            return Path(os.fsdecode(data[offset : offset + size].rstrip(b"\0")))
    raise SystemExit(f"assemble.py: {program} is linked statically: run it with a dynamically linked Python")


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Type, file offset and file size of each segment of a 64-bit ELF file."""
    (table,) = struct.unpack_from("=Q", data, 32)
    entry_bytes, count = struct.unpack_from("=HH", data, 54)
    for index in range(count):
        kind, _, offset, _, _, size = struct.unpack_from("=IIQQQQ", data, table + index * entry_bytes)
        yield kind, offset, size


def without_sections(data: bytes) -> bytes:
    """Cut an ELF file after its last segment: debug data can be four fifths of a self-built Python.

    What runs a file reads segments only; sections serve linkers and debuggers.
    """
    if not data.startswith(ELF_64):
        return data
    cut = bytearray(data[: max(offset + size for _, offset, size in segments(data))])
    struct.pack_into("=Q", cut, 40, 0)
    struct.pack_into("=HH", cut, 60, 0, 0)
    return bytes(cut)


def libraries(loader: Path, files: list[Path]) -> dict[str, Path]:
    """Name and place of every shared library that the loader finds for some files, transitively.

    What it does not find is not here: that module does not import on the builder either.
    """
    found: dict[str, Path] = {}
    for path in files:
        listing = subprocess.run([loader, "--list", path], capture_output=True, text=True, check=False).stdout
        found.update((name, Path(target)) for name, target in LISTED.findall(listing) if "/" not in name)
    return found


def write_rest(root: Path) -> None:
    """The account, the empty folders, and the files of `run/` as /opt/run."""
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(PASSWD, "ascii")
    (root / "etc/group").write_text(GROUP, "ascii")
    for name in EMPTY_FOLDERS:
        (root / name).mkdir()
    (root / "opt/run").mkdir(parents=True)
    if RUN_FOLDER.is_dir():
        shutil.copytree(RUN_FOLDER, root / "opt/run", dirs_exist_ok=True)


def compile_all(root: Path) -> None:
    """Compile every module; tracebacks name the paths of the image, not of the builder."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(root, quiet=1, workers=0, stripdir=root, prependdir="/", invalidation_mode=mode):
        raise SystemExit("assemble.py: a module does not compile, see above")


def settle_modes(root: Path) -> None:
    """Everyone reads, nobody writes but in /tmp, nothing is setuid, whatever the builder's umask was."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    (root / "tmp").chmod(0o1777)
    root.chmod(0o755)


if __name__ == "__main__":
    main(sys.argv[1:])
