"""What counts as the right answer, and what a hostile answer cannot do to the comparison."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate import compare
from gate.compare import COMPARATORS, TEXT_COMPARATORS, agrees, explain, printed_agrees, raised_agrees
from gate.model import Expect, Tolerance
from gate.values import CodecError, encode

NAN, INF = float("nan"), float("inf")
HUGE = 10**400  # beyond the doubles

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([-0.0, 0.0, 1.0, 0.5, INF, 2**53 + 1, float(2**53), HUGE, 1j, 1 + 0j])
    | st.sampled_from(["", "a", "1", b"", b"a"])
)
members = st.recursive(scalars, lambda inner: st.lists(inner).map(tuple) | st.frozensets(inner), max_leaves=6)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(members)
        | st.frozensets(members)
        | st.dictionaries(members, inner)
    ),
    max_leaves=10,
)


def expecting(
    *right: Any,
    compare: str = "json",
    tolerance: Tolerance | None = None,
    project: str | dict[str, int] | None = None,
    nan_ok: bool = False,
) -> Expect:
    return Expect(
        kind="value",
        values=tuple(encode(value) for value in right),
        compare=compare,
        tolerance=tolerance,
        project=project,
        nan_ok=nan_ok,
    )


def near(absolute: float = 0.0, *, rel: float = 0.0) -> Tolerance:
    return Tolerance(rel=rel, abs=absolute)


def vary(value: Any, rng: random.Random, *, as_member: bool = False) -> Any:
    """The same value up to what some comparator overlooks: kinds of sequence, set and number, order of keys."""
    kind = type(value)
    if kind in (list, tuple):
        items = [vary(item, rng, as_member=as_member) for item in value]
        return items if not as_member and rng.random() < 0.5 else tuple(items)
    if kind in (set, frozenset):
        varied = frozenset(vary(item, rng, as_member=True) for item in value)
        return set(varied) if not as_member and rng.random() < 0.5 else varied
    if kind is dict:
        pairs = rng.sample(list(value.items()), len(value))
        return {vary(key, rng, as_member=True): vary(item, rng) for key, item in pairs}
    if kind in (bool, int, float) and -3 <= value <= 3 and value == int(value):
        return rng.choice([int(value), float(value), bool(value), complex(value)])
    return rng.choice(["b", b"b"]) if kind in (str, bytes) and rng.random() < 0.1 else value


pairs = st.tuples(plain, plain) | st.builds(lambda value, rng: (value, vary(value, rng)), plain, st.randoms())


def nested(wrap: Callable[[Any], Any], levels: int, core: Any) -> Any:
    for _ in range(levels):
        core = wrap(core)
    return core


def from_depth(frames: int, call: Callable[[], Any]) -> Any:
    return call() if frames == 0 else from_depth(frames - 1, call)


# ---- each comparator's idea of "the same"

# got, expected, and the comparators (by first letter) under which they agree
TABLE = [
    (1, 1, "jps"),
    (1, 2, ""),
    (1, 1.0, "jp"),
    (1, 1 + 0j, "jp"),
    (1.5, 1.5 + 1j, ""),
    (1 + 2j, 1 + 2j, "jps"),
    (0.0, -0.0, "jps"),
    (0, -0.0, "jp"),
    (complex(0.0, -0.0), 0j, "jps"),
    (True, 1, "p"),
    (False, 0.0, "p"),
    (True, True, "jps"),
    (True, False, ""),
    (2**53 + 1, float(2**53), ""),
    (2**53, float(2**53), "jp"),
    (HUGE, INF, ""),
    (HUGE, HUGE, "jps"),
    (HUGE, HUGE + 1, ""),
    (HUGE, 1e308, ""),
    (HUGE, 1j, ""),
    (INF, INF, "jps"),
    (INF, -INF, ""),
    (NAN, NAN, ""),
    (None, None, "jps"),
    (None, 0, ""),
    (None, False, ""),
    (None, "", ""),
    (None, [], ""),
    ("a", "a", "jps"),
    ("a", "b", ""),
    (b"a", b"b", ""),
    ("1", 1, ""),
    ("a", b"a", ""),
    ("a", ["a"], ""),
    (b"a", b"a", "jps"),
    (b"a", [97], ""),
    ("\ud800", "\ud800", "jps"),
    ([1, 2], [1, 2], "jps"),
    ([1, 2], [2, 1], ""),
    ([1, 2], (1, 2), "j"),
    ([1], [1, 1], ""),
    ([], [1.0], ""),
    ([[1], (2,)], [(1,), [2]], "j"),
    ([True], [1], "p"),
    ({1, 2}, {2, 1}, "jps"),
    ({1}, frozenset({1}), "jp"),
    ({1}, {1.0}, "jp"),
    ({1}, {True}, "p"),
    ({1}, {1, 2}, ""),
    ({(1, 2)}, {(1.0, 2)}, "jp"),
    ({1, 2}, [1, 2], ""),
    (set(), [], ""),
    (set(), {}, ""),
    ({}, [], ""),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "jps"),
    ({"a": 1}, {"a": 1.0}, "jp"),
    ({"a": 1}, {"a": True}, "p"),
    ({"a": [1]}, {"a": (1,)}, "j"),
    ({"a": 1}, {"b": 1}, ""),
    ({"a": 1}, {"a": 1, "b": 1}, ""),
    ({1: "a"}, {1.0: "a"}, "jp"),
    ({1: "a"}, {True: "a"}, "p"),
    ({1: "a"}, {"1": "a"}, ""),
    ({None: "a"}, {"None": "a"}, ""),
    ({b"a": 1}, {"a": 1}, ""),
    ({(1, 2): "a"}, {(1, 2.0): "a"}, "jp"),
    ({(1, (2,)): "a"}, {(1, (True,)): "a"}, ""),
    ({frozenset([1]): [1]}, {frozenset([1]): (1,)}, "j"),
    ({1: NAN}, {1: NAN}, ""),
    ({"a": [1]}, {"a": {1}}, ""),
]


@pytest.mark.parametrize(("got", "expected", "letters"), TABLE, ids=range(len(TABLE)))
@pytest.mark.parametrize("name", ["json", "python", "strict"])
@pytest.mark.parametrize("shell", [lambda x: x, lambda x: [x], lambda x: {"k": (x,)}], ids=["bare", "list", "dict"])
def test_table_of_comparisons(name: str, got: Any, expected: Any, letters: str, shell: Any) -> None:
    """What agrees under which comparator, bare and inside containers, in both directions."""
    right = name[0] in letters
    assert COMPARATORS[name](shell(got), shell(expected)) is right
    assert COMPARATORS[name](shell(expected), shell(got)) is right


@settings(max_examples=200)
@given(pairs)
@example(({1: True}, {True: 1}))
@example(([{1, 2}], [frozenset({True, 2.0})]))
def test_python_is_pythons_own_equality(pair: tuple[Any, Any]) -> None:
    """`python` says what == says, wherever there is no NaN."""
    first, second = pair
    assert COMPARATORS["python"](first, second) is (first == second)


@given(pairs)
def test_strict_is_the_narrowest(pair: tuple[Any, Any]) -> None:
    """What agrees under `strict` agrees under `json` and `python`; all are symmetric and reflexive."""
    first, second = pair
    assert not COMPARATORS["strict"](first, second) or (
        COMPARATORS["json"](first, second) and COMPARATORS["python"](first, second)
    )
    for same in COMPARATORS.values():
        assert same(first, second) is same(second, first)
    for name in ("json", "python", "strict"):
        assert COMPARATORS[name](first, first)


@given(plain)
def test_tolerance_keeps_what_is_equal(value: Any) -> None:
    """A value agrees with itself under every tolerance, and with nan_ok."""
    for tolerance in (near(0.25), near(rel=1e-9), near(rel=2.0)):
        for name in ("json", "python", "strict"):
            assert agrees(expecting(value, compare=name, tolerance=tolerance, nan_ok=True), value)


@given(st.dictionaries(members, scalars), st.randoms())
def test_order_of_keys_changes_nothing(mapping: dict[Any, Any], rng: random.Random) -> None:
    """A dict agrees with the same dict filled in another order."""
    items = list(mapping.items())
    rng.shuffle(items)
    for name in ("json", "python", "strict"):
        assert COMPARATORS[name](dict(items), mapping)


@given(st.lists(st.sampled_from("ltdsk"), max_size=6))
def test_true_is_not_one_at_any_depth(wraps: list[str]) -> None:
    """True is not 1 under `json` and `strict`, however deep in lists, tuples, dicts, sets and keys."""
    shells: dict[str, Callable[[Any], Any]] = {
        "l": lambda x: (x, 0),
        "t": lambda x: (x,),
        "d": lambda x: ("d", x),
        "s": lambda x: frozenset([x]),
        "k": lambda x: (frozenset([("k", x)]),),
    }
    true, one = True, 1
    for wrap in wraps:
        true, one = shells[wrap](true), shells[wrap](one)
    for name in ("json", "strict"):
        for shell in (lambda x: [x], lambda x: {x: "v"}, lambda x: {"v": x}, lambda x: {x}):
            assert not COMPARATORS[name](shell(true), shell(one))
            assert COMPARATORS[name](shell(one), shell(one))


def test_nan_has_no_identity() -> None:
    """The very same NaN object equals nothing, not even in a list, where Python takes a short cut."""
    for value in (NAN, [NAN], (NAN,), {NAN}, {NAN: 1}, {"a": NAN}, complex(NAN, 0)):
        for name in ("json", "python", "strict"):
            assert not COMPARATORS[name](value, value)
            assert not agrees(expecting(value, compare=name, tolerance=near(1.0)), value)
            assert agrees(expecting(value, compare=name, nan_ok=True), value)
    assert not COMPARATORS["unordered"]([NAN], [NAN])
    assert not COMPARATORS["set"]([NAN], [NAN])


def test_nan_ok_says_no_more_than_that() -> None:
    """With nan_ok NaN equals NaN and nothing else, and several NaN keys pair off with their values."""
    for other in (0.0, INF, None, "nan", 1j):
        assert not agrees(expecting(NAN, nan_ok=True), other)
        assert not agrees(expecting(other, nan_ok=True, tolerance=near(1.0)), NAN)
    assert agrees(expecting([NAN, 1], nan_ok=True, compare="unordered"), [1, NAN])
    assert agrees(expecting([NAN, 1.0], nan_ok=True, compare="unordered", tolerance=near(0.1)), [1.0, NAN])
    two = {NAN: 1, float("nan"): 2}
    swapped = {NAN: 2, float("nan"): 1}
    assert len(two) == len(swapped) == 2
    assert compare._compare("json", two, swapped, nan_ok=True)
    assert not compare._compare("json", two, {NAN: 1, float("nan"): 1}, nan_ok=True)


def test_what_is_no_plain_data_equals_nothing() -> None:
    """An object that no codec gives equals nothing, itself included."""
    thing = object()
    for same in COMPARATORS.values():
        assert not same(thing, thing)
        assert not same([thing], [thing])
        assert not same({1: thing}, {1: thing})
    assert not COMPARATORS["unordered"]({(thing, 1)}, {(thing, 1)})


# ---- tolerance


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "right"),
    [
        (0.1 + 0.2, 0.3, near(rel=1e-9), True),
        (1.1, 1.0, near(0.2), True),
        (1.3, 1.0, near(0.2), False),
        (1.0, 1, near(0.2), True),
        (1, 1.1, near(0.2), True),
        (1, 2, near(5.0), False),
        (HUGE, HUGE + 1, near(5.0), False),
        (True, 1.0, near(5.0), False),
        (1.0, True, near(5.0), False),
        (True, False, near(5.0), False),
        (INF, 1.5, near(rel=1e-6), False),
        (INF, 1.5, near(1e308, rel=1e308), False),
        (INF, -INF, near(rel=1e308), False),
        (INF, INF, near(0.1), True),
        (NAN, 1.0, near(rel=1e308), False),
        (HUGE, 1.0, near(rel=1.0), False),
        (1.0, HUGE, near(rel=1.0), False),
        (HUGE, INF, near(rel=1.0), False),
        ("1.0", 1.0, near(5.0), False),
        (None, 0.0, near(5.0), False),
        ([], [1.1], near(5.0), False),
        (1.1, [1.1], near(5.0), False),
        ([1.0], [1.1, 1.1], near(5.0), False),
        ([1.0, [2.0]], [1.1, (2.1,)], near(0.2), True),
        ({"a": 1.0}, {"a": 1.1}, near(0.2), True),
        ({1.0: "a"}, {1.1: "a"}, near(0.2), True),
        ({1.0: "a"}, {1.1: "b"}, near(0.2), False),
        ({1.0: 1.0, 2.0: 2.0}, {2.1: 1.9, 1.1: 1.1}, near(0.2), True),
        ({1: "a"}, {2: "a"}, near(5.0), False),
        ({1.0: "a"}, {"b": "a"}, near(5.0), False),
        ({1.0, 2.0}, {2.1, 0.9}, near(0.2), True),
        ({1.0, 2.0}, {2.1, 0.5}, near(0.2), False),
        ({1.0, 2.0}, {1.0}, near(5.0), False),
        ({(1.0, "a"), (1.0, "b")}, {(1.1, "b"), (1.1, "a")}, near(0.2), True),
        (1 + 1j, 1.1 + 0.9j, near(0.2), True),
        (1 + 1j, 1.1 + 0.5j, near(0.2), False),
        (1 + 1e-9j, 1, near(1e-6), True),
    ],
)
def test_tolerance_is_for_floats(got: Any, expected: Any, tolerance: Tolerance, right: bool) -> None:
    """Tolerance holds where one side is a float and neither a bool, after shape and length."""
    assert agrees(expecting(expected, tolerance=tolerance), got) is right


def test_python_with_tolerance_keeps_bools_exact() -> None:
    """Under `python` True is 1.0, but tolerance makes no bool close to anything."""
    assert agrees(expecting(1.0, compare="python", tolerance=near(0.5)), True)
    assert not agrees(expecting(1.1, compare="python", tolerance=near(0.5)), True)
    assert not agrees(expecting(1.1 + 0j, compare="python", tolerance=near(0.5)), True)


def test_strict_with_tolerance_keeps_types() -> None:
    """Under `strict` a float may be close to a float, an int is none."""
    assert agrees(expecting(1.0, compare="strict", tolerance=near(0.5)), 1.1)
    assert not agrees(expecting(1.0, compare="strict", tolerance=near(0.5)), 1)


def test_tolerance_does_not_leak() -> None:
    """A tolerant comparison leaves nothing behind for the next one."""
    assert agrees(expecting(1.0, tolerance=near(5.0), nan_ok=True), 1.1)
    assert not agrees(expecting(1.0), 1.1)
    assert not COMPARATORS["json"](1.0, 1.1)


# ---- order that does not count


@pytest.mark.parametrize(
    ("got", "expected", "multiset", "as_set"),
    [
        ([1, 2, 2], [2, 1, 2], True, True),
        ([1, 2], [2, 1, 2], False, True),
        ([2, 4], [2, 2, 4], False, True),
        ([2, 2, 4], [2, 4, 4], False, True),
        ({1, 2}, [2, 1], True, True),
        (frozenset([1, 2]), (2, 1), True, True),
        ([1, "a", None, b"x", [2], {3: 4}], [{3.0: 4}, (2,), b"x", None, "a", 1.0], True, True),
        ([True], [1], False, False),
        ([1], ["1"], False, False),
        ([[1, 2]], [[2, 1]], False, False),
        ([[1]], [{1}], False, False),
        ([], [], True, True),
        ([], [1], False, False),
        ("ab", ["a", "b"], False, False),
        (["a"], "a", False, False),
        ({"a": 1}, ["a"], False, False),
        (5, 5, False, False),
        (None, [None], False, False),
        ([complex(1, 0), 2j], [2j, 1], True, True),
        ([HUGE, -HUGE], [-HUGE, HUGE], True, True),
    ],
)
@pytest.mark.parametrize("tolerance", [None, near(1e-9)])
def test_order_free_comparisons(
    got: Any, expected: Any, multiset: bool, as_set: bool, tolerance: Tolerance | None
) -> None:
    """`unordered` counts how often, `set` does not; members compare as `json`, collections only."""
    assert agrees(expecting(expected, compare="unordered", tolerance=tolerance), got) is multiset
    assert agrees(expecting(expected, compare="set", tolerance=tolerance), got) is as_set


numbers = st.sampled_from([0, 1, 2, 3, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, -1.0, True, NAN, INF, HUGE, 1.5j])
vectors = st.lists(numbers, min_size=1, max_size=2).map(tuple)
points = st.tuples(st.sampled_from([0.0, 0.5]), st.sampled_from([0.0, 1.0, 2.0, 3.0]))
mixed = numbers | vectors | st.frozensets(numbers, max_size=2) | st.dictionaries(numbers, numbers, max_size=2)
tolerances = st.sampled_from([near(0.5), near(1.0), near(rel=0.5), near(rel=1.5), near(0.5, rel=0.3)])


@settings(max_examples=300)
@given(
    st.lists(mixed, max_size=4) | st.lists(points, min_size=3, max_size=4),
    st.lists(mixed, max_size=4) | st.lists(points, min_size=3, max_size=4),
    tolerances,
    st.booleans(),
)
@example([0.0, 1.0], [1.0, 2.0], near(1.0), False)
@example([1.0, 0.5, 0.0], [1.0, 0.5, 1.5], near(0.5), False)
@example([-1.0, 1.0], [1.0, 3.0], near(rel=1.5), False)
@example([(0.0, 0.0), (0.1, 1.5)], [(0.0, 0.75), (0.1, -0.75)], near(1.0), False)
def test_matching_is_a_true_matching(first: list[Any], second: list[Any], tolerance: Tolerance, nan_ok: bool) -> None:
    """Under tolerance `unordered` agrees exactly where some way of pairing off works."""

    def close(a: Any, b: Any) -> bool:
        return compare._compare("json", a, b, tolerance, nan_ok)

    by_hand = len(first) == len(second) and any(
        all(map(close, first, order)) for order in itertools.permutations(second)
    )
    assert compare._compare("unordered", first, second, tolerance, nan_ok) is by_hand


@settings(max_examples=200)
@given(st.lists(mixed, max_size=4), st.lists(mixed, max_size=4), tolerances)
def test_set_with_tolerance_covers_both_sides(first: list[Any], second: list[Any], tolerance: Tolerance) -> None:
    """Under tolerance `set` agrees where each member of either side is close to one of the other."""

    def close(a: Any, b: Any) -> bool:
        return compare._compare("json", a, b, tolerance)

    by_hand = all(any(close(a, b) for b in second) for a in first) and all(
        any(close(a, b) for a in first) for b in second
    )
    assert compare._compare("set", first, second, tolerance) is by_hand


# ---- hostile sizes


@pytest.mark.parametrize("name", ["unordered", "set"])
@pytest.mark.parametrize("make", [int, str, float, lambda n: (n, str(n))], ids=["int", "str", "float", "pair"])
def test_large_collections_are_quick(name: str, make: Callable[[int], Any]) -> None:
    """A hundred thousand shuffled members are compared in linear time, right or wrong."""
    items = [make(number) for number in range(100_000)]
    shuffled = random.Random(0).sample(items, len(items))
    start = time.process_time()
    assert COMPARATORS[name](shuffled, items)
    assert not COMPARATORS[name](shuffled[1:], items)
    assert time.process_time() - start < 10  # a second or so each; the square of the size would be hours


@pytest.mark.timeout(60)
def test_large_collections_of_floats_are_matched() -> None:
    """Thousands of noisy floats in any order pair off within their tolerance; one stray is found."""
    rng = random.Random(0)
    exact = [rng.random() * 1000 for _ in range(30_000)]
    noisy = [number + rng.uniform(-1e-7, 1e-7) for number in exact]
    rng.shuffle(noisy)
    for name in ("unordered", "set"):
        assert agrees(expecting(exact, compare=name, tolerance=near(1e-6)), noisy)
        assert not agrees(expecting(exact, compare=name, tolerance=near(1e-6)), [*noisy[1:], 5e5])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["unordered", "set"])
def test_hardest_matchings_give_up(name: str) -> None:
    """A matching that would take hours, for no first number tells two members apart, ends and does not agree."""
    got = [(0.5, float(number)) for number in range(20_000)]
    expected = [(0.5, number + 1e6) for number in range(20_000)]
    assert not agrees(expecting(expected, compare=name, tolerance=near(1.0)), got)
    astray = [((-1.0) ** number * 0.1, float(number)) for number in range(20_000)]
    assert not agrees(expecting(astray, compare=name, tolerance=near(1.0)), [*got[:-1], (0.5, 1e9)])


def test_steps_are_bounded() -> None:
    """What needs more steps than allowed does not agree, even where a longer search would pair it off."""
    got, expected = [(0.0, 5.0), (1.0, 7.0)], [(0.5, 7.0), (0.6, 5.0)]
    test = expecting(expected, compare="unordered", tolerance=near(1.0))
    assert agrees(test, got)
    assert not agrees(test, got, steps=3)


def test_matchings_inside_matchings_are_bounded() -> None:
    """Sets of sets of sets get tolerance to a bounded depth; beyond it they agree only where they are equal."""
    for levels, right in ((compare.MATCHING_LEVELS, True), (compare.MATCHING_LEVELS + 1, False)):
        got, expected = (nested(lambda x: frozenset([x]), levels, core) for core in (1.0, 1.1))
        assert agrees(expecting(expected, tolerance=near(0.2)), got) is right
        assert agrees(expecting(got, tolerance=near(0.2)), got)


@pytest.mark.parametrize(
    "wrap",
    [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: {1: x}, lambda x: frozenset([x])],
    ids=["list", "tuple", "dict", "keys", "set"],
)
@pytest.mark.parametrize("tolerance", [None, near(0.2)])
def test_depth_needs_no_stack(wrap: Callable[[Any], Any], tolerance: Tolerance | None) -> None:
    """The deepest values are compared where the stack is already deep, without a RecursionError."""
    value, other = nested(wrap, 199, 1.0), nested(wrap, 199, 1.5)

    def check() -> None:
        for name in ("json", "python", "strict"):
            assert agrees(expecting(value, compare=name, tolerance=tolerance), value)
            assert not agrees(expecting(other, compare=name, tolerance=tolerance), value)
        for name in ("unordered", "set"):
            assert agrees(expecting([value], compare=name, tolerance=tolerance), [value])
            assert not agrees(expecting([other], compare=name, tolerance=tolerance), [value])

    from_depth(150, check)


@pytest.mark.timeout(60)
def test_chosen_hashes_do_not_hang_a_comparison() -> None:
    """Integers that share a hash cost no more than others, in lists, as sets and when projected."""
    chosen = [number * (2**61 - 1) for number in range(50_000)]
    for name in ("json", "unordered", "set"):
        assert COMPARATORS[name](chosen, list(chosen))
    assert not agrees(expecting({1}, project="set"), chosen)


# ---- expectations


def test_any_of_takes_each_answer() -> None:
    """With several right answers one is enough; with none nothing is right."""
    test = expecting(2, 3, {"a": (1,)})
    assert agrees(test, 2) and agrees(test, 3) and agrees(test, {"a": [1]})
    assert not agrees(test, 4)
    assert not agrees(expecting(), None)


@pytest.mark.parametrize(
    ("project", "got", "expected", "right"),
    [
        ("set", [1, 2, 2], {1, 2}, True),
        ("set", "aab", {"a", "b"}, True),
        ("set", [[1]], {1}, False),
        ("set", 5, {5}, False),
        ("tuple", [1, 2], [1, 2], True),
        ("tuple", None, [], False),
        ("list", {3, 1, 2}, [1, 2, 3], True),
        ("list", frozenset(["b", "a"]), ["a", "b"], True),
        ("list", {"a": 1, "b": 2}, ["a", "b"], True),
        ("list", 5, [5], False),
        ("int", "12", 12, True),
        ("int", 12.9, 12, True),
        ("int", "x", 12, False),
        ("int", "9" * 5000, 12, False),
        ("int", INF, 12, False),
        ("int", NAN, 12, False),
        ("int", [12], 12, False),
        ("bool", [0], True, True),
        ("bool", "", False, True),
        ("bool", "", 0, False),
        ("is_not_none", 0, True, True),
        ("is_not_none", None, False, True),
        ("is_not_none", None, True, False),
        ({"round": 2}, 1.23456, 1.23, True),
        ({"round": 0}, 1.4, 1, True),
        ({"round": -2}, 1234, 1200, True),
        ({"round": 2}, "1.2", 1.2, False),
        ({"round": 2}, [1.2], [1.2], False),
        ({"round": -308}, 1.7e308, 2e308, False),
        ({"round": -(10**9)}, 7, 0, False),
        ({"round": 10**9}, 7, 7, False),
    ],
)
def test_projection_comes_first(project: Any, got: Any, expected: Any, right: bool) -> None:
    """The result is projected, then compared; an error in the projection does not agree."""
    assert agrees(expecting(expected, project=project), got) is right


def test_tuple_projection_gives_a_tuple() -> None:
    """The projected value has the type that its name says."""
    assert agrees(expecting((1, 2), project="tuple", compare="strict"), [1, 2])
    assert agrees(expecting([1, 2], project="list", compare="strict"), (1, 2))
    assert agrees(expecting({1}, project="set", compare="strict"), [1])


def test_tables_are_closed() -> None:
    """A suite names a comparator or a projection of the table; anything else is an error, not an answer."""
    assert set(COMPARATORS) == {"json", "python", "strict", "unordered", "set"}
    assert set(TEXT_COMPARATORS) == {"lines", "tokens", "exact"}
    with pytest.raises(KeyError):
        agrees(expecting(1, compare="fuzzy"), 1)
    with pytest.raises(KeyError):
        agrees(expecting(1, project="eval"), 1)
    with pytest.raises(KeyError):
        printed_agrees(Expect(kind="stdout", stdout="", compare="json"), "")
    with pytest.raises(CodecError):
        agrees(Expect(kind="value", values=({"$eval": "1"},)), 1)


def test_another_kind_never_agrees() -> None:
    """A value, an exception and an output are never right where another kind is expected."""
    kinds: tuple[Literal["value", "raises", "stdout"], ...] = ("value", "raises", "stdout")
    for kind in kinds:
        test = Expect(
            kind=kind, values=(1,), raises="ValueError", stdout="1", compare="exact" if kind == "stdout" else "json"
        )
        assert agrees(test, 1) is (kind == "value")
        assert raised_agrees(test, ["ValueError"]) is (kind == "raises")
        assert printed_agrees(test, "1") is (kind == "stdout")
    assert not raised_agrees(Expect(kind="raises"), ["ValueError"])
    assert not printed_agrees(Expect(kind="stdout", compare="lines"), "")


def test_exceptions_match_along_the_mro() -> None:
    """A subclass of the expected exception is right, a superclass or a part of a name is not."""
    test = Expect(kind="raises", raises="LookupError")
    assert raised_agrees(test, ("KeyError", "LookupError", "Exception", "BaseException", "object"))
    assert not raised_agrees(test, ("Exception", "BaseException", "object"))
    assert not raised_agrees(test, ())
    assert not raised_agrees(Expect(kind="raises", raises="Error"), "ValueError")


@pytest.mark.parametrize(
    ("got", "expected", "letters"),
    [
        ("6\n", "6\n", "lte"),
        ("6", "6\n", "lt"),
        ("6 \t\r\n", "6\n", "lt"),
        ("\n\n6\n\n", "6", "lt"),
        ("a\r\nb\r\n", "a\nb\n", "lt"),
        ("a\n\nb", "a\nb", "t"),
        ("a\n\nb", "a\n \nb", "lt"),
        (" a", "a", "t"),
        ("a  b", "a b", "t"),
        ("a\u00a0b", "a b", "t"),
        ("a b\nc", "a\nb c", "t"),
        ("ab", "a b", ""),
        ("A", "a", ""),
        ("", "", "lte"),
        (" \n\n", "", "lt"),
        ("", "0", ""),
        ("6\n7", "6", ""),
        ("\ud800", "\ud801", ""),
    ],
)
def test_table_of_texts(got: str, expected: str, letters: str) -> None:
    """`lines` forgives the ends of lines and of the text, `tokens` all white space, `exact` nothing."""
    for name in TEXT_COMPARATORS:
        right = name[0] in letters
        assert printed_agrees(Expect(kind="stdout", stdout=expected, compare=name), got) is right
        assert printed_agrees(Expect(kind="stdout", stdout=got, compare=name), expected) is right


# ---- the words for it


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (1, 2, "got 1, expected 2"),
        ("a\n\x1b[31m\u202e", "a", r"got 'a\n\x1b[31m\u202e', expected 'a'"),
        ("\ud800", "é", r"got '\ud800', expected 'é'"),
        ([1, [2.5, None]], (1,), "got [1, [2.5, None]], expected (1,)"),
        ({"a": {1: b"x"}}, {}, "got {'a': {1: b'x'}}, expected {}"),
        ({3, 1, 2}, frozenset(), "got {1, 2, 3}, expected frozenset()"),
        (frozenset([1]), (1, True), "got frozenset({1}), expected (1, True)"),
        (1 << 80_000, -1, "got an integer of 80001 bits, expected -1"),
        (list(range(1000)), [], "got [0, 1, 2, 3, 4, 5, …], expected []"),
        (set(range(1000)), set(), "got {1000 members}, expected set()"),
        ([[[[[1]]]]], 0, "got [[[[…]]]], expected 0"),
    ],
    ids=range(11),
)
def test_explanation(got: Any, expected: Any, says: str) -> None:
    """The explanation shows both sides, short, escaped, the same in every process."""
    assert explain(expecting(expected), got) == says


def test_explanation_of_other_kinds() -> None:
    """Several answers, an exception and an output are named as what they are."""
    assert explain(expecting(1, 2), 3) == "got 3, expected 1 or 2"
    assert explain(Expect(kind="raises", raises="KeyError"), 3) == "got 3, expected KeyError to be raised"
    assert explain(Expect(kind="stdout", stdout="6\n"), "7\n") == r"got '7\n', expected '6\n'"


@given(plain | st.text(st.characters()) | st.integers().map(lambda number: number << 5000), plain)
def test_explanation_is_one_short_line(got: Any, expected: Any) -> None:
    """Whatever came back, the explanation is one printable line of at most 200 characters."""
    line = explain(expecting(expected), got)
    assert len(line) <= 200 and line.isprintable()


def test_explanation_of_a_huge_value_is_quick() -> None:
    """Only the beginning of a huge value is read."""
    huge = ["x" * 16_000_000] * 10
    start = time.process_time()
    for value in (huge, [huge] * 1000, {1: huge}, "x" * 16_000_000, b"x" * 16_000_000, 1 << 8_000_000):
        assert len(explain(expecting(0), value)) <= 200
    assert time.process_time() - start < 1


def test_isclose_is_the_rule() -> None:
    """Closeness is math.isclose, the greater of both tolerances, relative to the larger side."""
    for got, expected in itertools.product([0.0, 1e-9, 0.9, 1.0, 1.1, -1.0, 1e300], repeat=2):
        for tolerance in (near(0.1), near(rel=0.1), near(1e-8, rel=1e-3), near()):
            right = math.isclose(got, expected, rel_tol=tolerance.rel, abs_tol=tolerance.abs)
            assert agrees(expecting(expected, tolerance=tolerance), got) is right
