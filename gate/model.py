"""The values: what is asked, what must hold, what was seen, what follows.

All are frozen. Values that cross the wire or the disk (arguments, expected and
returned values) are kept as tagged JSON, the form that `gate.values` encodes and
decodes, so that a record is exactly what was seen.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

Json = Any  # tagged JSON as `json.loads` gives it: None, bool, int, float, str, list, dict

MAX_TOTAL_WALL_S = 600.0  # no observation takes longer, whatever its limits and however loaded the host


def digest_bytes(data: bytes) -> str:
    """SHA-256 of some bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Json) -> str:
    """One text for one JSON value: sorted keys, no blanks, ASCII only.

    Lone surrogates are escaped, NaN is refused.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_json(value: Json) -> str:
    """SHA-256 of a JSON value's canonical text, in hex."""
    return digest_bytes(canonical_json(value).encode("ascii"))


def program_bytes(code: str) -> bytes:
    """Exactly the bytes that run for a program's text; the inverse of `program_text`.

    A byte that is no UTF-8 stands in the text as Python's escape for it, U+DC80 to U+DCFF.
    Another lone surrogate, which only a JSON escape can bring, becomes three bytes that
    no parser takes.
    """
    try:
        return code.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return code.encode("utf-8", "surrogatepass")


def program_text(data: bytes) -> str:
    """The text that stands for the bytes of a program, whatever they are; nothing is lost."""
    return data.decode("utf-8", "surrogateescape")


