"""Every claim of a run derived again: an honest run verifies, and whatever is changed is found and named."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden import make
from hypothesis import given
from hypothesis import strategies as st

from gate import engine, records
from gate.backends.rundir import RunDir
from gate.backends.scripted import MemoryLedger, ScriptedSource
from gate.cli.derive import derive_summary
from gate.cli.report import report_one as report
from gate.cli.verify import read_whole, verify, verify_derived
from gate.errors import SandboxError, SpecError
from gate.history import fold
from gate.model import Candidate, Exit, Json, Task, Usage, digest_bytes
from gate.suite import suite_from_tree, task_of
from gate.verify import Noted, verify_task

KEPT = ("run.json", "suites.jsonl.gz", "ledger.jsonl")
DERIVED = (
    *("candidates.jsonl", "delivered.jsonl", "summary.json", "REPORT.md"),
    *("delivered/io/sum.py", "delivered/numbers/halves.py", "delivered/words/reverse.py"),
)
Records = list[make.Noted]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A copy of the golden run that may be damaged."""
    return RunDir(Path(shutil.copytree(make.RUN, tmp_path / "run")))


def verified(where: RunDir, head: str | None = None) -> tuple[int, list[dict[str, str]]]:
    """The exit code, and what does not derive."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = verify(where.path, head=head, as_json=True)
    result = json.loads(said.getvalue())
    assert result["schema"] == "gate.verify/1"
    assert result["ok"] is (code == 0) and (code == 4) is bool(result["mismatches"])
    return code, result["mismatches"]


def words(where: RunDir) -> tuple[int, str]:
    """The exit code, and what a person reads."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = verify(where.path, head=None, as_json=False)
    return code, said.getvalue()


def places(mismatches: list[dict[str, str]]) -> str:
    return "\n".join(each["where"] for each in mismatches)


def head(where: RunDir) -> str:
    return str(make.noted(where)[-1][0])


def files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


# The honest run.


def test_the_golden_run_verifies(run: RunDir) -> None:
    """Every verdict, decision, count and file of an honest run derives, also by its head."""
    assert verified(run) == (0, [])
    assert verified(run, head(run)) == (0, [])
    assert words(run) == (0, "every verdict, decision, count and report derives from the record\n")


def test_the_golden_run_holds_what_it_should(run: RunDir) -> None:
    """It has a delivery at draw 1, a wrong one, a refusal after five and an infra decision that was superseded."""
    decisions = [record for _, record in make.noted(run) if record["kind"] == "decision"]
    assert [(each["task"], each["outcome"], each["index"], each["draws"]) for each in decisions] == [
        (make.REVERSE, "delivered", 1, 2),
        (make.HALVES, "delivered", 0, 1),
        (make.COUNT, "refused", None, 5),
        (make.SUM, "infra", None, 0),
        (make.SUM, "delivered", 0, 1),
    ]
    verdicts = [record for _, record in make.noted(run) if record["kind"] == "verdict"]
    assert [each["outcome"] for each in verdicts if each["part"] == "hidden"] == ["pass", "fail"]
    assert [each["reason"] for each in verdicts if each["task"] == make.COUNT] == [
        *("raised", "wrong_answer", "wrong_answer", "timeout", "no_program")
    ]
    assert tuple(sorted(files(run.path))) == tuple(sorted(KEPT + DERIVED))


def test_the_golden_run_is_made_again_byte_for_byte(tmp_path: Path) -> None:
    """The same programs and the same clock give the same files, so no format has changed by accident."""
    again = make.make(tmp_path / "again", packed=(make.RUN / "suites.jsonl.gz").read_bytes())
    assert files(again.path) == files(make.RUN)


def test_what_derives_comes_back_byte_for_byte(run: RunDir) -> None:
    """With every derived file deleted, `gate report` brings the same bytes back, and twice the same."""
    before = files(run.path)
    for name in DERIVED:
        (run.path / name).unlink()
    assert verified(run)[0] == 4
    for _ in range(2):
        with contextlib.redirect_stdout(io.StringIO()):
            assert report(run.path, as_json=False) == 0
        assert files(run.path) == before
    assert verified(run) == (0, [])


