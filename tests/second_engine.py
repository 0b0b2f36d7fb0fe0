"""A second dockerd of the tests' own: its own folders, socket, containerd and namespace, no network of any kind.

It can be killed, started again and starved without harm to the engine at hand. Its containerd
is a process beside it, as on most systems, so containers outlive a killed dockerd. Like a
socket-activated service it can be given a socket that outlives it too: then a request that
is made while it is away waits, and is answered by the next one.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import docker

START_S = 60.0
STOP_S = 30.0

_CONTAINERD = """\
version = 2
root = "{0}/ctr-data"
state = "{0}/ctr"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{0}/ctr.sock"
"""
_ACTIVATED = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'


class SecondEngine:
    """Use as a context manager; needs root, as dockerd does.

    Args:
        keeps_socket: Whether its socket stays while it is away.

    Attributes:
        folders: Where each one that was ever made here had its files.
    """

    folders: ClassVar[list[Path]] = []

    def __init__(self, *, keeps_socket: bool = False) -> None:
        # Sockets below have names of at most 107 bytes: no room for a test's own long folder.
        self._folder = Path(tempfile.mkdtemp(prefix="gate2-"))
        self.folders.append(self._folder)
        self._path = self._folder / "d.sock"
        self._keeps_socket = keeps_socket
        self._listener: socket.socket | None = None
        self._containerd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"unix://{self._path}"

    def __enter__(self) -> SecondEngine:
        try:
            if self._keeps_socket:
                self._listener = socket.socket(socket.AF_UNIX)
                self._listener.bind(str(self._path))
                self._listener.listen(64)
            self._start_containerd()
            self.start()
            self.wait()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.limit_files(None)
            self.remove_containers()
        finally:
            self._clean_up()

    @property
    def log(self) -> str:
        """The end of what it has written."""
        return (self._folder / "log").read_text(errors="replace")[-3000:]

    def _start_containerd(self) -> None:
        config = self._folder / "containerd.toml"
        config.write_text(_CONTAINERD.format(self._folder))
        with (self._folder / "containerd.log").open("ab") as log:
            self._containerd = subprocess.Popen(
                ["containerd", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + START_S
        while not (self._folder / "ctr.sock").exists():
            assert time.monotonic() < deadline_s and self._containerd.poll() is None, "containerd does not start"
            time.sleep(0.05)

    def start(self) -> None:
        """Start it; `wait` for its answer."""
        host = "fd://" if self._keeps_socket else self.address
        command = ["dockerd", "-H", host, "--bridge=none", "--iptables=false", "--ip6tables=false"]
        command += ["--data-root", f"{self._folder}/data", "--exec-root", f"{self._folder}/exec"]
        command += ["--pidfile", f"{self._folder}/pid", "--config-file", f"{self._folder}/none.json"]
        command += ["--containerd", f"{self._folder}/ctr.sock"]
        (self._folder / "none.json").write_text("{}")
        (self._folder / "pid").unlink(missing_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _ACTIVATED, "sh", *command] if self._keeps_socket else command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self._hand_over if self._listener else None,
                pass_fds=(3,) if self._listener else (),
                start_new_session=True,
            )

    def _hand_over(self) -> None:
        assert self._listener is not None
        os.dup2(self._listener.fileno(), 3)
        os.set_inheritable(3, True)

    def client(self) -> docker.APIClient:
        """A client of its own for it; the caller closes it."""
        return docker.APIClient(base_url=self.address, version="auto", timeout=60)

    def wait(self) -> None:
        """Until it answers."""
        deadline_s = time.monotonic() + START_S
        while True:
            assert self._process is not None and self._process.poll() is None, f"dockerd ended: {self.log}"
            try:
                client = docker.APIClient(base_url=self.address, version="1.40", timeout=5)
                client.ping()
                client.close()
                return
            except (docker.errors.DockerException, OSError) as exc:
                assert time.monotonic() < deadline_s, f"dockerd does not answer ({exc}): {self.log}"
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill -9; its containers live on until the next one stops them."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def limit_files(self, number: int | None) -> None:
        """From now on it may have so many descriptors open; None: as many as at first."""
        assert self._process is not None
        if self._process.poll() is None:
            _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(self._process.pid, resource.RLIMIT_NOFILE, (hard if number is None else number, hard))

    def open_files(self) -> int:
        assert self._process is not None
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def remove_containers(self) -> None:
        """Remove whatever is there, with an engine that answers."""
        assert self._process is not None
        if self._process.poll() is not None:
            self.start()
        self.wait()
        client = self.client()
        for each in client.containers(all=True):
            with suppress(docker.errors.APIError):
                client.remove_container(each["Id"], force=True)
        client.close()

    def _clean_up(self) -> None:
        for process in (self._process, self._containerd):
            if process is not None:
                process.terminate()
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._end_shims()
        if self._listener is not None:
            self._listener.close()
        for mount in mounts_below(self._folder):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end_shims(self) -> None:
        """Those of containers that no dockerd knew any more, with the processes in them."""
        for pid in pids_with(self._folder):
            with suppress(OSError):
                children = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
                for each in (*" ".join(children).split(), pid):
                    with suppress(ProcessLookupError):
                        os.kill(int(each), signal.SIGKILL)
        deadline_s = time.monotonic() + STOP_S
        while pids_with(self._folder) and time.monotonic() < deadline_s:
            time.sleep(0.05)


def mounts_below(folder: Path) -> list[str]:
    """What is still mounted in there, the innermost first."""
    with open("/proc/self/mounts") as file:
        points = [line.split()[1] for line in file]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)


def pids_with(folder: Path) -> list[int]:
    """The processes whose command line names something in there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it may end at any time
            if f"{folder}/".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found
