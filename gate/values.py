"""Tagged JSON: one codec for suites, the wire and the ledger, on both sides of the wire.

This file also runs beside the candidate, so it imports the standard library alone.

Plain JSON stands for itself. Every other value is an object with one `$` key:
`$tuple`, `$set`, `$frozenset`, `$dict` (keys that are not text, or start with `$`),
`$bytes` (base64), `$complex`, `$float` ("nan", "inf", "-inf") and `$int` (hex, beyond
4,000 decimal digits).

A value that a candidate returns is hostile: it is taken apart by its exact base type
and with the base class's own methods, so a subclass that lies about itself gains
nothing. Nothing is pickled, evaluated or compared by its repr.
"""

from __future__ import annotations

import binascii
import json
import math
import re
import sys

MYPY = False  # a type checker reads True; `typing` is slow to import where each candidate waits for it
if MYPY:  # pragma: no cover
    from collections.abc import Callable, Iterable
    from typing import Any

MAX_DEPTH = 200
MAX_NODES = 2_000_000
MAX_BYTES = 64 << 20
PLAIN_INT_BITS = 13_280  # below 4,000 decimal digits; Python's own limit is 4,300
MAX_INT_BITS = 8_000_000
MAX_COLLISIONS = 1_000_000  # pairs of unequal members of one set or dict with one hash

# Patterns are compiled when they are first used: it takes a millisecond, and every candidate waits for this module.
_HEX = r"-?0x[0-9a-fA-F]+\Z"
# Possessive, and content with a string that never ends: with backtracking, a text of
# escaped quotes without a last one took time in the square of its length.
_STRING = rb'(?s)"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
_SPLIT_CHARACTER = "[\ud800-\udbff][\udc00-\udfff]"  # JSON text would join the halves
_search = re.search  # a candidate may replace the name
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_PLAIN = (bool, int, str)  # stand for themselves in any case; a float may be beyond the doubles
_type_name = type.__dict__["__name__"].__get__  # a metaclass cannot override it


class CodecError(ValueError):
    """The value is not tagged JSON, or has no tagged JSON."""


class TooLarge(CodecError):
    """The value goes beyond a limit on nodes, bits or bytes."""


class _Budget:
    """What is left of nodes, bytes and hash collisions while one value is taken apart."""

    def __init__(self, nodes: int = MAX_NODES, size: int = MAX_BYTES) -> None:
        self.nodes = nodes
        self.size = size
        self.collisions = MAX_COLLISIONS

    def node(self) -> None:
        self.nodes -= 1
        if self.nodes < 0:
            raise TooLarge("more values than the limit")

    def expect(self, nodes: int) -> None:
        if nodes > self.nodes:
            raise TooLarge("more values than the limit")

    def take(self, size: int) -> None:
        self.size -= size
        if self.size < 0:
            raise TooLarge("more bytes than the limit")

    def collide(self, pairs: int) -> None:
        self.collisions -= pairs
        if self.collisions < 0:
            raise TooLarge("more members with one hash than the limit")


def encode(value: Any, *, max_bytes: int = MAX_BYTES, max_nodes: int = MAX_NODES) -> Any:
    """Turn a Python value into tagged JSON (what `json.dumps` takes).

    Args:
        value: Any value at all; it may be hostile.
        max_bytes: Limit on the text and digits in it, in bytes.
        max_nodes: Limit on the number of values in it.

    Returns:
        The tagged JSON, made of exact built-in types only.

    Raises:
        TooLarge: A limit was passed.
        CodecError: The value has no tagged form (a cycle, a generator, an object, …).
    """
    try:
        return _encode(value, _Budget(max_nodes, max_bytes), 0)
    except RecursionError:  # a candidate can lower the limit, or call us at the end of its stack
        raise CodecError("nested deeper than the stack allows") from None


def _encode(value: Any, budget: _Budget, depth: int) -> Any:
    budget.node()
    if depth > MAX_DEPTH:
        raise CodecError("nested deeper than %d levels, or a cycle" % MAX_DEPTH)
    kind = type(value)
    if value is None or kind is bool:
        return value
    for base, encoder in _ENCODERS:
        if kind is base or issubclass(kind, base):
            return encoder(value, budget, depth)
    return _encode_numpy(value, kind, budget, depth)


