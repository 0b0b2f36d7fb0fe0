"""The codec: what it gives back, and what hostile values cannot make it do."""

from __future__ import annotations

import collections
import contextlib
import enum
import itertools
import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate import values
from gate.values import CodecError, TooLarge, decode, dumps, encode, gather, loads, nesting

SPLIT = "\ud83d\ude00"  # one character in two halves, which is no lone surrogate and no character
texts = st.text(st.characters()).filter(
    lambda text: text == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)  # lone surrogates included
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers().map(lambda number: number << 14_000)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | texts
    | st.binary()
)
members = st.recursive(scalars, lambda inner: st.lists(inner).map(tuple) | st.frozensets(inner), max_leaves=8)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(members)
        | st.frozensets(members)
        | st.dictionaries(texts, inner)
        | st.dictionaries(st.sampled_from(["$set", "$", "a"]) | members, inner)
    ),
    max_leaves=20,
)
json_leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(["0x1f", "inf", "YQ=="])
json_keys = texts | st.sampled_from(["$other", "$dict", *values._FROM_ITEMS, *values._FROM_TEXT])
any_json = st.recursive(
    json_leaves, lambda inner: st.lists(inner) | st.dictionaries(json_keys, inner, max_size=2), max_leaves=20
)


def wire(value: Any) -> Any:
    """The value after the whole way: encoded, written, parsed, decoded."""
    return decode(loads(dumps(encode(value)).encode("ascii")))


def spell(value: Any) -> Any:
    """All that tells one plain value from another: exact types at every depth, signs, order of keys."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [spell(item) for item in value]
    if kind in (set, frozenset):
        return kind, sorted(repr(spell(item)) for item in value)
    if kind is dict:
        return kind, [(spell(key), spell(item)) for key, item in value.items()]
    return kind, hex(value) if kind is int else repr(value)


def nested(wrap: Callable[[Any], Any], levels: int, core: Any = 0) -> Any:
    for _ in range(levels):
        core = wrap(core)
    return core


def kind_of(value: Any) -> str:
    """A test's id: pytest itself would ask a hostile value, or print a huge one."""
    return type(value).__name__[:20]


def from_depth(frames: int, call: Callable[[], Any]) -> Any:
    return call() if frames == 0 else from_depth(frames - 1, call)


# ---- the round trip


@settings(max_examples=200)
@given(anything)
@example([1, True, 1.0, -0.0, 1e308, "\ud800", b"", 1j, float("-inf"), {"$set": {1: {2: ()}}}])
def test_round_trip(value: Any) -> None:
    """decode(encode(x)) is x, with exact types at every depth."""
    assert spell(wire(value)) == spell(value)


@given(anything)
def test_one_line_of_ascii(value: Any) -> None:
    """A value's text is one line of ASCII, and one line is one record."""
    text = dumps(encode(value))
    assert text.isascii() and text.isprintable()


@given(st.lists(members, max_size=8))
def test_equal_sets_have_one_text(items: list[Any]) -> None:
    """The order in which a set was filled does not show in its text."""
    distinct = set(items)
    refilled: set[Any] = set()
    for item in reversed(list(distinct)):
        refilled.add(item)
    assert dumps(encode(distinct)) == dumps(encode(refilled))


def test_nan_comes_back() -> None:
    """NaN crosses the wire as NaN, alone and in a complex number."""
    back = wire([float("nan"), complex(float("nan"), 1)])
    assert back[0] != back[0] and back[1].real != back[1].real and back[1].imag == 1


@pytest.mark.parametrize("bits", [values.PLAIN_INT_BITS, values.PLAIN_INT_BITS + 1, values.MAX_INT_BITS])
@pytest.mark.parametrize("sign", [1, -1])
def test_large_integers_are_exact(bits: int, sign: int) -> None:
    """An integer is exact to its last bit, on both sides of the change to hex."""
    value = sign * ((1 << bits) - 1)
    assert wire(value) == value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: [x],
        lambda x: (x,),
        lambda x: {"a": x},
        lambda x: {1: x},
        lambda x: frozenset([x]),
    ],
)
@pytest.mark.parametrize("frames", [0, 150])
def test_deepest_value_crosses(wrap: Callable[[Any], Any], frames: int) -> None:
    """What is as deep as allowed crosses the wire, also where the stack is already deep."""
    value = nested(wrap, values.MAX_DEPTH)
    assert from_depth(frames, lambda: wire(value)) == value


# ---- what a candidate returns: taken apart by base type


