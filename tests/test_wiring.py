"""Which options a source takes, and what a wrong one says: usage errors, before anything is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gate.backends.command import CommandSource
from gate.backends.openai import OpenAISource
from gate.backends.rundir import RunDir
from gate.cli import run as verb
from gate.cli import wiring
from gate.errors import SpecError
from gate.model import Json

URL = "http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def options(**given: Json) -> dict[str, Json]:
    return {"model": "m", "base_url": URL, **given}


def digest(spec: str = "openai", **given: Json) -> str:
    with wiring.open_source(spec, options(**given) if spec == "openai" else given) as source:
        return source.digest


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": None}, "--model"),
        ({"temperature": 2.1}, "--temperature: 2.1 is not between"),
        ({"top_p": float("nan")}, "--top-p"),
        ({"price_in": 1.0}, "--price-in, --price-out: a price has both"),
        ({"price_out": 1.0}, "a price has both"),
        ({"price_in": -1.0, "price_out": 1.0}, "--price-in: -1.0 is no amount"),
        ({"price_in": 1.0, "price_out": float("nan")}, "--price-out: nan is no amount"),
        ({"budget_usd": 1.0}, "--budget-usd: needs the model's price"),
        ({"budget_usd": float("inf"), "price_in": 1.0, "price_out": 1.0}, "--budget-usd: inf is no amount"),
        ({"base_url": "http://user:secret@host/v1"}, "--base-url: holds a user, a password or a query"),
        ({"base_url": "http://host/v1?api_key=secret"}, "--base-url: holds a user, a password or a query"),
        ({"base_url": "ftp://host"}, "--base-url"),
    ],
)
def test_a_wrong_option_of_a_model(given: dict[str, Json], words: str) -> None:
    """An option out of range, half a price, a budget without one, a secret in an address: one sentence, without it."""
    with pytest.raises(SpecError, match=words) as caught:
        digest(**given)
    assert "secret" not in str(caught.value)


def test_a_secret_in_the_environments_address_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address goes into run.json, so it holds no secret wherever it came from."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@host/v1")
    with pytest.raises(SpecError, match="--base-url"):
        digest(base_url=None)


@pytest.mark.parametrize("name", [*wiring.MODEL_OPTIONS, *wiring.BUDGETS, *wiring.PROMPT_OPTIONS])
def test_an_option_has_its_place(name: str, tmp_path: Path) -> None:
    """What would do nothing with saved samples is refused; a command takes what shapes the prompt, and no price."""
    (tmp_path / "pool.jsonl").write_text('{"task_id": "a", "solution": "x"}\n')
    flag = f"--{name.replace('_', '-')}: is for --source openai"
    given: dict[str, Json] = {name: 1}
    with pytest.raises(SpecError, match=flag), wiring.open_source(f"samples:{tmp_path / 'pool.jsonl'}", given):
        pass
    if name not in wiring.PROMPT_OPTIONS:
        with pytest.raises(SpecError, match=flag), wiring.open_source("command:env", given):
            pass


@pytest.mark.parametrize("spec", ["openai:x", "command:", "command", "samples:", "else:x", ""])
def test_a_source_that_is_none(spec: str) -> None:
    """An unknown source is a usage error that names the known ones."""
    with pytest.raises(SpecError, match=r"--source: unknown .*command:'PROG ARGS'"), wiring.open_source(spec, {}):
        pass


def test_what_shapes_answers_is_in_the_digest(tmp_path: Path) -> None:
    """Another prompt or prelude is another source; price, budget and cache are not."""
    base = digest()
    same: list[dict[str, Json]] = [
        {"price_in": 1.0, "price_out": 2.0},
        {"price_in": 1.0, "price_out": 2.0, "budget_usd": 3.0},
        {"budget_tokens": 5},
        {"cache": str(tmp_path)},
        {"seed": 0, "temperature": 0.8, "max_tokens": 2048},
    ]
    others: list[dict[str, Json]] = [
        {"system": "Be brief."},
        {"template": "{{ prompt }}"},
        {"show_tests": True},
        {"prelude": "typing"},
        {"seed": 1},
    ]
    assert {digest(**each) for each in same} == {base}
    assert len({base, *(digest(**each) for each in others)}) == 6


def test_sources_get_how_to_draw() -> None:
    """Connections and the time limit reach the source."""
    drawing = wiring.Drawing(max_connections=3, request_timeout_s=7.0)
    with wiring.open_source("openai", options(), drawing) as model:
        assert isinstance(model, OpenAISource) and model.pace.limit == 3
    with wiring.open_source(f"command:{sys.executable} x", {"seed": 4}, drawing) as own:
        assert isinstance(own, CommandSource)


def test_a_model_is_asked_for_as_many_tasks_as_it_has_connections() -> None:
    """Tasks that wait for a model leave the cores idle, so more of them are under way; others go by the cores."""
    assert wiring.tasks_at_a_time("openai", 200) == wiring.tasks_at_a_time("command", 200) == 200
    assert wiring.tasks_at_a_time("openai", None) >= 8
    assert wiring.tasks_at_a_time("samples", 200) == wiring.default_jobs()


def test_run_json_says_what_was_left_out() -> None:
    """Defaults that a model is asked with stand in run.json; what was given stays."""
    bound = verb.Bound(model="m", temperature=0.5).as_json()
    found = wiring.resolved("openai", bound)
    assert (found["temperature"], found["max_tokens"], found["seed"], found["show_tests"]) == (0.5, 2048, 0, False)
    assert wiring.resolved("command:env", verb.Bound().as_json())["seed"] == 0
    assert wiring.resolved("samples:x", verb.Bound().as_json())["seed"] is None


RECORDED: dict[str, Any] = {
    "draws": 5,
    "system": None,
    "template": "{{ prompt }}",
    "show_tests": False,
    "prelude": None,
    "cache": None,
    "price_in": 1.0,
    "price_out": 2.0,
}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"prelude": "typing"}, "--prelude typing: run was begun with None"),
        ({"show_tests": True}, "--show-tests True: run was begun with False"),
        ({"system": "x" * 500}, "--system 'xxx"),
        (
            {"template": "{{ prompt }}!\n"},
            r"--template '\{\{ prompt \}\}!\\n'… \(sha256 [0-9a-f]{12}\): run was begun with \{",
        ),
        ({"cache": "/tmp/c"}, "--cache /tmp/c: run was begun with None"),
        ({"price_in": 3.0}, "--price-in 3.0: run was begun with 1.0"),
    ],
)
def test_a_resumed_run_asks_as_it_did(given: dict[str, Any], words: str) -> None:
    """Another option is a usage error that names both values, a long text by its beginning and digest."""
    options = verb.RunOptions(bound=verb.Bound(**given))
    with pytest.raises(SpecError, match=words) as caught:
        verb.refuse_other_options(options, RunDir(Path("run")), {"options": RECORDED}, None)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


def test_a_budget_may_be_raised() -> None:
    """A budget is how far a run may go, not what it asks: a resumed run takes the new one, else the old one."""
    recorded = {**RECORDED, "budget_usd": 1.0, "budget_tokens": None}
    more = verb.budgets_in_force(verb.RunOptions(budget_usd=2.0), recorded, "openai")
    assert more == {"budget_usd": 2.0, "budget_tokens": None}
    assert verb.budgets_in_force(verb.RunOptions(), recorded, "openai")["budget_usd"] == 1.0
    with pytest.raises(SpecError, match="needs the model's price"):
        verb.budgets_in_force(verb.RunOptions(budget_usd=2.0), {}, "openai")
    with pytest.raises(SpecError, match="--budget-tokens: is for --source openai"):
        verb.budgets_in_force(verb.RunOptions(budget_tokens=2), {}, "samples:x")


def test_a_price_comes_from_a_table_or_from_options(tmp_path: Path) -> None:
    """A table is looked up by the model, and says nothing beside the options."""
    table = tmp_path / "prices.yaml"
    table.write_text("models: {m: {in: 1, out: 2}}")
    assert verb.prices_of(None, None, table, "m", None) == (1.0, 2.0)
    assert verb.prices_of(3.0, 4.0, None, "m", None) == (3.0, 4.0)
    with pytest.raises(SpecError, match="leave one of them out"):
        verb.prices_of(3.0, None, table, "m", None)
    with pytest.raises(SpecError, match="needs --model"):
        verb.prices_of(None, None, table, None, None)