def test_a_moved_run_verifies(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file holds a path of its own: moved, and named from elsewhere, the run derives the same."""
    moved = run.path.rename(run.path.parent / "another name")
    monkeypatch.chdir(moved)
    assert verified(RunDir(Path("."))) == (0, [])
    assert str(run.path).encode() not in b"".join(files(moved).values())


def test_a_place_without_a_run_is_a_usage_error(tmp_path: Path) -> None:
    """A directory that holds no run is the wrong argument, not a broken run."""
    with pytest.raises(SpecError, match="holds no run: name a run directory"):
        verify(tmp_path, head=None, as_json=True)


# Damage.


@contextlib.contextmanager
def flipped(path: Path, offset: int, mask: int) -> Iterator[None]:
    """One byte of a file changed, for as long as the block lasts."""
    honest = path.read_bytes()
    path.write_bytes(honest[:offset] + bytes([honest[offset] ^ mask]) + honest[offset + 1 :])
    yield
    path.write_bytes(honest)


def flip(where: RunDir, name: str, offset: int, mask: int = 0x01) -> str:
    """Where the damage of one changed byte is found, which must be exit 4."""
    with flipped(where.path / name, offset, mask):
        code, found = verified(where)
    assert code == 4, (name, offset, mask)
    return places(found)


OTHER_BITS = (0x80, 0x20, 0xFF, 0x02)


@pytest.mark.slow
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", KEPT)
def test_each_flipped_byte_of_what_is_kept_is_found_and_named(run: RunDir, name: str, step: int) -> None:
    """One byte changed in configuration, tasks or ledger is exit 4 with that file named, never a traceback."""
    for offset in range(0, (run.path / name).stat().st_size, step):
        assert name in flip(run, name, offset), offset
        if offset % 8 == 0:
            assert name in flip(run, name, offset, OTHER_BITS[offset // 8 % 4]), offset
    assert verified(run) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", DERIVED)
def test_each_flipped_byte_of_what_derives_is_found_and_named(run: RunDir, name: str, step: int) -> None:
    """One byte changed in what derives is found by the last step of verification, and by all of it in a sample."""
    reading, config, summary = read_whole(run), run.read_config(), derive_summary(run)
    for offset in range(0, (run.path / name).stat().st_size, step):
        with flipped(run.path / name, offset, 0x01):
            found = list(verify_derived(run, config, summary, reading))
        assert any(name in each.where for each in found), offset
        if offset % 16 == 0:
            assert name in flip(run, name, offset, OTHER_BITS[offset // 16 % 4]), offset
    assert verified(run) == (0, [])


def test_a_flipped_byte_of_the_ledger_is_placed_by_its_line(run: RunDir) -> None:
    """Damage in a record is placed at its line, or at the next one, which is not bound to it any more."""
    offset = 0
    lines = run.ledger.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        for at in (1, len(line) // 2, len(line)):
            where = flip(run, "ledger.jsonl", offset + at)
            last = number == len(lines)
            assert f"ledger.jsonl:{number}:" in where or f"ledger.jsonl:{number + 1}:" in where or last, where
            assert "ledger.jsonl" in where
        offset += len(line) + 1


@pytest.mark.parametrize("name", KEPT + DERIVED)
def test_a_truncated_file_is_found(run: RunDir, name: str) -> None:
    """A file that lost its last byte, its second half or all of itself is exit 4 and named."""
    path = run.path / name
    honest = path.read_bytes()
    for kept in (len(honest) - 1, len(honest) // 2, 0):
        path.write_bytes(honest[:kept])
        code, found = verified(run)
        assert code == 4 and name in places(found), kept


def test_a_ledger_cut_between_two_records_is_found(run: RunDir) -> None:
    """A ledger without its last lines is no run that was never closed: the summary knows a head that is gone."""
    lines = run.ledger.read_bytes().split(b"\n")[:-1]
    for kept in range(len(lines)):
        run.ledger.write_bytes(b"".join(line + b"\n" for line in lines[:kept]))
        code, found = verified(run)
        assert code == 4 and "ledger.jsonl" in places(found), kept


@pytest.mark.parametrize("name", KEPT + DERIVED)
def test_a_missing_file_is_found(run: RunDir, name: str) -> None:
    """A file that is gone is exit 4 and named."""
    (run.path / name).unlink()
    code, found = verified(run)
    assert code == 4 and name in places(found)


@pytest.mark.parametrize("name", ["delivered/words/count.py", "notes.txt", ".hidden", "REPORT.md.new", "delivered/x"])
def test_a_file_that_does_not_derive_is_found(run: RunDir, name: str) -> None:
    """A file more, even an empty one, is exit 4 and named: a delivery of a refused task above all."""
    (run.path / name).touch()
    code, found = verified(run)
    assert code == 4 and places(found) == name


def test_a_link_is_no_derived_file(run: RunDir) -> None:
    """A link that leads nowhere in the place of a report is found like a missing one."""
    (run.path / "REPORT.md").unlink()
    (run.path / "REPORT.md").symlink_to("nowhere")
    code, found = verified(run)
    assert code == 4 and places(found) == "REPORT.md:1"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{", b"[]", b"[" * 100_000, b"\x00"])
@pytest.mark.parametrize("name", KEPT + DERIVED)
def test_a_file_of_nonsense_is_found(run: RunDir, name: str, data: bytes) -> None:
    """Whatever stands in a file, its reader ends in exit 4, not in a traceback."""
    (run.path / name).write_bytes(data)
    code, found = verified(run)
    assert code == 4 and name in places(found)


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"{}", b'{"options": {"draws": 5, "full_pool": false}}', b'{"options": 1}']
)
def test_a_configuration_of_nonsense_that_is_bound_is_found(run: RunDir, data: bytes) -> None:
    """A run.json that lacks what the report says is exit 4, even where the whole chain binds it."""
    packed = {"suites_digest": digest_bytes(run.suites.read_bytes())}
    data = json.dumps({**json.loads(data), **packed}).encode() if data.startswith(b"{") and data != b"{" else data
    run.run_json.write_bytes(data)
    changed = make.noted(run)
    changed[0][1]["run"] = digest_bytes(data)
    make.rechain(run, changed)
    code, found = verified(run)
    assert code == 4 and "run.json" in places(found)


# A run that is not closed.


def reopened(where: RunDir) -> None:
    """As a run that was killed just before it was closed and before anything was derived."""
    lines = where.ledger.read_bytes().split(b"\n")[:-2]
    where.ledger.write_bytes(b"".join(line + b"\n" for line in lines))
    for name in DERIVED:
        (where.path / name).unlink()


def test_a_run_that_is_not_closed_is_exit_1_with_the_next_command(run: RunDir) -> None:
    """Without a closing line nothing is wrong and nothing is done: resume it."""
    reopened(run)
    assert verified(run) == (1, [])
    code, said = words(run)
    assert code == 1 and f"not closed: resume it: gate run --resume {run.path}\n" in said


def test_a_run_that_never_began_is_not_closed(run: RunDir) -> None:
    """Killed before its first record, a run is to be resumed; its ledger is empty or not there."""
    reopened(run)
    run.ledger.write_bytes(b"")
    assert verified(run) == (1, [])
    run.ledger.unlink()
    assert verified(run) == (1, [])
    assert verified(run, "0" * 64)[0] == 4


def test_what_an_earlier_stop_derived_is_no_damage(run: RunDir) -> None:
    """Files of an earlier moment of the same ledger are stale, not forged; those of its end must be right."""
    whole = run.ledger.read_bytes()
    lines = whole.split(b"\n")[:-1]
    run.ledger.write_bytes(b"".join(line + b"\n" for line in lines[:20]))
    make.derive_again(run)
    (run.path / "delivered/io/sum.py").unlink()
    assert verified(run) == (1, [])
    run.ledger.write_bytes(b"".join(line + b"\n" for line in lines[:30]))
    assert verified(run) == (1, [])
    make.derive_again(run)
    (run.path / "REPORT.md").write_text("all delivered\n")
    code, found = verified(run)
    assert code == 4 and places(found) == "REPORT.md:1"


@pytest.mark.parametrize("change", [("1 of 4 suites is weak", "0 of 4 suites are weak"), None])
def test_a_changed_or_missing_strength_is_found(run: RunDir, change: tuple[str, str] | None) -> None:
    """How strong the suites are derives from the run's own copy of them; a report that says otherwise is found."""
    report = run.path / "REPORT.md"
    lines = report.read_text(encoding="utf-8").splitlines(keepends=True)
    (number,) = [number for number, line in enumerate(lines) if ": strength: " in line]
    lines[number] = "" if change is None else lines[number].replace(*change)
    report.write_text("".join(lines), encoding="utf-8")
    code, found = verified(run)
    assert code == 4 and places(found) == f"REPORT.md:{number + 1}"


def test_a_torn_last_line_is_exit_4(run: RunDir) -> None:
    """Half a record at the end is damage, also where the run was not closed."""
    reopened(run)
    with run.ledger.open("ab") as file:
        file.write(b'{"kind":"clo')
    code, found = verified(run)
    assert code == 4 and found[0]["where"].startswith("ledger.jsonl:")
    assert "torn" in found[0]["where"]


# Attacks: a claim is changed and the whole chain, with all that derives, is recomputed.


def find(changed: Records, kind: str, task: str, number: int = 0, **fields: Json) -> dict[str, Any]:
    """One record of a task, by what it says."""
    return changed[place(changed, kind, task, number, **fields)][1]


def place(changed: Records, kind: str, task: str, number: int = 0, **fields: Json) -> int:
    found = [
        at
        for at, (_, record) in enumerate(changed)
        if record["kind"] == kind
        and record.get("task") == task
        and all(record[name] == value for name, value in fields.items())
    ]
    return found[number]


def reply_changed(changed: Records) -> None:
    reply = find(changed, "observation", make.REVERSE, index=1)["replies"][0]
    reply["value"] = "a b"


def hidden_reply_changed(changed: Records) -> None:
    find(changed, "observation", make.HALVES, part="hidden")["replies"] = [
        {"kind": "raised", "types": ["ValueError"], "message": ""}
    ]


def reply_malformed(changed: Records) -> None:
    find(changed, "observation", make.SUM)["replies"][0]["value"] = {"bytes": 1}


def exit_changed(changed: Records) -> None:
    find(changed, "observation", make.REVERSE, index=1)["exit"] = "memory_limit"


def verdict_changed(changed: Records) -> None:
    find(changed, "verdict", make.HALVES, part="hidden").update(
        outcome="pass", reason=None, test=None, detail="", tests={"passed": 1, "total": 1}
    )


def verdict_unmeasured(changed: Records) -> None:
    find(changed, "verdict", make.HALVES, part="hidden").update(outcome="error", reason="infra", seen=[])


def reason_changed(changed: Records) -> None:
    find(changed, "verdict", make.COUNT, index=3)["reason"] = "memory"


def judged_by_another_suite(changed: Records) -> None:
    other = find(changed, "verdict", make.HALVES)["suite"]
    find(changed, "verdict", make.REVERSE, index=1, part="visible")["suite"] = other


def other_draws_observations(changed: Records) -> None:
    find(changed, "verdict", make.REVERSE, index=1, part="visible")["seen"] = [
        changed[place(changed, "observation", make.REVERSE, index=0)][0]
    ]


def other_tasks_observations(changed: Records) -> None:
    find(changed, "verdict", make.SUM)["seen"] = find(changed, "verdict", make.HALVES, part="visible")["seen"]


def hidden_observation_for_visible(changed: Records) -> None:
    at = place(changed, "observation", make.REVERSE, part="hidden")
    find(changed, "verdict", make.REVERSE, index=1, part="visible")["seen"][1] = changed[at][0]


def pass_not_repeated(changed: Records) -> None:
    at = place(changed, "observation", make.REVERSE, index=1, number=1)
    del changed[at]
    del find(changed, "verdict", make.REVERSE, index=1)["seen"][1]


def pass_repeated_under_one_seed(changed: Records) -> None:
    find(changed, "observation", make.REVERSE, index=1, number=1)["where"]["seed"] = 0


def timeout_not_alone(changed: Records) -> None:
    find(changed, "observation", make.COUNT, index=3, number=1)["where"]["alone"] = False


def code_swapped(changed: Records) -> None:
    drawn = find(changed, "candidate", make.HALVES)
    drawn["code"] = "import os\n"
    drawn["digest"] = Candidate(task_id="", index=0, code="import os\n").digest
    find(changed, "decision", make.HALVES)["delivered"] = drawn["digest"]


def code_swapped_alone(changed: Records) -> None:
    find(changed, "candidate", make.REVERSE, index=0)["code"] = "import os\n"


def other_calls(changed: Records) -> None:
    find(changed, "observation", make.REVERSE, index=1)["calls"] = "0" * 64


def draw_after_a_pass(changed: Records) -> None:
    more = {**find(changed, "candidate", make.REVERSE, index=1), "index": 2}
    changed.insert(place(changed, "decision", make.REVERSE), (None, more))


def draw_after_the_decision(changed: Records) -> None:
    more = {**find(changed, "candidate", make.REVERSE, index=1), "index": 2}
    changed.insert(place(changed, "decision", make.REVERSE) + 1, (None, more))


def draw_skipped(changed: Records) -> None:
    for kind in ("candidate", "observation", "verdict"):
        del changed[place(changed, kind, make.REVERSE, index=0)]
    find(changed, "decision", make.REVERSE)["draws"] = 1


def draws_renumbered(changed: Records) -> None:
    draw_skipped(changed)
    for _, record in changed:
        if record.get("task") == make.REVERSE and "index" in record:
            record["index"] = 0
    find(changed, "candidate", make.REVERSE)["index"] = 1


def draw_unjudged(changed: Records) -> None:
    del changed[place(changed, "verdict", make.COUNT, index=4)]
    find(changed, "decision", make.COUNT)["draws"] = 4


def refused_after_four(changed: Records) -> None:
    for kind in ("candidate", "verdict"):
        del changed[place(changed, kind, make.COUNT, index=4)]
    find(changed, "decision", make.COUNT)["draws"] = 4


def second_decision(changed: Records) -> None:
    at = place(changed, "decision", make.COUNT)
    changed.insert(at + 1, (None, dict(changed[at][1])))


def delivered_what_failed(changed: Records) -> None:
    drawn = find(changed, "candidate", make.COUNT, index=1)
    find(changed, "decision", make.COUNT).update(
        outcome="delivered", delivered=drawn["digest"], index=1, reason=None, draws=2
    )


def delivered_what_was_not_drawn(changed: Records) -> None:
    find(changed, "decision", make.REVERSE)["delivered"] = "0" * 64


def delivered_called_refused(changed: Records) -> None:
    find(changed, "decision", make.SUM, number=1).update(
        outcome="refused", delivered=None, index=None, reason="none_passed"
    )


def refused_called_infra(changed: Records) -> None:
    find(changed, "decision", make.COUNT).update(outcome="infra", reason="the engine went away")


def delivered_called_infra(changed: Records) -> None:
    find(changed, "decision", make.SUM, number=1).update(outcome="infra", delivered=None, index=None, reason="gone")


def hidden_on_an_undelivered_draw(changed: Records) -> None:
    find(changed, "verdict", make.REVERSE, part="hidden")["index"] = 0


def hidden_before_the_decision(changed: Records) -> None:
    at = place(changed, "decision", make.HALVES)
    changed[at : at + 3] = [*changed[at + 1 : at + 3], changed[at]]


def hidden_left_out(changed: Records) -> None:
    for kind in ("verdict", "observation"):
        del changed[place(changed, kind, make.HALVES, part="hidden")]


def second_measurement(changed: Records) -> None:
    at = place(changed, "verdict", make.HALVES, part="hidden")
    changed.insert(at + 1, (None, dict(changed[at][1])))


def counts_changed(changed: Records) -> None:
    changed[-1][1]["delivered"] += 1


def earlier_counts_changed(changed: Records) -> None:
    (first, _) = [record for _, record in changed if record["kind"] == "closed"]
    first["infra"] = 0


def task_left_out(changed: Records) -> None:
    changed[:] = [each for each in changed if each[1].get("task") != make.COUNT]
    for _, record in changed:
        if record["kind"] == "closed":
            record.update(refused=0, not_run=1, draws=record["draws"] - 5)


def task_of_another_run(changed: Records) -> None:
    changed.insert(1, (None, {**find(changed, "candidate", make.SUM), "task": "other"}))


def unknown_kind(changed: Records) -> None:
    changed.insert(1, (None, {"kind": "note", "time": "", "prev": ""}))


def second_run(changed: Records) -> None:
    changed.append((None, dict(changed[0][1])))
    changed.append((None, dict(changed[-2][1])))


# What is changed, and what the first finding names.
ATTACKS: dict[Callable[[Records], None], str] = {
    reply_changed: "words/reverse: verdict on draw 1, visible",
    hidden_reply_changed: "numbers/halves: verdict on draw 0, hidden",
    reply_malformed: "io/sum: verdict on draw 0, visible",
    exit_changed: "words/reverse: verdict on draw 1, visible",
    verdict_changed: "numbers/halves: verdict on draw 0, hidden",
    verdict_unmeasured: "numbers/halves: verdict on draw 0, hidden",
    reason_changed: "words/count: verdict on draw 3, visible",
    judged_by_another_suite: "words/reverse: verdict on draw 1, visible: suite",
    other_draws_observations: "words/reverse: verdict on draw 1, visible",
    other_tasks_observations: "io/sum: verdict on draw 0, visible",
    hidden_observation_for_visible: "words/reverse: verdict on draw 1, visible",
    pass_not_repeated: "words/reverse: verdict on draw 1, visible",
    pass_repeated_under_one_seed: "words/reverse: verdict on draw 1, visible",
    timeout_not_alone: "words/count: verdict on draw 3, visible",
    code_swapped: "numbers/halves: observation of draw 0, visible: candidate",
    code_swapped_alone: "words/reverse: candidate 0",
    other_calls: "words/reverse: observation of draw 1, visible: calls",
    draw_after_a_pass: "words/reverse: draws",
    draw_after_the_decision: "draws 'words/reverse' again after its decision",
    draw_skipped: "draw 1 of 'words/reverse' out of turn",
    draws_renumbered: "draw 1 of 'words/reverse' out of turn",
    draw_unjudged: "words/count: verdicts",
    refused_after_four: "words/count: draws",
    second_decision: "decides 'words/count' twice",
    delivered_what_failed: "words/count: decision",
    delivered_what_was_not_drawn: "delivers for 'words/reverse' what was never drawn",
    delivered_called_refused: "io/sum: decision",
    refused_called_infra: "words/count: decision",
    delivered_called_infra: "io/sum: decision",
    hidden_on_an_undelivered_draw: "measures draw 0 of 'words/reverse', which is not delivered",
    hidden_before_the_decision: "measures draw 0 of 'numbers/halves', which is not delivered",
    hidden_left_out: "numbers/halves: hidden verdicts",
    second_measurement: "measures draw 0 of 'numbers/halves' twice",
    counts_changed: "closing line",
    earlier_counts_changed: "closing line",
    task_left_out: "words/count: decision",
    task_of_another_run: "ledger.jsonl: other",
    unknown_kind: "ledger.jsonl:2: a record of unknown kind 'note'",
    second_run: "a ledger begins with its run, and only there",
}


def forge(where: RunDir, change: Callable[[Records], None]) -> None:
    """Change the records, then recompute the chain, the closing counts as far as they derive, and the files."""
    changed = make.noted(where)
    change(changed)
    make.rechain(where, changed)
    with contextlib.suppress(Exception):  # what does not add up cannot be derived from; the old files stay
        make.derive_again(where)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_changed_claim_is_found_though_the_chain_is_recomputed(
    run: RunDir, attack: Callable[[Records], None]
) -> None:
    """What was seen, judged, drawn, decided or counted otherwise does not derive, and is named."""
    forge(run, attack)
    code, found = verified(run)
    assert code == 4
    assert ATTACKS[attack] in found[0]["where"]


def test_recomputing_the_chain_alone_changes_nothing(run: RunDir) -> None:
    """The attacker's tools are sound: with nothing changed they write the honest run again."""
    before = files(run.path)
    forge(run, lambda changed: None)
    assert files(run.path) == before


def infra_run(path: Path, *answers: make.Answer) -> RunDir:
    """A run in which the one task ended because our own world failed."""
    return make.make(
        path, tasks=make.TASKS[3:], pool={make.SUM: [make.SUMMED] * 5}, answers={make.SUMMED: answers}, rounds=1
    )


LOST = replace(make.look(), exit=Exit.FAULT, detail="the engine lost the container")


@pytest.mark.parametrize("answer", [SandboxError("gone"), LOST], ids=["nothing seen", "a fault seen"])
def test_infra_turned_into_refused_is_found(tmp_path: Path, answer: make.Answer) -> None:
    """What could not be told is no refusal: infra decisions cannot be hidden among them."""
    where = infra_run(tmp_path / "run", answer)
    assert verified(where) == (0, [])

    def refuse(changed: Records) -> None:
        find(changed, "decision", make.SUM).update(outcome="refused", reason="none_passed")
        changed[-1][1].update(infra=0, refused=1)

    forge(where, refuse)
    code, found = verified(where)
    assert code == 4 and found[0]["where"] in ("io/sum: decision", "io/sum: draws")


def test_the_draws_of_an_infra_decision_derive(tmp_path: Path) -> None:
    """Draws cannot be added to or taken from a task that our world failed."""
    where = infra_run(tmp_path / "run", LOST)

    def more(changed: Records) -> None:
        find(changed, "decision", make.SUM)["draws"] = 5
        changed[-1][1]["draws"] = 5

    forge(where, more)
    code, found = verified(where)
    assert code == 4 and found[0]["where"] == "io/sum: decision: draws"


def test_a_forgery_without_a_seam_is_found_by_the_head_alone(tmp_path: Path, run: RunDir) -> None:
    """A reply changed, with verdict, decision, counts and every file recomputed, derives; the honest head does not."""
    answers = make.honest_answers()
    right = make.look(*make.returned({"a": 2}), make.raised("TypeError", ""))
    answers[make.LENGTHS] = [right, right, make.look(*make.returned({}))]
    packed = run.suites.read_bytes()
    forged = make.make(tmp_path / "forged", answers=answers, packed=packed)
    assert forged.run_json.read_bytes() == run.run_json.read_bytes()
    assert json.loads((forged.path / "summary.json").read_text())["delivered"] == 4
    assert verified(forged) == (0, [])
    code, found = verified(forged, head(run))
    assert code == 4 and found == [{"where": "ledger.jsonl: head", "claimed": head(run), "derived": head(forged)}]


def test_hostile_text_in_a_finding_is_escaped(run: RunDir) -> None:
    """What a forger put into a record cannot steer the terminal of who verifies it."""
    run.ledger.write_bytes(run.ledger.read_bytes())
    (run.path / "REPORT.md").write_bytes(b"\x1b]0;owned\x07\xc2\x9b2J\xe2\x80\xae\n")
    code, said = words(run)
    assert code == 4 and said.isascii() and "\x1b" not in said and "\\x1b]0;owned" in said


def test_many_findings_are_counted_not_all_shown(run: RunDir) -> None:
    """A run that is wrong all over is reported in a screen, with how much more there is."""
    for number in range(30):
        (run.path / f"extra{number}").touch()
    code, said = words(run)
    assert code == 4 and "… and 10 more" in said and said.endswith("30 claims do not derive\n")


# The pure half: whatever an honest loop records derives.

HIDDEN = {"args": [2], "expected": 2}
TREE = {"version": 1, "task": "t", "entry_point": "f", "tests": [{"args": [1], "expected": 1}], "hidden": [HIDDEN]}
RIGHT, WRONG = make.look(*make.returned(1)), make.look(*make.returned(3))
SPUN = replace(make.late(), limit="cpu", usage=Usage(cpu_s=5.0))
LOOKS = st.sampled_from([RIGHT, RIGHT, WRONG, make.late(), SPUN, LOST, SandboxError("gone")])
SCRIPTS = st.dictionaries(st.sampled_from("abcde"), st.lists(LOOKS, min_size=1, max_size=6), min_size=5)


def played(
    task: Task, pool: list[str], answers: dict[str, list[make.Answer]], *, draws: int, full_pool: bool, rounds: int
) -> list[Noted]:
    """What an honest loop records of one task, begun and resumed so often."""
    ledger = NotingLedger()
    sandbox, source = make.BoundSandbox(answers), ScriptedSource({"t": pool})
    for _ in range(rounds):
        history = fold(each.record for each in ledger.noted).task("t")
        asyncio.run(
            engine.run_task(
                task,
                source=source,
                sandbox=sandbox,
                ledger=ledger,
                draws=draws,
                full_pool=full_pool,
                history=history,
            )
        )
    return ledger.noted


class NotingLedger(MemoryLedger):
    """Keeps each record with its digest."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Noted] = []

    def append(self, kind: str, body: dict[str, Json]) -> str:
        """See `gate.seams.Ledger`."""
        digest = super().append(kind, body)
        self.noted.append(Noted(digest=digest, record=self.records[-1]))
        return digest


@given(
    answers=SCRIPTS,
    pool=st.lists(st.sampled_from(["a", "b", "c", "d", "e", ""]), max_size=5),
    draws=st.integers(1, 5),
    full_pool=st.booleans(),
    rounds=st.integers(1, 3),
    hidden=st.booleans(),
)
def test_whatever_an_honest_loop_records_derives(
    answers: dict[str, list[make.Answer]],
    pool: list[str],
    draws: int,
    full_pool: bool,
    rounds: int,
    hidden: bool,
) -> None:
    """No run of the loop is called dishonest, whatever its candidates do and however often it is resumed."""
    task = task_of(suite_from_tree({**TREE, "hidden": [HIDDEN] if hidden else []}))
    noted = played(task, pool, answers, draws=draws, full_pool=full_pool, rounds=rounds)
    assert list(verify_task(task, noted, draws=draws, full_pool=full_pool, closed=True)) == []


def test_a_verdict_on_nothing_does_not_derive() -> None:
    """A verdict on a draw that is not there, or a pass that names no observation, is a mismatch of its own."""
    task = task_of(suite_from_tree(TREE))
    noted = played(task, ["a"], {"a": [RIGHT]}, draws=5, full_pool=False, rounds=1)
    for change, derived in (({"seen": []}, "the rules ask for more observations"), ({"index": 3}, "no such draw")):
        changed = [
            replace(each, record={**each.record, **change}) if each.record["kind"] == "verdict" else each
            for each in noted
        ]
        found = list(verify_task(task, changed, draws=5, full_pool=False, closed=False))
        assert found[0].derived == derived


def test_more_looks_than_the_rules_ask_for_do_not_derive() -> None:
    """A verdict may not pick among looks: one that names more of them than the rules need is found."""
    task = task_of(suite_from_tree(TREE))
    noted = played(task, ["a"], {"a": [WRONG]}, draws=1, full_pool=False, rounds=1)
    seen = next(each for each in noted if each.record["kind"] == "observation")
    more = replace(seen, digest="more")
    verdict = next(each for each in noted if each.record["kind"] == "verdict")
    named = replace(verdict, record={**verdict.record, "seen": [seen.digest, "more"]})
    found = list(verify_task(task, [noted[0], seen, more, named, noted[-1]], draws=1, full_pool=False, closed=False))
    assert [each.derived for each in found] == ["the rules ask for fewer observations"]


def test_a_task_without_visible_tests_derives_without_draws() -> None:
    """Refused with no draw: infra or a draw in its place does not derive."""
    task = task_of(suite_from_tree({**TREE, "tests": []}))
    noted = played(task, ["a"], {}, draws=5, full_pool=False, rounds=1)
    assert list(verify_task(task, noted, draws=5, full_pool=False, closed=True)) == []
    claimed = records.read_decision(noted[-1].record)
    infra = Noted(digest="d", record={"kind": "decision", **records.decision_record(replace(claimed, outcome="infra"))})
    found = list(verify_task(task, [infra], draws=5, full_pool=False, closed=True))
    assert [each.where for each in found] == ["t: decision"]