class LyingInt(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __int__(self) -> int:
        return 5

    def __index__(self) -> int:
        return 5

    def __repr__(self) -> str:
        return "5"

    def bit_length(self) -> int:
        return 0


class LyingStr(str):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1

    def __str__(self) -> str:
        return "lie"

    def __len__(self) -> int:
        return 0

    def startswith(self, *_: Any) -> bool:
        return False

    def encode(self, *_: Any) -> bytes:
        return b"lie"


class LyingFloat(float):
    def __float__(self) -> float:
        return 5.0

    def __ne__(self, other: object) -> bool:
        return False

    def is_integer(self) -> bool:
        return True


class LyingComplex(complex):
    def __complex__(self) -> complex:
        return 5j

    real = imag = 5.0


class LyingBytes(bytes):
    def __bytes__(self) -> bytes:
        return b"lie"

    def __len__(self) -> int:
        return 0

    def __getitem__(self, _: Any) -> Any:
        return b"lie"


class LyingList(list[Any]):
    def __iter__(self) -> Any:
        return iter([5])

    def __len__(self) -> int:
        return 1

    @property
    def __class__(self) -> Any:
        return int


class LyingTuple(tuple[Any, ...]):
    def __iter__(self) -> Any:
        return iter([5])


class LyingSet(set[Any]):
    def __iter__(self) -> Any:
        return iter([5])


class LyingFrozenset(frozenset[Any]):
    def __iter__(self) -> Any:
        return iter([5])


class LyingDict(dict[Any, Any]):
    def items(self) -> Any:
        return [(5, 5)]

    def __iter__(self) -> Any:
        return iter([5])


class Colour(enum.IntEnum):
    RED = 3


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (LyingInt(0), 0),
        (LyingInt(-(1 << 20_000)), -(1 << 20_000)),
        (LyingStr("wrong"), "wrong"),
        (LyingFloat(0.5), 0.5),
        (LyingFloat("inf"), float("inf")),
        (LyingComplex(1, 2), 1 + 2j),
        (LyingBytes(b"wrong"), b"wrong"),
        (LyingList([1, LyingInt(2)]), [1, 2]),
        (LyingTuple([1]), (1,)),
        (LyingSet([1]), {1}),
        (LyingFrozenset([1]), frozenset({1})),
        (LyingDict({"a": 1}), {"a": 1}),
        ({LyingStr("$set"): 1}, {"$set": 1}),
        (Colour.RED, 3),
        (Point(1, 2), (1, 2)),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[]), {"a": []}),
    ],
    ids=kind_of,
)
def test_subclass_is_its_base(value: Any, plain: Any) -> None:
    """A subclass counts as its base, with the base's own content, whatever it says of itself."""
    assert spell(wire(value)) == spell(plain)


def trap() -> Any:
    """A class that ends the program when anything asks it anything; made late, for pytest asks too."""

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise SystemExit(name)

        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise SystemExit

        def __eq__(cls, other: object) -> bool:
            raise SystemExit

        def __hash__(cls) -> int:
            raise SystemExit

        def __instancecheck__(cls, instance: object) -> bool:
            raise SystemExit

        def __subclasscheck__(cls, subclass: type) -> bool:
            raise SystemExit

    class Trap(metaclass=Meta):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(name)

    return Trap


class Pretender:
    """Says that it is an int."""

    @property
    def __class__(self) -> Any:
        return int

    def __int__(self) -> int:
        return 5

    __index__ = __int__


def endless() -> Any:
    yield from itertools.count()


async def later() -> int:
    return 5


coroutine = later()
coroutine.close()


@pytest.mark.parametrize(
    "value",
    [
        Pretender(),
        object(),
        endless(),
        coroutine,
        later,
        itertools.count(),
        range(3),
        bytearray(b"x"),
        memoryview(b"x"),
        {}.keys(),
        int,
        json,
        ValueError("x"),
        iter([1]),
        type(LyingStr("x" * 1000), (), {})(),
        [1, [object()]],
        {"a": object()},
        {object(): 1},
        {1, object()},
    ],
    ids=kind_of,
)
def test_anything_else_is_refused(value: Any) -> None:
    """A generator, a coroutine, a class, any object is refused, and none of its code runs."""
    with pytest.raises(CodecError):
        encode(value)


def test_hostile_classes_are_not_asked() -> None:
    """A class whose metaclass and attributes end the program is refused without being asked."""
    hostile = trap()
    for value in (hostile, hostile(), [hostile()]):
        with pytest.raises(CodecError):
            encode(value)


