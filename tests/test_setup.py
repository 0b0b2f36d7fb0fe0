"""The two commands of the README: what they start, what they print, and what they leave alone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("setup", "demo", "test", "check", "image", "bench", "soak", "test-model", "picture", "clean")

TOOLS = ["bash", "cat", "env", "grep", "head", "id", "mktemp", "mv", "rm", "sed", "setsid", "sleep", "tail", "touch"]

# A stand-in for dockerd: answers two paths on the socket after -H, and ends by itself.
ENGINE = """
import http.server, os, signal, socketserver, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/_ping", "/version") else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
    def address_string(self):
        return "local"

signal.alarm(30)
path = sys.argv[sys.argv.index("-H") + 1].removeprefix("unix://")
with open(path + ".pid", "w") as file:
    file.write(str(os.getpid()))
with socketserver.UnixStreamServer(path, Handler) as server:
    server.serve_forever()
"""

# A socket that this user may not use, also where the tests run as root.
DENIED = """
import socket

class Denied(socket.socket):
    def connect(self, address):
        raise PermissionError(13, "Permission denied")

socket.socket = Denied
"""


class Machine:
    """A machine of a few programs: PATH holds the tools of TOOLS and what a test adds.

    What engine.sh prints and what the added programs are asked stands in one file, in order.
    """

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.socket = root / "s"
        self.root = root
        self._seen = root / "seen"
        self._seen.touch()
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        (root / "engine.py").write_text(ENGINE)
        self.engine = f'exec {sys.executable} {root}/engine.py "$@"'

    def add(self, name: str, body: str = "exit 0") -> None:
        """Put a program on PATH; it notes its call before it runs `body`."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f'#!{self.bin}/bash\necho "ran: {name} $*" >>{self._seen}\n{body}\n')
        path.chmod(0o755)

    def run(self, script: str = "sandbox/engine.sh", *args: str, **variables: str) -> int:
        """Run a script of the repository on this machine; its exit code."""
        environment = {
            "PATH": str(self.bin),
            "HOME": str(self.root),
            "TMPDIR": str(self.root),
            "SBIN": "",
            "PYTHON": sys.executable,
            "ENGINE_WAIT_S": "5",
            "DOCKER_HOST": f"unix://{self.socket}",
        }
        with self._seen.open("a") as seen:
            # The pipe is how CI reads: a child that keeps it open makes this time out.
            done = subprocess.run(
                [str(ROOT / script), *args],
                cwd=self.root,
                env=environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=seen,
                close_fds=False,
                timeout=25,
            )
        assert done.stdout == b""
        return done.returncode

    @property
    def seen(self) -> list[str]:
        """What was printed and what was run, in order."""
        return self._seen.read_text().splitlines()

    @property
    def ran(self) -> list[str]:
        """What was run, in order."""
        return [line for line in self.seen if line.startswith("ran: ")]

    def engine_pid(self) -> int:
        """The process of the stand-in engine, which must be running."""
        return int(Path(f"{self.socket}.pid").read_text())

    def stop_engine(self) -> None:
        """End the stand-in engine, if one was started."""
        if Path(f"{self.socket}.pid").exists():
            os.kill(self.engine_pid(), signal.SIGKILL)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    built = Machine(tmp_path)
    yield built
    built.stop_engine()


@pytest.fixture
def debian(machine: Machine) -> Machine:
    """A Debian without an engine, whose apt-get install brings one."""
    machine.add("dockerd", machine.engine)
    (machine.bin / "dockerd").rename(machine.root / "dockerd")
    machine.add("apt-get", f'[ "$1" = update ] || mv {machine.root}/dockerd {machine.bin}/dockerd')
    machine.add("systemctl")
    return machine


