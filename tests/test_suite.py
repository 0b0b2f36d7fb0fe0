"""Suites: one form from every spelling, and an error with file, line and path."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gate import values
from gate.errors import SpecError
from gate.model import Call, Expect, Limits, SuiteSpec, Test, Tolerance
from gate.suite import load_bank_line, load_suite, suite_from_tree, task_of

WORDS = b"""\
version: 1
task: words/reverse
prompt: |
  Write reverse_words(text): the words of text in reverse order.
entry_point: reverse_words
limits: {wall_s: 10, cpu_s: 2.5}
tests:
  - {args: ["a b"], expected: "b a"}
  - {args: [0.1, 0.2], kwargs: {}, expected: 0.3, tolerance: {rel: 1.0e-6}}
  - {args: [5], any_of: [2, 3]}
  - {args: [-1], raises: ValueError}
  - {args: [[3, 1, 2]], expected: [1, 2, 3], compare: unordered}
  - args: [{"$tuple": [1, {"$set": [2]}]}]
    kwargs: {sep: ","}
    expected: null
    project: {round: 2}
    nan_ok: true
hidden:
  - {args: ["x y z"], expected: "z y x", compare: strict}
reference: |
  def reverse_words(text): return " ".join(reversed(text.split()))
must_fail: ["def reverse_words(text): return text"]
"""
PROGRAM = b"""\
version: 1
task: double
tests:
  - {stdin: "3\\n", stdout: "6\\n"}
  - {stdin: "", stdout: "", compare: exact}
