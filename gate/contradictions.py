"""Contradictory tests: the same call, and no answer that all of them take.

No deterministic program can pass such a suite, only one that counts its calls. The
judgement is careful: whatever some comparator might call equal counts as equal here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gate import compare, values
from gate.compare import builtin_exception
from gate.model import Test, Tolerance, canonical_json, digest_json

_MOST = 1e300  # beyond it, the arithmetic of intervals leaves the doubles
_EARLIER = 16  # tests of one call that a later one is held against, one by one
_PAIRS = 64  # answers of two tests that are held against each other
_MATCHING_STEPS = 10_000


def contradictions(tests: Sequence[Test]) -> Iterator[tuple[int, int]]:
    """Pairs of indexes of tests that cannot both hold, the later one second."""
    groups: dict[str, list[int]] = {}
    for index, test in enumerate(tests):
        groups.setdefault(digest_json(test.call.as_json()), []).append(index)
    for group in groups.values():
        if len(group) > 1:
            first = group[0]
            yield from ((first, group[later]) for later in _refused([tests[index] for index in group]))


def _refused(group: list[Test]) -> Iterator[int]:
    """Positions in a group of tests of one call that go against those before them."""
    kind = group[0].expect.kind
    others = {position for position, test in enumerate(group) if test.expect.kind != kind}
    yield from sorted(others)
    alike = [(position, test) for position, test in enumerate(group) if position not in others]
    if kind == "raises":
        yield from _against_exceptions(alike)
    elif kind == "stdout":
        yield from _against_texts(alike)
    else:
        projections = {canonical_json(test.expect.project): None for _, test in alike}
        for project in projections:
            yield from _against_values([pair for pair in alike if canonical_json(pair[1].expect.project) == project])


def _against_exceptions(group: list[tuple[int, Test]]) -> Iterator[int]:
    """One exception can be several classes only along one line of descent."""
    narrowest: type[BaseException] = BaseException
    for position, test in group:
        raises = builtin_exception(test.expect.raises or "") or BaseException
        if issubclass(raises, narrowest):
            narrowest = raises
        elif not issubclass(narrowest, raises):
            yield position


def _against_texts(group: list[tuple[int, Test]]) -> Iterator[int]:
    exact = all(test.expect.compare == "exact" for _, test in group)
    texts = [test.expect.stdout or "" for _, test in group]
    keys = texts if exact else [" ".join(text.split()) for text in texts]
    for (position, _), key in zip(group, keys, strict=True):
        if key != keys[0]:
            yield position


def _against_values(group: list[tuple[int, Test]]) -> Iterator[int]:
    """Answers are equal where their coarse texts are; with a tolerance, numbers are intervals."""
    free = any(test.expect.compare in ("set", "unordered") or test.expect.project == "set" for _, test in group)
    blur = any(test.expect.tolerance is not None for _, test in group)
    common: set[str] = set()
    low, high = -math.inf, math.inf
    kept: list[Test] = []
    for position, test in group:
        answers = {_coarse(values.decode(value), free, blur) for value in test.expect.values}
        least, most = _span(test)
        clashes = any(_clash(earlier, test) for earlier in kept[:_EARLIER])
        if common and (clashes or not common & answers or least > high or most < low):
            yield position
        else:
            kept.append(test)
            common = common & answers or answers
            low, high = max(low, least), min(high, most)


def _clash(first: Test, second: Test) -> bool:
    """Whether two tests with the same comparator surely cannot both hold, whichever of their answers is returned."""
    one, two = first.expect, second.expect
    if one.compare != two.compare or one.project is not None or len(one.values) * len(two.values) > _PAIRS:
        return False
    if one.tolerance is None and two.tolerance is None:
        wanted = replace(one, nan_ok=True)
        return all(compare.surely_differs(wanted, values.decode(value), steps=_MATCHING_STEPS) for value in two.values)
    return one.compare in ("json", "python", "strict") and all(
        _apart(values.decode(ours), values.decode(theirs), one.tolerance, two.tolerance)
        for ours in one.values
        for theirs in two.values
    )


def _apart(ours: Any, theirs: Any, one: Tolerance | None, two: Tolerance | None) -> bool:
    """Whether somewhere in two values of one shape there are numbers that no third is close to."""
    pairs = [(ours, theirs)]
    while pairs:
        first, second = pairs.pop()
        if isinstance(first, list | tuple) and isinstance(second, list | tuple) and len(first) == len(second):
            pairs.extend(zip(first, second, strict=True))
        elif isinstance(first, dict) and isinstance(second, dict):
            pairs.extend((first[key], second[key]) for key in first.keys() & second.keys())
        elif type(first) in (int, float) and type(second) in (int, float):
            (least, most), (low, high) = _interval(first, one), _interval(second, two)
            if least > high or most < low:
                return True
    return False


def _interval(answer: float, tolerance: Tolerance | None) -> tuple[float, float]:
    """The numbers that are close to one, generously; all of them where that is hard to say."""
    if abs(answer) > _MOST or answer != answer or (tolerance is not None and tolerance.rel > 0.5):
        return -math.inf, math.inf
    if tolerance is None:
        return answer, answer
    slack = max(tolerance.abs, 2 * tolerance.rel * abs(answer))  # isclose goes by the larger of the two
    return answer - slack, answer + slack


def _span(test: Test) -> tuple[float, float]:
    """The numbers that a test of one number with a tolerance takes, generously."""
    tolerance, answer = test.expect.tolerance, test.expect.values[0]
    if tolerance is None or len(test.expect.values) > 1 or type(answer) not in (int, float):
        return -math.inf, math.inf
    return _interval(answer, tolerance)


def _coarse(value: Any, free: bool, blur: bool) -> str:
    """A text that is the same for values that some comparator takes for equal.

    Args:
        free: Whether order and repetition may count for nothing.
        blur: Whether numbers may differ.
    """
    if isinstance(value, bool | int | float | complex):
        return "#" if blur else _number(value)
    if isinstance(value, list | tuple):
        items = [_coarse(item, free, blur) for item in value]
        return f"[{','.join(sorted(set(items)) if free else items)}]"
    if isinstance(value, set | frozenset):
        items = sorted({_coarse(item, free, blur) for item in value})
        return f"[{','.join(items)}]" if free else f"set[{','.join(items)}]"
    if isinstance(value, dict):
        pairs = sorted(f"{_coarse(key, free, blur)}:{_coarse(item, free, blur)}" for key, item in value.items())
        return f"{{{','.join(pairs)}}}"
    return repr(value)


def _number(value: complex) -> str:
    """A number by its value: True, 1, 1.0 and 1+0j are the same."""
    if isinstance(value, complex) and value.imag == 0:
        value = value.real
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value) if isinstance(value, int) else repr(value)
