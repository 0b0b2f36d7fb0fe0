"""Counters of a container: found and read in recorded trees of both cgroup versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.backends.cgroups import NO_COUNTERS, Counters, Reading, find_counters, parse_membership

PID = 4711
ID = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

V1 = """\
12:pids:{path}
11:cpuset:{path}
10:memory:{path}
9:hugetlb:{path}
4:cpu,cpuacct:{path}
2:net_cls,net_prio:{path}
1:name=systemd:{path}
"""
V2 = "0::{path}\n"
PATHS = {
    "cgroupfs driver": f"/docker/{ID}",
    "systemd driver": f"/system.slice/docker-{ID}.scope",
    "rootless": f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope",
    "Podman": f"/machine.slice/libpod-{ID}.scope/container",
    "a container in a container": f"/docker/{ID[::-1]}/docker/{ID}",
    "a parent with a colon and spaces": f"/a:b/c d/\u2028e/{ID}",
}
OOM_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
MEMORY_EVENTS = "low 0\nhigh 0\nmax 19\noom 3\noom_kill 2\noom_group_kill 0\n"
CPU_STAT = "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\n"
READING = Reading(cpu_s=2.5, memory_bytes=73400320, oom_kills=2)


class Host:
    """A recorded host: the membership of one process, and cgroup file systems."""

    def __init__(self, path: Path) -> None:
        self.proc = path / "proc"
        self.root = path / "sys" / "fs" / "cgroup"
        self.root.mkdir(parents=True)

    def runs(self, membership: str | bytes) -> None:
        text = membership.encode() if isinstance(membership, str) else membership
        (self.proc / str(PID)).mkdir(parents=True)
        (self.proc / str(PID) / "cgroup").write_bytes(text)

    def file(self, path: str, text: str | bytes) -> Path:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def v1(self, path: str) -> None:
        self.file(f"cpuacct{path}/cpuacct.usage", "2500000000\n")
        self.file(f"memory{path}/memory.max_usage_in_bytes", "73400320\n")
        self.file(f"memory{path}/memory.oom_control", OOM_CONTROL)

    def v2(self, path: str, *, peak: bool = True) -> None:
        self.file(f"{path}/cpu.stat", CPU_STAT)
        self.file(f"{path}/memory.events", MEMORY_EVENTS)
        if peak:
            self.file(f"{path}/memory.peak", "73400320\n")

    def find(self, pid: int = PID, container_id: str = ID) -> Counters:
        return find_counters(pid, container_id, proc=self.proc, root=self.root)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("driver", PATHS)
def test_counters_of_version_1_are_found(host: Host, driver: str) -> None:
    """On cgroup v1 each controller has a hierarchy of its own, whatever driver made the path."""
    host.runs(V1.format(path=PATHS[driver]))
    host.v1(PATHS[driver])
    found = host.find()
    assert (found.source, found.read()) == ("cgroup-v1", READING)


@pytest.mark.parametrize("driver", PATHS)
def test_counters_of_version_2_are_found(host: Host, driver: str) -> None:
    """On cgroup v2 all counters stand in one group, whatever driver made the path."""
    host.runs(V2.format(path=PATHS[driver]))
    host.v2(PATHS[driver])
    found = host.find()
    assert (found.source, found.read()) == ("cgroup-v2", READING)


@pytest.mark.parametrize("version", [1, 2])
def test_another_process_of_the_same_pid_is_not_read(host: Host, version: int) -> None:
    """A pid from another pid namespace names a stranger here, whose counters say nothing of the container."""
    path = PATHS["cgroupfs driver"]
    host.runs((V1 if version == 1 else V2).format(path=path))
    (host.v1 if version == 1 else host.v2)(path)
    assert host.find().source == f"cgroup-v{version}"
    assert host.find(container_id=ID[::-1]) == NO_COUNTERS


def test_a_hybrid_host_is_read_as_version_1(host: Host) -> None:
    """Where both versions are mounted the controllers are on v1; the group on v2 has no counters."""
    path = PATHS["systemd driver"]
    host.runs(V1.format(path=path) + V2.format(path=path))
    host.v1(path)
    host.file(f"unified{path}/cgroup.procs", "")
    found = host.find()
    assert (found.source, found.read()) == ("cgroup-v1", READING)


def test_controllers_may_stand_in_different_groups(host: Host) -> None:
    """On v1 CPU and memory are looked up each by its own path."""
    host.runs(f"4:memory:/mem/{ID}\n2:cpuacct:/cpu/{ID}\n1:cpu:/other\n")
    host.file(f"cpuacct/cpu/{ID}/cpuacct.usage", "1000000000")
    host.file(f"memory/mem/{ID}/memory.max_usage_in_bytes", "4096")
    assert host.find().read() == Reading(cpu_s=1.0, memory_bytes=4096, oom_kills=None)


def test_a_kernel_without_a_peak_has_no_peak(host: Host) -> None:
    """Before Linux 5.19 cgroup v2 keeps no peak: None, not the present use and not 0."""
    host.runs(V2.format(path=PATHS["cgroupfs driver"]))
    host.v2(PATHS["cgroupfs driver"], peak=False)
    assert host.find().read() == Reading(cpu_s=2.5, memory_bytes=None, oom_kills=2)


def test_a_kernel_that_does_not_count_kills_says_nothing(host: Host) -> None:
    """Before Linux 4.13 v1 keeps no oom_kill: None, so that nobody reads it as none."""
    path = PATHS["cgroupfs driver"]
    host.runs(V1.format(path=path))
    host.v1(path)
    host.file(f"memory{path}/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\n")
    assert host.find().read().oom_kills is None


def test_a_process_that_is_gone_has_no_counters(host: Host) -> None:
    """A container that ended before it was looked at has none."""
    host.v1(PATHS["cgroupfs driver"])
    assert host.find() is NO_COUNTERS


@pytest.mark.parametrize("pid", [0, -1])
def test_a_container_that_does_not_run_has_no_counters(host: Host, pid: int) -> None:
    """Pid 0 stands for no process; nothing is looked up for it."""
    (host.proc / str(pid)).mkdir(parents=True)
    (host.proc / str(pid) / "cgroup").write_text(V2.format(path="/box"))
    host.v2("/box")
    assert host.find(pid, "box") is NO_COUNTERS


def test_a_group_that_is_gone_has_no_counters(host: Host) -> None:
    """A process whose group is not visible here (Docker Desktop, another machine) has none."""
    host.runs(V1.format(path=f"/docker/{ID}"))
    host.v1("/docker/here")
    assert host.find() is NO_COUNTERS


def test_counters_that_went_with_their_container_are_none(host: Host) -> None:
    """What was found and is gone when it is read is None, and no error."""
    path = PATHS["cgroupfs driver"]
    host.runs(V2.format(path=path))
    host.v2(path)
    found = host.find()
    for name in ("cpu.stat", "memory.events", "memory.peak"):
        (host.root / path.lstrip("/") / name).unlink()
    assert found.read() == Reading()
    assert found.read_cpu_s() is None


def test_no_counters_read_as_nothing() -> None:
    """Where there are none, each reading is None."""
    assert NO_COUNTERS.read() == Reading()


@pytest.mark.parametrize("path", ["/../../x", "/../x", "/x/../../x", "/a/../x", "x/.."])
@pytest.mark.parametrize("membership", [V1, V2])
def test_a_path_that_leaves_the_root_is_not_followed(host: Host, path: str, membership: str) -> None:
    """A group beyond what is visible here is not mistaken for one that is, inside or outside of the root."""
    host.runs(membership.format(path=path))
    for place in ("/x", "/../x", "/../../x", "/memory/../x"):
        host.v1(place)
        host.v2(place)
    assert host.find(container_id="x") is NO_COUNTERS


@pytest.mark.parametrize("path", ["/", "", "//"])
@pytest.mark.parametrize("membership", [V1, V2])
def test_the_root_group_is_nobodys_own(host: Host, path: str, membership: str) -> None:
    """The root's counters are everybody's: another process's memory kill would be the candidate's."""
    host.runs(membership.format(path=path))
    host.v1("")
    host.v2("")
    assert host.find(container_id="") is NO_COUNTERS


@pytest.mark.parametrize("membership", ["4:memory:/\n2:cpuacct:/box\n", "4:memory:/box\n2:cpuacct:/../box\n"])
def test_half_of_the_groups_is_none_of_them(host: Host, membership: str) -> None:
    """On v1 a container without both groups of its own has no counters, also where one could be read."""
    host.runs(membership)
    host.v1("/box")
    assert host.find(container_id="box") is NO_COUNTERS


@pytest.mark.parametrize(
    "text",
    ["", "max", "-1", "1.5", "0x10", "²", "٣", "1 2", "1_000", "9" * 21, "9" * 5000, b"\xff\xfe", "\0"],
    ids=lambda text: ascii(text)[:12],
)
def test_a_counter_that_is_no_number_is_none(host: Host, text: str | bytes) -> None:
    """Garbage in a counter is no reading, and never an exception."""
    data = text.encode() if isinstance(text, str) else text
    cpu = host.file("cpu", data)
    stat = host.file("stat", b"usage_usec " + data + b"\noom_kill " + data + b"\n")
    assert Counters(source="cgroup-v1", cpu=cpu, memory=cpu, oom=stat).read() == Reading()
    assert Counters(source="cgroup-v2", cpu=stat, memory=cpu, oom=stat).read() == Reading()


def test_the_largest_counter_is_a_number(host: Host) -> None:
    """All 64 bits are read."""
    cpu = host.file("cpu", f"{2**64 - 1}\n")
    assert Counters(source="cgroup-v1", cpu=cpu, memory=cpu).read().memory_bytes == 2**64 - 1


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"garbage\n", b"::\n", b"0:/x\n", b"\xff\xff\n", b"10:memory:/x\n", b"10:cpuacct:/x\n"]
)
def test_a_membership_that_says_nothing_gives_no_counters(host: Host, text: bytes) -> None:
    """Lines that are cut, odd or lack a controller lead nowhere."""
    host.runs(text)
    host.v1("/x")
    assert host.find(container_id="x") is NO_COUNTERS


def test_a_path_that_is_not_utf8_is_found(host: Host) -> None:
    """A group's name is bytes; those of no text are names too."""
    host.runs(b"0::/box-\xff\n")
    host.v2("/box-\udcff")
    assert host.find(container_id="box-\udcff").read() == READING