"""


def refusal(data: bytes | str, name: str = "a.yaml") -> str:
    """What is said about a file that is refused."""
    with pytest.raises(SpecError) as caught:
        load_suite(data.encode() if isinstance(data, str) else data, name)
    text = str(caught.value)
    assert text.isprintable()
    return text


def calls(*tests: str, head: str = "entry_point: f") -> str:
    """A suite of some tests, each on its line, the first on line 5."""
    return "\n".join(["version: 1", "task: t", head, "tests:", *(f"  - {test}" for test in tests), ""])


def test_a_suite_is_read_as_it_is_written() -> None:
    """Every key of the format arrives in the values."""
    suite = load_suite(WORDS, "words.yaml")
    assert suite.task_id == "words/reverse"
    assert suite.prompt == "Write reverse_words(text): the words of text in reverse order.\n"
    assert suite.entry_point == "reverse_words"
    assert suite.limits == Limits(wall_s=10.0, cpu_s=2.5)
    assert suite.reference == 'def reverse_words(text): return " ".join(reversed(text.split()))\n'
    assert suite.must_fail == ("def reverse_words(text): return text",)
    assert suite.hidden == (
        Test(call=Call(args=("x y z",)), expect=Expect(kind="value", values=("z y x",), compare="strict")),
    )
    assert suite.tests == (
        Test(call=Call(args=("a b",)), expect=Expect(kind="value", values=("b a",))),
        Test(call=Call(args=(0.1, 0.2)), expect=Expect(kind="value", values=(0.3,), tolerance=Tolerance(rel=1e-6))),
        Test(call=Call(args=(5,)), expect=Expect(kind="value", values=(2, 3))),
        Test(call=Call(args=(-1,)), expect=Expect(kind="raises", raises="ValueError")),
        Test(call=Call(args=([3, 1, 2],)), expect=Expect(kind="value", values=([1, 2, 3],), compare="unordered")),
        Test(
            call=Call(args=({"$tuple": [1, {"$set": [2]}]},), kwargs={"sep": ","}),
            expect=Expect(kind="value", values=(None,), project={"round": 2}, nan_ok=True),
        ),
    )


def test_a_program_on_stdin_and_stdout_is_read() -> None:
    """Without an entry point a test is what goes in and what must come out, compared by lines."""
    suite = load_suite(PROGRAM, "p.yaml")
    assert suite.entry_point is None
    assert suite.tests == (
        Test(call=Call(stdin="3\n"), expect=Expect(kind="stdout", stdout="6\n", compare="lines")),
        Test(call=Call(stdin=""), expect=Expect(kind="stdout", stdout="", compare="exact")),
    )


def test_only_version_task_and_tests_are_required() -> None:
    """All else has a default."""
    suite = load_suite(b"version: 1\ntask: t\ntests: [{stdout: hello}]\n", "a")
    assert (suite.prompt, suite.hidden, suite.reference, suite.must_fail) == ("", (), None, ())
    assert suite.limits == Limits()
    assert suite.calls == (Call(stdin=""),)
    assert load_suite(calls("{expected: 1}").encode(), "a").calls == (Call(),)


def test_the_comparator_of_the_suite_is_the_default_of_each_test() -> None:
    """A test that names none is compared as the suite says."""
    head = "entry_point: f\ncompare: strict"
    text = calls("{args: [1], expected: 1}", "{args: [2], expected: 2, compare: set}", head=head)
    assert [test.expect.compare for test in load_suite(text.encode(), "a").tests] == ["strict", "set"]
    tokens = load_suite(PROGRAM + b"compare: tokens\n", "a")
    assert [test.expect.compare for test in tokens.tests] == ["tokens", "exact"]


def test_a_task_states_its_suite() -> None:
    """A source is asked with the prompt and the entry point; the suite goes along."""
    suite = load_suite(WORDS, "words.yaml")
    task = task_of(suite)
    assert (task.id, task.prompt, task.entry_point) == (suite.task_id, suite.prompt, suite.entry_point)
    assert task.suite is suite


# Errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- version: 1\n", "a.yaml:1: a suite is an object with version, task and tests, not a list"),
        ("(lp0\nI1\naI2\na.", "a.yaml:1: a suite is an object with version, task and tests, not '(lp0 I1 aI2 a.'"),
        ("task: t\ntests: [{stdout: x}]\n", "a.yaml:1: version: is missing: write it"),
        ("version: 1\ntests: [{stdout: x}]\n", "a.yaml:1: task: is missing: write it"),
        ("version: 1\ntask: t\n", "a.yaml:1: tests: is missing: write at least one test"),
        ("version: 1\ntask: t\ntests: []\n", "a.yaml:3: tests: is empty: write at least one test"),
        ("version: 1\ntask: t\ntests:\n", "a.yaml:3: tests: should be a list of tests, not null (and 1 more)"),
        ("version: 1\ntask: t\ntests: {args: [1]}\n", "a.yaml:3: tests: should be a list of tests, not an object"),
        (calls("7"), "a.yaml:5: tests[0]: should be an object, not 7"),
        (
            "version: 1\ntask: t\ntests: []\nhidden: [{stdout: x}]\n",
            "a.yaml:3: tests: is empty: write at least one test",
        ),
        (
            calls("{args: [1], expected: 1, compare: lines}"),
            "a.yaml:5: tests[0].compare: unknown 'lines' for returned values "
            "(known: json, python, strict, unordered, set)",
        ),
        (
            calls("{args: [1], expected: 1}", head="entry_point: f\ncompare: tokens"),
            "a.yaml:4: compare: unknown 'tokens' for returned values (known: json, python, strict, unordered, set)",
        ),
        (
            calls("{stdin: x, stdout: z, compare: json}", head="prompt: p"),
            "a.yaml:5: tests[0].compare: unknown 'json' for printed text (known: lines, tokens, exact)",
        ),
        (calls("{args: [2]}"), "a.yaml:5: tests[0]: needs exactly one of expected, any_of or raises, has none"),
        (
            calls("{args: [2], expected: 1, raises: ValueError}"),
            "a.yaml:5: tests[0]: needs exactly one of expected, any_of or raises, has expected and raises",
        ),
        (calls("{stdin: x}", head="prompt: p"), "a.yaml:5: tests[0]: needs stdout, has none"),
        (
            calls("{args: [2], expected: 1, stdin: x}"),
            "a.yaml:5: tests[0].stdin: is for programs on stdin and stdout, and this suite has an entry_point: "
            "remove one of them",
        ),
        (
            calls("{stdin: x, stdout: z, args: [1]}", head="prompt: p"),
            "a.yaml:5: tests[0].args: is for calls, and this suite has no entry_point: "
            "add it, or write stdin and stdout",
        ),
        (
            calls("{args: [2], raises: ValueError, project: int}"),
            "a.yaml:5: tests[0].project: has no effect beside raises: remove it",
        ),
        (
            calls("{args: [2], raises: ValueError, nan_ok: true}"),
            "a.yaml:5: tests[0].nan_ok: has no effect beside raises: remove it",
        ),
        (
            calls("{args: [2], expected: 5}", "{args: [3], expected: 6}", "{args: [2], expected: 6}"),
            "a.yaml:7: tests[2]: contradicts tests[0]: the same call, and no answer that both take",
        ),
        (
            calls("{args: [2], expected: 5}") + "hidden:\n- {args: [2], expected: 7}\n- {args: [2], expected: 8}\n",
            "a.yaml:8: hidden[1]: contradicts hidden[0]: the same call, and no answer that both take",
        ),
        (
            calls('{stdin: x, stdout: ""}', '{stdin: z, stdout: " \\n"}', head="prompt: p"),
            "a.yaml:4: tests: expect nothing to be printed, so a program that does nothing passes: add a test",
        ),
    ],
)
def test_a_wrong_suite_is_refused_with_file_line_and_path(text: str, message: str) -> None:
    """The message is one sentence: where, what, what to do."""
    assert refusal(text) == message


@pytest.mark.parametrize(
    ("value", "place", "what"),
    [
        ('{"$unknown": 1}', "", "unknown tag '$unknown'"),
        ('[1, {"x": {"$bytes": "?"}}]', "[1].x", "$bytes takes base64 text"),
        ('{"$tuple": [1, {"$set": [1, 1]}]}', ".$tuple[1]", ""),
        ('{"$float": "Infinity"}', "", '$float takes "nan", "inf" or "-inf"'),
        ('{"$dict": [[[1], 2]]}', "", ""),
        ('{"$tuple": [], "x": 1}', "", "a tagged object has exactly one key, this has 2"),
        ('{"$int": "12"}', "", '$int takes hex text such as "0x1f"'),
    ],
)
@pytest.mark.parametrize(
    ("test", "path"),
    [
        ("{args: [0, VALUE], expected: 1}", "args[1]"),
        ("{kwargs: {k: VALUE}, expected: 1}", "kwargs.k"),
        ("{args: [1], expected: VALUE}", "expected"),
        ("{args: [1], any_of: [0, VALUE]}", "any_of[1]"),
    ],
)
def test_a_value_that_cannot_be_decoded_is_refused(value: str, place: str, what: str, test: str, path: str) -> None:
    """A wrong tag is found wherever it stands, down to the innermost value."""
    text = refusal(calls(test.replace("VALUE", value)))
    assert text.startswith(f"a.yaml:5: tests[0].{path}{place}: {what}")


def test_the_first_problem_of_the_document_is_named_and_the_others_counted() -> None:
    """Order is that of the document, not that of the checks."""
    text = refusal("tests:\n  - {args: 1, expected: 2, skip: 3}\n  - {expected: 2, raises: X}\ntask: ..\nversion: 2\n")
    assert text == "a.yaml:2: tests[0].args: should be a list, not 1 (and 4 more)"
    text = refusal(calls("{skip: 1, args: 3}", "{args: [1]}"))
    assert text.startswith("a.yaml:5: tests[0].skip: unknown key (known: args, ")
    assert text.endswith(" (and 2 more)")


def test_a_problem_in_json_has_its_line_too() -> None:
    """JSON files are described as YAML files are."""
    head = '{"version": 1, "task": "t", "entry_point": "f",\n"tests": [\n'
    text = refusal(head + '{"args": [1],\n"compare": "fuzzy", "expected": 1}]}')
    assert text.startswith("a.yaml:4: tests[0].compare: unknown 'fuzzy' (known: json, ")


def test_null_is_an_answer_and_absence_is_none() -> None:
    """`expected: null` must be written; a test without it must not pass a stub that returns None."""
    assert load_suite(calls("{args: [1], expected: null}").encode(), "a").tests[0].expect.values == (None,)
    assert load_suite(calls("{args: [1], any_of: [null]}").encode(), "a").tests[0].expect.values == (None,)
    assert "has none" in refusal(calls("{args: [1]}"))


def test_an_exact_repeat_is_no_contradiction() -> None:
    """The same test twice says the same thing twice."""
    assert len(load_suite(calls("{args: [1], expected: 1}", "{args: [1], expected: 1}").encode(), "a").tests) == 2


def test_visible_and_hidden_tests_may_differ() -> None:
    """The ground truth may correct a visible test: that is measured, and no error of the file."""
    text = calls("{args: [1], expected: 1}") + "hidden: [{args: [1], expected: 2}]\n"
    assert load_suite(text.encode(), "a").hidden[0].expect.values == (2,)


def test_text_that_looks_like_code_arrives_as_it_is() -> None:
    """Nothing in a suite is ever evaluated, formatted or expanded."""
    baits = ["__import__('os').abort()", "{{7*7}}", "${HOME}", "$(id)", "%s%n", "{0.__class__}", "!!python/name:eval"]
    tests = [{"args": [bait], "expected": bait} for bait in baits]
    tree = {"version": 1, "task": "echo", "entry_point": "echo", "tests": tests}
    for data in (json.dumps(tree), "# YAML\n" + json.dumps(tree)):
        assert [test.expect.values[0] for test in load_suite(data.encode(), "a").tests] == baits


def test_half_a_surrogate_pair_is_let_through_in_values_alone() -> None:
    """Odd text is a value like others; it is no prompt, no name and nothing for stdin."""
    odd = '"\\ud800"'
    line = '{"version": 1, "task": "t", "entry_point": "f", "tests": [{"args": [%s], "expected": {%s: 1}}]}'
    suite = load_suite((line % (odd, odd)).encode(), "a")
    assert suite.tests[0].call.args == ("\ud800",)
    assert suite_from_tree(suite.source).digest == suite.digest
    assert "half a surrogate" in refusal('{"version": 1, "task": "t", "tests": [{"stdin": "\\ud800", "stdout": "x"}]}')


# Banks


def test_a_line_of_a_bank_is_a_task() -> None:
    """JSONL holds one suite a line."""
    line = json.dumps(suite_tree())
    task = load_bank_line(line.encode() + b"\r\n", "bank.jsonl", 4)
    assert task.suite.digest == load_suite(line.encode(), "x").digest


@pytest.mark.parametrize("tests", [{}, {"tests": []}])
def test_a_line_of_a_bank_may_have_hidden_tests_alone(tests: dict[str, Any]) -> None:
    """Such a task loads, to be refused later without a draw; its source loads again."""
    tree = {"version": 1, "task": "t", "entry_point": "f", "hidden": [{"args": [1], "expected": 2}], **tests}
    task = load_bank_line(json.dumps(tree).encode(), "bank.jsonl", 1)
    assert (task.suite.tests, len(task.suite.hidden)) == ((), 1)
    assert suite_from_tree(task.suite.source) == task.suite
    del tree["entry_point"]
    tree["hidden"] = [{"stdin": "", "stdout": ""}]
    assert load_bank_line(json.dumps(tree).encode(), "bank.jsonl", 1).suite.hidden_calls == (Call(stdin=""),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"version": 1, "task": "t"}', "b.jsonl:9: tests: is missing: write at least one test"),
        (b'{"version": 1, "task": "t", "tests": [], "hidden": []}', "b.jsonl:9: tests: is empty: write at least one"),
        (b"[]", "b.jsonl:9: a suite is an object with version, task and tests, not a list"),
        (b'{"version": 1, "ta', "b.jsonl:9: no strict JSON"),
        (b"version: 1", "b.jsonl:9: no strict JSON"),
        (b"\xff", "b.jsonl:9: not UTF-8"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(line: bytes, message: str) -> None:
    """The place in a bank is the number of the line."""
    with pytest.raises(SpecError) as caught:
        load_bank_line(line, "b.jsonl", 9)
    assert str(caught.value).startswith(message)


# Digests


def suite_tree() -> dict[str, Any]:
    """A suite with all that a suite may have, as plain JSON."""
    tree: dict[str, Any] = yaml.safe_load(WORDS)
    return tree


def digest(tree: dict[str, Any]) -> str:
    return suite_from_tree(tree).digest


def shuffled(value: Any, random: Any) -> Any:
    """The same JSON value with its keys in another order."""
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.shuffle(keys)
    return {key: shuffled(value[key], random) for key in keys}


safe_text = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**9), 10**9).map(lambda n: n / 1000) | safe_text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(safe_text.filter(lambda key: not key.startswith("$")), inner, max_size=3)
        | st.lists(inner, max_size=2).map(lambda items: {"$tuple": items})
    ),
    max_leaves=8,
)
call_tests = st.fixed_dictionaries(
    {"args": st.lists(json_values, max_size=3), "expected": json_values},
    optional={
        "kwargs": st.dictionaries(st.sampled_from(["a", "b"]), json_values),
        "compare": st.sampled_from(["json", "python", "strict", "unordered", "set"]),
        "tolerance": st.fixed_dictionaries({"rel": st.sampled_from([0, 0.5, 1])}),
        "nan_ok": st.booleans(),
        "project": st.sampled_from(["set", "int", {"round": 2}]),
    },
)
suites = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "task": st.from_regex(r"[a-z]{1,5}(/[0-9]{1,3})?", fullmatch=True),
        "entry_point": st.sampled_from(["f", "Solution.run"]),
        "tests": st.lists(call_tests, min_size=1, max_size=3, unique_by=lambda test: json.dumps(test["args"])),
    },
    optional={
        "prompt": safe_text,
        "compare": st.sampled_from(["json", "strict"]),
        "limits": st.fixed_dictionaries({}, optional={"wall_s": st.sampled_from([1, 2.5]), "memory_mb": st.just(64)}),
        "hidden": st.lists(call_tests, max_size=1),
    },
)


@given(suites, st.randoms(use_true_random=False))
def test_the_order_of_keys_changes_nothing(tree: dict[str, Any], random: Any) -> None:
    """A digest speaks of what is said, not of how it is ordered."""
    assert digest(shuffled(tree, random)) == digest(tree)


@given(suites)
def test_yaml_json_and_jsonl_give_one_digest(tree: dict[str, Any]) -> None:
    """One suite has one digest, in whatever format it is kept."""
    line = json.dumps(tree)
    spellings = [
        load_suite(line.encode(), "a.json"),
        load_suite(json.dumps(tree, indent=2).encode(), "a.json"),
        load_suite(b"\xef\xbb\xbf# YAML\r\n" + line.encode(), "a.yaml"),
        load_bank_line(line.encode(), "a.jsonl", 1).suite,
        suite_from_tree(tree),
    ]
    assert len({suite.digest for suite in spellings}) == 1
    assert all(suite == spellings[0] for suite in spellings)


@given(suites)
def test_the_source_loads_again_as_itself(tree: dict[str, Any]) -> None:
    """The normal form is a suite, and its own normal form."""
    suite = suite_from_tree(tree)
    again = load_bank_line(values.dumps(suite.source).encode(), "suites.jsonl", 1).suite
    assert again == suite
    assert again.source == suite.source


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": ""},
        {"compare": "json"},
        {"limits": {}},
        {"limits": {"wall_s": 10, "cpu_s": 5.0, "memory_mb": 512, "output_kb": 16384, "total_cpu_s": 60}},
        {"hidden": []},
        {"must_fail": []},
        {"tests": [{"args": [1], "expected": 2, "kwargs": {}, "compare": "json", "nan_ok": False}]},
    ],
)
def test_a_default_that_is_written_out_changes_nothing(change: dict[str, Any]) -> None:
    """What a suite leaves out is part of it all the same."""
    tree = {"version": 1, "task": "t", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    assert digest(tree | change) == digest(tree)


def test_defaults_of_other_tests_change_nothing_either() -> None:
    """Programs, exceptions and tolerances have defaults of their own."""
    program = {"version": 1, "task": "t", "tests": [{"stdout": "x"}]}
    assert digest(program | {"compare": "lines"}) == digest(program)
    full = {"stdin": "", "stdout": "x", "compare": "lines", "nan_ok": False}
    assert digest(program | {"tests": [full]}) == digest(program)
    call = {"version": 1, "task": "t", "entry_point": "f", "tests": [{"raises": "KeyError"}]}
    full = {"args": [], "raises": "KeyError", "nan_ok": False, "compare": "json"}
    assert digest(call | {"tests": [full]}) == digest(call)
    close = call | {"tests": [{"expected": 1, "tolerance": {"rel": 1}}]}
    assert digest(call | {"tests": [{"expected": 1, "tolerance": {"rel": 1.0, "abs": 0}}]}) == digest(close)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "words/other"},
        {"prompt": "other"},
        {"entry_point": "other"},
        {"compare": "strict"},
        {"limits": {"wall_s": 9}},
        {"reference": "pass"},
        {"must_fail": []},
        {"hidden": []},
    ],
)
def test_every_key_is_part_of_the_digest(change: dict[str, Any]) -> None:
    """What changes the suite changes its digest."""
    assert digest(suite_tree() | change) != digest(suite_tree())


@pytest.mark.parametrize("index", range(6))
def test_every_test_is_part_of_the_digest(index: int) -> None:
    """A test that is dropped or moved is noticed."""
    tree = suite_tree()
    tests = tree["tests"]
    assert digest(tree | {"tests": tests[:index] + tests[index + 1 :]}) != digest(tree)
    assert digest(tree | {"tests": [tests[index], *tests[:index], *tests[index + 1 :]]}) != digest(tree) or index == 0


def test_equal_numbers_of_other_types_are_other_tests() -> None:
    """1, 1.0 and true are three calls."""
    tree = {"version": 1, "task": "t", "entry_point": "f"}
    assert len({digest(tree | {"tests": [{"args": [one], "expected": 0}]}) for one in (1, 1.0, True)}) == 3


# Robustness


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_a_spec_error(data: bytes) -> None:
    """Whatever a file holds, it is a suite or it is refused in a sentence."""
    for load in (lambda: load_suite(data, "a"), lambda: load_bank_line(data, "a", 1)):
        with pytest.raises(SpecError):
            load()


mixed = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["args", "expected", "$set", "round", "rel", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = ["version", "task", "prompt", "entry_point", "compare", "limits", "tests", "hidden", "reference", "must_fail"]


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(KEYS), mixed), st.booleans())
def test_any_tree_is_a_suite_or_refused(change: dict[str, Any], whole: bool) -> None:
    """Wrong types in any place are refused in a sentence."""
    tree = (suite_tree() if whole else {}) | change
    try:
        suite = suite_from_tree(tree)
    except SpecError as exc:
        assert str(exc).isprintable()
        return
    assert isinstance(suite, SuiteSpec)


@settings(max_examples=200)
@given(st.lists(mixed, min_size=1, max_size=3))
def test_any_test_is_a_test_or_refused(tests: list[Any]) -> None:
    """Wrong tests are refused in a sentence, and named by their index."""
    try:
        suite_from_tree(suite_tree() | {"tests": tests})
    except SpecError as exc:
        assert str(exc).startswith("suite: tests")


@pytest.mark.parametrize("data", [WORDS, PROGRAM, json.dumps(suite_tree()).encode()])
def test_a_cut_file_never_crashes(data: bytes) -> None:
    """A valid file cut anywhere loads or is refused."""
    for end in range(len(data)):
        try:
            load_suite(data[:end], "a")
        except SpecError as exc:
            assert str(exc).startswith("a:")


def test_a_suite_of_20000_tests_loads_in_seconds() -> None:
    """A long suite costs a few seconds and 300 MB at most."""
    program = """
import resource, sys
sys.path.insert(0, {root!r})
from gate.suite import load_suite
lines = ["version: 1", "task: t1", "entry_point: add", "tests:"]
lines += ["  - {{args: [%d, %d], expected: %d}}" % (n, 7 * n, 8 * n) for n in range(20_000)]
suite = load_suite("\\n".join(lines).encode(), "long.yaml")
assert len(suite.tests) == 20_000
used = resource.getrusage(resource.RUSAGE_SELF)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0], used.ru_utime + used.ru_stime)
"""
    source = program.format(root=__file__.rpartition("/")[0] + "/..")
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    size_kb, cpu_s = done.stdout.split()
    assert float(cpu_s) < 10  # about two; CPU time, because a loaded machine is slow, not wrong
    assert int(size_kb) << 10 < 300 << 20  # not ru_maxrss, which begins at the size of whoever starts the process


def test_many_wrong_tests_are_counted_in_flat_memory() -> None:
    """Only the first problem is kept, the others are counted."""
    tree = {"version": 1, "task": "t", "entry_point": "f", "tests": [{"args": 1}] * 5000}
    with pytest.raises(SpecError, match=r"tests\[0\]\.args: should be a list, not 1 \(and 4999 more\)"):
        suite_from_tree(tree)
