"""How far a ledger has brought each task; the five faults that ledgers of others had, in ours."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from golden import make
from hypothesis import given
from hypothesis import strategies as st

from gate import records
from gate.backends.jsonl import JsonlLedger
from gate.backends.rundir import RunDir
from gate.cli.run import Bound, RunOptions, is_left, refuse_other_options, take_up
from gate.cli.wiring import Engine
from gate.errors import IntegrityError, SpecError
from gate.history import History, check, fold
from gate.model import Candidate, Decision, Json, Outcome, Verdict

PASS = Verdict(outcome=Outcome.PASS, passed=1, total=1)
FAIL = Verdict(outcome=Outcome.FAIL, reason="wrong_answer", test=0, total=1)
ERROR = Verdict(outcome=Outcome.ERROR, reason="infra", detail="lost", total=1)
HONEST = [record for _, record in make.noted(RunDir(make.RUN))]
Record = dict[str, Json]


def program(index: int = 0) -> Candidate:
    return Candidate(task_id="t", index=index, code=f"x = {index}\n")


def drawn(index: int = 0) -> Record:
    return {"kind": "candidate", **records.candidate_record(program(index))}


def judged(verdict: Verdict, index: int = 0, part: str = "visible") -> Record:
    return {"kind": "verdict", **records.verdict_record("t", index, part, verdict, suite="5" * 64), "seen": ["d" * 64]}


def decided(outcome: str, index: int | None = None, **more: Json) -> Record:
    code = None if index is None else program(index).digest
    decision = Decision(task_id="t", outcome=cast(Any, outcome), delivered=code, index=index, draws=1, **more)
    return {"kind": "decision", **records.decision_record(decision)}


DELIVERED = [drawn(), judged(PASS), decided("delivered", 0)]
REFUSED = [drawn(), judged(FAIL), decided("refused")]


def test_a_history_tells_what_was_drawn_and_judged() -> None:
    """A task on its way has its candidates and verdicts, with the observations that they rest on."""
    task = fold([drawn(0), judged(FAIL, 0), drawn(1)]).task("t")
    assert task.candidates == {0: program(0), 1: program(1)}
    assert {index: (each.verdict, each.seen) for index, each in task.verdicts.items()} == {0: (FAIL, ("d" * 64,))}
    assert task.decision is None and not task.is_decided and not task.measured


def test_a_task_without_records_has_an_empty_history() -> None:
    """What nobody has spoken of is not begun, and asking does not begin it."""
    history = History()
    assert history.task("t").candidates == {} and not history.task("t").is_decided
    assert history.tasks == {}


CONTRADICTIONS: dict[str, tuple[list[Record], str]] = {
    "a second candidate": ([drawn(), drawn()], "two candidates for draw 0 of 't'"),
    "a draw out of turn": ([drawn(0), drawn(2)], "draw 2 of 't' out of turn: draw 1 would be next"),
    "a first draw that is none": ([drawn(1)], "draw 1 of 't' out of turn: draw 0 would be next"),
    "a verdict on nothing": ([judged(PASS)], "judges draw 0 of 't', which was never drawn"),
    "a second verdict": ([drawn(), judged(FAIL), judged(PASS)], "two verdicts on draw 0 of 't': fail, then another"),
    "the same verdict again": ([drawn(), judged(PASS), judged(PASS)], "two verdicts on draw 0 of 't'"),
    "an error after a verdict": ([drawn(), judged(PASS), judged(ERROR)], "two verdicts on draw 0 of 't'"),
    "a second decision": ([*REFUSED, decided("refused")], "decides 't' twice"),
    "a delivery after a refusal": ([*REFUSED, decided("delivered", 0)], "decides 't' twice"),
    "infra after a decision": ([*DELIVERED, decided("infra")], "decides 't' twice"),
    "a draw after the decision": ([*REFUSED, drawn(1)], "draws 't' again after its decision"),
    "a verdict after the decision": ([*REFUSED, judged(PASS)], "judges draw 0 of 't' after its decision"),
    "a delivery of nothing": ([decided("delivered", 0)], "delivers for 't' what was never drawn"),
    "a delivery of other code": (
        [drawn(), judged(PASS), {**decided("delivered", 0), "delivered": "0" * 64}],
        "delivers for 't' what was never drawn",
    ),
    "a measurement before the decision": ([drawn(), judged(PASS), judged(PASS, part="hidden")], "is not delivered"),
    "a measurement of a refusal": ([*REFUSED, judged(PASS, part="hidden")], "measures draw 0 of 't', which is not"),
    "a measurement of another draw": ([*DELIVERED, judged(PASS, 1, part="hidden")], "measures draw 1 of 't'"),
    "a second measurement": (
        [*DELIVERED, judged(FAIL, part="hidden"), judged(PASS, part="hidden")],
        "measures draw 0 of 't' twice",
    ),
}


@pytest.mark.parametrize(("told", "words"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_contradiction_is_an_integrity_error(told: list[Record], words: str) -> None:
    """A record that contradicts one before it is refused, never last-wins; what came before it holds."""
    fold(told[:-1])
    with pytest.raises(IntegrityError, match=f"the ledger .*{words}"):
        fold(told)


def test_an_error_is_superseded() -> None:
    """A verdict that our own world could not give is not final: a later one takes its place."""
    history = fold([drawn(), judged(ERROR), judged(ERROR), judged(PASS)])
    assert history.task("t").verdicts[0].verdict == PASS


def test_an_infra_decision_is_superseded() -> None:
    """A task that ended because our own world failed keeps what was drawn, and is decided later."""
    history = fold([drawn(), judged(FAIL), decided("infra", reason="gone")])
    task = history.task("t")
    assert not task.is_decided and task.candidates == {0: program(0)} and task.verdicts[0].verdict == FAIL
    for record in (drawn(1), judged(PASS, 1), decided("infra"), decided("delivered", 1)):
        history.add(record)
    assert history.task("t").is_decided and history.task("t").candidates == {1: program(1)}


def test_a_measurement_that_failed_is_superseded() -> None:
    """A hidden verdict of `error` leaves the delivery to be measured."""
    history = fold([*DELIVERED, judged(ERROR, part="hidden")])
    assert not history.task("t").measured
    history.add(judged(FAIL, part="hidden"))
    assert history.task("t").measured


def test_programs_are_dropped_after_the_decision() -> None:
    """Of a decided task only the delivered program is kept, so memory does not grow with the bank."""
    refused = fold(REFUSED).task("t")
    assert (refused.candidates, refused.verdicts) == ({}, {})
    told = [drawn(0), judged(FAIL, 0), drawn(1), judged(PASS, 1), decided("delivered", 1)]
    assert fold(told).task("t").candidates == {1: program(1)}
    assert fold(told).task("t").verdicts == {}


@given(length=st.integers(0, len(HONEST)))
def test_every_beginning_of_an_honest_ledger_folds(length: int) -> None:
    """A run may be killed after any record: what is there never contradicts itself."""
    history = fold(HONEST[:length])
    decided_tasks = {
        each["task"] for each in HONEST[:length] if each["kind"] == "decision" and each["outcome"] != "infra"
    }
    assert {task_id for task_id, task in history.tasks.items() if task.is_decided} == decided_tasks


@given(at=st.integers(0, len(HONEST) - 1), data=st.data())
def test_a_record_with_a_field_of_another_kind_is_refused(at: int, data: st.DataObject) -> None:
    """Whatever stands in a record's fields, it is folded or an integrity error, never another exception."""
    names = sorted(HONEST[at].keys() - {"kind"})
    name = data.draw(st.sampled_from(names))
    value: Json = data.draw(st.sampled_from([None, True, -1, 1.5, "x", [], {}, [[]], [{}], {"x": []}, [1]]))
    try:
        fold([*HONEST[:at], {**HONEST[at], name: value}])
    except IntegrityError as exc:
        assert HONEST[at]["kind"] in str(exc) or "the ledger " in str(exc)