def test_a_membership_is_controllers_by_path() -> None:
    """Controllers that share a hierarchy share its path; v2 stands under the empty name."""
    assert parse_membership("4:cpu,cpuacct:/a:b\n1:name=systemd:/c\n0::/d\n") == {
        "cpu": "/a:b",
        "cpuacct": "/a:b",
        "name=systemd": "/c",
        "": "/d",
    }


@pytest.mark.parametrize("version", [1, 2])
def test_waits_for_a_cpu_are_read_thread_by_thread(host: Host, version: int) -> None:
    """Each thread of each process in the group has its own; one that has gone, or says nothing, is left out."""
    path = PATHS["cgroupfs driver"]
    host.runs((V1 if version == 1 else V2).format(path=path))
    (host.v1 if version == 1 else host.v2)(path)
    host.file(f"{'cpuacct' if version == 1 else ''}{path}/cgroup.procs", "4711\n4712\n4713\n")
    for process, thread, text in ((4711, 4711, "9 2500000000 7\n"), (4711, 4720, "0 0 0\n"), (4712, 4712, "a b c\n")):
        file = host.proc / str(process) / "task" / str(thread) / "schedstat"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    assert host.find().read_waits_s() == {"4711": 2.5, "4720": 0.0}


def test_nobody_waits_where_nobody_can_say() -> None:
    """Without counters there are no waits, so wall time is all the time that has gone by."""
    assert NO_COUNTERS.read_waits_s() == {}
