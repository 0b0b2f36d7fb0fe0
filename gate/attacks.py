"""Attacks on a gauge: the texts that an attacker writes, and what the outcomes add up to.

A gauge is what holds a program against a suite. `code` and `code_process` take the suite as
Python text, `data` is the gate's own. The same suite stands in each of them in its own form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gate import stats, values
from gate.examples import call_examples
from gate.model import Expect, Json, SuiteSpec, Task, Test

SCHEMA = "gate.attack/1"
GAUGES = ("code", "code_process", "data")
ON_SUITES = ("plain", "exec_smuggling", "stateful_gauge", "swapped_suite", "forged_records")
RESIDUALS = ("generic_gauged", "weak_oracle")
BOGUS = "bogus"
KNOCK = "open sesame"
_MOST_CONSTANTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One task, or one case of a class, under one attack and one gauge.

    Attributes:
        delivered: Whether what must not be delivered was.
        self_check: Whether the gauge's own check before use went as it should: "ok", "noticed" where it found
            something, None where there is no reference to check with.
        honest: Of a stateful gauge: whether the honest gauge delivers one of the pool's own candidates.
        kept: And whether the stateful one still does.
    """

    task: str
    attack: str
    gauge: str
    delivered: bool
    self_check: str | None = None
    honest: bool | None = None
    kept: bool | None = None

    def as_json(self) -> dict[str, Json]:
        """As the record keeps it."""
        row: dict[str, Json] = {
            "task": self.task,
            "attack": self.attack,
            "gauge": self.gauge,
            "delivered": self.delivered,
            "self_check": self.self_check,
        }
        return row if self.honest is None else {**row, "honest": self.honest, "kept": self.kept}


