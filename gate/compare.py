"""What came back, held against what a test expects. Pure; the same answer on every machine.

Theory of operation. Both sides are decoded plain data, so no code of a candidate runs
here, but the data may be chosen to hurt: deep, large, or full of values that share a
hash. Hence:

- ordered data is compared by a loop over pairs, without recursion;
- where order does not count and no tolerance is given, each member becomes a text of what
  the comparator sees of it, and the texts are compared: linear, and without those hashes
  of Python's that a candidate can steer;
- with a tolerance "the same" is not transitive, so no text can decide. Members that
  differ in numbers alone fall into one bucket, are paired in the order of their numbers
  (for plain floats that is already the answer), and what is left is settled by
  augmenting paths, which find a perfect matching wherever there is one. In all they may
  take `MATCHING_STEPS` steps; what needs more does not agree: doubt is never success.
  Sets inside sets inside sets get no tolerance beyond `MATCHING_LEVELS`.

A comparator is told apart from the next by which types it counts as one family.
"""

from __future__ import annotations

import builtins
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, TypeAlias

from gate import values
from gate.model import Expect, Tolerance

MATCHING_STEPS = 2_000_000  # values looked at, about two seconds
MATCHING_LEVELS = 8
ROUND_DIGITS = 400  # more than any double has; round(7, -10**9) would build a number of a billion digits

_JSON = {
    type(None): "none",
    bool: "bool",
    int: "number",
    float: "number",
    complex: "number",
    str: "str",
    bytes: "bytes",
    list: "sequence",
    tuple: "sequence",
    set: "set",
    frozenset: "set",
    dict: "dict",
}
_PYTHON = _JSON | {bool: "number", list: "list", tuple: "tuple"}
_STRICT = {kind: kind.__name__ for kind in _JSON}

_NUMBERS = (bool, int, float, complex)
_EXACT = frozenset((type(None), bool, int, str))  # the same only if equal, under every reading and tolerance
_COLLECTIONS = (list, tuple, set, frozenset)

_Form: TypeAlias = tuple[str, list[float]]
_Member: TypeAlias = tuple[list[float], Any]


class _TooHard(Exception):
    """Matching would take more steps than it may."""