@pytest.mark.parametrize("record", HONEST, ids=lambda record: record["kind"])
def test_a_record_without_one_of_its_fields_is_refused(record: Record) -> None:
    """Each field that later readers rely on is asked for, and the record's kind and the field are named."""
    check(record)
    for name in record.keys() - {"kind", "time", "prev"}:
        with pytest.raises(IntegrityError, match=f"a {record['kind']} record without a proper '{name}'"):
            check({key: value for key, value in record.items() if key != name})


SEEN = next(each for each in HONEST if each["kind"] == "observation")
ODD: dict[str, tuple[Record, str]] = {
    "unknown kind": ({**drawn(), "kind": "note"}, "unknown kind 'note'"),
    "kind that is no text": ({**drawn(), "kind": ["run"]}, "unknown kind"),
    "index that is a truth value": ({**drawn(), "index": True}, "without a proper 'index'"),
    "task that is a list": ({**drawn(), "task": []}, "without a proper 'task'"),
    "unknown part": (judged(PASS, part="secret"), "unknown part 'secret'"),
    "unknown decision": (decided("accepted"), "unknown outcome 'accepted'"),
    "unknown outcome": ({**judged(PASS), "outcome": "passed"}, "a verdict record that cannot be read"),
    "tests without a total": ({**judged(PASS), "tests": {"passed": 1}}, "cannot be read"),
    "tests that are no numbers": ({**judged(PASS), "tests": {"passed": "1", "total": 1}}, "no whole number"),
    "a digest that is no text": ({**judged(PASS), "seen": [None]}, "a digest that is no text"),
    "usage of another name": ({**SEEN, "usage": {"joules": 1}}, "cannot be read"),
    "usage that is no number": ({**SEEN, "usage": {"wall_s": "1"}}, "a usage that is no number"),
    "unknown exit": ({**SEEN, "exit": "fine"}, "cannot be read"),
    "a reply that is none": ({**SEEN, "replies": [1]}, "cannot be read"),
    "a reply of unknown kind": ({**SEEN, "replies": [{"kind": "ok", "value": 1}]}, "a reply that is none of"),
}


