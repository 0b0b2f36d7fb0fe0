"""How strong a suite is: which programs that know nothing of the task pass its visible tests.

Theory of operation. The programs are made of the suite itself: each expected value
returned always, an argument or a part of one handed back, the examples that stand in the
prompt looked up. They are pure functions of ours over decoded plain data, judged by the
same comparators as a candidate, so no container is asked. A program is dropped at the
first test that it does not pass; tests are tried in the order of their size, and one
that has refused a program is tried first on the next, so almost every program costs one
comparison. All that is compared is counted, and a suite that would cost more than
`_allowance` is held to be weak: doubt is never success.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gate import compare, values
from gate.compare import builtin_exception
from gate.examples import Example, call_examples, printed_in
from gate.model import Expect, Json, SuiteSpec, Task, Test, canonical_json, digest_json

LOOK_UP = "looks up the prompt's examples"
UNTRIED = "was not ruled out: the suite is too large to try every constant"

_MATCHING_STEPS = 10_000  # of `gate.compare`, for each comparison: a hundredth of a second
_MAX_POSITIONS = 6
_MAX_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """What programs that know nothing say of a suite.

    Attributes:
        programs: Those that pass every visible test, in words, as "returns one constant: 5".
        overlap: How many visible tests stand in the prompt, call and answer.
        tests: How many visible tests there are.
    """

    programs: tuple[str, ...]
    overlap: int
    tests: int

    @property
    def weak(self) -> bool:
        """Whether any of them passes."""
        return bool(self.programs)

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells it."""
        return {
            "weak": self.weak,
            "programs": list(self.programs),
            "prompt_overlap": self.overlap,
            "tests": self.tests,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakness:
    """How many suites of a bank are weak, and which program gets through most of them.

    Attributes:
        commonest: A kind of program, in words; None where no suite is weak.
        passed: How many suites it passes.
    """

    suites: int
    weak: int
    commonest: str | None
    passed: int

    def as_json(self) -> dict[str, Json]:
        """As `gate.run/1` spells it."""
        return {"suites": self.suites, "weak": self.weak, "commonest": self.commonest, "passes": self.passed}


@dataclass(slots=True)
class Strengths:
    """Folds the strengths of a bank's suites; what it holds does not grow with the bank."""

    suites: int = 0
    weak: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, found: Strength) -> None:
        """Take in one suite's."""
        self.suites += 1
        self.weak += found.weak
        self.kinds.update(kinds(found))

    def weakness(self) -> Weakness:
        """What they come to."""
        commonest, passed = min(self.kinds.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
        return Weakness(suites=self.suites, weak=self.weak, commonest=commonest, passed=passed)


def kinds(found: Strength) -> set[str]:
    """The kinds of the programs that pass: "returns one constant", whatever the constant is."""
    return {program.partition(":")[0] for program in found.programs}


def strength(what: SuiteSpec | Task) -> Strength:
    """Try the programs that know nothing on a suite's visible tests.

    A suite without visible tests passes nobody, so it is not weak.
    """
    suite = what.suite if isinstance(what, Task) else what
    standing = _standing(suite)
    overlap = sum(standing)
    programs: list[str] = []
    if suite.tests:
        try:
            programs.extend(_programs_that_pass(suite))
        except _TooMuch:
            programs.append(UNTRIED)
    if suite.tests and overlap == len(suite.tests):
        programs.append(LOOK_UP)
    return Strength(programs=tuple(programs), overlap=overlap, tests=len(suite.tests))


# What a program does on one call: it returns a value, or raises an exception of these names along its MRO.
_Answer: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A pure function of ours that stands for a program; `constant` where it does not look at its input."""

    name: str
    answer: _Answer
    constant: bool = False


class _Raised(Exception):
    """What a program of ours raises to say which exception the real one would raise."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.kind = builtin_exception(name) or Exception


class _TooMuch(Exception):
    """More would be compared than may be."""


class _Trial:
    """The visible tests, in the order in which they are tried, and the work that is left."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self.tests = tests
        self.weights = [_weight([list(test.expect.values), test.expect.stdout]) for test in tests]
        self.order = sorted(range(len(tests)), key=self.weights.__getitem__)
        self.left = _allowance(sum(self.weights) + sum(_weight(list(test.call.args)) for test in tests))
        self.inputs: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def passes(self, program: _Program) -> bool:
        """Whether a program passes every test."""
        for place, index in enumerate(self.order):
            self.left -= 1 + self.weights[index]
            if self.left < 0:
                raise _TooMuch
            if not _agrees(self.tests[index].expect, program, self._input(index, program)):
                if place:
                    self.order.insert(0, self.order.pop(place))
                return False
        return True

    def _input(self, index: int, program: _Program) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The decoded input of a test; those that were asked for last are kept."""
        if program.constant:
            return (), {}
        if index not in self.inputs:
            if len(self.inputs) > 8:
                self.inputs.clear()
            self.inputs[index] = _decoded(self.tests[index])
        return self.inputs[index]


def _decoded(test: Test) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if test.call.stdin is not None:
        return (test.call.stdin,), {}
    args = tuple(values.decode(item) for item in test.call.args)
    return args, {name: values.decode(item) for name, item in test.call.kwargs.items()}


def _allowance(weight: int) -> int:
    """How much may be compared in all, in values and characters, for a suite of that many."""
    return 1_000_000 + 20 * weight


def _weight(value: Json) -> int:
    """About how many values and characters there are in a JSON value."""
    weight, rest = 0, [value]
    while rest:
        part = rest.pop()
        weight += 1 + (len(part) // 16 if isinstance(part, str) else 0)
        if isinstance(part, dict):
            rest.extend(part.values())
        elif isinstance(part, list):
            rest.extend(part)
    return weight


def _agrees(expect: Expect, program: _Program, given: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
    """Whether what a program answers is what a test expects."""
    try:
        got = program.answer(*given)
    except _Raised as exc:
        return compare.raised_agrees(expect, [kind.__name__ for kind in exc.kind.__mro__])
    except (LookupError, TypeError, ValueError, ArithmeticError) as exc:
        return compare.raised_agrees(expect, [kind.__name__ for kind in type(exc).__mro__])
    if expect.kind == "stdout":
        return compare.printed_agrees(expect, got)
    return compare.agrees(expect, got, steps=_MATCHING_STEPS)


# The programs


def _programs_that_pass(suite: SuiteSpec) -> Iterator[str]:
    """The names of the programs that pass; of the constants that pass, only the first."""
    trial = _Trial(suite.tests)
    programs = _call_programs(suite.tests) if suite.entry_point else _TEXT_PROGRAMS
    yield from (program.name for program in programs if trial.passes(program))
    constants = _constants(suite.tests) if suite.entry_point else _texts(suite.tests)
    yield from [program.name for program in constants if trial.passes(program)][:1]


def _constants(tests: Sequence[Test]) -> Iterator[_Program]:
    """Each value and each exception that is expected anywhere, and the values that stand for nothing."""
    known: set[str] = set()
    for tagged in [*(value for test in tests for value in test.expect.values), *_NOTHINGS]:
        digest = digest_json(tagged)
        if digest not in known:
            known.add(digest)
            yield _constant(values.decode(tagged))
    for name in dict.fromkeys(test.expect.raises for test in tests if test.expect.raises):
        yield _Program(name=f"raises one exception: {name}", answer=_raising(name), constant=True)


_NOTHINGS: tuple[Json, ...] = (None, True, False, 0, 1, -1, "", [], {}, {"$tuple": []}, {"$set": []}, 0.0)


def _constant(value: Any) -> _Program:
    return _Program(name=f"returns one constant: {_shown(value)}", answer=lambda args, kwargs: value, constant=True)


def _raising(name: str) -> _Answer:
    def answer(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise _Raised(name)

    return answer


def _shown(value: Any) -> str:
    """A value in a few characters, on one line."""
    text = compare.glimpse(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


_OF_ONE: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("returns {}", lambda value: value),
    ("returns the length of {}", len),
    ("returns the first element of {}", lambda value: value[0]),
    ("returns the last element of {}", lambda value: value[-1]),
    ("returns {} reversed", lambda value: value[::-1]),
    ("returns {} sorted", lambda value: sorted(value)),
    ("returns {} sorted downwards", lambda value: sorted(value, reverse=True)),
    ("returns {} as a set", lambda value: values.gather(value)),
    ("returns whether {} is true", bool),
    ("returns whether {} is false", lambda value: not value),
    ("returns the negative of {}", lambda value: -value),
)


def _call_programs(tests: Sequence[Test]) -> Iterator[_Program]:
    """Programs that hand back what they are given, or a part of it."""
    yield _Program(name="returns the list of its arguments", answer=lambda args, kwargs: list(args))
    most = min(_MAX_POSITIONS, max(len(test.call.args) for test in tests))
    for position in range(most):
        yield from _of_one(_ORDINALS[position], lambda args, kwargs, at=position: args[at])
    if len({len(test.call.args) for test in tests}) > 1 or most < max(len(test.call.args) for test in tests):
        yield from _of_one("its last argument", lambda args, kwargs: args[-1])
    for name in sorted({name for test in tests for name in test.call.kwargs})[:_MAX_POSITIONS]:
        yield from _of_one(f"its argument {name}", lambda args, kwargs, at=name: kwargs[at])


_ORDINALS = [f"its {word} argument" for word in ("first", "second", "third", "fourth", "fifth", "sixth")]


def _of_one(what: str, pick: Callable[..., Any]) -> Iterator[_Program]:
    for phrase, function in _OF_ONE:
        yield _Program(name=phrase.format(what), answer=_composed(function, pick))


def _composed(function: Callable[[Any], Any], pick: Callable[..., Any]) -> _Answer:
    return lambda args, kwargs: function(pick(args, kwargs))


def _texts(tests: Sequence[Test]) -> Iterator[_Program]:
    """Each text that is expected anywhere."""
    for text in dict.fromkeys(["", *(test.expect.stdout or "" for test in tests)]):
        name = f"prints one text: {_shown(text)}" if text else "prints nothing"
        yield _Program(name=name, answer=lambda args, kwargs, text=text: text, constant=True)  # type: ignore[misc]


def _text_program(name: str, function: Callable[[str], str]) -> _Program:
    return _Program(name=name, answer=lambda args, kwargs: function(args[0]))


_TEXT_PROGRAMS = (
    _text_program("prints its input", lambda text: text),
    _text_program("prints the first line of its input", lambda text: text.splitlines()[0]),
    _text_program("prints the last line of its input", lambda text: text.splitlines()[-1]),
    _text_program("prints all of its input but the first line", lambda text: "\n".join(text.splitlines()[1:])),
    _text_program("prints the first word of its input", lambda text: text.split()[0]),
    _text_program("prints the last word of its input", lambda text: text.split()[-1]),
    _text_program("prints its input reversed", lambda text: text.rstrip("\n")[::-1]),
    _text_program("prints how many lines its input has", lambda text: str(len(text.splitlines()))),
    _text_program("prints how many words its input has", lambda text: str(len(text.split()))),
    _text_program("prints how long its input is", lambda text: str(len(text.rstrip("\n")))),
)


# What stands in the prompt


def _standing(suite: SuiteSpec) -> list[bool]:
    """For each visible test, whether its call and an answer that it takes stand in the prompt."""
    if suite.entry_point is None:
        pairs = [(test.call.stdin or "", test.expect.stdout or "") for test in suite.tests]
        return printed_in(suite.prompt, pairs)
    told: dict[str, list[Example]] = {}
    for example in call_examples(suite.prompt):
        try:
            args = [values.encode(item) for item in example.args]
            kwargs = {name: values.encode(item) for name, item in example.kwargs.items()}
        except values.CodecError:  # no suite can hold such a call
            continue
        told.setdefault(_call_text(args, kwargs), []).append(example)
    if not told:
        return [False] * len(suite.tests)
    return [
        any(_says(example, test.expect) for example in told.get(_call_text(test.call.args, test.call.kwargs), ()))
        for test in suite.tests
    ]


def _call_text(args: Sequence[Json], kwargs: dict[str, Json]) -> str:
    """A text that calls share whose numbers are equal by value: 1.0 stands in prompts as 1."""
    return canonical_json(_by_value([list(args), kwargs]))


def _by_value(value: Json) -> Json:
    if isinstance(value, list):
        return [_by_value(item) for item in value]
    if isinstance(value, dict):
        return {key: _by_value(item) for key, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _says(example: Example, expect: Expect) -> bool:
    if example.raises is not None:
        kind = builtin_exception(example.raises) or Exception
        return compare.raised_agrees(expect, [each.__name__ for each in kind.__mro__])
    return compare.agrees(expect, example.value, steps=_MATCHING_STEPS)
