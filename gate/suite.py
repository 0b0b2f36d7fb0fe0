"""SuiteSpecs: what must hold for a task, from YAML, JSON or a line of a bank.

Theory of operation. A text becomes a tree (`gate.document`), the tree is checked object
by object (`gate.suiteform`) and as a whole (here), and is brought into one normal form:
defaults filled in, the suite's comparator written into each test. The digest is over the
normal form, so it does not depend on the spelling, and the form loads again as itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gate import values
from gate.contradictions import contradictions
from gate.document import line_of, parse_document, parse_line
from gate.errors import SpecError
from gate.model import Call, Expect, Json, Limits, SuiteSpec, Task, Test, Tolerance, digest_json
from gate.places import Path, path_text, shown
from gate.suiteform import (
    EXPECTATIONS,
    TEXT_COMPARATORS,
    VALUE_COMPARATORS,
    HeadForm,
    Problem,
    TestForm,
    fill,
    suite_json_schema,
)

__all__ = ["load_bank_line", "load_suite", "suite_from_tree", "suite_json_schema", "task_of"]

_CALL_KEYS = ("args", "kwargs", "expected", "any_of", "raises", "tolerance", "nan_ok", "project")
_RUN_KEYS = ("stdin", "stdout")
_RESULT_KEYS = ("tolerance", "nan_ok", "project")


def load_suite(data: bytes, name: str) -> SuiteSpec:
    """Load a suite from the bytes of a YAML or JSON file.

    Args:
        data: The file's bytes.
        name: What error messages call the file.

    Raises:
        SpecError: The file is no suite; the message says where, what and what to do.
    """
    tree = parse_document(data, name)
    return suite_from_tree(tree, name, line_at=lambda path: line_of(data, path), hidden_only=False)


def load_bank_line(line: bytes, name: str, number: int) -> Task:
    """Load the task on one line of a JSONL bank.

    Visible tests may be missing where there are hidden ones; such a task is refused
    later, without a draw.

    Args:
        line: The line's bytes.
        name: What error messages call the file.
        number: The line's number, from 1.

    Raises:
        SpecError: The line is no suite.
    """
    tree = parse_line(line, name, number)
    return task_of(suite_from_tree(tree, name, line_at=lambda path: number))


def task_of(suite: SuiteSpec) -> Task:
    """The task that a suite states."""
    return Task(id=suite.task_id, prompt=suite.prompt, entry_point=suite.entry_point, suite=suite)


def suite_from_tree(
    tree: Json, name: str = "suite", *, line_at: Callable[[Path], int] | None = None, hidden_only: bool = True
) -> SuiteSpec:
    """Load a suite from a tree, as `SuiteSpec.source` holds one.

    Args:
        tree: Plain JSON.
        name: What error messages call the tree.
        line_at: Finds the line of a path, where there are lines.
        hidden_only: Whether hidden tests may stand without visible ones.

    Raises:
        SpecError: The tree is no suite.
    """
    report = _Report(tree, name, line_at)
    report.refuse(_problems(tree, hidden_only))
    suite = _suite(_normal(tree))
    report.refuse(_joint_problems(suite))
    return suite


class _Report:
    """Turns problems of one tree into an error that names the first of them in the document."""

    def __init__(self, tree: Json, name: str, line_at: Callable[[Path], int] | None) -> None:
        self.tree = tree
        self.name = name
        self.line_at = line_at
        self.orders: dict[int, dict[str, int]] = {}

    def refuse(self, problems: Iterator[Problem]) -> None:
        """Raise a SpecError if there is any problem; only the first is kept in memory."""
        count, first = 0, None
        for problem in problems:
            count += 1
            if first is None or self._rank(problem[0]) < self._rank(first[0]):
                first = problem
        if first is not None:
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise SpecError(f"{self._place(first[0])}: {first[1]}{more}")

    def _place(self, path: Path) -> str:
        place = self.name if self.line_at is None else f"{self.name}:{self.line_at(path)}"
        return f"{place}: {path_text(path)}" if path else place

    def _rank(self, path: Path) -> tuple[int, ...]:
        """A key to sort paths by; a missing member stands where its object does."""
        ranks: list[int] = []
        part = self.tree
        for step in path:
            rank = self._order(part).get(str(step)) if isinstance(part, dict) else int(step)
            if rank is None:
                break
            ranks.append(rank)
            part = part[step]
        return tuple(ranks)

    def _order(self, part: dict[str, Json]) -> dict[str, int]:
        if id(part) not in self.orders:
            self.orders[id(part)] = {key: number for number, key in enumerate(part)}
        return self.orders[id(part)]


# Checks


def _problems(tree: Json, hidden_only: bool) -> Iterator[Problem]:
    """What is wrong with the parts of a tree, each on its own."""
    if not isinstance(tree, dict):
        yield (), f"a suite is an object with version, task and tests, not {shown(tree)}"
        return
    yield from _head_problems(tree)
    yield from _list_problems(tree, hidden_only)
    yield from _each_test(tree)


def _head_problems(tree: dict[str, Json]) -> Iterator[Problem]:
    form, problems = fill(HeadForm, _head(tree), ())
    yield from problems
    if form is not None and "compare" in tree:
        yield from _family_problem(form.compare, "entry_point" in tree, ("compare",))


def _head(tree: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in tree.items() if key not in ("tests", "hidden")}


def _family_problem(compare: str, calls: bool, path: Path) -> Iterator[Problem]:
    known = VALUE_COMPARATORS if calls else TEXT_COMPARATORS
    if compare not in known:
        kind = "returned values" if calls else "printed text"
        yield path, f"unknown {shown(compare)} for {kind} (known: {', '.join(known)})"


def _list_problems(tree: dict[str, Json], hidden_only: bool) -> Iterator[Problem]:
    for key in ("tests", "hidden"):
        if not isinstance(tree.get(key, []), list):
            yield (key,), f"should be a list of tests, not {shown(tree[key])}"
    if not tree.get("tests", []) and not (hidden_only and tree.get("hidden")):
        what = "is empty: write at least one test" if "tests" in tree else "is missing: write at least one test"
        yield ("tests",), what


def _each_test(tree: dict[str, Json]) -> Iterator[Problem]:
    for key in ("tests", "hidden"):
        if isinstance(tree.get(key), list):
            for index, fields in enumerate(tree[key]):
                yield from _test_problems(fields, (key, index), calls="entry_point" in tree)


def _test_problems(fields: Json, path: Path, calls: bool) -> Iterator[Problem]:
    form, problems = fill(TestForm, fields, path)
    yield from problems
    if form is None:
        return
    yield from _kind_problems(fields, path, calls)
    if "compare" in fields:
        yield from _family_problem(form.compare, calls, (*path, "compare"))
    for key in ("args", "kwargs", "expected", "any_of"):
        if key in fields:
            yield from _value_problems(fields[key], (*path, key), is_list=key in ("args", "any_of"))


def _kind_problems(fields: dict[str, Json], path: Path, calls: bool) -> Iterator[Problem]:
    """A test belongs to calls or to programs, and expects exactly one thing."""
    foreign = [key for key in (_RUN_KEYS if calls else _CALL_KEYS) if key in fields and not _is_default(key, fields)]
    for key in foreign:
        yield (*path, key), _FOREIGN[calls]
    kinds = [key for key in EXPECTATIONS if key in fields]
    if not foreign and len(kinds) != 1:
        wanted = "exactly one of expected, any_of or raises" if calls else "stdout"
        yield path, f"needs {wanted}, has {' and '.join(kinds) or 'none'}"
    if kinds == ["raises"]:
        for key in _RESULT_KEYS:
            if key in fields and not _is_default(key, fields):
                yield (*path, key), "has no effect beside raises: remove it"


_FOREIGN = {
    True: "is for programs on stdin and stdout, and this suite has an entry_point: remove one of them",
    False: "is for calls, and this suite has no entry_point: add it, or write stdin and stdout",
}


def _is_default(key: str, fields: dict[str, Json]) -> bool:
    return key == "nan_ok" and fields[key] is False


def _value_problems(value: Json, path: Path, is_list: bool) -> Iterator[Problem]:
    """Undecodable values: one problem for each member of a list, or for a mapping of values."""
    members: Iterator[tuple[Path, Json]]
    if is_list:
        members = (((*path, index), item) for index, item in enumerate(value))
    elif path[-1] == "kwargs":
        members = (((*path, key), item) for key, item in value.items())
    else:
        members = iter([(path, value)])
    for place, item in members:
        what = _undecodable(item)
        if what is not None:
            yield _innermost(item, place, what)


def _undecodable(value: Json) -> str | None:
    """Why a value is no tagged JSON; None where it is."""
    if value is None or type(value) in (int, str, bool):
        return None
    try:
        values.decode(value)
    except values.CodecError as exc:
        return str(exc)
    return None


def _innermost(value: Json, path: Path, what: str) -> Problem:
    """Follow a problem down to the innermost value that has it."""
    while True:
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, part in parts:
            inner = _undecodable(part)
            if inner is not None:
                value, path, what = part, (*path, step), inner
                break
        else:
            return path, what


def _joint_problems(suite: SuiteSpec) -> Iterator[Problem]:
    """What is wrong with tests taken together, in a suite that is right otherwise."""
    for key, tests in (("tests", suite.tests), ("hidden", suite.hidden)):
        for first, second in contradictions(tests):
            yield (key, second), f"contradicts {key}[{first}]: the same call, and no answer that both take"
    if suite.entry_point is None and suite.tests and not any(map(_prints, suite.tests)):
        yield ("tests",), "expect nothing to be printed, so a program that does nothing passes: add a test"


def _prints(test: Test) -> bool:
    text = test.expect.stdout or ""
    return bool(text if test.expect.compare == "exact" else text.strip())


# The normal form


def _normal(tree: dict[str, Json]) -> dict[str, Json]:
    """The normal form of a tree that has passed its checks."""
    head = HeadForm.model_validate(_head(tree))
    default = head.compare or ("json" if "entry_point" in tree else "lines")
    source: dict[str, Json] = {
        "version": 1,
        "task": head.task,
        "prompt": head.prompt,
        "limits": head.limits.model_dump(),
        "must_fail": head.must_fail,
        "tests": [_normal_test(fields, default) for fields in tree.get("tests", [])],
        "hidden": [_normal_test(fields, default) for fields in tree.get("hidden", [])],
    }
    return source | {key: tree[key] for key in ("entry_point", "reference") if key in tree}


def _normal_test(fields: dict[str, Json], default: str) -> dict[str, Json]:
    form = TestForm.model_validate(fields)
    test: dict[str, Json] = {key: fields[key] for key in EXPECTATIONS if key in fields}
    if "stdout" in fields:
        test["stdin"] = form.stdin
    else:
        test |= {"args": form.args, "kwargs": form.kwargs}
    if "raises" not in fields:
        test["compare"] = form.compare or default
    if "tolerance" in fields:
        test["tolerance"] = form.tolerance.model_dump()
    if form.nan_ok:
        test["nan_ok"] = True
    return test | ({"project": fields["project"]} if "project" in fields else {})


def _suite(source: dict[str, Json]) -> SuiteSpec:
    """The suite that a normal form states."""
    return SuiteSpec(
        task_id=source["task"],
        prompt=source["prompt"],
        entry_point=source.get("entry_point"),
        limits=Limits(**source["limits"]),
        tests=tuple(map(_test, source["tests"])),
        hidden=tuple(map(_test, source["hidden"])),
        reference=source.get("reference"),
        must_fail=tuple(source["must_fail"]),
        digest=digest_json(source),
        source=source,
    )


def _test(fields: dict[str, Json]) -> Test:
    if "stdout" in fields:
        return Test(call=Call(stdin=fields["stdin"]), expect=_expect("stdout", fields, stdout=fields["stdout"]))
    call = Call(args=tuple(fields["args"]), kwargs=fields["kwargs"])
    if "raises" in fields:
        return Test(call=call, expect=_expect("raises", fields, raises=fields["raises"]))
    answers = fields["any_of"] if "any_of" in fields else [fields["expected"]]
    return Test(call=call, expect=_expect("value", fields, values=tuple(answers)))


def _expect(kind: Any, fields: dict[str, Json], **what: Any) -> Expect:
    tolerance = Tolerance(**fields["tolerance"]) if "tolerance" in fields else None
    return Expect(
        kind=kind,
        compare=fields.get("compare", "json"),
        tolerance=tolerance,
        project=fields.get("project"),
        nan_ok=fields.get("nan_ok", False),
        **what,
    )
