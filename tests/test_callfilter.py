"""The candidates' own system call filter in a cell, run by a small interpreter of its program."""

from __future__ import annotations

import json
import os
import struct
import sys
from types import ModuleType

import pytest

from gate.resources import sandbox_dir

ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17


@pytest.fixture(scope="module")
def callfilter() -> ModuleType:
    """The module as it is in the image, where nothing of gate/ is beside it."""
    sys.path.insert(0, str(sandbox_dir()))
    try:
        import callfilter as module
    finally:
        sys.path.pop(0)
    return module


def answer(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """What a filter says of one call, by the meaning of classic BPF."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, audit, 0, *(argument & (2**64 - 1) for argument in padded))
    steps = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += if_true if holds else if_false


def answer_of_both(programs: tuple[bytes, bytes], audit: int, number: int, *arguments: int) -> int:
    """What a process that has both filters is told: the kernel takes the strictest answer."""
    return min(answer(program, audit, number, *arguments) for program in programs)


def table(
    callfilter: ModuleType, machine: str
) -> tuple[int, dict[str, int], dict[str, int], dict[str, int], tuple[bytes, bytes]]:
    audit, allowed, judged, world = callfilter.MACHINES[machine]
    numbers = {name: int(number) for name, _, number in (word.partition("=") for word in allowed.split())}
    return audit, numbers, judged, world, callfilter.assemble(audit, allowed, judged, world)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_exactly_the_named_calls_are_allowed(callfilter: ModuleType, machine: str) -> None:
    """Of all numbers that there are, those of the list are allowed and no other, but for the calls judged apart."""
    audit, numbers, judged, world, programs = table(callfilter, machine)
    for number in (*range(1024), 0x40000000, 0x40000001, 0xFFFFFFFF):
        if number not in judged.values():
            wanted = ALLOW if number in numbers.values() else EPERM
            assert answer_of_both(programs, audit, number) == wanted, number
            of_zygote = ALLOW if number in (*numbers.values(), *world.values()) else EPERM
            assert answer(programs[0], audit, number) == of_zygote, number


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_calls_are_judged_by_their_arguments(callfilter: ModuleType, machine: str) -> None:
    """Forks and threads go through, new namespaces do not; pairs of sockets only within the machine."""
    audit, _, judged, _, programs = table(callfilter, machine)
    assert answer_of_both(programs, audit, judged["clone"], SIGCHLD) == ALLOW
    assert answer_of_both(programs, audit, judged["clone"], 0x3D0F00) == ALLOW  # what libc asks for a thread
    for bit in range(32):
        if callfilter.CLONE_NEW >> bit & 1:
            assert answer_of_both(programs, audit, judged["clone"], 1 << bit | SIGCHLD) == EPERM
            assert answer(programs[0], audit, judged["clone"], 1 << bit | SIGCHLD) == ALLOW  # the zygote's work
    assert answer_of_both(programs, audit, judged["clone3"]) == ENOSYS
    assert answer_of_both(programs, audit, judged["socketpair"], 1) == ALLOW
    for family in (2, 10, 16, 40):
        assert answer_of_both(programs, audit, judged["socketpair"], family) == EPERM


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_another_machines_numbers_are_refused(callfilter: ModuleType, machine: str) -> None:
    """Numbers mean other calls on another machine, or in 32 bits: all are refused."""
    _, numbers, _, _, programs = table(callfilter, machine)
    for program in programs:
        assert {answer(program, 0x40000003, number) for number in numbers.values()} == {EPERM}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_nothing_beyond_a_containers_filter_is_allowed(callfilter: ModuleType, machine: str) -> None:
    """A cell's candidate may call nothing that a container's may not."""
    profile = json.loads((sandbox_dir() / "seccomp.json").read_text())
    permitted = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    _, numbers, _, _, _ = table(callfilter, machine)
    assert set(numbers) <= permitted
    for name in ("socket", "connect", "bind", "unshare", "setns", "mount", "ptrace", "keyctl", "bpf", "io_uring_setup"):
        assert name not in numbers


def test_numbers_are_this_machines(callfilter: ModuleType) -> None:
    """What the kernel answers to some numbers shows that they are the calls that they are named after."""
    import ctypes

    _, numbers, _, _, _ = table(callfilter, os.uname().machine)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.syscall(numbers["getpid"]) == os.getpid()
    assert libc.syscall(numbers["getppid"]) == os.getppid()
    assert libc.syscall(numbers["getuid"]) == os.getuid()
    descriptor = libc.syscall(numbers["memfd_create"], b"x", 0)
    assert os.fstat(descriptor).st_size == 0
    os.close(descriptor)


def test_a_machine_without_a_filter_is_refused(callfilter: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no filter is known there is none, and an error says so."""
    monkeypatch.setattr(callfilter, "MACHINES", {})
    with pytest.raises(OSError, match="no system call filter for"):
        callfilter.programs()