def test_refusal_names_the_type_briefly() -> None:
    """The message names the type by its real name, and a name of a megabyte does not fill it."""
    with pytest.raises(CodecError, match=r"^a value of type Trap$"):
        encode(trap()())
    with pytest.raises(CodecError) as caught:
        encode(type("x" * 1_000_000, (), {})())
    assert len(str(caught.value)) < 200


def test_cycles_are_refused() -> None:
    """A list or a dict that contains itself is refused."""
    ring: list[Any] = []
    ring.append(ring)
    loop: dict[str, Any] = {}
    loop["a"] = [loop]
    for value in (ring, loop):
        with pytest.raises(CodecError, match="cycle"):
            encode(value)


def test_one_level_too_many_is_refused() -> None:
    """Encoding and decoding stop at the same depth."""
    with pytest.raises(CodecError, match="deeper than 200"):
        encode(nested(lambda x: [x], values.MAX_DEPTH + 1))
    with pytest.raises(CodecError, match="deeper than 200"):
        decode(nested(lambda x: [x], values.MAX_DEPTH + 1))


def test_no_stack_left_is_a_refusal() -> None:
    """A candidate that leaves no room on the stack gets a refusal, not a RecursionError of ours."""
    deep = nested(lambda x: [x], values.MAX_DEPTH)

    def exhaust(call: Callable[[], Any]) -> Any:
        try:
            return exhaust(call)
        except RecursionError:
            return call()

    with pytest.raises(CodecError, match="stack"):
        exhaust(lambda: encode(deep))


@pytest.mark.timeout(60)
def test_shared_parts_do_not_blow_up() -> None:
    """A value of two hundred lists that would unfold to 2**200 is refused at the limit on values."""
    value: Any = []
    for _ in range(190):
        value = [value, value]
    with pytest.raises(TooLarge):
        encode(value, max_nodes=10_000)


@pytest.mark.parametrize(
    "value",
    ["x" * 1001, b"x" * 1001, 1 << 5000, 1 << 20_000, ["x" * 400] * 3, {"x" * 1001: 1}, LyingStr("x" * 1001)],
    ids=kind_of,
)
def test_size_is_bounded(value: Any) -> None:
    """Text, bytes and digits count against the limit on bytes, keys included."""
    with pytest.raises(TooLarge):
        encode(value, max_bytes=1000)


def test_integers_have_a_limit() -> None:
    """An integer of 80 million bits is too large before any digit of it is made."""
    with pytest.raises(TooLarge, match="80000001 bits"):
        encode(1 << 80_000_000)


@pytest.mark.parametrize(
    "value",
    [
        {LyingStr("a"): 1, "a": 2},
        {LyingInt(1): 1, 1: 2},
        {LyingInt(1), 1},
        frozenset([LyingInt(1), 1]),
        {float("nan"), float("nan")},
    ],
    ids=kind_of,
)
def test_colliding_keys_and_members_are_refused(value: Any) -> None:
    """Two keys or members that would be one value after decoding are refused, the last does not win."""
    assert len(value) == 2
    with pytest.raises(CodecError, match="same value"):
        encode(value)


def test_text_and_number_keys_stay_apart() -> None:
    """The keys 1 and "1" are two keys on the other side."""
    assert wire({1: "a", "1": "b"}) == {1: "a", "1": "b"}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (numpy.int64(3), 3),
        (numpy.float64(0.5), 0.5),
        (numpy.float32(0.5), 0.5),
        (numpy.bool_(True), True),
        (numpy.complex64(1j), 1j),
        (numpy.str_("a"), "a"),
        (numpy.bytes_(b"a"), b"a"),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (numpy.array(5), 5),
        (numpy.array([]), []),
        (numpy.array([1, "a", None], dtype=object), [1, "a", None]),
        ([numpy.float64(1), {numpy.int64(1): numpy.True_}], [1.0, {1: True}]),
    ],
    ids=kind_of,
)
def test_numpy_values_are_python_values(value: Any, plain: Any) -> None:
    """NumPy scalars and arrays come back as the Python values that they hold."""
    assert spell(wire(value)) == spell(plain)


class LyingArray(numpy.ndarray):
    shape = ()  # type: ignore[assignment]

    def tolist(self) -> Any:
        return [5]

    def __len__(self) -> int:
        return 0


def test_lying_array_is_its_base() -> None:
    """A subclass of an array cannot lie about its content or its size."""
    assert wire(numpy.array([1, 2]).view(LyingArray)) == [1, 2]
    with pytest.raises(TooLarge):
        encode(numpy.zeros(1000).view(LyingArray), max_nodes=100)