def _encode_int(value: int, budget: _Budget, depth: int) -> Any:
    exact = int.__int__(value)
    bits = exact.bit_length()
    if bits <= PLAIN_INT_BITS:
        budget.take(bits // 4)
        return exact
    if bits > MAX_INT_BITS:
        raise TooLarge("an integer of %d bits" % bits)
    budget.take(bits // 4)
    return {"$int": hex(exact)}


def _encode_float(value: float, budget: _Budget, depth: int) -> Any:
    exact = float.__float__(value)
    if math.isfinite(exact):
        return exact
    return {"$float": "nan" if exact != exact else "inf" if exact > 0 else "-inf"}


def _encode_complex(value: complex, budget: _Budget, depth: int) -> dict[str, list[Any]]:
    exact = complex.__complex__(value)
    return {"$complex": [_encode_float(exact.real, budget, depth), _encode_float(exact.imag, budget, depth)]}


def _encode_str(value: str, budget: _Budget, depth: int) -> str:
    budget.take(str.__len__(value))
    exact = str.__str__(value)
    if not exact.isascii() and _search(_SPLIT_CHARACTER, exact):
        raise CodecError("a text with a character in two halves")
    return exact


def _encode_bytes(value: bytes, budget: _Budget, depth: int) -> dict[str, str]:
    budget.take(bytes.__len__(value))
    return {"$bytes": binascii.b2a_base64(bytes.__getitem__(value, slice(None)), newline=False).decode("ascii")}


def _encode_list(value: list[Any], budget: _Budget, depth: int) -> list[Any]:
    return [_encode(item, budget, depth + 1) for item in list.__iter__(value)]


def _encode_tuple(value: tuple[Any, ...], budget: _Budget, depth: int) -> dict[str, list[Any]]:
    return {"$tuple": [_encode(item, budget, depth + 1) for item in tuple.__iter__(value)]}


def _encode_set(value: set[Any], budget: _Budget, depth: int) -> dict[str, list[Any]]:
    return {"$set": _sorted_items(set.__iter__(value), budget, depth)}


def _encode_frozenset(value: frozenset[Any], budget: _Budget, depth: int) -> dict[str, list[Any]]:
    return {"$frozenset": _sorted_items(frozenset.__iter__(value), budget, depth)}


def _sorted_items(items: Iterable[Any], budget: _Budget, depth: int) -> list[Any]:
    """Members in the order of their texts, so that equal sets have one form."""
    tagged: dict[str, Any] = {}
    for item in items:  # a loop: up to Python 3.11 a comprehension is one more frame a level
        member = _encode(item, budget, depth + 1)
        text = dumps(member)
        if text in tagged:
            raise CodecError("a set with two members that are the same value")
        tagged[text] = member
    return [tagged[text] for text in sorted(tagged)]


def _encode_dict(value: dict[Any, Any], budget: _Budget, depth: int) -> dict[str, Any]:
    pairs = [[_encode(key, budget, depth + 1), _encode(item, budget, depth + 1)] for key, item in dict.items(value)]
    if all(type(key) is str and not key.startswith("$") for key, _ in pairs):
        plain: dict[str, Any] = dict(pairs)
        distinct = len(plain)
    else:
        plain = {"$dict": pairs}
        distinct = len({dumps(key) for key, _ in pairs})
    if distinct != len(pairs):
        raise CodecError("a dict with two keys that are the same value")
    return plain


def _encode_numpy(value: Any, kind: type, budget: _Budget, depth: int) -> Any:
    """NumPy scalars and arrays as their Python values; NumPy itself is never imported here."""
    numpy = sys.modules.get("numpy")
    scalar: Any = getattr(numpy, "generic", ())
    array: Any = getattr(numpy, "ndarray", ())
    if issubclass(kind, scalar):
        item = scalar.item(value)
        if type(item) is not kind:  # a long double has no Python value and gives itself
            return _encode(item, budget, depth + 1)
    elif issubclass(kind, array):
        budget.expect(_count_nodes(array.shape.__get__(value)))
        return _encode(array.tolist(value), budget, depth + 1)
    raise CodecError("a value of type %s" % str.__str__(_type_name(kind))[:100])


def _count_nodes(shape: tuple[int, ...]) -> int:
    """How many values an array's lists have; a broadcast array is far larger than its memory."""
    nodes = total = 1
    for length in shape:
        nodes *= length
        total += nodes
    return total


_ENCODERS: tuple[tuple[type, Callable[[Any, _Budget, int], Any]], ...] = (
    (int, _encode_int),
    (str, _encode_str),
    (float, _encode_float),
    (list, _encode_list),
    (dict, _encode_dict),
    (tuple, _encode_tuple),
    (set, _encode_set),
    (frozenset, _encode_frozenset),
    (bytes, _encode_bytes),
    (complex, _encode_complex),
)


def dumps(tagged: Any) -> str:
    """The text of some tagged JSON: one line, ASCII only, lone surrogates escaped."""
    return "".join(_pieces(tagged, 0))


def decode(tagged: Any, *, max_nodes: int = MAX_NODES) -> Any:
    """Turn tagged JSON back into the Python value that it stands for.

    Args:
        tagged: What `loads` gave; it may be hostile.
        max_nodes: Limit on the number of values in it.

    Raises:
        TooLarge: Too many values, or too many members with one hash.
        CodecError: An unknown or malformed tag, a float beyond the doubles, two equal
            keys or members, a key that cannot be one, too many levels.
    """
    if max_nodes > 0 and (tagged is None or type(tagged) in _PLAIN):  # most are
        return tagged
    return _decode(tagged, _Budget(max_nodes), 0)


def _decode(tagged: Any, budget: _Budget, depth: int) -> Any:
    budget.node()
    if depth > MAX_DEPTH:
        raise CodecError("nested deeper than %d levels" % MAX_DEPTH)
    kind = type(tagged)
    if kind is list:
        return _decode_items(tagged, budget, depth)
    if kind is dict:
        return _decode_object(tagged, budget, depth)
    if kind is float and not math.isfinite(tagged):
        raise CodecError("a number beyond the doubles: write $float")
    if tagged is None or kind in (bool, int, float, str):
        return tagged
    raise CodecError("a value of type %s is no JSON" % kind.__name__)


def _decode_items(body: Any, budget: _Budget, depth: int) -> list[Any]:
    if type(body) is not list:
        raise CodecError("a tag that takes a list has something else")
    items = []
    for item in body:  # a loop, as above
        items.append(_decode(item, budget, depth + 1))
    return items


def _decode_object(tagged: dict[Any, Any], budget: _Budget, depth: int) -> Any:
    tag = _tag_of(tagged)
    if tag is None:
        decoded = {}
        for key, item in tagged.items():
            decoded[key] = _decode(item, budget, depth + 1)
        return decoded
    body = tagged[tag]
    if tag == "$dict":
        return _decode_pairs(body, budget, depth)
    if tag in _FROM_ITEMS:
        return _FROM_ITEMS[tag](_decode_items(body, budget, depth), budget)
    if tag in _FROM_TEXT:
        return _FROM_TEXT[tag](body)
    known = " ".join(sorted(["$dict", *_FROM_ITEMS, *_FROM_TEXT]))
    raise CodecError("unknown tag %r (known: %s)" % (tag[:40], known))


def _tag_of(tagged: dict[Any, Any]) -> str | None:
    """The one key of a tagged object; None for a plain one."""
    for key in tagged:
        if type(key) is not str:
            raise CodecError("a key that is no text: write $dict")
        if key.startswith("$"):
            if len(tagged) != 1:
                raise CodecError("a tagged object has exactly one key, this has %d" % len(tagged))
            return key
    return None


def _decode_pairs(body: Any, budget: _Budget, depth: int) -> dict[Any, Any]:
    if type(body) is not list or not all(type(pair) is list and len(pair) == 2 for pair in body):
        raise CodecError("$dict takes a list of [key, value] pairs")
    keys, items = [], []
    for key, item in body:
        keys.append(_decode(key, budget, depth + 1))
        items.append(_decode(item, budget, depth + 1))
    _members(keys, budget)
    return dict(zip(keys, items, strict=True))


def _members(items: list[Any], budget: _Budget) -> set[Any]:
    members = _gather(items, budget)
    if len(members) != len(items):
        raise CodecError("two members or keys that are equal")
    return members


def gather(items: Iterable[Any]) -> set[Any]:
    """The set of some decoded values, in bounded time even if they were chosen to collide.

    Raises:
        TooLarge: Too many unequal values with one hash.
        CodecError: A value that cannot be a member.
    """
    return _gather(items, _Budget())


def _gather(items: Iterable[Any], budget: _Budget) -> set[Any]:
    # The hashes of numbers and tuples are no secret: a hundred thousand multiples of
    # 2**61 - 1, or tuples of -1 and -2, share one, and keep a plain set() busy for minutes.
    members: set[Any] = set()
    crowds: dict[int, int] = {}
    for item in items:
        try:
            code = hash(item)
        except TypeError:
            raise CodecError("a list, set or dict cannot be a member or a key") from None
        crowd = crowds.get(code, 0)
        budget.collide(max(crowd - 1, 0))
        before = len(members)
        members.add(item)
        crowds[code] = crowd + len(members) - before
    return members


def _tuple_of(items: list[Any], budget: _Budget) -> tuple[Any, ...]:
    return tuple(items)


def _frozenset_of(items: list[Any], budget: _Budget) -> frozenset[Any]:
    return frozenset(_members(items, budget))


def _complex_of(parts: list[Any], budget: _Budget) -> complex:
    if len(parts) != 2 or not all(type(part) in (int, float) for part in parts):
        raise CodecError("$complex takes two numbers")
    try:
        return complex(float(parts[0]), float(parts[1]))
    except OverflowError:
        raise CodecError("$complex takes two numbers within the doubles") from None


def _bytes_of(body: Any) -> bytes:
    if type(body) is not str:
        raise CodecError("$bytes takes base64 text")
    try:
        return binascii.a2b_base64(body, strict_mode=True)
    except (binascii.Error, ValueError):
        raise CodecError("$bytes takes base64 text") from None


def _float_of(body: Any) -> float:
    if body not in ("nan", "inf", "-inf"):
        raise CodecError('$float takes "nan", "inf" or "-inf"')
    return float(body)


def _int_of(body: Any) -> int:
    if type(body) is not str or not re.match(_HEX, body):
        raise CodecError('$int takes hex text such as "0x1f"')
    number = int(body, 16)
    if number.bit_length() > MAX_INT_BITS:
        raise TooLarge("an integer of %d bits" % number.bit_length())
    return number


_FROM_ITEMS: dict[str, Callable[[list[Any], _Budget], Any]] = {
    "$tuple": _tuple_of,
    "$set": _members,
    "$frozenset": _frozenset_of,
    "$complex": _complex_of,
}

_FROM_TEXT: dict[str, Callable[[Any], Any]] = {
    "$bytes": _bytes_of,
    "$float": _float_of,
    "$int": _int_of,
}


def loads(data: bytes, *, max_depth: int = 3 * MAX_DEPTH + 50) -> Any:
    """Parse one JSON text strictly; it may be hostile.

    Args:
        data: The text, as UTF-8 bytes.
        max_depth: Limit on nesting, found by one linear scan before any parser runs. The
            default has room for what `encode` gives: `$dict` takes three brackets a level.

    Returns:
        What the text says, in exact built-in types.

    Raises:
        CodecError: No JSON, not UTF-8, a duplicate key, NaN or Infinity, a number beyond
            the doubles or over 4,300 digits, or nested too deep.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        raise CodecError("a BOM before the text")
    if data.count(b"[") + data.count(b"{") > max_depth and nesting(data) > max_depth:
        raise CodecError("nested deeper than %d levels" % max_depth)
    try:
        text = data.decode("utf-8")
        value, end = _scan(text)
        return value if end == len(text) else _from_text(text)
    except CodecError:
        raise
    except UnicodeDecodeError:
        raise CodecError("not UTF-8") from None
    except (ValueError, RecursionError) as exc:
        raise CodecError(str(exc)[:200]) from None


def nesting(data: bytes) -> int:
    """How deep the brackets of a JSON text nest, without parsing it; linear."""
    deepest = depth = 0
    for bracket in re.sub(_STRING, b"", data).translate(None, _NO_BRACKET):
        depth += _STEPS[bracket]
        if depth > deepest:
            deepest = depth
    return deepest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        last = {key: index for index, (key, _) in enumerate(pairs)}
        twice = next(key for index, (key, _) in enumerate(pairs) if last[key] != index)
        raise CodecError("duplicate key %r" % twice[:100])
    return decoded


def _refuse_constant(name: str) -> None:
    raise CodecError('%s is no JSON: write {"$float": …}' % name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise CodecError("%s is beyond the doubles" % text[:40])
    return number


def _scan(text: str) -> tuple[Any, int]:
    """The value that a text begins with and where it ends; (None, -1) where it begins with none."""
    try:
        value, end = _scan_once(text, 0)
    except StopIteration:  # it begins with white space, or with no value
        return None, -1
    return value, end


# Made once: beside a candidate, `json.dumps` and `json.loads` may have become something else.
# The encoder itself: `JSONEncoder.encode` makes one for each text, which takes longer than a small one does.
_pieces = json.encoder.c_make_encoder(  # type: ignore[attr-defined]  # typeshed has no accelerators
    None, None, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False
)
_decoder = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse_constant, parse_float=_finite)
_from_text = _decoder.decode
_scan_once = _decoder.scan_once  # type: ignore[attr-defined]  # without the patterns for white space, which cost more