class Outcome(Enum):
    """What a verdict says; there is no truth value, write `is Outcome.PASS`."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"

    def __bool__(self) -> bool:
        raise TypeError("an Outcome has no truth value: write `is Outcome.PASS`")


class Exit(Enum):
    """How an observation ended, by the word of the engine or of our own clock."""

    OK = "ok"
    CRASHED = "crashed"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    PROTOCOL = "protocol"
    FAULT = "fault"

    def __bool__(self) -> bool:
        raise TypeError("an Exit has no truth value: write `is Exit.OK`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one candidate may use.

    `wall_s` and `cpu_s` hold for loading and again for each call. A whole
    observation is bounded by `total_wall_s(calls)` and `total_cpu_s`.
    """

    wall_s: float = 10.0
    cpu_s: float = 5.0
    memory_mb: int = 512
    output_kb: int = 16384
    total_cpu_s: float = 60.0

    def total_wall_s(self, calls: int) -> float:
        """Seconds that a whole observation of that many calls may take."""
        return min(MAX_TOTAL_WALL_S, self.wall_s * (calls + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the entry point, or one run of a program on `stdin`.

    Attributes:
        args: Positional arguments, tagged JSON.
        kwargs: Keyword arguments, tagged JSON by name.
        stdin: The text for standard input; None for a function call.
    """

    args: tuple[Json, ...] = ()
    kwargs: dict[str, Json] = field(default_factory=dict)
    stdin: str | None = None

    def as_json(self) -> Json:
        """The call as it goes over the wire and into digests."""
        if self.stdin is not None:
            return {"stdin": self.stdin}
        return {"args": list(self.args), "kwargs": self.kwargs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Closeness by `math.isclose`, for floats only; relative and absolute."""

    rel: float = 0.0
    abs: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What must come back from one call.

    Attributes:
        kind: "value" (one of `values` is returned), "raises" (`raises` along the
            exception's MRO) or "stdout" (the program's whole output).
        values: The right answers, tagged JSON; one, or several for `any_of`.
        raises: A built-in exception's name.
        stdout: The right output.
        compare: A comparator's name.
        tolerance: Closeness of floats, if any.
        project: What is applied to the result before comparing: a name, or
            `{"round": n}`; None for nothing.
        nan_ok: Whether NaN equals NaN.
    """

    kind: Literal["value", "raises", "stdout"]
    values: tuple[Json, ...] = ()
    raises: str | None = None
    stdout: str | None = None
    compare: str = "json"
    tolerance: Tolerance | None = None
    project: str | dict[str, int] | None = None
    nan_ok: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """A call and what must come back from it."""

    __test__ = False  # for pytest: a value, no test class

    call: Call
    expect: Expect


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpec:
    """What must hold for one task; data, never code.

    Attributes:
        tests: The visible acceptance tests: these decide.
        hidden: The ground truth (GT): measures, never decides.
        entry_point: `name` or `Class.method`; None for a program on stdin and stdout.
        reference: A program that must pass, for `gate check`; never shown to a source.
        must_fail: Programs that must be refused, for `gate check`.
        digest: SHA-256 of the suite's canonical JSON.
        source: The canonical JSON itself, from which the suite loads again.
    """

    task_id: str
    prompt: str
    entry_point: str | None
    limits: Limits
    tests: tuple[Test, ...]
    hidden: tuple[Test, ...]
    reference: str | None
    must_fail: tuple[str, ...]
    digest: str
    source: Json

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the visible tests, without what is expected of them."""
        return tuple(test.call for test in self.tests)

    @property
    def hidden_calls(self) -> tuple[Call, ...]:
        """The calls of the hidden tests, without what is expected of them."""
        return tuple(test.call for test in self.hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is asked of a source, and the suite that answers are held against."""

    id: str
    prompt: str
    entry_point: str | None
    suite: SuiteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One program, as drawn.

    Attributes:
        index: Which draw of its task it is, from 0.
        code: The program's text; empty where the source had none to give.
        origin: Where it came from, as facts: file and line, model, response id.
    """

    task_id: str
    index: int
    code: str
    origin: dict[str, Json] = field(default_factory=dict)

    @property
    def code_bytes(self) -> bytes:
        """Exactly the bytes that run."""
        return program_bytes(self.code)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes that run, in hex."""
        return digest_bytes(self.code_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back from one call: exactly one of the kinds below.

    Attributes:
        kind: "returned" (`value`), "raised" (`types`, `message`), "printed"
            (`value` is the output as tagged bytes, `status` the exit status),
            "unserialisable" or "too_large" (`message` says why).
        value: Tagged JSON as it came over the wire, not yet decoded.
        types: Names along the exception's MRO, most derived first.
        message: What the exception said, or why there is no value; cut to 2,000 characters.
        status: The program's exit status; negative for a signal.
    """

    kind: Literal["returned", "raised", "printed", "unserialisable", "too_large"]
    value: Json = None
    types: tuple[str, ...] = ()
    message: str = ""
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailure:
    """Why a candidate could not even be loaded."""

    kind: Literal["syntax_error", "missing_entry_point", "raised"]
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run used; None where nobody could say."""

    wall_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen of one candidate under some calls: facts, no opinion.

    Attributes:
        candidate: Digest of the code that ran.
        calls: Digest of the calls.
        exit: How it ended.
        replies: In the order of the calls; fewer than calls where it ended early.
        load: Why it did not load, if it did not.
        limit: Which limit ended it ("wall", "cpu", "total_wall", "total_cpu",
            "output", "memory"), where one did.
        detail: One line more about the end, for people.
        output_tail: The end of what it printed beside its replies, at most 4 KB.
        where: Facts about the sandbox: isolation, runtime, seed, counter source, …
    """

    candidate: str
    calls: str
    exit: Exit
    replies: tuple[Reply, ...] = ()
    load: LoadFailure | None = None
    limit: str | None = None
    detail: str = ""
    output_tail: str = ""
    usage: Usage = Usage()
    where: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The suite's answer on one candidate.

    Attributes:
        reason: Why it failed, one of `gate.rules.REASONS`; None for a pass.
        test: The first test that does not agree, from 0; None where none can be named.
        passed: How many tests agreed.
        total: How many tests there are.
    """

    outcome: Outcome
    reason: str | None = None
    test: int | None = None
    detail: str = ""
    usage: Usage = Usage()
    passed: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer for one task.

    Attributes:
        outcome: "delivered", "refused" or "infra" (our world failed: no answer yet).
        delivered: Digest of the delivered code, if any.
        index: Which draw was delivered.
        reason: Why nothing was, where nothing was.
        draws: How many draws were used up.
    """

    task_id: str
    outcome: Literal["delivered", "refused", "infra"]
    delivered: str | None = None
    index: int | None = None
    reason: str | None = None
    draws: int = 0
