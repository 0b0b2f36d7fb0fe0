"""The lock of a bank: one text for one bank, and what tells a bank from the one that was bound."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from echo_sandbox import task_line

from gate import lock
from gate.errors import SpecError
from gate.lock import Lock, differences, lock_text, locked, read_lock
from gate.model import Task
from gate.suite import suite_from_tree, task_of


def tasks(*numbers: int, **more: Any) -> list[Task]:
    return [task_of(suite_from_tree(task_line(number, **more))) for number in numbers]


def made(bank: list[Task], version: str = "0.1.0") -> Lock:
    return Lock(gate=version, bank="shop", suites={task.id: locked(task.suite) for task in bank})


LOCK = made(tasks(0, 1, 2))


def test_a_lock_comes_back_as_it_was() -> None:
    """What is read is what was written, and is written the same again."""
    text = lock_text(LOCK)
    again = read_lock(text.encode(), "bank.lock")
    assert again == LOCK and lock_text(again) == text


def test_a_lock_is_for_a_diff() -> None:
    """Each suite stands on a line of its own with its digest and the number of its tests; JSON as a whole."""
    text = lock_text(LOCK)
    (line,) = [line for line in text.splitlines() if line.startswith('"t/1"')]
    suite = tasks(1)[0].suite
    assert line == f'"t/1": {{"digest": "{suite.digest}", "visible": 2, "hidden": 2}},'
    assert json.loads(text)["bank"] == {"name": "shop", "digest": LOCK.digest}
    assert text.endswith("}}\n")


def test_the_bound_bank_differs_in_nothing() -> None:
    """The same suites in the same order are the bound bank, whatever version of gate looks."""
    found = differences(made(tasks(0, 1, 2), version="9"), tasks(0, 1, 2))
    assert found.none


def test_what_differs_is_named() -> None:
    """A changed suite, one that is gone and one that is new are told apart, by their tasks."""
    other = [*tasks(0), *tasks(1, tests=[{"args": [1], "expected": 7}]), *tasks(3, 4)]
    found = differences(LOCK, other)
    assert (found.changed, found.missing, found.new, found.reordered) == (("t/1",), ("t/2",), ("t/3", "t/4"), False)
    assert found.words() == "1 suite is changed: t/1; 1 suite is missing: t/2; 2 suites are new: t/3, t/4"


def test_another_order_is_another_bank() -> None:
    """`--limit` takes the first tasks, so their order is bound, too."""
    found = differences(LOCK, tasks(1, 0, 2))
    assert found.reordered and not found.none
    assert found.words() == "the suites are the same, in another order"


def test_many_names_are_cut() -> None:
    """A sentence names twenty tasks and says how many more there are."""
    assert differences(LOCK, tasks(0, 1, 2, *range(100, 130))).words().endswith("t/119 and 10 more")


def test_hidden_tests_are_bound_too() -> None:
    """GT that changed is a suite that changed: what is said to be right would be measured otherwise."""
    assert differences(LOCK, [*tasks(0, 1), *tasks(2, hidden=[])]).changed == ("t/2",)


def edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    tree = json.loads(lock_text(LOCK))
    change(tree)
    return json.dumps(tree).encode()


BROKEN: dict[str, tuple[bytes, str]] = {
    "no object": (b"- 1\n", "the lock: should be an object with schema, gate, bank, suites"),
    "no JSON": (b"{", "bank.lock:1: "),
    "another format": (edited(lambda tree: tree.update(schema="gate.lock/9")), "schema: 'gate.lock/9' is not"),
    "a key too many": (edited(lambda tree: tree.update(note="")), "the lock: should be an object with"),
    "a key of another type": (edited(lambda tree: tree.update(gate=1)), "the lock: gate is 1, of the wrong type"),
    "no bank": (edited(lambda tree: tree["bank"].pop("name")), "bank: should be an object with name, digest"),
    "a suite that is none": (edited(lambda tree: tree["suites"].update({"t/1": 5})), "suites['t/1']: should be"),
    "a task id that a terminal obeys": (
        edited(lambda tree: tree["suites"].update({"\x1b[2J": tree["suites"]["t/1"]})),
        r"suites['\x1b[2J']: is no task id",
    ),
    "a count that is true": (edited(lambda tree: tree["suites"]["t/1"].update(visible=True)), "visible is true"),
    "a digest that is none": (edited(lambda tree: tree["suites"]["t/1"].update(digest="no")), "'no' is no SHA-256"),
    "a changed digest": (edited(lambda tree: tree["suites"]["t/1"].update(digest="0" * 64)), "a line was changed"),
    "a suite taken out": (edited(lambda tree: tree["suites"].pop("t/1")), "a line was changed"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_lock_is_one_sentence(case: str) -> None:
    """A file that is no lock, and a lock that was changed by hand, are refused with the place and what to do."""
    data, words = BROKEN[case]
    with pytest.raises(SpecError) as caught:
        read_lock(data, "bank.lock")
    assert str(caught.value).startswith("bank.lock") and words in str(caught.value)


def test_the_schema_takes_what_is_written_and_nothing_else() -> None:
    """The schema has just the keys that a lock has, with their types, at each level."""
    schema, text = lock.lock_json_schema(), json.loads(lock_text(LOCK))
    suite = schema["properties"]["suites"]["additionalProperties"]
    for part, found in ((schema, text), (schema["properties"]["bank"], text["bank"]), (suite, text["suites"]["t/1"])):
        assert part["required"] == list(part["properties"]) == list(found) and part["additionalProperties"] is False
    assert schema["properties"]["schema"] == {"const": text["schema"]}
    assert suite["properties"]["visible"] == {"type": "integer"}
    assert re.match(suite["properties"]["digest"]["pattern"], text["suites"]["t/1"]["digest"])


def test_a_count_that_was_changed_is_a_difference() -> None:
    """The numbers of tests are for readers; changed alone, they make the suite another one."""
    changed = read_lock(edited(lambda tree: tree["suites"]["t/1"].update(visible=9)), "bank.lock")
    assert differences(changed, tasks(0, 1, 2)).changed == ("t/1",)


def test_a_lock_that_could_not_be_read_again_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text beyond the size that is read is an error that says so."""
    monkeypatch.setattr(lock, "MAX_BYTES", 100)
    with pytest.raises(SpecError, match="split the bank"):
        lock_text(LOCK)