@pytest.mark.parametrize("shape", [(10**9,), (10**9, 0), (10**3, 10**3, 10**3)])
def test_broadcast_array_is_too_large(shape: tuple[int, ...]) -> None:
    """An array of a few bytes that unfolds to a billion values is refused before it unfolds."""
    with pytest.raises(TooLarge):
        encode(numpy.broadcast_to(numpy.zeros(()), shape))


@pytest.mark.parametrize(
    "value", [numpy.longdouble(1), numpy.datetime64("2020-01-01"), numpy.array([endless()])], ids=kind_of
)
def test_numpy_values_without_a_python_value_are_refused(value: Any) -> None:
    """What NumPy cannot give as a plain Python value is refused."""
    with pytest.raises(CodecError):
        encode(value)


@pytest.mark.parametrize("module", [None, types.ModuleType("numpy")])
def test_numpy_is_not_needed(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where NumPy is absent, or something else stands under its name, an object is refused as ever."""
    monkeypatch.setitem(sys.modules, "numpy", module)
    with pytest.raises(CodecError, match="a value of type object"):
        encode(object())


# ---- what comes up the wire


@pytest.mark.parametrize(
    ("tagged", "says"),
    [
        ({"$other": 1}, "unknown tag"),
        ({"$" + "x" * 1_000_000: 1}, "unknown tag"),
        ({"$tuple": [], "$set": []}, "exactly one key"),
        ({"a": 1, "$set": []}, "exactly one key"),
        ({"$tuple": 1}, "takes a list"),
        ({"$set": {"a": 1}}, "takes a list"),
        ({"$set": [[]]}, "cannot be a member"),
        ({"$set": [{"$tuple": [[]]}]}, "cannot be a member"),
        ({"$set": [1, True]}, "equal"),
        ({"$frozenset": [1, 1.0]}, "equal"),
        ({"$dict": 1}, "pairs"),
        ({"$dict": [[1]]}, "pairs"),
        ({"$dict": [[1, 2, 3]]}, "pairs"),
        ({"$dict": [[[], 1]]}, "cannot be a member"),
        ({"$dict": [[1, "a"], [True, "b"]]}, "equal"),
        ({"$bytes": 1}, "base64"),
        ({"$bytes": "a"}, "base64"),
        ({"$bytes": "é"}, "base64"),
        ({"$bytes": "YQ==\n"}, "base64"),
        ({"$complex": [1]}, "two numbers"),
        ({"$complex": [1, True]}, "two numbers"),
        ({"$complex": [10**400, 1]}, "within the doubles"),
        ({"$float": "1.5"}, "takes"),
        ({"$float": []}, "takes"),
        ({"$int": 5}, "hex text"),
        ({"$int": "0x_f"}, "hex text"),
        ({"$int": "31"}, "hex text"),
        ({"$int": "0x1\n"}, "hex text"),
        ({"$int": "0x" + "f" * 2_000_001}, "8000004 bits"),
        (float("nan"), "beyond the doubles"),
        (float("inf"), "beyond the doubles"),
        ({1: 2}, "no text"),
        ((1,), "no JSON"),
        (object(), "no JSON"),
    ],
    ids=kind_of,
)
def test_malformed_tags_are_refused(tagged: Any, says: str) -> None:
    """A tag that is unknown, has company or has the wrong body is refused, briefly."""
    with pytest.raises(CodecError, match=says) as caught:
        decode(tagged)
    assert len(str(caught.value)) < 200


def test_small_hex_is_an_int() -> None:
    """`$int` is accepted for any integer, not only for large ones."""
    assert decode({"$int": "-0x1F"}) == -31


def test_decoded_values_are_counted() -> None:
    """More values than the limit are refused while decoding, too."""
    assert decode([0] * 9, max_nodes=10) == [0] * 9
    with pytest.raises(TooLarge):
        decode([0] * 10, max_nodes=10)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tag", ["$set", "$frozenset", "$dict"])
def test_chosen_hashes_do_not_hang_the_host(tag: str) -> None:
    """A hundred thousand integers with one hash are refused; a plain set of them takes minutes."""
    chosen: list[Any] = [index * (2**61 - 1) for index in range(100_000)]
    with pytest.raises(TooLarge, match="one hash"):
        decode({tag: [[item, 0] for item in chosen] if tag == "$dict" else chosen})


def test_unlucky_hashes_are_no_attack() -> None:
    """All tuples of -1 and -2, which Python gives one hash, still make a set."""
    unlucky = set(itertools.product((-1, -2), repeat=10))
    assert len({hash(item) for item in unlucky}) == 1
    assert wire(unlucky) == unlucky


def test_gather_takes_repeats() -> None:
    """Gathering a list into a set counts what differs: a value that stands there often is no attack."""
    assert gather([1, True, "a"] * 100_000) == {1, "a"}
    with pytest.raises(CodecError, match="cannot be a member"):
        gather([[]])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "Expecting value"),
        (b"[1,]", "Expecting value"),
        (b"1 2", "Extra data"),
        (b"\xff", "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"\xef\xbb\xbf1", "BOM"),
        (b"NaN", "NaN is no JSON"),
        (b"[-Infinity]", "-Infinity is no JSON"),
        (b"1e999", "beyond the doubles"),
        (b"-1e999", "beyond the doubles"),
        (b'{"a": 1, "b": 2, "a": 3}', "duplicate key 'a'"),
        (b'{"b": {"\\u0061": 1, "a": 1}}', "duplicate key 'a'"),
        (b"1" * 5000, "digits"),
        (b'"\x01"', "control character"),
        (b"[" * 651 + b"]" * 651, "deeper than 650"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_strict_json_is_refused(data: bytes, says: str) -> None:
    """A parser's leniency (NaN, duplicate keys, overflow to infinity) is refused, with the reason."""
    with pytest.raises(CodecError, match=says):
        loads(data)


def test_loads_reads_json() -> None:
    """Plain JSON is read in exact built-in types, an escaped lone surrogate included."""
    assert spell(loads(b'{"a": [1, 1.0, true, null, "\\ud800", -0, {}]}')) == spell(
        {"a": [1, 1.0, True, None, "\ud800", 0, {}]}
    )


def test_parser_without_stack_is_a_refusal() -> None:
    """What is deeper than the parser's own stack is refused, where the caller allows that depth."""
    with pytest.raises(CodecError, match="recursion"):
        loads(b"[" * 1_000_000, max_depth=2_000_000)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 4_000_000,
        b'{"a":' * 1_000_000,
        b"[]" * 2_000_000,
        b'"' + b'\\"' * 2_000_000 + b"[" * 1000,
        b'"' + b"\\" * 4_000_000 + b"[" * 1000,
        b'"' + b"a" * 4_000_000 + b"[" * 1000,
        b'"' * 4_000_001 + b"[" * 1000,
    ],
    ids=range(7),
)
def test_bombs_are_found_in_linear_time(data: bytes) -> None:
    """Megabytes of brackets, quotes or escapes are refused in about a second."""
    with pytest.raises(CodecError):
        loads(data)


