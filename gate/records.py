"""The values as ledger records, and back."""

from __future__ import annotations

from dataclasses import asdict

from gate.model import (
    Candidate,
    Decision,
    Exit,
    Json,
    LoadFailure,
    Observation,
    Outcome,
    Reply,
    Usage,
    Verdict,
)


def candidate_record(candidate: Candidate) -> dict[str, Json]:
    """A candidate, with its code and its digest."""
    return {
        "task": candidate.task_id,
        "index": candidate.index,
        "digest": candidate.digest,
        "code": candidate.code,
        "origin": candidate.origin,
    }


def read_candidate(record: dict[str, Json]) -> Candidate:
    """The candidate that a record holds."""
    return Candidate(task_id=record["task"], index=record["index"], code=record["code"], origin=dict(record["origin"]))


def observation_record(task_id: str, index: int, part: str, seen: Observation) -> dict[str, Json]:
    """An observation of one draw under the `visible` or the `hidden` calls."""
    return {
        "task": task_id,
        "index": index,
        "part": part,
        "candidate": seen.candidate,
        "calls": seen.calls,
        "exit": seen.exit.value,
        "replies": [reply_record(reply) for reply in seen.replies],
        "load": None if seen.load is None else {"kind": seen.load.kind, "message": seen.load.message},
        "limit": seen.limit,
        "detail": seen.detail,
        "output_tail": seen.output_tail,
        "usage": asdict(seen.usage),
        "where": seen.where,
    }


def read_observation(record: dict[str, Json]) -> Observation:
    """The observation that a record holds."""
    return Observation(
        candidate=record["candidate"],
        calls=record["calls"],
        exit=Exit(record["exit"]),
        replies=tuple(read_reply(reply) for reply in record["replies"]),
        load=None if record["load"] is None else LoadFailure(**record["load"]),
        limit=record["limit"],
        detail=record["detail"],
        output_tail=record["output_tail"],
        usage=Usage(**record["usage"]),
        where=dict(record["where"]),
    )


def reply_record(reply: Reply) -> dict[str, Json]:
    """A reply; only the fields that its kind has."""
    if reply.kind == "returned":
        return {"kind": reply.kind, "value": reply.value}
    if reply.kind == "printed":
        return {"kind": reply.kind, "value": reply.value, "status": reply.status}
    if reply.kind == "raised":
        return {"kind": reply.kind, "types": list(reply.types), "message": reply.message}
    return {"kind": reply.kind, "message": reply.message}


def read_reply(record: dict[str, Json]) -> Reply:
    """The reply that a record holds."""
    return Reply(
        kind=record["kind"],
        value=record.get("value"),
        types=tuple(record.get("types", ())),
        message=record.get("message", ""),
        status=record.get("status"),
    )


def verdict_record(task_id: str, index: int, part: str, verdict: Verdict, *, suite: str) -> dict[str, Json]:
    """A verdict on one draw by the `visible` or the `hidden` tests of a suite, which it names by its digest."""
    return {"task": task_id, "index": index, "part": part, **verdict_json(verdict), "suite": suite}


def verdict_json(verdict: Verdict) -> dict[str, Json]:
    """The verdict alone, as `gate test --json` and the ledger spell it."""
    return {
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "test": verdict.test,
        "detail": verdict.detail,
        "usage": asdict(verdict.usage),
        "tests": {"passed": verdict.passed, "total": verdict.total},
    }


def read_verdict(record: dict[str, Json]) -> Verdict:
    """The verdict that a record holds."""
    return Verdict(
        outcome=Outcome(record["outcome"]),
        reason=record["reason"],
        test=record["test"],
        detail=record["detail"],
        usage=Usage(**record["usage"]),
        passed=record["tests"]["passed"],
        total=record["tests"]["total"],
    )


def decision_record(decision: Decision) -> dict[str, Json]:
    """A decision."""
    return {
        "task": decision.task_id,
        "outcome": decision.outcome,
        "delivered": decision.delivered,
        "index": decision.index,
        "reason": decision.reason,
        "draws": decision.draws,
    }


def read_decision(record: dict[str, Json]) -> Decision:
    """The decision that a record holds."""
    return Decision(
        task_id=record["task"],
        outcome=record["outcome"],
        delivered=record["delivered"],
        index=record["index"],
        reason=record["reason"],
        draws=record["draws"],
    )
