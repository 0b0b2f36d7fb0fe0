"""The sandbox image: what goes in, what comes out, and what a build leaves behind."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import docker
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import resources
from gate.backends import image
from gate.backends.docker_client import connect, engine_errors
from gate.errors import GateError, SandboxError
from gate.resources import sandbox_dir

SANDBOX = sandbox_dir()
INPUTS = ("Dockerfile", "assemble.py", *image.INSIDE, "values.py")
CLONE_NEW = {
    "NEWCGROUP": 0x02000000,
    "NEWIPC": 0x08000000,
    "NEWNET": 0x40000000,
    "NEWNS": 0x00020000,
    "NEWPID": 0x20000000,
    "NEWUSER": 0x10000000,
    "NEWUTS": 0x04000000,
}


def silent(sentence: str) -> None:
    """Takes what a build says, for tests that do not care."""


# --- what goes in ---


@given(
    st.dictionaries(st.text(max_size=5), st.binary(max_size=8), max_size=4), st.text(max_size=5), st.binary(max_size=8)
)
def test_digest_tells_every_set_of_files_apart(files: dict[str, bytes], name: str, content: bytes) -> None:
    """The source digest is the same for the same files in any order, and another for any other files."""
    changed = files | {name: content}
    assert image._digest(dict(reversed(files.items()))) == image._digest(files)
    assert (image._digest(changed) == image._digest(files)) is (changed == files)


def test_a_byte_between_two_files_counts() -> None:
    """A byte that moves from the end of a name or file to the next changes the digest."""
    assert image._digest({"a": b"xy", "b": b"z"}) != image._digest({"a": b"x", "b": b"yz"})
    assert image._digest({"ab": b"c"}) != image._digest({"a": b"bc"})


@pytest.fixture
def copied_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all inputs, which the module then reads instead of ours."""
    for name in INPUTS[:-1]:
        shutil.copyfile(SANDBOX / name, tmp_path / name)
    shutil.copyfile(resources.PACKAGE / "values.py", tmp_path / "values.py")
    monkeypatch.setattr(image, "sandbox_dir", lambda: tmp_path)
    monkeypatch.setattr(image, "PACKAGE", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", INPUTS)
def test_each_input_counts(copied_sources: Path, name: str) -> None:
    """One more byte in any file that goes in gives another source digest."""
    before = image.source_digest()
    with (copied_sources / name).open("ab") as file:
        file.write(b"\n")
    assert image.source_digest() != before


def test_a_missing_input_is_our_error(copied_sources: Path) -> None:
    """An incomplete installation is a SandboxError that names the file, not a build of less."""
    (copied_sources / "runner.py").unlink()
    with pytest.raises(SandboxError, match=r"runner\.py"):
        image.source_digest()


def test_the_context_is_the_same_for_the_same_files() -> None:
    """The build context depends on the files alone: no clock, no user, no order."""
    first = image._context({"a": b"1", "b": b"2"}).getvalue()
    assert first == image._context({"b": b"2", "a": b"1"}).getvalue()
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(entry.name, entry.mtime, entry.uid) for entry in archive] == [("a", 0, 0), ("b", 0, 0)]


def test_a_base_digest_is_written_only_if_seen() -> None:
    """No image claims a base digest that the engine did not report."""
    unseen = image._labels("0" * 64, "3.12.1", "x86_64", image._Base(reference="r", name="local"))
    seen = image._labels("0" * 64, "3.12.1", "x86_64", image._Base(reference="r", name="r", digest="r@sha256:1"))
    assert "gate.base-digest" not in unseen
    assert seen["gate.base-digest"] == "r@sha256:1"
    assert unseen["gate.content"] == "0" * 16 + "-py3.12.1-x86_64"


def test_the_last_stage_is_scratch() -> None:
    """The image starts from nothing, so that no shell and no variable of the base comes along."""
    lines = [line.split(maxsplit=1) for line in (SANDBOX / "Dockerfile").read_text().splitlines() if line[:1].isalpha()]
    stages = [index for index, (word, _) in enumerate(lines) if word == "FROM"]
    assert lines[stages[-1]] == ["FROM", "scratch"]
    last = dict(lines[stages[-1] + 1 :])
    assert last["USER"] == "65534:65534"
    assert last["ENV"] == "PATH=/usr/local/bin"
    assert json.loads(last["ENTRYPOINT"]) == ["/usr/local/bin/python3", "-P", "-s", "/opt/run/main.py"]
    assert "RUN" not in last


