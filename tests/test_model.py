"""The values: frozen, digested over one spelling, and without a truth value where that would mislead."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import model
from gate.model import (
    Call,
    Candidate,
    Exit,
    Expect,
    Limits,
    Outcome,
    SuiteSpec,
    Test,
    canonical_json,
    digest_bytes,
    digest_json,
)

texts = st.text(st.characters(), max_size=10)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
any_json = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=10)


@given(any_json)
def test_canonical_json_stands_for_its_value(value: object) -> None:
    """The text is ASCII and reads back as the value, lone surrogates included."""
    text = canonical_json(value)
    assert text.isascii()
    assert json.loads(text) == value


@given(st.dictionaries(texts, leaves, min_size=2), st.randoms())
def test_the_order_of_keys_changes_no_digest(fields: dict[str, object], chance: random.Random) -> None:
    """One value has one text and one digest, in whatever order it was built."""
    keys = list(fields)
    chance.shuffle(keys)
    other = {key: fields[key] for key in keys}
    assert canonical_json({"a": [other]}) == canonical_json({"a": [fields]})
    assert digest_json(other) == digest_json(fields)


@pytest.mark.parametrize("pair", [(1, True), (0, False), (1, 1.0), (1, "1"), (None, "null"), ([], {}), ("a", "a ")])
def test_different_values_have_different_digests(pair: tuple[object, object]) -> None:
    """True is not 1 and 1 is not 1.0: what differs in type differs in digest."""
    assert digest_json(pair[0]) != digest_json(pair[1])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_canonical_json_refuses_what_is_no_json(value: object) -> None:
    """NaN and infinities have a tagged form, and no plain one."""
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


def test_a_digest_is_sha_256_in_hex() -> None:
    """Anybody can check it with the usual tools."""
    assert digest_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_json({"b": 1, "a": "é"}) == hashlib.sha256(b'{"a":"\\u00e9","b":1}').hexdigest()


@pytest.mark.parametrize("value", [*Outcome, *Exit])
def test_a_result_has_no_truth_value(value: Outcome | Exit) -> None:
    """`if verdict.outcome` would take a FAIL for true; it is an error, whichever it is."""
    with pytest.raises(TypeError, match="has no truth value"):
        bool(value)


def test_the_words_of_results_are_fixed() -> None:
    """Ledgers and programs spell them so."""
    assert [outcome.value for outcome in Outcome] == ["pass", "fail", "error"]
    assert [exit.value for exit in Exit] == [
        *("ok", "crashed", "time_limit", "memory_limit", "output_limit", "protocol", "fault")
    ]


@pytest.mark.parametrize(
    ("wall_s", "calls", "total_s"), [(10, 0, 10), (10, 4, 50), (10, 1000, 600), (300, 1, 600), (0.5, 1, 1)]
)
def test_a_whole_observation_is_bounded(wall_s: float, calls: int, total_s: float) -> None:
    """Loading and each call have their time, and all together ten minutes at most."""
    assert Limits(wall_s=wall_s).total_wall_s(calls) == total_s


def test_the_default_limits_are_the_documented_ones() -> None:
    """A suite that names no limit has these."""
    assert Limits() == Limits(wall_s=10.0, cpu_s=5.0, memory_mb=512, output_kb=16384, total_cpu_s=60.0)


@pytest.mark.parametrize(
    ("call", "form"),
    [
        (Call(), {"args": [], "kwargs": {}}),
        (Call(args=(1, [2]), kwargs={"k": None}), {"args": [1, [2]], "kwargs": {"k": None}}),
        (Call(stdin=""), {"stdin": ""}),
        (Call(stdin="3\n"), {"stdin": "3\n"}),
    ],
)
def test_a_call_is_arguments_or_an_input(call: Call, form: dict[str, object]) -> None:
    """An empty input is an input: a program without one is still a program."""
    assert call.as_json() == form


@given(texts)
def test_the_bytes_that_run_are_those_of_the_text(code: str) -> None:
    """A candidate's bytes come back to its text, and the digest is theirs."""
    candidate = Candidate(task_id="a", index=0, code=code)
    assert candidate.code_bytes.decode("utf-8", "surrogatepass") == code
    assert candidate.digest == hashlib.sha256(candidate.code_bytes).hexdigest()


def test_the_digest_of_a_candidate_is_of_its_code_alone() -> None:
    """The same program from another draw or another place is the same program."""
    first = Candidate(task_id="a", index=0, code="x", origin={"line": 1})
    other = Candidate(task_id="b", index=4, code="x")
    assert first.digest == other.digest
    assert Candidate(task_id="a", index=0, code="x\n").digest != first.digest


def test_a_suites_calls_hold_no_answers() -> None:
    """What goes into a sandbox is calls in the tests' order, visible and hidden apart."""

    def test(number: int) -> Test:
        return Test(call=Call(args=(number,)), expect=Expect(kind="value", values=(f"answer {number}",)))

    suite = SuiteSpec(
        task_id="a",
        prompt="",
        entry_point="f",
        limits=Limits(),
        tests=(test(1), test(2)),
        hidden=(test(3),),
        reference=None,
        must_fail=(),
        digest="",
        source={},
    )
    assert suite.calls == (Call(args=(1,)), Call(args=(2,)))
    assert suite.hidden_calls == (Call(args=(3,)),)
    assert "answer" not in repr(suite.calls + suite.hidden_calls)


VALUES = [kind for _, kind in inspect.getmembers(model, inspect.isclass) if dataclasses.is_dataclass(kind)]


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_values_are_frozen_and_named(kind: type) -> None:
    """A value cannot change after it was recorded, has no room for more, and is built by names."""
    parameters = inspect.signature(kind).parameters.values()
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert "__slots__" in vars(kind)


def test_no_value_is_left_out() -> None:
    """The check above sees the values that the specification names."""
    named = {
        "Call",
        "Candidate",
        "Decision",
        "Expect",
        "Limits",
        "Observation",
        "Reply",
        "SuiteSpec",
        "Task",
        "Verdict",
    }
    assert named <= {kind.__name__ for kind in VALUES}
