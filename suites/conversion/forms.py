"""One test of a benchmark's data as one test of a suite.

A test there is a call and one of the ways in which the benchmark's asserts compared its
result. Each way has one form in a suite; a test that has none is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gate.model import Json
from gate.values import CodecError, decode, encode


class Unconvertible(ValueError):
    """This test has no form in a suite; the text says why."""


def convert_test(case: Mapping[str, Json]) -> dict[str, Json]:
    """One test of the data as a test of a suite whose comparator is `python`.

    Raises:
        Unconvertible: It compares in a way that no form of a suite means.
    """
    compare = case.get("compare")
    form = FORMS.get(compare)
    if form is None:
        raise Unconvertible(f"compares by {compare!r}, which no suite can name")
    _decoded(case["args"])
    for value in case.get("kwargs", {}).values():
        _decoded(value)
    _decoded(case["expected"])
    call = {"args": case["args"]}
    if case.get("kwargs"):
        call["kwargs"] = case["kwargs"]
    rest = {key: value for key, value in case.items() if key not in ("args", "kwargs", "expected", "compare")}
    expectation = form(case["expected"], rest)
    if rest:
        raise Unconvertible(f"says {sorted(rest)[0]!r}, which no suite can say")
    return call | expectation


def _equal(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`f(x) == y`."""
    return {"expected": expected}


def _identical(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`f(x) is y`: equal and of the same type, which is identity for the singletons alone."""
    if expected is not None and not isinstance(expected, bool):
        raise Unconvertible("`is` against a value that is not None, True or False")
    return {"expected": expected, "compare": "strict"}


def _truthy(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`assert f(x)` or `assert not f(x)`."""
    return {"expected": _flag(expected), "project": "bool"}


def _not_none(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`(f(x) is not None) == y`, and a returned bool is held against y as it is.

    So y = False means None or False. `project: is_not_none` would take a returned False
    for something, and refuse every program that answers with True and False, as most do.
    y = True means anything but None and False; a suite takes a returned 0 or "" for no, too.
    """
    if _flag(expected):
        return {"expected": True, "project": "bool"}
    return {"any_of": [None, False], "compare": "strict"}


def _close(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """Closeness of floats, as `math.isclose` with both bounds written out.

    Three spellings of it meet here, and two of them are not quite `math.isclose`:
    `abs(f(x) - y) < eps` (`strict`) refuses a distance of exactly eps, which
    `math.isclose` allows, and takes a bool for a number, which a suite never does;
    NumPy's closeness (`abs_tol` beside `rel_tol`) allows the sum of both bounds,
    where `math.isclose` allows the larger one.
    """
    if "isclose" in rest:
        bounds = rest.pop("isclose")
        if rest.pop("fn", None) != "math.isclose" or not set(bounds) <= {"rel_tol", "abs_tol"}:
            raise Unconvertible("closeness by something else than math.isclose")
        return {"expected": expected, "tolerance": _bounds(bounds.get("rel_tol", 1e-9), bounds.get("abs_tol", 0.0))}
    if rest.pop("strict", False) and "rel_tol" in rest:
        raise Unconvertible("a strict bound beside a relative one")
    return {"expected": expected, "tolerance": _bounds(rest.pop("rel_tol", 0.0), rest.pop("abs_tol", 0.0))}


def _bounds(rel: Json, abs_: Json) -> dict[str, Json]:
    return {"rel": rel, "abs": abs_}


def _projected(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`p(f(x)) == y`, or `p(f(x)) == p(y)` where `project_expected`: then p is applied to y here."""
    name, digits = rest.pop("project"), rest.pop("project_args", [])
    apply = PROJECTIONS.get(name)
    if apply is None or (digits and name != "round"):
        raise Unconvertible(f"projects by {name!r} of {digits!r}, which no suite can name")
    if name == "round" and not (len(digits) == 1 and type(digits[0]) is int):
        raise Unconvertible("rounds to something else than a number of digits")
    if rest.pop("project_expected", False):
        expected = _encoded(apply(_decoded(expected), *digits))
    return {"expected": expected, "project": {"round": digits[0]} if name == "round" else name}


def _flag(expected: Json) -> bool:
    if not isinstance(expected, bool):
        raise Unconvertible("a truth value is expected to be True or False")
    return expected


def _decoded(value: Json) -> Any:
    try:
        return decode(value)
    except CodecError as exc:
        raise Unconvertible(f"holds a value that is no tagged JSON ({exc})") from exc


def _encoded(value: Any) -> Json:
    try:
        return encode(value)
    except CodecError as exc:
        raise Unconvertible(f"holds a value that no suite can hold ({exc})") from exc


PROJECTIONS: dict[str, Callable[..., Any]] = {"set": set, "tuple": tuple, "list": list, "int": int, "round": round}
FORMS: dict[str | None, Callable[[Json, dict[str, Json]], dict[str, Json]]] = {
    None: _equal,
    "is": _identical,
    "truthy": _truthy,
    "is_not_none": _not_none,
    "approx": _close,
    "project": _projected,
}