class _Sameness:
    """One comparator's idea of "the same", and the steps that it may still take."""

    def __init__(self, families: dict[type, str], tolerance: Tolerance | None, nan_ok: bool, steps: int) -> None:
        self.families = families
        self.tolerance = tolerance
        self.nan_ok = nan_ok
        self.interval = tolerance is not None and tolerance.rel < 1  # what is close to a number is an interval
        self.unlike = 0  # how many values were met that equal nothing, themselves included
        self.levels = 0  # matchings that stand inside one another
        self.counting = 0  # above 0 while paths are sought: what comes before is linear
        self.steps = steps

    def same(self, got: Any, expected: Any) -> bool:
        """Whether two values are the same, all the way down."""
        pairs = [(got, expected)]
        while pairs:
            first, second = pairs.pop()
            self._step()
            kind = type(first)
            family = self.families.get(kind)
            if family is None or family != self.families.get(type(second)):
                return False
            if kind in _NUMBERS:
                if not self._same_number(first, second):
                    return False
            elif kind is list or kind is tuple:
                if len(first) != len(second):
                    return False
                pairs.extend(zip(first, second, strict=True))
            elif kind is dict:
                items = self._paired_items(first, second)
                if items is None:
                    return False
                pairs.extend(items)
            elif kind is set or kind is frozenset:
                if not self._matched(list(first), list(second)):
                    return False
            elif first != second:
                return False
        return True

    def same_multiset(self, got: Any, expected: Any) -> bool:
        """Whether two collections have the same members as often, in any order."""
        return _are_collections(got, expected) and self._matched(list(got), list(expected))

    def same_set(self, got: Any, expected: Any) -> bool:
        """Whether each member of either collection is the same as some member of the other."""
        if not _are_collections(got, expected):
            return False
        if self.tolerance is None:
            return set(self._texts(got)) == set(self._texts(expected))
        ours, theirs = self._buckets(got), self._buckets(expected)
        self.counting += 1
        return ours.keys() == theirs.keys() and all(
            self._covered(ours[name], theirs[name]) and self._covered(theirs[name], ours[name]) for name in ours
        )

    def _step(self) -> None:
        if self.counting:
            self.steps -= 1
            if self.steps < 0:
                raise _TooHard

    def _same_number(self, first: Any, second: Any) -> bool:
        kinds = (type(first), type(second))
        if bool in kinds:
            return bool(first == second)
        if complex in kinds:  # a pair of floats, each as close as a float must be
            return self._same_real(first.real, second.real) and self._same_real(first.imag, second.imag)
        return self._same_real(first, second)

    def _same_real(self, first: int | float, second: int | float) -> bool:
        if first == second:
            return True
        if first != first or second != second:
            return self.nan_ok and first != first and second != second
        return float in (type(first), type(second)) and self._close(first, second)

    def _close(self, first: int | float, second: int | float) -> bool:
        if self.tolerance is None:
            return False
        try:
            return math.isclose(first, second, rel_tol=self.tolerance.rel, abs_tol=self.tolerance.abs)
        except OverflowError:  # an integer beyond the doubles is close to none of them
            return False

    def _paired_items(self, first: dict[Any, Any], second: dict[Any, Any]) -> list[tuple[Any, Any]] | None:
        """The items that stand under the same key, still to be compared; None where keys differ."""
        if len(first) != len(second):
            return None
        ours = {self._form(key)[0]: item for key, item in first.items()}
        theirs = {self._form(key)[0]: item for key, item in second.items()}
        if ours.keys() == theirs.keys() and len(ours) == len(first):
            return [(ours[name], theirs[name]) for name in ours]
        # What is left: float keys that are only close, and several NaN keys that count as equal.
        return [] if self._matched(list(first.items()), list(second.items())) else None

    def _texts(self, items: Iterable[Any]) -> list[str]:
        return [self._form(item)[0] for item in items]

    def _form(self, value: Any, blank: bool = False) -> _Form:
        """A text that equal values share and no others, and the numbers that are blank in it.

        With `blank` all numbers look alike in the text and come out beside it, in an
        order that is the same for equal values: for sorting, NaN and all that lies beyond
        the doubles as infinity. Without, the list is empty.
        """
        self._step()
        kind = type(value)
        family = self.families.get(kind)
        if family is None:
            return self._unlike_form(), []
        if kind is str:
            return "%s:%s" % (family, value), []
        if kind in _NUMBERS:
            return self._number_form(family, value, blank)
        if kind is bytes or value is None:
            return "%s:%s" % (family, ascii(value)), []
        forms = []
        for child in value.items() if kind is dict else value:
            forms.append(self._form(child, blank))  # a loop: one frame a level, not two
        if kind is not list and kind is not tuple:
            forms.sort()
        text = ascii([text for text, _ in forms])
        return "%s:%s" % (family, sha256(text.encode()).hexdigest()), [n for _, numbers in forms for n in numbers]

    def _number_form(self, family: str, value: Any, blank: bool) -> _Form:
        parts = (value.real, value.imag) if type(value) is complex and value.imag else (value.real,)
        if blank:
            return family, [_sortable(part) for part in parts]
        if value != value and not self.nan_ok:
            return self._unlike_form(), []
        return "%s:%s" % (family, " ".join(map(_number_text, parts))), []

    def _unlike_form(self) -> str:
        self.unlike += 1
        return "unlike:%d" % self.unlike

    def _matched(self, ours: list[Any], theirs: list[Any]) -> bool:
        """Whether the members of two lists pair off, each with one that is the same."""
        if len(ours) != len(theirs):
            return False
        if self.tolerance is None or self.levels == MATCHING_LEVELS:
            return sorted(self._texts(ours)) == sorted(self._texts(theirs))
        left, right = self._buckets(ours), self._buckets(theirs)
        if _sizes(left) != _sizes(right):
            return False
        self.levels += 1
        matched = all(self._pairs_off(left[name], right[name]) for name in left)
        self.levels -= 1
        return matched

    def _buckets(self, items: Iterable[Any]) -> dict[str, list[_Member]]:
        """Members by all that is not a number; in each bucket by their numbers."""
        buckets: dict[str, list[_Member]] = {}
        for item in items:
            name, numbers = self._form(item, blank=True)
            buckets.setdefault(name, []).append((numbers, item))
        for bucket in buckets.values():
            bucket.sort(key=_numbers_of)
        return buckets

    def _pairs_off(self, left: list[_Member], right: list[_Member]) -> bool:
        """A perfect matching of two buckets of one length: in sorted order, then by augmenting paths.

        Pairing equal members for good would be wrong: of [0.0, 1.0] and [1.0, 2.0] within
        1.0, the two 1.0 must not hold each other. A path can part what was paired.
        """
        holder: list[int | None] = []
        for index, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            holder.append(index if self.same(ours[1], theirs[1]) else None)
        held = list(holder)
        firsts = [_first(member) for member in right]
        self.counting += 1
        free = [index for index, mine in enumerate(held) if mine is None]
        paired = all(self._augment(index, left, right, firsts, holder, held) for index in free)
        self.counting -= 1
        return paired

    def _augment(
        self,
        start: int,
        left: list[_Member],
        right: list[_Member],
        firsts: list[float],
        holder: list[int | None],
        held: list[int | None],
    ) -> bool:
        """Find a partner for one more member on the left, moving others where that helps."""
        reached: dict[int, int] = {}  # right: the left one that it was reached from
        waiting = [start]
        while waiting:
            mine = waiting.pop()
            for yours in self._window(_first(left[mine]), firsts):
                if yours in reached or not self.same(left[mine][1], right[yours][1]):
                    continue
                reached[yours] = mine
                other = holder[yours]
                if other is None:
                    _move(yours, reached, holder, held)
                    return True
                waiting.append(other)
        return False

    def _covered(self, ours: list[_Member], theirs: list[_Member]) -> bool:
        firsts = [_first(member) for member in theirs]
        return all(
            any(self.same(member[1], theirs[index][1]) for index in self._window(_first(member), firsts))
            for member in ours
        )

    def _window(self, number: float, firsts: list[float]) -> Iterator[int]:
        """Indices in a sorted list of what may be close to a number, the nearest values first."""
        middle = bisect_left(firsts, number)
        for side in (range(middle, len(firsts)), range(middle - 1, -1, -1)):
            for index in side:
                self._step()
                if self.interval and not self._close(number, firsts[index]):
                    break
                yield index


