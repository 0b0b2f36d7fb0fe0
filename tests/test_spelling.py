"""Calls spelled once for all candidates of a task."""

from __future__ import annotations

from gate import wire
from gate.backends.spelling import Spelling
from gate.model import Call, digest_json


def test_the_same_calls_are_spelled_once() -> None:
    """Known by the calls and not by the list that holds them; equal ones that are others are spelled anew, alike."""
    spelling = Spelling(4)
    calls = [Call(args=(1, "a")), Call(kwargs={"b": [2]})]
    first = spelling.of(calls)
    assert (first.lines, first.digest) == (wire.encode_calls(calls), digest_json([call.as_json() for call in calls]))
    assert spelling.of(tuple(calls)) is first
    again = spelling.of([Call(args=(1, "a")), Call(kwargs={"b": [2]})])
    assert again == first and again is not first
    assert spelling.of(calls[:1]).digest != first.digest


def test_only_so_many_are_kept() -> None:
    """The one that was spelled first goes first; a call that is no more is never taken for one that has its place."""
    spelling = Spelling(2)
    for number in range(50):
        calls = [Call(args=(number,))]
        assert spelling.of(calls).digest == digest_json([calls[0].as_json()])
        assert len(spelling._known) <= 2