def make(*args: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", *args], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_lists_its_targets() -> None:
    """`make` alone gives each target one line that says what it does."""
    listed = re.findall(r"^make ([\w-]+) +\w.{15,}$", make(), re.MULTILINE)
    assert sorted(listed) == sorted(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_is_there(target: str) -> None:
    """A target that `make` lists can be made, and what it runs of ours exists."""
    commands = make("--dry-run", target)
    named = re.findall(r"(?<![\w/.])((?:tests|sandbox|\.ci)/[\w.]+\.(?:py|sh))", commands)
    assert commands.strip()
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_make_test_is_everything() -> None:
    """`make test` sets up, checks and tests, with the tests last; what is left out has a command of its own."""
    commands = make("--dry-run", "test").splitlines()
    steps = ("sandbox/engine.sh", "image build", "ruff check", "ruff format --check", "mypy --strict", "pytest")
    found = [next(index for index, line in enumerate(commands) if step in line) for step in steps]
    assert found == sorted(found)
    (tests,) = commands[found[-1] :]
    assert re.findall(r'-m "(.+)"', tests) == ["not live and not soak"]


def test_readme_opens_with_the_two_commands() -> None:
    """The README's first screen has `make demo` and `make test`."""
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_ci_runs_what_the_readme_says(machine: Machine) -> None:
    """.ci/run is `make test` at the repository's root, without input, with CI set and the exit code passed on."""
    machine.add("dirname", f'exec {shutil.which("dirname")} "$@"')
    machine.add("make", f'read -r line && exit 1; [ "$CI" = true ] && [ "$PWD" = "{ROOT}" ] && exit 7')
    assert machine.run(".ci/run") == 7
    assert machine.ran[-1] == "ran: make test"


def test_an_engine_that_answers_is_left_alone(debian: Machine) -> None:
    """Where an engine answers, nothing is printed and nothing is run."""
    serving = subprocess.Popen([sys.executable, debian.root / "engine.py", "-H", f"unix://{debian.socket}"])
    try:
        wait_for(debian.socket)
        assert debian.run() == 0
    finally:
        serving.kill()
        serving.wait()
        Path(f"{debian.socket}.pid").unlink()
    assert debian.seen == []


def wait_for(path: Path) -> None:
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.02)


def test_engine_no_installs_nothing(debian: Machine) -> None:
    """With ENGINE=no and no engine, one sentence says what to install or start, and nothing is run."""
    assert debian.run(ENGINE="no") == 3
    (sentence,) = debian.seen
    assert str(debian.socket) in sentence
    assert "apt-get install docker.io" in sentence


def test_engine_no_starts_nothing(machine: Machine) -> None:
    """With ENGINE=no an engine that is installed and not running stays so."""
    machine.add("dockerd", machine.engine)
    assert machine.run(ENGINE="no") == 3
    assert machine.ran == []


def test_commands_are_printed_before_they_run(debian: Machine) -> None:
    """On Debian without an engine each command is printed, then run, until the engine answers."""
    assert debian.run() == 0
    install = "apt-get install -y --no-install-recommends docker.io crun iptables"
    order = [
        r"engine: running: .*apt-get update",
        r"ran: apt-get update",
        rf"engine: running: .*{install}",
        rf"ran: {install}",
        rf"engine: running: .*dockerd -H unix://{debian.socket}",
        rf"ran: dockerd -H unix://{debian.socket}",
        r"engine: an engine answers",
    ]
    told = [line for line in debian.seen if "no engine is installed" not in line]
    assert len(told) == len(order)
    assert [line for line, pattern in zip(told, order, strict=True) if not re.match(pattern, line)] == []


def test_a_started_engine_outlives_the_script(machine: Machine) -> None:
    """An installed engine is started detached: it runs on and holds no descriptor of the caller."""
    machine.add("dockerd", machine.engine)
    machine.add("crun")
    ours, callers = os.pipe()
    os.set_inheritable(callers, True)
    os.set_blocking(ours, False)
    assert machine.run(DOCKERD_FLAGS="--data-root /elsewhere") == 0
    os.close(callers)
    assert os.path.exists(f"/proc/{machine.engine_pid()}")
    assert os.read(ours, 1) == b"", "the end of a pipe that nobody holds; BlockingIOError where someone does"
    os.close(ours)
    (call,) = machine.ran
    assert call.endswith(f"--add-runtime crun={machine.bin}/crun --data-root /elsewhere")


def test_an_engine_without_network_rights_is_started_without_one(machine: Machine) -> None:
    """A dockerd that cannot set up iptables is started once more without, and that is said."""
    machine.add(
        "dockerd",
        f'case "$*" in *"--iptables=false --bridge=none") {machine.engine} ;; esac\n'
        "echo 'failed to start daemon: Error initializing network controller: iptables failed'; exit 1",
    )
    assert machine.run() == 0
    assert len(machine.ran) == 2
    assert any("cannot set up its network" in line for line in machine.seen)


def test_an_engine_that_does_not_start_is_our_failure(machine: Machine) -> None:
    """A dockerd that ends at once is not waited for: its last lines are shown, and the exit code is 3."""
    machine.add("dockerd", "echo 'cannot mount anything here'; exit 1")
    begun = time.monotonic()
    assert machine.run(ENGINE_WAIT_S="20") == 3
    assert time.monotonic() - begun < 10
    assert "cannot mount anything here" in machine.seen
    assert "does not answer" in machine.seen[-1]


def test_packages_that_do_not_install_are_our_failure(machine: Machine) -> None:
    """Where apt-get fails, its last lines are shown, nothing is started, and the exit code is 3."""
    machine.add("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
    assert machine.run() == 3
    assert machine.ran == ["ran: apt-get update"]
    assert "E: Unable to locate package" in machine.seen
    assert "could not be installed" in machine.seen[-1]


def test_a_denied_socket_is_one_sentence(debian: Machine) -> None:
    """Who may not use the socket is told how, and nothing is installed."""
    (debian.root / "sitecustomize.py").write_text(DENIED)
    assert debian.run(PYTHONPATH=str(debian.root)) == 3
    (sentence,) = debian.seen
    assert "may not use the engine" in sentence
    assert "usermod -aG docker" in sentence


def test_another_system_is_one_sentence(machine: Machine) -> None:
    """Where there is neither dockerd nor apt-get, one sentence says what to install."""
    assert machine.run() == 3
    (sentence,) = machine.seen
    assert "install Docker or Podman" in sentence


def test_a_remote_engine_is_not_replaced(debian: Machine) -> None:
    """A DOCKER_HOST over TCP that does not answer is named, and nothing is installed here."""
    assert debian.run(DOCKER_HOST="tcp://127.0.0.1:9") == 3
    (sentence,) = debian.seen
    assert "tcp://127.0.0.1:9" in sentence


def test_a_plain_user_goes_through_sudo(debian: Machine) -> None:
    """Who is not root installs and starts through sudo, and sees sudo in what is printed."""
    debian.add("id", 'case "$1" in -u) echo 1000 ;; *) echo someone ;; esac')
    debian.add("sudo", 'exec "$@"')
    assert debian.run() == 0
    assert any(line.startswith("engine: running: sudo apt-get update") for line in debian.seen)
    assert [line for line in debian.ran if line.startswith("ran: sudo env DEBIAN_FRONTEND")]


def test_without_root_or_sudo_nothing_is_tried(debian: Machine) -> None:
    """Who is not root and has no sudo is told so in one sentence."""
    debian.add("id", "echo 1000")
    assert debian.run() == 3
    assert debian.ran == ["ran: id -u"]
    assert "as root" in debian.seen[-1]


def test_no_python_is_one_sentence(machine: Machine) -> None:
    """Where no Python is new enough, one sentence names what was tried."""
    machine.add("python3", "exit 1")
    assert machine.run(".ci/venv.sh", "stamp", PYTHON="") == 3
    assert "no Python 3.11 or newer" in machine.seen[-1]
    assert not (machine.root / "stamp").exists()


def test_a_python_without_venv_gets_its_package(machine: Machine) -> None:
    """On Debian a Python without ensurepip gets its package, by a command that is printed first."""
    python = machine.bin / "python3"
    machine.add(
        "python3",
        f'case "$*" in *ensurepip*) exit 1 ;; *version_info*print*) echo {python} ;; *-venv*) echo python3.11-venv ;;'
        " *) exit 1 ;; esac",
    )
    machine.add("apt-get")
    assert machine.run(".ci/venv.sh", "stamp", PYTHON="") == 3
    told = [line for line in machine.seen if "apt-get install" in line]
    assert [line.split(":")[0] for line in told] == ["setup", "ran"]
    assert all(line.endswith("python3.11-venv") for line in told)


def test_the_wheel_carries_the_data(tmp_path: Path) -> None:
    """An installed gate has sandbox/ and suites/ inside the package, file for file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (wheel,) = tmp_path.glob("*.whl")
    carried = set(zipfile.ZipFile(wheel).namelist())
    data = [path for folder in ("sandbox", "suites") for path in (ROOT / folder).rglob("*") if path.is_file()]
    names = {path.relative_to(ROOT).as_posix() for path in data if "__pycache__" not in path.parts}
    assert {f"gate/_data/{name}" for name in names} - carried == set()
    assert "gate/py.typed" in carried


def test_the_version_is_written_once() -> None:
    """pyproject.toml alone holds the version; the package reads it from there."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    spelt = [path.name for path in (ROOT / "gate").rglob("*.py") if f'"{version}"' in path.read_text(encoding="utf-8")]
    assert spelt == []


def test_the_scripts_are_plain_bash() -> None:
    """Each shell script parses, and can be run as it is."""
    for name in ("sandbox/engine.sh", ".ci/venv.sh", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK), name
        subprocess.run(["bash", "-n", ROOT / name], check=True)