def test_nesting_looks_past_strings() -> None:
    """Brackets inside strings do not nest, an escaped quote does not end a string."""
    assert nesting(b'[{"a[[[": "\\"[[[", "b": [1]}]') == 3
    assert nesting(b'"[[[') == 0
    assert nesting(b"[] [[]]") == 2
    assert nesting(b"1") == 0
    wide = b'["' + b"[" * 1000 + b'"]'
    assert loads(wide) == ["[" * 1000]


@settings(max_examples=300)
@given(st.binary() | st.text('[]{}",:0123456789eE+-.\\ntfu$aNI ').map(str.encode))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    """Whatever bytes come, `loads` gives a value or raises CodecError."""
    with contextlib.suppress(CodecError):
        loads(data)


@settings(max_examples=300)
@given(any_json)
def test_any_json_decodes_or_is_refused(tagged: Any) -> None:
    """Whatever JSON comes, `decode` gives a value that encodes again or raises CodecError."""
    try:
        value = decode(tagged)
    except CodecError:
        return
    assert type(value) in (type(None), bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)


def test_import_is_light() -> None:
    """Beside the candidate the codec stands alone: it imports neither typing nor anything of ours."""
    folder = Path(values.__file__).parent
    script = f"import sys; sys.path.append({str(folder)!r}); import values; print('typing' in sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


@pytest.mark.parametrize(
    "value",
    [SPLIT, ["a" + SPLIT], {SPLIT: 1}, {SPLIT, "\U0001f600"}],
    ids=["text", "in a list", "as a key", "in a set"],
)
def test_a_character_in_two_halves_has_no_form(value: object) -> None:
    """JSON text would join two surrogates into the character that they are not; so they are refused."""
    with pytest.raises(CodecError, match="two halves"):
        encode(value)


def test_the_codec_does_not_hang_on_the_json_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that replaces the functions of `json` gets its arguments and gives its results all the same."""
    monkeypatch.setattr(json, "dumps", lambda *args, **more: b"")
    monkeypatch.setattr(json, "loads", lambda *args, **more: {})
    assert loads(dumps(encode({"a": [1, 0.5, "\u00e9"]})).encode()) == {"a": [1, 0.5, "\u00e9"]}