def _sizes(buckets: dict[str, list[_Member]]) -> dict[str, int]:
    return {name: len(bucket) for name, bucket in buckets.items()}


def _are_collections(got: Any, expected: Any) -> bool:
    return type(got) in _COLLECTIONS and type(expected) in _COLLECTIONS


def _move(yours: int, reached: dict[int, int], holder: list[int | None], held: list[int | None]) -> None:
    """Give each right one on the path to the left one that it was reached from."""
    freed: int | None = yours
    while freed is not None:
        mine = reached[freed]
        holder[freed] = mine
        held[mine], freed = freed, held[mine]


def _number_text(number: int | float) -> str:
    """One text for one value: 1, 1.0 and True alike, and both zeros."""
    if type(number) is float and not number.is_integer():
        return number.hex()
    return hex(int(number))


def _sortable(number: int | float) -> float:
    if number != number:
        return math.inf
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _numbers_of(member: _Member) -> list[float]:
    return member[0]


def _first(member: _Member) -> float:
    return member[0][0] if member[0] else 0.0


_READINGS: dict[str, tuple[dict[type, str], Callable[[_Sameness, Any, Any], bool]]] = {
    "json": (_JSON, _Sameness.same),
    "python": (_PYTHON, _Sameness.same),
    "strict": (_STRICT, _Sameness.same),
    "unordered": (_JSON, _Sameness.same_multiset),
    "set": (_JSON, _Sameness.same_set),
}


def _compare(
    name: str,
    got: Any,
    expected: Any,
    tolerance: Tolerance | None = None,
    nan_ok: bool = False,
    steps: int = MATCHING_STEPS,
) -> bool:
    """Whether two values are the same by a comparator; where matching takes too long they are not."""
    return _matched(name, got, expected, tolerance, nan_ok, steps) is True


def _matched(name: str, got: Any, expected: Any, tolerance: Tolerance | None, nan_ok: bool, steps: int) -> bool | None:
    """The same, with None where matching takes too long."""
    families, same = _READINGS[name]
    if type(got) in _EXACT and type(got) is type(expected) and same is _Sameness.same:  # most values: no need of more
        return bool(got == expected)
    try:
        return same(_Sameness(families, tolerance, nan_ok, steps), got, expected)
    except _TooHard:
        return None


COMPARATORS: dict[str, Callable[[Any, Any], bool]] = {name: partial(_compare, name) for name in _READINGS}