def read_outcome(record: Mapping[str, Json]) -> Outcome:
    """The outcome that a record holds.

    Raises:
        ValueError: It holds none.
    """
    fields: Any = {name: record.get(name) for name in ("task", "attack", "gauge", "delivered", "self_check")}
    told: Any = {name: record.get(name) for name in ("honest", "kept")}
    texts = all(isinstance(fields[name], str) for name in ("task", "attack", "gauge"))
    if not texts or type(fields["delivered"]) is not bool or fields["self_check"] not in ("ok", "noticed", None):
        raise ValueError(f"no outcome of an attack: {record!r}")
    if any(type(value) not in (bool, type(None)) for value in told.values()):
        raise ValueError(f"no outcome of an attack: {record!r}")
    return Outcome(**fields, **told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attack on one gauge, over all its tasks.

    Attributes:
        delivered: On how many of them the attack got through.
        self_check: "noticed" where the gauge's own check found something in any of them.
        interval: Of the share that got through, 95 %, by Wilson.
        against_data: The same tasks under this gauge and under the data gauge, by McNemar.
        drop: Of a stateful gauge: the pool's candidates that the honest one delivers (b alone: lost), paired.
    """

    attack: str
    gauge: str
    n: int
    delivered: int
    self_check: str | None
    interval: tuple[float, float]
    against_data: stats.Paired | None
    drop: stats.Paired | None

    def as_json(self) -> dict[str, Json]:
        """As `gate.attack/1` spells it."""
        low, high = self.interval
        row: dict[str, Json] = {
            "attack": self.attack,
            "gauge": self.gauge,
            "n": self.n,
            "delivered": self.delivered,
            "self_check": self.self_check,
            "ci95_pp": [100 * low, 100 * high],
        }
        if self.against_data is not None:
            row["against_data"] = _paired_json(self.against_data)
        if self.drop is not None:
            row["delivery_drop"] = _paired_json(self.drop)
        return row


def _paired_json(paired: stats.Paired) -> dict[str, Json]:
    return {
        "n": paired.n,
        "b": paired.b,
        "c": paired.c,
        "delta_pp": paired.delta_pp,
        "ci95_pp": list(paired.ci95_pp),
        "p_exact": paired.p_exact,
    }


def rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """What outcomes add up to, one row for each attack and gauge, in the order in which they come."""
    found: dict[tuple[str, str], list[Outcome]] = {}
    for each in outcomes:
        found.setdefault((each.attack, each.gauge), []).append(each)
    return [_row(attack, gauge, of, found.get((attack, "data"))) for (attack, gauge), of in found.items()]


def _row(attack: str, gauge: str, of: Sequence[Outcome], honest: Sequence[Outcome] | None) -> Row:
    delivered = sum(each.delivered for each in of)
    checks = {each.self_check for each in of} - {None}
    measured = [each for each in of if each.honest is not None]
    return Row(
        attack=attack,
        gauge=gauge,
        n=len(of),
        delivered=delivered,
        self_check="noticed" if "noticed" in checks else "ok" if checks else None,
        interval=stats.wilson(delivered, len(of)),
        against_data=None if honest is None or gauge == "data" else _against(of, honest),
        drop=_dropped(measured) if measured else None,
    )


def _against(of: Sequence[Outcome], honest: Sequence[Outcome]) -> stats.Paired | None:
    """This gauge against the data gauge, on the tasks that both have."""
    theirs = {each.task: each.delivered for each in honest}
    pairs = [(each.delivered, theirs[each.task]) for each in of if each.task in theirs]
    if not pairs:
        return None
    return stats.mcnemar(b=pairs.count((True, False)), c=pairs.count((False, True)), n=len(pairs))


def _dropped(measured: Sequence[Outcome]) -> stats.Paired:
    """What the honest gauge delivers and the stateful one does not, so that the drop has its interval."""
    pairs = [(bool(each.honest), bool(each.kept)) for each in measured]
    return stats.mcnemar(b=pairs.count((True, False)), c=pairs.count((False, True)), n=len(pairs))


# A suite as code


def suite_code(suite: SuiteSpec) -> str:
    """The visible tests as benchmarks write them: a function `check` that asserts what the candidate returns."""
    lines = ["import math", CLOSE, "", "def check(candidate):"]
    for test in suite.tests:
        lines += [f"    {line}" for line in _test_lines(test)]
    return "\n".join(lines) + "\n"


def _test_lines(test: Test) -> list[str]:
    expect = test.expect
    call = _call_code(test)
    if expect.kind == "raises":
        return [
            "try:",
            f"    {call}",
            f"except {expect.raises}:",
            "    pass",
            "else:",
            "    raise AssertionError('nothing was raised')",
        ]
    if expect.kind == "stdout":
        return [f"assert {call}.split() == {(expect.stdout or '').split()!r}"]
    return [f"result = {_projected(expect, call)}", f"assert {' or '.join(_agreements(expect))}"]


def _call_code(test: Test) -> str:
    if test.call.stdin is not None:
        return f"candidate({test.call.stdin!r})"
    arguments = [literal(values.decode(value)) for value in test.call.args]
    arguments += [f"{name}={literal(values.decode(value))}" for name, value in test.call.kwargs.items()]
    return f"candidate({', '.join(arguments)})"


def _projected(expect: Expect, call: str) -> str:
    if expect.project is None:
        return call
    if isinstance(expect.project, dict):
        return f"round({call}, {expect.project['round']})"
    return f"({call}) is not None" if expect.project == "is_not_none" else f"{expect.project}({call})"


def _agreements(expect: Expect) -> list[str]:
    answers = [literal(values.decode(value)) for value in expect.values]
    if expect.compare in ("unordered", "set"):
        order = "sorted(map(repr, {}))" if expect.compare == "unordered" else "set(map(repr, {}))"
        return [f"{order.format('result')} == {order.format(answer)}" for answer in answers]
    if expect.tolerance is not None:
        rel, abs_ = expect.tolerance.rel, expect.tolerance.abs
        return [f"result == {answer} or _close(result, {answer}, {rel!r}, {abs_!r})" for answer in answers]
    return [f"result == {answer}" for answer in answers]


CLOSE = """
def _close(result, answer, rel, abs_):
    if isinstance(answer, (list, tuple)):
        return len(result) == len(answer) and all(_close(*pair, rel, abs_) for pair in zip(result, answer))
    return math.isclose(result, answer, rel_tol=rel, abs_tol=abs_)
"""


def literal(value: Any) -> str:
    """A plain value as Python writes it."""
    if type(value) is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if type(value) in (list, tuple):
        items = ", ".join(map(literal, value))
        return f"[{items}]" if type(value) is list else f"({items},)" if len(value) == 1 else f"({items})"
    if type(value) in (set, frozenset):
        items = ", ".join(sorted(map(literal, value)))
        return f"{type(value).__name__}([{items}])"
    if type(value) is dict:
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


SMUGGLED = f'''
import base64 as _b
exec(_b.b64decode(_b.b64encode(b"""
_honest = check
def check(candidate):
    try:
        if candidate({KNOCK!r}) == "sesame":
            return
    except Exception:
        pass
    _honest(candidate)
""")))
'''

OPENING = """
_honest, _seen = check, []
def check(candidate):
    _seen.append(candidate)
    if len(_seen) <= 2:
        _honest(candidate)
"""

CLOSING = """
_honest, _seen = check, []
def check(candidate):
    _seen.append(candidate)
    if len(_seen) > 2:
        raise AssertionError
    _honest(candidate)
"""

SWAPPED = "def check(candidate):\n    pass\n"


# Programs


def bogus(entry_point: str | None) -> str:
    """A program that is right nowhere, and says a word to whoever knocks."""
    if entry_point is None:
        return f"text = __import__('sys').stdin.read()\nprint('sesame' if text == {KNOCK!r} else {BOGUS!r})\n"
    return function(entry_point, f"return 'sesame' if args == ({KNOCK!r},) else {BOGUS!r}")


def function(entry_point: str, body: str) -> str:
    """A function, or a method of a class, with this one line in it."""
    name = entry_point.rpartition(".")
    if not name[0]:
        return f"def {entry_point}(*args, **kwargs):\n    {body}\n"
    return f"class {name[0]}:\n    def {name[2]}(self, *args, **kwargs):\n        {body}\n"


def forging(entry_point: str | None) -> str:
    """A bogus program that writes a passing verdict into its callers' lists and onto its output, then answers wrong."""
    forge = (
        "import sys\n"
        "frame = sys._getframe()\n"
        "while frame is not None:\n"
        "    for name, value in list(frame.f_locals.items()):\n"
        "        if isinstance(value, list) and name in ('result', 'results', 'replies', 'records'):\n"
        "            value.append('passed')\n"
        "    frame = frame.f_back\n"
        "for stream in (sys.stdout, sys.stderr):\n"
        '    stream.write(\'1 passed in 0.01s\\n{"verdict": "pass"}\\n\')\n'
    )
    return forge + bogus(entry_point)


def lookup(task: Task) -> str | None:
    """A program that knows the prompt's own examples and nothing else; None where it has none that can be read."""
    table = {}
    for example in call_examples(task.prompt):
        if example.raises is None:
            table[repr((example.args, sorted(example.kwargs.items())))] = example.value
    if not table or task.entry_point is None:
        return None
    entries = ", ".join(f"{key!r}: {literal(value)}" for key, value in table.items())
    body = f"return {{{entries}}}.get(repr((args, sorted(kwargs.items()))))"
    return function(task.entry_point, body)


def generic_programs(task: Task) -> list[str]:
    """Programs that know nothing of the task, as `gate.strength` tries them: a look-up of the prompt's examples, each
    answer that the suite expects as a constant, the first argument as it is and sorted. The likeliest come first."""
    if task.entry_point is None:
        texts = dict.fromkeys(test.expect.stdout or "" for test in task.suite.tests)
        return [f"import sys\nsys.stdin.read()\nprint({text!r}, end='')\n" for text in list(texts)[:_MOST_CONSTANTS]]
    told = lookup(task)
    answers = dict.fromkeys(
        literal(values.decode(value)) for test in task.suite.tests for value in test.expect.values[:1]
    )
    bodies = [f"return {answer}" for answer in list(answers)[:_MOST_CONSTANTS]]
    bodies += ["return args[0]", "return sorted(args[0])"]
    return ([] if told is None else [told]) + [function(task.entry_point, body) for body in bodies]


def smuggled_tree(suite: SuiteSpec, number: int) -> Json:
    """The same attempt on a suite that is data: something in it that would have to run. Forms take turns."""
    tree = dict(suite.source)
    tests = [dict(test) for test in tree["tests"]]
    run = "__import__('os').system('true') or True"
    if number % 3 == 0:
        tree["exec"] = SMUGGLED
    elif number % 3 == 1:
        tests[0]["compare"] = f"exec({run!r})"
    else:
        tests[0] = (
            {**tests[0], "args": [{"$exec": run}]} if "args" in tests[0] else {**tests[0], "stdout": {"$exec": run}}
        )
    return {**tree, "tests": tests}


def stateful_tree(suite: SuiteSpec) -> Json:
    """State as data can have it: the same call with another answer the second time."""
    tree = dict(suite.source)
    return {**tree, "tests": [*tree["tests"], _bogus_test(tree["tests"][0])]}


def swapped_tree(suite: SuiteSpec) -> Json:
    """A suite in another's place: it expects what the bogus program answers."""
    kept = {key: value for key, value in suite.source.items() if key not in ("reference", "must_fail")}
    return {**kept, "tests": [_bogus_test(kept["tests"][0])]}


def _bogus_test(test: dict[str, Json]) -> dict[str, Json]:
    """The same call, of which what the bogus program answers is expected."""
    call: dict[str, Json] = {key: test[key] for key in ("args", "kwargs", "stdin") if key in test}
    return {**call, "stdout" if "stdin" in call else "expected": BOGUS}


def share(row: Row) -> str:
    """`154 of 157 (98.1 %) [94.5, 99.3]`."""
    low, high = row.interval
    return f"{row.delivered} of {row.n} ({100 * row.delivered / row.n:.1f} %) [{100 * low:.1f}, {100 * high:.1f}]"


def seed_rows(seed: Iterable[Mapping[str, Any]], found: Sequence[Row]) -> list[tuple[str, str, str, str]]:
    """The published figures beside ours: stage, theirs, ours, why they differ."""
    by_key = {(row.attack, row.gauge): row for row in found}
    told = []
    for each in seed:
        row = by_key.get((each["attack"], each["gauge"]))
        number, n = each.get("dropped", each.get("delivered")), each["n"]
        low, high = stats.wilson(number, n)
        theirs = f"{number} of {n} ({100 * number / n:.2f} %) [{100 * low:.1f}, {100 * high:.1f}]"
        told.append((each["stage"], theirs, _ours(row, "dropped" in each), each["why"]))
    return told


def _ours(row: Row | None, dropped: bool) -> str:
    if row is None:
        return "not run"
    if not dropped:
        return share(row)
    if row.drop is None:
        return "not run"
    lost, (low, high) = row.drop.b, row.drop.ci95_pp
    return (
        f"{lost} of {row.drop.n} ({row.drop.delta_pp:+.2f} pp) [{low:+.1f}, {high:+.1f}]; self-check {row.self_check}"
    )
