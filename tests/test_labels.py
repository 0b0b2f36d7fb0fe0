"""Labels that name an owner: host, pid namespace, pid and start time together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate.backends.labels import KEY, host_id, owner_labels, pid_namespace, start_time

STAT = " S 1 17 17 0 -1 4194560 1000 0 0 0 1 2 0 0 20 0 1 0 {start} 11436032 1221 18446744073709551615"


def recorded(proc: Path, name: bytes, start: int, pid: int = 17) -> Path:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "stat").write_bytes(str(pid).encode() + b" (" + name + b")" + STAT.format(start=start).encode())
    return proc


def test_the_labels_name_this_process() -> None:
    """Every detail stands under the key, as text, and none is empty on a Linux host."""
    labels = owner_labels()
    assert set(labels) == {KEY, f"{KEY}.host", f"{KEY}.pidns", f"{KEY}.pid", f"{KEY}.start"}
    assert all(type(value) is str and value for value in labels.values())
    assert labels["gate.pid"] == str(os.getpid())
    assert labels["gate.start"] == start_time(os.getpid())


def test_the_labels_of_one_process_stay_the_same() -> None:
    """Asked twice, it is the same owner; another process is another one."""
    assert owner_labels() == owner_labels()
    code = "from gate.backends.labels import owner_labels; print(owner_labels()['gate.pid'])"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() != owner_labels()["gate.pid"]


def test_the_host_is_the_boot_of_it() -> None:
    """After a reboot the same pid and start time are another process: the boot's own id tells."""
    assert host_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_the_pid_namespace_is_named() -> None:
    """Two containers on one host have equal pids; the namespace tells them apart."""
    assert pid_namespace().startswith("pid:[")


@pytest.mark.parametrize(
    "name",
    [b"python3", b"", b"a b c", b") S 1 2 3", b"((", b"a)b", b"\xff\xfe", b"\n"],
    ids=["plain", "empty", "blanks", "a forged rest", "open", "closed", "not UTF-8", "line feed"],
)
def test_a_processs_name_cannot_hide_its_start(tmp_path: Path, name: bytes) -> None:
    """The name of a process may hold anything, brackets and bytes that are no text too."""
    assert start_time(17, recorded(tmp_path, name, 987654)) == "987654"


def test_a_process_that_is_gone_has_no_start(tmp_path: Path) -> None:
    """No process, no start time: its pid belongs to nobody now."""
    assert start_time(17, tmp_path) is None


def test_a_later_process_starts_later() -> None:
    """The start time is read from the right field: it grows from process to process."""
    time.sleep(0.02)  # a clock tick is 10 ms
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        started = start_time(child.pid)
        child.communicate(b"\n")
    assert started is not None
    assert int(started) > int(start_time(os.getpid()) or 0)


def test_where_the_system_tells_nothing_the_labels_are_empty(tmp_path: Path) -> None:
    """Without a process file system the details are empty texts, and no error."""
    labels = owner_labels(tmp_path)
    assert (labels["gate.pidns"], labels["gate.start"]) == ("", "")