# --- the seccomp profile as text ---


def profile_rules() -> list[dict[str, Any]]:
    profile = json.loads((SANDBOX / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    rules: list[dict[str, Any]] = profile["syscalls"]
    return rules


def test_the_profile_allows_no_way_out() -> None:
    """Nothing that mounts, makes namespaces, traces or reaches kernel services is allowed at all."""
    allowed = {name for rule in profile_rules() if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    refused = """
        mount umount umount2 mount_setattr move_mount fsopen fsconfig fsmount fspick open_tree pivot_root chroot
        setns unshare clone3 bpf perf_event_open keyctl add_key request_key userfaultfd kexec_load
        kexec_file_load open_by_handle_at quotactl reboot swapon swapoff syslog vhangup io_uring_setup
        io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd
        process_madvise init_module finit_module delete_module acct ioperm iopl settimeofday clock_settime
        sethostname setdomainname socketcall ipc
    """
    assert not allowed & set(refused.split())


def test_the_profile_is_in_order() -> None:
    """The names of the long rule stand sorted and once, so that a change shows as one line."""
    names = profile_rules()[0]["names"]
    assert names == sorted(set(names))


def test_clone_is_allowed_without_new_namespaces_only() -> None:
    """The mask on clone covers every flag that asks for a namespace, and must come out zero."""
    (rule,) = [r for r in profile_rules() if r["names"] == ["clone"] and "excludes" in r]
    (condition,) = rule["args"]
    assert condition["op"] == "SCMP_CMP_MASKED_EQ"
    assert (condition["value"], condition["valueTwo"]) == (sum(CLONE_NEW.values()), 0)


# --- the root folder that assemble.py makes ---


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root assembled around this very interpreter, by someone with a strict umask."""
    folder = tmp_path_factory.mktemp("assembled") / "root"
    subprocess.run([sys.executable, SANDBOX / "assemble.py", folder], check=True, umask=0o077)
    return folder


@pytest.fixture(scope="module")
def assemble() -> ModuleType:
    """assemble.py as a module: it is a program and in no package."""
    spec = importlib.util.spec_from_file_location("assemble", SANDBOX / "assemble.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library(root: Path) -> Path:
    return root / "usr/local" / sys.platlibdir / f"python{sys.version_info.major}.{sys.version_info.minor}"


def test_the_assembled_python_needs_nothing_from_outside(root: Path, assemble: ModuleType) -> None:
    """The interpreter starts from the root alone: own prefix, and every mapped library from inside."""
    loader = assemble.loader_of(Path(sys.executable).resolve())
    (libc,) = root.glob("**/libc.so.6")
    script = f"import sys,{image.MODULES}\nprint(sys.prefix, sys.exec_prefix)\nprint(open('/proc/self/maps').read())"
    command = [root / loader.relative_to("/"), "--library-path", libc.parent, root / "usr/local/bin/python3"]
    done = subprocess.run([*command, "-P", "-s", "-c", script], capture_output=True, text=True, check=True, env={})
    prefixes, _, maps = done.stdout.partition("\n")
    assert prefixes.split() == [str(root / "usr/local")] * 2
    mapped = set(re.findall(r"/\S*\.so\S*", maps))
    assert mapped and all(path.startswith(str(root)) for path in mapped)
    assert done.stderr == ""


def test_what_candidates_do_not_need_is_left_out(root: Path) -> None:
    """No tests, installers, displays or site packages are in the image, at any depth."""
    unwanted = (
        "test tests idlelib tkinter turtle.py turtledemo ensurepip lib2to3 pydoc_data distutils pip site-packages"
    )
    names = {path.name for path in root.rglob("*")}
    assert not names & set(unwanted.split())
    assert {path.name for path in (root / "usr/local/bin").iterdir()} == {"python3", library(root).name}
    assert {path.name for path in root.iterdir()} >= {"dev", "etc", "opt", "proc", "src", "sys", "tmp", "usr"}
    assert (root / "etc/passwd").read_text().startswith("nobody:x:65534:65534:")


def test_every_module_is_compiled_for_good(root: Path) -> None:
    """Each source has bytecode that is never checked against a clock, and names the image's own paths."""
    sources = list(root.rglob("*.py"))
    tag = sys.implementation.cache_tag
    for source in sources:
        compiled = (source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc").read_bytes()
        assert struct.unpack_from("<I", compiled, 4) == (0b01,), source
        assert str(root).encode() not in compiled, source
    assert len(sources) > 300


def test_modes_do_not_depend_on_the_builder(root: Path) -> None:
    """Everyone can read everything, nobody can write but in /tmp, and nothing is setuid."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o7777
            assert mode == (0o1777 if path == root / "tmp" else mode & 0o755 | 0o444), path
            assert not path.is_dir() or mode & 0o111 == 0o111, path
        assert path.exists(), f"{path} points nowhere"


def test_the_builder_leaves_no_path_in_sysconfig(root: Path) -> None:
    """What `sysconfig` tells a candidate names /usr/local, not the home folder of who built it."""
    texts = [path.read_text() for path in library(root).glob("_sysconfigdata*.py")]
    assert texts
    assert sys.base_prefix == "/usr" or not any(sys.base_prefix in text for text in texts)


def test_a_full_folder_is_refused(tmp_path: Path) -> None:
    """assemble.py never mixes its root with files that were there before."""
    (tmp_path / "old").touch()
    done = subprocess.run([sys.executable, SANDBOX / "assemble.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_cut_elf_file_keeps_its_segments(assemble: ModuleType) -> None:
    """Cutting the sections off keeps every loaded byte; what is no ELF file stays as it is."""
    whole = Path(sys.executable).resolve().read_bytes()
    cut = assemble.without_sections(whole)
    assert list(assemble.segments(cut)) == list(assemble.segments(whole))
    assert cut[64:] == whole[64 : len(cut)]
    assert len(cut) <= len(whole)
    assert assemble.without_sections(b"#!/bin/sh\n") == b"#!/bin/sh\n"


def test_local_sh_writes_a_root_that_root_owns() -> None:
    """The local base is a tar of the assembled root, owned by 0:0 whoever made it."""
    made = subprocess.run(["sh", SANDBOX / "local.sh", sys.executable, "-"], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        entries = archive.getmembers()
    assert {(entry.uid, entry.gid) for entry in entries} == {(0, 0)}
    assert "./usr/local/bin/python3" in {entry.name for entry in entries}


# --- what an engine says, without one ---


def test_a_build_error_is_ours() -> None:
    """The engine's error line ends the build as a SandboxError, on one line."""
    with pytest.raises(SandboxError, match="does not build: COPY failed: no such file"):
        image._follow_build(iter([{"stream": "Step 1"}, {"error": "COPY failed:\nno such file"}]), [])


def test_a_build_that_names_no_image_is_an_error() -> None:
    """A stream that just ends is not taken for a built image."""
    with pytest.raises(SandboxError, match="without naming an image"):
        image._follow_build(iter([{"stream": "Step 1"}]), [])


def test_the_last_stage_names_the_image() -> None:
    """Of several stages the last one is the result; every step is noted for removal."""
    steps: list[str] = []
    events: list[dict[str, Any]] = [
        {"stream": " ---> aa11\n"},
        {"aux": {"ID": "sha256:1"}},
        {"stream": " ---> bb22"},
        {"aux": {"ID": "sha256:2"}},
    ]
    assert image._follow_build(iter(events), steps) == "sha256:2"
    assert steps == ["aa11", "bb22"]


def test_an_engine_that_is_not_there_is_our_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without an engine the message names the address and what to do."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError, match=r"No Docker engine answers at unix://.*none\.sock: run `make setup`"):
        connect()


def test_an_engine_that_breaks_off_is_our_error() -> None:
    """Whatever the way to the engine raises becomes a SandboxError that says what was being done."""
    with pytest.raises(SandboxError, match="failed while waiting: gone"), engine_errors("waiting"):
        raise ConnectionResetError("gone")


class FakeEngine(BaseHTTPRequestHandler):
    """Knows its version and no image; pulls as its server's `pull` says, or is silent."""

    def do_GET(self) -> None:
        known = self.path.endswith("/version")
        self.reply(200 if known else 404, {"ApiVersion": "1.41"} if known else {"message": "no such image"})

    def do_POST(self) -> None:
        pull = self.server.pull  # type: ignore[attr-defined]
        if pull is None:
            self.server.released.wait(20)  # type: ignore[attr-defined]
        else:
            self.reply(*pull)

    def reply(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output quiet."""


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeEngine)
    server.pull = None  # type: ignore[attr-defined]
    server.released = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    yield server
    server.released.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_silent_registry_costs_only_our_patience(
    fake_engine: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull that never answers is given up after PULL_SILENCE_S; a base by name then is a SandboxError."""
    assert image.PULL_SILENCE_S <= 20
    monkeypatch.setattr(image, "PULL_SILENCE_S", 0.2)
    started_s = time.monotonic()
    with (
        connect() as client,
        pytest.raises(SandboxError, match=r"base:1 is not here and cannot be pulled \(ReadTimeout"),
    ):
        image.build_image(client, base="base:1", say=silent)
    assert time.monotonic() - started_s < 5


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, {"message": "registry says no"}, "registry says no"),
        (200, {"error": "manifest unknown"}, "manifest unknown"),
    ],
)
def test_a_refused_pull_says_why(fake_engine: ThreadingHTTPServer, status: int, body: object, said: str) -> None:
    """Whether the engine refuses at once or in the stream, its own words are in the message."""
    fake_engine.pull = (status, body)  # type: ignore[attr-defined]
    with connect() as client, pytest.raises(SandboxError, match=said):
        image.build_image(client, base="public", say=silent)


def test_a_pull_that_only_retries_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries of the engine are no progress; bytes are."""
    monkeypatch.setattr(image, "PULL_SILENCE_S", 0.05)

    def events(status: str) -> Iterator[dict[str, Any]]:
        for _ in range(4):
            time.sleep(0.03)
            yield {"status": status}

    assert image._follow_pull(events("Retrying in 5 seconds")).startswith("no bytes")
    assert image._follow_pull(events("Downloading")) == ""


# --- where the data is ---


def test_a_checkout_has_its_folders_beside_the_package() -> None:
    """In a checkout the data folders stand beside the package."""
    assert (resources.sandbox_dir() / "Dockerfile").is_file()
    assert resources.suites_dir() == resources.PACKAGE.parent / "suites"


def test_a_wheel_brings_its_own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed wheel reads its own data, never a folder of that name beside the package."""
    package = tmp_path / "site-packages/gate"
    (package / "_data/sandbox").mkdir(parents=True)
    for name in ("sandbox", "suites"):
        (package.parent / name).mkdir()
    monkeypatch.setattr(resources, "PACKAGE", package)
    assert resources.sandbox_dir() == package / "_data/sandbox"
    with pytest.raises(GateError, match="'suites' is missing"):
        resources.suites_dir()


# --- the built image, on a real engine ---


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    """The engine; without one the tests fail, they are not left out."""
    with connect() as connected:
        yield connected


@pytest.fixture(scope="module")
def built(client: docker.APIClient) -> image.Image:
    """The current image; built where it is not there yet."""
    return image.find_image(client) or image.build_image(client, base=None, say=silent)


def run_inside(client: docker.APIClient, built: image.Image, script: str, **environment: str) -> Any:
    """What a script prints as JSON, run as candidates are: this profile, no rights, read-only, no network."""
    host = client.create_host_config(
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", "seccomp=" + (SANDBOX / "seccomp.json").read_text()],
        mem_limit="256m",
        tmpfs={"/tmp": "size=16m,mode=1777"},
    )
    command = ["/usr/local/bin/python3", "-P", "-s", "-c", script]
    container = client.create_container(
        built.id,
        entrypoint=command,
        network_disabled=True,
        use_config_proxy=False,
        environment=environment,
        host_config=host,
        labels={"gate": "test"},
    )
    try:
        client.start(container)
        status = client.wait(container, timeout=60)["StatusCode"]
        output = client.logs(container).decode()
    finally:
        client.remove_container(container, force=True)
    assert status == 0, output
    return json.loads(output)


@pytest.mark.docker
def test_the_image_is_small_and_bare(client: docker.APIClient, built: image.Image) -> None:
    """The image is under 80 MB, runs as nobody, and its only variable is PATH."""
    config = image._inspect(client, built.id)["Config"]
    assert built.size_bytes < 80_000_000
    assert config["Env"] == ["PATH=/usr/local/bin"]
    assert (config["User"], config["WorkingDir"]) == ("65534:65534", "/tmp")
    assert config["Entrypoint"] == ["/usr/local/bin/python3", "-P", "-s", "/opt/run/main.py"]
    assert built.content == f"{image.source_digest()[:16]}-py{built.python}-{built.content.rpartition('-')[2]}"


@pytest.mark.docker
def test_the_image_holds_one_program(client: docker.APIClient, built: image.Image) -> None:
    """No shell, nothing setuid, nothing writable but /tmp: the one program in the image is Python."""
    container = client.create_container(built.id, labels={"gate": "test"})
    try:
        exported = io.BytesIO(b"".join(client.export(container)))
    finally:
        client.remove_container(container, force=True)
    with tarfile.open(fileobj=exported) as archive:
        entries = {entry.name: entry for entry in archive}
    of_image = {name: entry for name, entry in entries.items() if not name.startswith(("dev", ".dockerenv"))}
    programs = {name for name in of_image if re.search(r"(^|/)s?bin/.", name)}
    assert programs == {"usr/local/bin/python3", f"usr/local/bin/python{built.python.rpartition('.')[0]}"}
    assert not [name for name, entry in entries.items() if entry.mode & 0o6000]
    writable = {name for name, entry in of_image.items() if entry.mode & 0o022 and not entry.issym()}
    assert writable == {"tmp"}
    modules = {name.removesuffix(".py") for name in of_image if re.fullmatch(r"opt/run/\w+\.py", name)}
    compiled = {name.split(".")[0] for name in of_image if name.startswith("opt/run/__pycache__/")}
    assert {"opt/run/main", "opt/run/runner", "opt/run/values"} <= modules
    assert compiled == {name.replace("run/", "run/__pycache__/") for name in modules}


@pytest.mark.docker
def test_python_is_at_home_in_the_image(client: docker.APIClient, built: image.Image) -> None:
    """The interpreter finds itself in /usr/local, runs as nobody, and imports what candidates import."""
    script = f"import os,sys,json,{image.MODULES}\nprint(json.dumps([sys.prefix,sys.exec_prefix,os.getuid(),sys.path]))"
    prefix, exec_prefix, uid, path = run_inside(client, built, script)
    assert (prefix, exec_prefix, uid) == ("/usr/local", "/usr/local", 65534)
    assert all(entry.startswith("/usr/local/lib") for entry in path)


@pytest.mark.docker
def test_the_seed_of_hashes_is_honoured(client: docker.APIClient, built: image.Image) -> None:
    """The interpreter flags leave PYTHONHASHSEED in force: hash('a') follows the seed."""
    script = "print(hash('a'))"
    zero, again, one = (run_inside(client, built, script, PYTHONHASHSEED=seed) for seed in "001")
    assert zero == again != one


WORKS = """
import asyncio, ctypes, json, multiprocessing, os, signal, socket, subprocess, sys, tempfile, threading
from multiprocessing import shared_memory

def square(number):
    return number * number

async def over_loopback():
    server = await asyncio.start_server(lambda reader, writer: (writer.write(b"hi"), writer.close()), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    said = await reader.read()
    writer.close()
    server.close()
    return said.decode()

seen = {}
thread = threading.Thread(target=seen.__setitem__, args=("thread", True))
thread.start()
thread.join()
seen["asyncio"] = asyncio.run(over_loopback())
with multiprocessing.get_context("fork").Pool(2) as pool:
    seen["pool"] = pool.map(square, [1, 2, 3])
seen["subprocess"] = subprocess.run([sys.executable, "-c", "print(7)"], capture_output=True, text=True).stdout
left, right = socket.socketpair()
left.send(b"x")
seen["socketpair"] = right.recv(1).decode()
memory = shared_memory.SharedMemory(create=True, size=16)
memory.unlink()
seen["memfd"] = os.memfd_create("m") > 2
signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0)
os.mkfifo(os.path.join(tempfile.mkdtemp(), "fifo"))
seen["libc"] = ctypes.CDLL("libc.so.6").abs(-3)
print(json.dumps(seen))
"""


@pytest.mark.docker
def test_what_right_programs_use_works(client: docker.APIClient, built: image.Image) -> None:
    """Threads, asyncio, process pools, subprocesses, socket pairs, pipes and shared memory work inside."""
    assert run_inside(client, built, WORKS) == {
        "thread": True,
        "asyncio": "hi",
        "pool": [1, 4, 9],
        "subprocess": "7\n",
        "socketpair": "x",
        "memfd": True,
        "libc": 3,
    }


# By what libc calls them where it does, so that no system call number stands here.
REFUSED = """
import ctypes, errno, json, os, socket

libc = ctypes.CDLL(None, use_errno=True)

def error_of(name, *arguments):
    ctypes.set_errno(0)
    answer = getattr(libc, name)(*[ctypes.c_long(argument) for argument in arguments])
    return errno.errorcode.get(ctypes.get_errno()) if answer == -1 else "allowed"

def socket_error(family):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_STREAM).close()
    except OSError as exc:
        return errno.errorcode[exc.errno]
    return "allowed"

stack = ctypes.create_string_buffer(65536)
top = ctypes.addressof(stack) + 65536 - 64
child = ctypes.cast(libc.abs, ctypes.c_void_p).value
seen = {
    "unshare": error_of("unshare", 0x10000000),
    "setns": error_of("setns", 0, 0),
    "mount": error_of("mount", 0, 0, 0, 0, 0),
    "umount2": error_of("umount2", 0, 0),
    "chroot": error_of("chroot", 0),
    "ptrace": error_of("ptrace", 0, 0, 0, 0),
    "process_vm_readv": error_of("process_vm_readv", 1, 0, 0, 0, 0, 0),
    "personality": error_of("personality", 0x40000),
    "clone": {flag: error_of("clone", child, top, value | 17, 0) for flag, value in NEW.items()},
    "sockets": {str(family): socket_error(family) for family in (16, 17, 38, 40)},
}
print(json.dumps(seen))
"""


@pytest.mark.docker
def test_ways_out_are_refused(client: docker.APIClient, built: image.Image) -> None:
    """New namespaces, mounts, tracing and odd sockets are refused with EPERM, whatever the arguments."""
    seen = run_inside(client, built, f"NEW = {CLONE_NEW!r}\n" + REFUSED)
    assert set(seen.pop("clone").items()) == {(flag, "EPERM") for flag in CLONE_NEW}
    assert set(seen.pop("sockets").values()) == {"EPERM"}
    assert set(seen.values()) == {"EPERM"}


OLD_DOOR = """
import ctypes, mmap, os

child = os.fork()
if child == 0:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 20 (getpid); int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""
BY_NUMBER = """
import ctypes, errno, json

libc = ctypes.CDLL(None, use_errno=True)

def error_of(number):
    ctypes.set_errno(0)
    libc.syscall(number, *[ctypes.c_long(0)] * 5)
    return errno.errorcode.get(ctypes.get_errno())

print(json.dumps({name: error_of(number) for name, number in NUMBERS.items()}))
"""
SERVICES = (
    "keyctl add_key bpf perf_event_open userfaultfd open_by_handle_at kcmp syslog io_uring_setup pidfd_getfd clone3"
)
NUMBERS = {
    "x86_64": (250, 248, 321, 298, 323, 304, 312, 103, 425, 438, 435),
    "aarch64": (219, 217, 280, 241, 282, 265, 272, 116, 425, 438, 435),
}


@pytest.mark.docker
def test_kernel_services_are_refused(client: docker.APIClient, built: image.Image) -> None:
    """Keys, bpf, perf, io_uring and their like are refused; clone3 is said not to exist, so that libc falls back."""
    numbers = dict(zip(SERVICES.split(), NUMBERS[built.content.rpartition("-")[2]], strict=True))
    seen = run_inside(client, built, f"NUMBERS = {numbers!r}\n" + BY_NUMBER)
    assert seen.pop("clone3") == "ENOSYS"
    assert set(seen.values()) == {"EPERM"}


@pytest.mark.docker
def test_the_old_system_call_door_is_shut(client: docker.APIClient, built: image.Image) -> None:
    """A 32-bit system call from a 64-bit process, which would bypass every argument check, kills it."""
    if not built.content.endswith("x86_64"):
        return  # no other machine has such a door
    assert run_inside(client, built, OLD_DOOR) == 31  # SIGSYS


# --- builds, and what they leave behind ---


@pytest.fixture(scope="module")
def base(client: docker.APIClient) -> Iterator[str]:
    """One base of this machine's Python for all builds below."""
    reference = image._import_local(client)
    yield reference
    client.remove_image(reference, force=True)


@pytest.fixture
def other_sources(copied_sources: Path) -> Path:
    """Sources that no real image has, so that these builds touch no image that is in use."""
    with (copied_sources / "values.py").open("a") as file:
        file.write(f"# {time.time_ns()}\n")
    shutil.copyfile(SANDBOX / "seccomp.json", copied_sources / "seccomp.json")
    shutil.copyfile(SANDBOX / "local.sh", copied_sources / "local.sh")
    return copied_sources


def loose_images(client: docker.APIClient) -> set[str]:
    """Untagged images that are nobody's parent: what `docker images` shows as <none>."""
    return {entry["Id"] for entry in client.images(filters={"dangling": True})}


@pytest.mark.docker
def test_a_build_leaves_one_image(client: docker.APIClient, base: str, other_sources: Path) -> None:
    """A build leaves its one tagged image, which is then found; no stage and no container stays."""
    before = loose_images(client)
    said: list[str] = []
    made = image.build_image(client, base=base, say=said.append)
    try:
        assert image.find_image(client) == made
        assert made.base == base
        assert said == [f"Base: {base}, which is already here."]
        assert loose_images(client) <= before
        assert not client.containers(all=True, filters={"label": "gate=image"})
    finally:
        client.remove_image(made.id, force=True)
    assert image.find_image(client) is None


@pytest.mark.docker
def test_a_local_base_does_not_stay(client: docker.APIClient, other_sources: Path) -> None:
    """The base that a local build makes for itself is gone afterwards, and the image says "local"."""
    before = {tag for entry in client.images(image.LOCAL_BASE) for tag in entry["RepoTags"]}
    made = image.build_image(client, base="local", say=silent)
    client.remove_image(made.id, force=True)
    assert made.base == "local"
    assert {tag for entry in client.images(image.LOCAL_BASE) for tag in entry["RepoTags"]} <= before


@pytest.mark.docker
def test_a_failed_build_leaves_nothing(client: docker.APIClient, base: str, other_sources: Path) -> None:
    """A step that fails is a SandboxError, and neither its step images nor its container stay."""
    before = loose_images(client)
    (other_sources / "assemble.py").write_text("raise SystemExit(7)\n")
    with pytest.raises(SandboxError, match=r"does not build: .*7"):
        image.build_image(client, base=base, say=silent)
    assert loose_images(client) <= before


@pytest.mark.docker
def test_an_image_that_does_not_start_is_never_found(
    client: docker.APIClient, base: str, other_sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that fails its check is removed, so that no later run finds it by its label."""
    monkeypatch.setattr(image, "MODULES", "no_such_module")
    with pytest.raises(SandboxError, match="no_such_module"):
        image.build_image(client, base=base, say=silent)
    assert image.find_image(client) is None
