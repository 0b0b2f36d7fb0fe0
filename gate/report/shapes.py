"""The results for programs as types, from which `gate schema` makes their JSON Schemas.

Whatever writes one of these returns its type where it can; where a result is joined from
parts, tests/test_report_shapes.py holds what is written against the schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, with_config

# Not typing.TypedDict: before Python 3.12 pydantic does not read that one.
from typing_extensions import TypedDict

from gate.suiteform import untitled

Count = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Isolation = Literal["container", "cell"]
_closed = with_config(ConfigDict(extra="forbid", strict=True))


@_closed
class RuleJson(TypedDict):
    """What one rule reaches over the pools; `success` is by the hidden tests."""

    success: Count
    delivered: Count
    refused: Count
    calls: Count
    calls_per_task: float


@_closed
class PairJson(TypedDict):
    """Two rules on the same tasks: b right by the first alone, c by the second alone, exact McNemar p."""

    first: str
    second: str
    n: Count
    b: Count
    c: Count
    delta_pp: float
    ci95_pp: Annotated[list[float], Field(min_length=2, max_length=2)]
    ci_method: str
    p_exact: Probability
    p_mid: Probability
    p_holm: Probability


@_closed
class CompareJson(PairJson):
    """`gate.compare/1`: one pair, and the tasks that tell the two apart."""

    schema: Literal["gate.compare/1"]
    only_first: list[str]
    only_second: list[str]


@_closed
class AuditJson(TypedDict):
    """Refused tasks, and on how many of them all draws are wrong."""

    refused: Count
    all_wrong: Count


@_closed
class WeakOracleJson(TypedDict):
    """Draws that pass the visible tests, and how many of them the hidden ones reject."""

    accepted: Count
    wrong: Count


@_closed
class LossyFilterJson(TypedDict):
    """Draws that pass the hidden tests, and how many of them the visible ones reject."""

    correct: Count
    refused: Count


@_closed
class ByStrengthJson(TypedDict):
    """The tasks whose visible tests are of one strength."""

    name: str
    tasks: Count
    delivered: Count
    success: Count
    wrong: Count
    single: Count
    accepted: Count
    wrong_accepted: Count
    correct: Count
    refused_correct: Count


@_closed
class PoolJson(TypedDict):
    """What pool and bank hold, and what they lack; nothing of it is dropped from a denominator."""

    samples: Count
    unknown_tasks: Count
    unknown_samples: Count
    unused_samples: Count
    missing_tasks: Count
    short_tasks: Count
    no_visible_tests: Count
    no_hidden_tests: Count
    error_draws: Count
    unconverted_tests: Count
    left_out_tasks: Count


@_closed
class ReplayJson(TypedDict):
    """`gate.replay/1`: without a headline `rules` and `pairs` are empty, and what is measured is null."""

    schema: Literal["gate.replay/1"]
    bank: str
    tasks: Count
    draws: Annotated[int, Field(ge=1)]
    isolation: Isolation
    visible_subset_of_hidden: bool | None
    rules: dict[str, RuleJson]
    pairs: list[PairJson]
    refused_audit: AuditJson | None
    weak_oracle: WeakOracleJson | None
    lossy_filter: LossyFilterJson | None
    by_strength: NotRequired[list[ByStrengthJson]]
    label: NotRequired[str]
    infra: Count
    not_run: Count
    pool: PoolJson
    head: NotRequired[Digest]


@_closed
class StrengthJson(TypedDict):
    """How many suites are weak, and which program that knows nothing gets through most of them."""

    suites: Count
    weak: Count
    commonest: str | None
    passes: Count


@_closed
class HiddenJson(TypedDict):
    """By the hidden tests: tasks delivered and right, delivered and wrong, delivered and not measured."""

    success: Count
    wrong_delivered: Count
    unmeasured: Count


@_closed
class CostJson(TypedDict):
    """What a model's answers took; dollars are null where no price was given."""

    requests: Count
    faults: Count
    answers: Count
    cache_hits: Count
    prompt_tokens: Count
    completion_tokens: Count
    assumed_requests: Count
    tokens_at_most: Count
    usd: float | None
    usd_at_most: float | None
    all_draws: Count
    all_draws_usd: float | None


@_closed
class RunJson(TypedDict):
    """`gate.run/1`: delivered + refused + infra + not_run = tasks."""

    schema: Literal["gate.run/1"]
    bank: str
    tasks: Count
    delivered: Count
    refused: Count
    infra: Count
    not_run: Count
    draws: Count
    calls_per_task: float
    reasons: dict[str, Count]
    refusals: dict[str, Count]
    isolation: Isolation
    visible_subset_of_hidden: bool | None
    strength: StrengthJson
    hidden: HiddenJson | None
    cost: NotRequired[CostJson]
    head: Digest
    run_dir: NotRequired[str]


@_closed
class FailureJson(TypedDict):
    """The first test that does not agree, as texts."""

    test: Count
    call: str
    expected: str
    got: str


@_closed
class PartJson(TypedDict):
    """What the visible or the hidden tests say of one draw."""

    outcome: Annotated[str, Field(pattern="^(pass|fail|error)$")]
    reason: str | None
    detail: str
    passed: Count
    total: Count
    wall_s: float | None
    cpu_s: float | None
    memory_bytes: Count | None
    failure: FailureJson | None


@_closed
class TokensJson(TypedDict):
    """What one answer took."""

    prompt_tokens: Count
    completion_tokens: Count


@_closed
class DrawJson(TypedDict):
    """One program; `missing` says why the source had none."""

    index: Count
    digest: Digest
    code: str
    missing: str | None
    model: str | None
    tokens: TokensJson | None
    visible: PartJson | None
    hidden: PartJson | None


@_closed
class TaskJson(TypedDict):
    """One task; state "wrong" is a delivery that the hidden tests reject."""

    bank: str
    task: str
    state: Annotated[str, Field(pattern="^(delivered|wrong|refused|infra|not_run)$")]
    reason: str | None
    delivered: Count | None
    draws: list[DrawJson]


@_closed
class TileJson(TypedDict):
    """One figure of the headline, as it is printed."""

    label: str
    value: str
    note: str


@_closed
class SourceJson(TypedDict):
    """A run or replay that a report derives from; `at` is where it lies, as seen from the report."""

    kind: Literal["run", "replay"]
    bank: str
    head: Digest
    at: str


@_closed
class AboutJson(TypedDict):
    """What a report says of where it comes from."""

    schema: Literal["gate.page/1"]
    sources: list[SourceJson]


@_closed
class ReportJson(TypedDict):
    """`gate.report/1`: everything that a report says; `text` is Markdown."""

    schema: Literal["gate.report/1"]
    title: str
    about: AboutJson
    results: list[RunJson | ReplayJson]
    headline: list[TileJson]
    text: str
    tasks: list[TaskJson]


SHAPES: dict[str, Any] = {"run": RunJson, "replay": ReplayJson, "compare": CompareJson, "report": ReportJson}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one of SHAPES."""
    schema = TypeAdapter(SHAPES[name]).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"gate.{name}/1", **untitled(schema)}