@pytest.mark.parametrize(("record", "words"), ODD.values(), ids=ODD.keys())
def test_a_record_that_is_none_of_ours_is_refused(record: Record, words: str) -> None:
    """A record that no gate writes ends in one sentence that says what is odd about it."""
    with pytest.raises(IntegrityError, match=words):
        check(record)


# The faults that ledgers of other programs had, each written into a ledger of ours.


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run that was just begun: configuration and tasks, no ledger."""
    where = RunDir(Path(shutil.copytree(make.RUN, tmp_path / "run")))
    where.ledger.unlink()
    return where


def write(where: RunDir, *told: Record) -> None:
    """Some records in a ledger that is bound to its run."""
    with JsonlLedger(where.ledger) as ledger:
        take_up(where, ledger)
        for record in told:
            ledger.append(record["kind"], {name: value for name, value in record.items() if name != "kind"})


def resume(where: RunDir) -> History:
    """Take up a run as `gate run --resume` does."""
    with JsonlLedger(where.ledger) as ledger:
        return take_up(where, ledger)


def of_task(task_id: str, *told: Record) -> list[Record]:
    return [{**record, "task": task_id} for record in told]


def left(where: RunDir, history: History) -> list[str]:
    """The tasks of which something is still to be done."""
    return [task.id for task in where.tasks() if is_left(task, history)]


def test_a_torn_last_line_is_cut_and_its_task_done_again(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a record at the end is dropped, what was whole is kept, and what follows is bound to it."""
    write(run, *of_task(make.COUNT, *REFUSED), *of_task(make.SUM, *DELIVERED))
    whole = run.ledger.read_bytes()
    run.ledger.write_bytes(whole + b'{"kind":"candidate","time":"2026-01-02T03:')
    history = resume(run)
    assert run.ledger.read_bytes() == whole
    assert left(run, history) == [make.REVERSE, make.HALVES]
    assert "cut a torn last record of 42 bytes" in capsys.readouterr().err
    write(run, *of_task(make.REVERSE, *REFUSED))
    assert left(run, resume(run)) == [make.HALVES]


def test_line_separators_in_a_text_separate_no_lines(run: RunDir) -> None:
    """U+2028, U+0085, U+001E and their kind stay inside their record and come back as they were."""
    odd = "a\u2028b\u2029c\x85d\x1ee\x0bf\x0cg\r"
    told = [{**drawn(), "origin": {"stdout": odd}}, judged(replace(FAIL, detail=odd)), decided("refused")]
    write(run, *of_task(make.COUNT, *told), *of_task(make.SUM, *DELIVERED))
    assert len(run.ledger.read_bytes().split(b"\n")) == 1 + 6 + 1
    assert left(run, resume(run)) == [make.REVERSE, make.HALVES]
    assert [record["origin"]["stdout"] for record in run.records() if record.get("origin")] == [odd]


