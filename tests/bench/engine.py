"""A dockerd of the benchmark's own, all of whose CPU is counted apart from the machine's.

It, its containerd, its shims and runtimes run in one cpuacct cgroup, its containers in a
second, and whoever uses it as a client moves into a third: so the load of other work on
the machine does not count, and the sum says who spends what. It sees no cgroup v2
beside v1, which crun refuses. Needs root and cgroup v1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import docker

ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")
PARTS = ("client", "engine", "containers")
START_S = 60.0
STOP_S = 30.0
_HYBRID = Path("/sys/fs/cgroup/unified")


class BenchEngine:
    """Use as a context manager; inside it the calling process counts as the client."""

    def __init__(self) -> None:
        if os.geteuid() != 0 or not os.access(ACCOUNTS, os.W_OK):
            raise SystemExit(f"bench: it needs root and {ACCOUNTS} (cgroup v1): run it as root on such a host.")
        self._folder = Path(tempfile.mkdtemp(prefix="gate-bench-"))
        self._name = self._folder.name
        self.address = f"unix://{self._folder}/d.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> BenchEngine:
        try:
            for part in PARTS:
                (ACCOUNTS / self._name / part).mkdir(parents=True)
            self._start()
            self._wait()
            join(ACCOUNTS / self._name / "client", os.getpid())
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds that each part has spent so far, user and system."""
        return {part: int((ACCOUNTS / self._name / part / "cpuacct.usage").read_text()) / 1e9 for part in PARTS}

    def load(self, image: bytes) -> None:
        """Take in an image that another engine saved."""
        client = self.client()
        client.load_image(image)
        client.close()

    def client(self) -> docker.APIClient:
        """A client of its own for it; the caller closes it."""
        return docker.APIClient(base_url=self.address, version="auto", timeout=60)

    def _start(self) -> None:
        folder, crun = self._folder, shutil.which("crun")
        (folder / "none.json").write_text("{}")
        command = ["dockerd", "-H", self.address, "--bridge=none", "--iptables=false", "--ip6tables=false"]
        command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
        command += ["--config-file", f"{folder}/none.json", "--cgroup-parent", f"/{self._name}/containers"]
        command += ["--exec-opt", "native.cgroupdriver=cgroupfs"]
        if crun is not None:
            command += ["--add-runtime", f"crun={crun}"]
        script = f'echo $$ > {ACCOUNTS}/{self._name}/engine/cgroup.procs; exec unshare -m sh -c "$SCRIPT" sh "$@"'
        inner = f'if mountpoint -q {_HYBRID}; then umount {_HYBRID}; fi; exec "$@"'
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", script, "sh", *command],
                env={**os.environ, "SCRIPT": inner},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + START_S
        while True:
            assert self._process.poll() is None, f"dockerd ended: {(self._folder / 'log').read_text()[-2000:]}"
            try:
                client = self.client()
                client.ping()
                client.close()
                return
            except (docker.errors.DockerException, OSError) as exc:
                assert time.monotonic() < deadline_s, f"dockerd does not answer: {exc}"
                time.sleep(0.1)

    def _clean_up(self) -> None:
        join(ACCOUNTS, os.getpid())
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        for part in (*PARTS, ""):
            with suppress(OSError):  # what a killed engine left running keeps its group
                (ACCOUNTS / self._name / part).rmdir()


def join(group: Path, pid: int) -> None:
    """Have a process, with all its threads, counted in a group from now on."""
    (group / "cgroup.procs").write_text(str(pid))