def _lines(text: str) -> list[str]:
    """The lines without trailing white space, and without blank lines before and after."""
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [index for index, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


TEXT_COMPARATORS: dict[str, Callable[[str, str], bool]] = {
    "lines": lambda got, expected: _lines(got) == _lines(expected),
    "tokens": lambda got, expected: got.split() == expected.split(),
    "exact": lambda got, expected: got == expected,
}


def _members(got: Any) -> Iterable[Any]:
    """The members in an order that is the same in every process: of a set, by their texts."""
    if type(got) in (set, frozenset):
        return sorted(got, key=lambda member: values.dumps(values.encode(member)))
    members: Iterable[Any] = iter(got)
    return members


PROJECTIONS: dict[str, Callable[[Any], Any]] = {
    "set": lambda got: values.gather(iter(got)),
    "tuple": lambda got: tuple(_members(got)),
    "list": lambda got: list(_members(got)),
    "int": int,
    "bool": bool,
    "is_not_none": lambda got: got is not None,
}


def _project(project: str | dict[str, int], got: Any) -> Any:
    if isinstance(project, str):
        return PROJECTIONS[project](got)
    digits = project["round"]
    if abs(digits) > ROUND_DIGITS:
        raise ValueError("round to at most %d digits" % ROUND_DIGITS)
    return round(got, digits)


def agrees(expect: Expect, got: Any, *, steps: int = MATCHING_STEPS) -> bool:
    """Whether a returned value is one of the right answers.

    Args:
        expect: What a test expects; of another kind than "value" nothing agrees.
        got: The decoded value. It may be hostile: a projection that fails on it, or a
            comparison that would take too long, does not agree.
        steps: How many steps pairing members may take, for each answer.

    Raises:
        CodecError: An expected value is not tagged JSON; no loaded suite holds one.
        KeyError: The comparator or the projection is not in the table; no loaded suite names one.
    """
    if expect.kind != "value":
        return False
    if expect.project is not None:
        try:
            got = _project(expect.project, got)
        except (TypeError, ValueError, OverflowError):
            return False
    return any(
        _compare(expect.compare, got, values.decode(value), expect.tolerance, expect.nan_ok, steps)
        for value in expect.values
    )


def surely_differs(expect: Expect, got: Any, *, steps: int = MATCHING_STEPS) -> bool:
    """Whether a plain value is none of the right answers, and that can be told within the steps.

    Args:
        expect: What a test expects of a value; without a projection.
        got: The decoded value.
        steps: How many steps pairing members may take, for each answer.
    """
    answers = (values.decode(value) for value in expect.values)
    return all(
        _matched(expect.compare, got, answer, expect.tolerance, expect.nan_ok, steps) is False for answer in answers
    )


def builtin_exception(name: str) -> type[BaseException] | None:
    """The built-in exception class of a name; None for an alias or anything else."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, BaseException) and found.__name__ == name:
        return found
    return None


def raised_agrees(expect: Expect, types: Sequence[str]) -> bool:
    """Whether the expected exception's name is among the names along the MRO of what was raised."""
    return expect.kind == "raises" and expect.raises is not None and expect.raises in tuple(types)


def printed_agrees(expect: Expect, text: str) -> bool:
    """Whether a program's whole output is right.

    Raises:
        KeyError: The comparator is not in the table for text; no loaded suite names one.
    """
    if expect.kind != "stdout" or expect.stdout is None:
        return False
    return TEXT_COMPARATORS[expect.compare](text, expect.stdout)


def explain(expect: Expect, got: Any) -> str:
    """What came back and what was expected, for people: one line of at most 200 characters.

    Args:
        expect: What a test expects.
        got: The decoded value, or the program's output. However large, only its beginning is read.
    """
    return "got %s, expected %s" % (_cut(glimpse(got), 92), _cut(wanted(expect), 92))


def wanted(expect: Expect) -> str:
    """What a test expects, for people; however large, only its beginning is read."""
    if expect.kind == "raises":
        return "%s to be raised" % expect.raises
    if expect.kind == "stdout":
        return glimpse(expect.stdout)
    return " or ".join(glimpse(values.decode(value)) for value in expect.values[:4])


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


_FRAMES: dict[type, str] = {list: "[%s]", tuple: "(%s)", set: "{%s}", frozenset: "frozenset({%s})", dict: "{%s}"}


def glimpse(value: Any, levels: int = 3) -> str:
    """The beginning of a decoded value's text; `repr` escapes what a terminal would obey."""
    kind = type(value)
    if kind is int and value.bit_length() > 256:
        return "an integer of %d bits" % value.bit_length()
    if kind is str or kind is bytes:
        return repr(value[:92])
    if kind not in _FRAMES or not value:
        return repr(value)
    frame = "(%s,)" if kind is tuple and len(value) == 1 else _FRAMES[kind]
    return frame % (_glimpse_members(value, levels - 1) if levels else "…")


def _glimpse_members(value: Any, levels: int) -> str:
    if type(value) is dict:
        texts = ["%s: %s" % (glimpse(key, levels), glimpse(item, levels)) for key, item in islice(value.items(), 6)]
    elif type(value) in (list, tuple):
        texts = [glimpse(item, levels) for item in islice(value, 6)]
    elif len(value) <= 20:
        texts = sorted(glimpse(item, levels) for item in value)[:6]
    else:  # to sort them is too much work, and unsorted they differ from process to process
        return "%d members" % len(value)
    return ", ".join([*texts, "…"] if len(value) > 6 else texts)