def test_two_verdicts_on_one_draw_are_refused(run: RunDir) -> None:
    """A `pass` that is appended later does not override a `fail`: the ledger is refused, and left as it is."""
    write(run, *of_task(make.COUNT, drawn(), judged(FAIL), judged(PASS)))
    before = run.ledger.read_bytes()
    with pytest.raises(IntegrityError, match="two verdicts on draw 0 of 'words/count': fail, then another"):
        resume(run)
    assert run.ledger.read_bytes() == before


def test_the_ledger_of_another_run_is_refused(run: RunDir) -> None:
    """A ledger that is bound to other suites by their digest does not go on with these."""
    write(run, *of_task(make.COUNT, *REFUSED))
    config = run.read_config()
    other = run.write_config({**config, "suites_digest": "b" * 64})
    with pytest.raises(IntegrityError, match=r"ledger\.jsonl:1: is bound to run\.json [0-9a-f]{64}, not to"):
        resume(run)
    assert b"b" * 64 in other
    with pytest.raises(IntegrityError, match=rf"suites\.jsonl\.gz: has digest {config['suites_digest']}, .* bbbb"):
        refuse_other_options(RunOptions(resume=run.path), run, run.read_config(), known(config))


def known(config: dict[str, Json]) -> Engine:
    """An engine with an image of this content."""
    image = SimpleNamespace(content=config["image"]["content"])
    return cast(Engine, SimpleNamespace(image=image))


def test_another_bank_is_refused_with_both_digests(run: RunDir, tmp_path: Path) -> None:
    """Resumed with another bank, nothing is mixed: both digests are named."""
    bank = tmp_path / "other.jsonl"
    bank.write_text(json.dumps(make.SUITES[0]) + "\n")
    config = run.read_config()
    options = RunOptions(resume=run.path, bank=str(bank))
    with pytest.raises(SpecError, match=rf"is another bank \([0-9a-f]{{12}}\) .*{config['bank']['digest'][:12]}"):
        refuse_other_options(options, run, config, known(config))
    bank.write_text("".join(json.dumps(tree) + "\n" for tree in make.SUITES))
    refuse_other_options(options, run, config, known(config))


OTHER_OPTIONS: dict[str, tuple[Bound, str]] = {
    "draws": (Bound(draws=3), "--draws 3: .* was begun with 5"),
    "full pool": (Bound(full_pool=True), "--full-pool True: .* was begun with False"),
    "limit": (Bound(limit=2), "--limit 2: .* was begun with None"),
    "runtime": (Bound(runtime="runsc"), "--runtime runsc: .* was begun with None"),
    "tasks": (Bound(tasks=("io/sum",)), r"--task .*io/sum.*: .* was begun with \[\]"),
    "infra budget": (Bound(infra_budget=0.5), r"--infra-budget 0\.5: .* was begun with 0\.01"),
}


@pytest.mark.parametrize(("bound", "words"), OTHER_OPTIONS.values(), ids=OTHER_OPTIONS.keys())
def test_another_option_is_refused_with_both_values(run: RunDir, bound: Bound, words: str) -> None:
    """A resumed run is the same run: an option that differs is named with what the run was begun with."""
    config = run.read_config()
    with pytest.raises(SpecError, match=words):
        refuse_other_options(RunOptions(resume=run.path, bound=bound), run, config, known(config))
    refuse_other_options(RunOptions(resume=run.path, bound=Bound(draws=5)), run, config, known(config))


def test_another_image_is_refused(run: RunDir) -> None:
    """Candidates of one run are judged in one image: another one is named with the first."""
    config = run.read_config()
    other = known({"image": {"content": "py3.13-other"}})
    with pytest.raises(SpecError, match=r"was begun in image py3\.12\.1-0123456789ab, the engine has py3\.13-other"):
        refuse_other_options(RunOptions(resume=run.path), run, config, other)


def test_what_our_world_failed_is_done_again(run: RunDir) -> None:
    """Infra is not final: that task is redone, what candidates were judged is kept, and only then it counts."""
    failed = of_task(make.COUNT, drawn(), judged(ERROR), decided("infra", reason="daemon"))
    write(run, *failed, *of_task(make.SUM, *DELIVERED))
    history = resume(run)
    assert left(run, history) == [make.REVERSE, make.HALVES, make.COUNT]
    assert history.task(make.COUNT).candidates[0].code == program().code
    write(run, *of_task(make.COUNT, judged(FAIL), decided("refused")))
    assert left(run, resume(run)) == [make.REVERSE, make.HALVES]
