"""Values as ledger records: each comes back from its record as it was, through JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import records
from gate.model import Candidate, Decision, Exit, LoadFailure, Observation, Outcome, Reply, Usage, Verdict
from gate.rules import REASONS

texts = st.text(st.characters(), max_size=20)  # lone surrogates included
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
tagged = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda items: {"$tuple": items})
    ),
    max_leaves=6,
)
facts = st.dictionaries(texts, tagged, max_size=3)
seconds = st.none() | st.floats(0, 1e6)
usages = st.builds(Usage, wall_s=seconds, cpu_s=seconds, memory_bytes=st.none() | st.integers(0, 1 << 40))
replies = st.one_of(
    st.builds(Reply, kind=st.just("returned"), value=tagged),
    st.builds(Reply, kind=st.just("raised"), types=st.lists(texts, max_size=3).map(tuple), message=texts),
    st.builds(
        Reply,
        kind=st.just("printed"),
        value=st.just({"$bytes": "YQ=="}),
        status=st.integers(-64, 255),
    ),
    st.builds(Reply, kind=st.sampled_from(["unserialisable", "too_large"]), message=texts),
)
candidates = st.builds(Candidate, task_id=texts, index=st.integers(0, 9), code=texts, origin=facts)
observations = st.builds(
    Observation,
    candidate=texts,
    calls=texts,
    exit=st.sampled_from(Exit),
    replies=st.lists(replies, max_size=3).map(tuple),
    load=st.none()
    | st.builds(LoadFailure, kind=st.sampled_from(["syntax_error", "missing_entry_point", "raised"]), message=texts),
    limit=st.none() | st.sampled_from(["wall", "cpu", "total_wall", "total_cpu", "output", "memory"]),
    detail=texts,
    output_tail=texts,
    usage=usages,
    where=facts,
)
verdicts = st.builds(
    Verdict,
    outcome=st.sampled_from(Outcome),
    reason=st.none() | st.sampled_from(REASONS),
    test=st.none() | st.integers(0, 99),
    detail=texts,
    usage=usages,
    passed=st.integers(0, 99),
    total=st.integers(0, 99),
)
decisions = st.builds(
    Decision,
    task_id=texts,
    outcome=st.sampled_from(["delivered", "refused", "infra"]),
    delivered=st.none() | texts,
    index=st.none() | st.integers(0, 4),
    reason=st.none() | texts,
    draws=st.integers(0, 5),
)


def through_a_file(record: dict[str, Any]) -> dict[str, Any]:
    """The record as a ledger's line gives it back."""
    read: dict[str, Any] = json.loads(json.dumps(record, allow_nan=False))
    return read


@given(candidates)
def test_a_candidate_comes_back(candidate: Candidate) -> None:
    """A candidate is read back equal, and runs the same bytes."""
    found = records.read_candidate(through_a_file(records.candidate_record(candidate)))
    assert found == candidate
    assert found.code_bytes == candidate.code_bytes


@given(texts, st.integers(0, 9), st.sampled_from(["visible", "hidden"]), observations)
def test_an_observation_comes_back(task_id: str, index: int, part: str, seen: Observation) -> None:
    """An observation is read back equal, and its record says which draw and which calls."""
    record = through_a_file(records.observation_record(task_id, index, part, seen))
    assert records.read_observation(record) == seen
    assert (record["task"], record["index"], record["part"]) == (task_id, index, part)


@given(texts, st.integers(0, 9), st.sampled_from(["visible", "hidden"]), verdicts)
def test_a_verdict_comes_back(task_id: str, index: int, part: str, verdict: Verdict) -> None:
    """A verdict is read back equal, and its record says which draw and which tests."""
    record = through_a_file(records.verdict_record(task_id, index, part, verdict, suite="5" * 64))
    assert records.read_verdict(record) == verdict
    assert (record["task"], record["index"], record["part"]) == (task_id, index, part)


@given(decisions)
def test_a_decision_comes_back(decision: Decision) -> None:
    """A decision is read back equal."""
    assert records.read_decision(through_a_file(records.decision_record(decision))) == decision


@given(replies)
def test_a_reply_comes_back(reply: Reply) -> None:
    """A reply of each kind is read back equal."""
    assert records.read_reply(through_a_file(records.reply_record(reply))) == reply


@pytest.mark.parametrize(
    ("reply", "keys"),
    [
        (Reply(kind="returned", value=None), ["kind", "value"]),
        (Reply(kind="raised"), ["kind", "types", "message"]),
        (Reply(kind="printed", status=0), ["kind", "value", "status"]),
        (Reply(kind="unserialisable"), ["kind", "message"]),
        (Reply(kind="too_large"), ["kind", "message"]),
    ],
)
def test_a_reply_has_the_fields_of_its_kind(reply: Reply, keys: list[str]) -> None:
    """A record holds what its kind says and no empty rest."""
    assert list(records.reply_record(reply)) == keys


def test_a_candidates_record_has_the_digest_of_its_bytes() -> None:
    """The digest in the record is that of the bytes that run, so that a changed code shows."""
    candidate = Candidate(task_id="a", index=0, code="x = '\ud800é'\n")
    assert records.candidate_record(candidate)["digest"] == candidate.digest


def test_a_verdict_is_spelled_as_documented() -> None:
    """The verdict for programs has these keys, in these words."""
    verdict = Verdict(outcome=Outcome.FAIL, reason="wrong_answer", test=2, detail="got 1", passed=2, total=5)
    assert records.verdict_json(verdict) == {
        "outcome": "fail",
        "reason": "wrong_answer",
        "test": 2,
        "detail": "got 1",
        "usage": {"wall_s": None, "cpu_s": None, "memory_bytes": None},
        "tests": {"passed": 2, "total": 5},
    }


@pytest.mark.parametrize(("field", "value"), [("outcome", "perhaps"), ("outcome", True)])
def test_an_outcome_of_no_known_word_is_not_read(field: str, value: Any) -> None:
    """A verdict whose outcome is none of ours is refused, not taken for a pass."""
    record = records.verdict_json(Verdict(outcome=Outcome.PASS))
    with pytest.raises(ValueError, match="Outcome"):
        records.read_verdict({**record, field: value})
