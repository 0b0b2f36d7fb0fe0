"""`gate check --mutants`: the maker that runs in the sandbox, its mutants held against a suite, and what is said."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import values
from gate.cli import check, wiring
from gate.cli import mutants as verb
from gate.cli.app import first_of_ours
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Json, Limits, Observation, Reply, Usage, digest_json
from gate.mutation import Fate, Mutation, Mutations, Suggestion
from gate.suite import suite_from_tree

ROOT = Path(__file__).resolve().parent.parent
GATE = str(Path(sys.executable).parent / "gate")
sys.path.insert(0, str(ROOT / "sandbox"))

import mutants  # noqa: E402


def changes(text: str, most: int = 1000) -> list[str]:
    """The mutants of a text, one line each: what was on the first line that differs, and what is there now."""
    answer = mutants.make_mutants(text, most)
    assert answer["why"] is None
    return [
        next(new for old, new in zip(text.split("\n"), each["code"].split("\n"), strict=True) if old != new).strip()
        for each in answer["mutants"]
    ]


# The maker


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a + b", ["a - b"]),
        ("a - b", ["a + b"]),
        ("a * b", ["a + b"]),
        ("a / b", ["a * b"]),
        ("a // b", ["a / b"]),
        ("a % b", ["a // b"]),
        ("a ** b", ["a * b"]),
        ("a << b", ["a >> b"]),
        ("a >> b", ["a << b"]),
        ("a & b", ["a | b"]),
        ("a | b", ["a & b"]),
        ("a ^ b", ["a & b"]),
        ("a @ b", []),
        ("(a) + (b)", ["(a) - (b)"]),
        ("a < b", ["a <= b", "a >= b"]),
        ("a <= b", ["a < b", "a > b"]),
        ("a > b", ["a <= b", "a >= b"]),
        ("a >= b", ["a < b", "a > b"]),
        ("a == b", ["a != b"]),
        ("a != b", ["a == b"]),
        ("a in b", ["a not in b"]),
        ("a not  in b", ["a in b"]),
        ("a is b", ["a is not b"]),
        ("a is not b", ["a is b"]),
        ("a < b < c", ["a <= b < c", "a >= b < c", "a < b <= c", "a < b >= c"]),
        ("a and b or c", ["a and b and c", "a or b or c"]),
        ("not a", ["a"]),
        ("-a", ["a"]),
        ("~a", ["a"]),
        ("+a", []),
        ("0", ["-1", "1"]),
        ("41", ["40", "42"]),
        ("True", ["False"]),
        ("None", []),
        ("0.5", ["1.5"]),
        ("1e300", []),
        ("f('ab')", ["f('')"]),
        ("f('')", ["f('?')"]),
        ("f(b'x')", []),
        ("'ab' % c", ["'' % c"]),
        ("a if b else c", ["a if False else c", "a if True else c", "a if not (b) else c"]),
        ("a if b < c else d", ["a if False else d", "a if True else d", "a if b <= c else d", "a if b >= c else d"]),
        ("[a for a in b if a]", ["[a for a in b if not (a)]"]),
        ("[a for a in b if not a]", ["[a for a in b if a]"]),
        ("f'{a + 1}b'", []),
        ("a[1:]", ["a[0:]", "a[2:]"]),
        ("'é' + b", ["'' + b", "'é' - b"]),
    ],
)
def test_an_expression_is_changed_in_place(text: str, made: list[str]) -> None:
    """Operators, boundaries, opposites, constants and conditions, each change alone and nothing else touched."""
    assert sorted(changes(f"x = {text}")) == sorted(f"x = {each}" for each in made)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a += b", ["a -= b", "pass"]),
        ("a %= b", ["a //= b", "pass"]),
        ("a[b] = c", ["pass"]),
        ("a = c", []),
        ("a = b[c] = d", []),
        ("f(a)", ["pass"]),
        ("raise a", ["pass"]),
        ("raise A('says why', 1)", ["pass", "raise A('says why', 0)", "raise A('says why', 2)"]),
        ("assert a", ["pass"]),
        ("del a", ["pass"]),
        ("'it says'", []),
        ("a: 'int' = b", []),
        ("import a", []),
        ("if a: b()", ["if False: b()", "if a: pass", "if not (a): b()"]),
        ("if a < b: c = d", ["if False: c = d", "if a <= b: c = d", "if a >= b: c = d"]),
        ("if not a: b = c", ["if False: b = c", "if a: b = c"]),
        ("if True: a = b", ["if False: a = b"]),
        ("while a: break", ["while False: break", "while a: pass", "while not (a): break"]),
        ("for a in b: continue", ["for a in b: pass"]),
        ("def f(a: 'x' = 1) -> 'y': return a", [
            "def f(a: 'x' = 0) -> 'y': return a",
            "def f(a: 'x' = 2) -> 'y': return a",
            "def f(a: 'x' = 1) -> 'y': return None",
        ]),
        ("def f(): return None", []),
        ("def f(): return", []),
        ("def f(): yield a", ["def f(): pass"]),
    ],
)  # fmt: skip
def test_a_statement_is_changed_or_dropped(text: str, made: list[str]) -> None:
    """What has an effect can be left out; a branch can; names that are bound, annotations and texts that say something
    to people are left alone."""
    assert sorted(changes(text)) == sorted(made)


def test_both_branches_of_a_condition_can_be_dropped() -> None:
    """With an else, the condition becomes True as well as False; the words and the lines say what was done."""
    answer = mutants.make_mutants("if a:\n    b = c\nelse:\n    d = 1\n", 99)
    assert [(each["line"], each["what"]) for each in answer["mutants"]] == [
        (1, "the condition becomes False"),
        (1, "the condition becomes True"),
        (1, "the condition is negated"),
        (4, "1 becomes 0"),
        (4, "1 becomes 2"),
    ]


def test_an_operator_is_found_between_comments_and_brackets() -> None:
    """A sign in a comment or a text is no operator."""
    text = "x = ((a  # < b\n     ) < (b)) + len('<')\n"
    assert "     ) <= (b)) + len('<')" in "\n".join(each["code"] for each in mutants.make_mutants(text, 99)["mutants"])
    assert all("# < b" in each["code"] for each in mutants.make_mutants(text, 99)["mutants"])


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends_stay(end: str) -> None:
    """Places are right where lines end otherwise."""
    made = [each["code"] for each in mutants.make_mutants(f"a = b{end}c = é + 1{end}", 99)["mutants"]]
    assert sorted(made) == sorted(f"a = b{end}c = {new}{end}" for new in ("é - 1", "é + 0", "é + 2"))


def test_at_most_so_many_evenly_over_the_program() -> None:
    """Of a hundred lines, ten mutants come from all over it; how many there could be is said, too."""
    text = "".join(f"a{number} = b + c\n" for number in range(100))
    answer = mutants.make_mutants(text, 10)
    assert [each["line"] for each in answer["mutants"]] == [1 + 10 * number for number in range(10)]
    assert answer["possible"] == 100


def test_a_mutant_that_is_there_already_makes_room_for_another() -> None:
    """Two changes that come to one program are one mutant, and another one takes the place of the second."""
    assert changes("x = not not a") == ["x = not a"]
    answer = mutants.make_mutants("x = not not a\ny = b + c\n", 2)
    assert [each["what"] for each in answer["mutants"]] == ["not is left out", "+ becomes -"]
    assert mutants.make_mutants("x = not not a", 9)["possible"] == 1


@pytest.mark.parametrize("text", ["def", "a = '\ud800'", "a\0b", "(" * 5000, "-" * 100_000 + "1"])
def test_what_is_no_program_has_no_mutants(text: str) -> None:
    """A text that cannot be read is answered with the reason."""
    answer = mutants.make_mutants(text, 5)
    assert answer["mutants"] == [] and answer["why"]


PROGRAMS = sorted((ROOT / "tests/cases").glob("*/candidate.py"))


def test_each_mutant_of_many_programs_is_another_program() -> None:
    """All mutants of the corpus parse, differ from the program and from each other, and are the same each time."""
    seen = 0
    for path in PROGRAMS[::4]:
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        answer = mutants.make_mutants(text, 40)
        assert answer == mutants.make_mutants(text, 40)
        shapes = {ast.dump(ast.parse(each["code"])) for each in answer["mutants"]}
        assert len(shapes) == len(answer["mutants"])
        assert not answer["mutants"] or ast.dump(ast.parse(text)) not in shapes
        seen += len(shapes)
    assert seen > 200


@given(st.text("ab01 +-<>=()[]:\n'\"", max_size=40))
def test_no_text_makes_the_maker_fail(text: str) -> None:
    """Whatever it is given, it answers, with no more than it was asked for."""
    answer = mutants.make_mutants(text, 3)
    assert len(answer["mutants"]) <= min(3, answer["possible"])
    assert (answer["why"] is None) or not answer["mutants"]


# Holding them against a suite

CLAMP = """\
def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x
"""


def tree(**more: Json) -> dict[str, Json]:
    """A suite whose visible tests do not look at the upper end."""
    return {
        "version": 1,
        "task": "clamp",
        "entry_point": "clamp",
        "tests": [{"args": [0, 1, 9], "expected": 1}, {"args": [5, 1, 9], "expected": 5}],
        "hidden": [{"args": [5, 1, 9], "expected": 5}, {"args": [10, 1, 9], "expected": 9}],
        "reference": CLAMP,
        **more,
    }


class HostPython:
    """Runs these tests' own small programs in this process: no candidate ever comes here.

    Attributes:
        limits: The limits of each observation.
    """

    def __init__(self) -> None:
        self.limits: list[Limits] = []

    async def observe(
        self,
        candidate: Candidate,
        entry_point: str | None,
        calls: Sequence[Call],
        limits: Limits,
        *,
        seed: int = 0,
        alone: bool = False,
    ) -> Observation:
        """See `gate.seams.Sandbox`."""
        self.limits.append(limits)
        space: dict[str, Any] = {"__name__": "candidate"}
        exec(candidate.code, space)
        replies = tuple(
            Reply(kind="returned", value=values.encode(space[str(entry_point)](*map(values.decode, call.args))))
            for call in calls
        )
        calls_digest = digest_json([call.as_json() for call in calls])
        usage = Usage(wall_s=0.01, cpu_s=0.02, memory_bytes=1)
        return Observation(candidate=candidate.digest, calls=calls_digest, exit=Exit.OK, replies=replies, usage=usage)


def mutated(most: int = 100, sandbox: Any = None, **more: Json) -> Mutation:
    return anyio.run(verb.mutate, suite_from_tree(tree(**more)), sandbox or HostPython(), most)


def test_what_v_does_not_look_at_survives_it_and_gt_kills_it() -> None:
    """The upper end of a clamp is not asked for by V: its mutants survive, and one hidden test would kill them."""
    found = mutated()
    gained = [(fate.line, fate.what) for fate in found.fates if (fate.visible, fate.hidden) == ("survived", "killed")]
    assert gained == [(4, "the condition becomes False"), (5, "what is returned becomes None")]
    assert [each.as_json() for each in found.suggested] == [
        {"hidden": 1, "kills": 2, "test": {"args": [10, 1, 9], "expected": 9, "compare": "json"}}
    ]
    assert {fate.killed_by for fate in found.fates if fate.hidden == "killed"} >= {(0,), (1,)}


def test_mutants_that_do_the_same_are_counted_as_survivors() -> None:
    """`<` for `<=` at a bound that is returned either way cannot be told from the reference by any test."""
    found = mutated(hidden=[{"args": [x, 1, 9], "expected": min(max(x, 1), 9)} for x in range(12)])
    same = [(fate.line, fate.what) for fate in found.fates if fate.hidden == "survived"]
    assert same == [(2, "< becomes <="), (4, "> becomes >=")]


def test_a_mutant_may_use_ten_times_what_the_reference_did() -> None:
    """A loop that never ends costs about half a second, not the suite's whole limit; a smaller limit stays."""
    sandbox = HostPython()
    mutated(1, sandbox)
    assert [(each.cpu_s, each.total_cpu_s) for each in sandbox.limits[-1:]] == [(0.7, 0.7)]
    sandbox = HostPython()
    mutated(1, sandbox, limits={"cpu_s": 0.3})
    assert (sandbox.limits[-1].cpu_s, sandbox.limits[-1].total_cpu_s) == (0.3, 0.7)


def test_where_nobody_says_what_the_reference_took_the_limits_stay() -> None:
    """Without a counter of CPU time nothing is cut."""

    class Blind(HostPython):
        async def observe(self, *args: Any, **more: Any) -> Observation:
            return replace(await super().observe(*args, **more), usage=Usage())

    sandbox = Blind()
    mutated(1, sandbox)
    assert sandbox.limits[-1] == Limits()


def test_a_suite_without_a_reference_that_passes_has_no_score() -> None:
    """No reference, or one that is wrong by either part, is said to be the reason."""
    wrong = [{"args": [5, 1, 9], "expected": 6}]
    assert mutated(tests=wrong, hidden=[]).why == "the reference does not pass the visible tests"
    assert mutated(hidden=wrong).why == "the reference does not pass the hidden tests"
    bare = {key: value for key, value in tree().items() if key != "reference"}
    assert anyio.run(verb.mutate, suite_from_tree(bare), HostPython(), 5).why == "there is no reference"


def test_a_part_without_tests_has_no_score() -> None:
    """Without hidden tests only V is measured and nothing can be suggested; without visible ones only GT."""
    found = mutated(hidden=[])
    assert found.as_json()["hidden"] is None and found.suggested == ()
    found = mutated(tests=[])
    assert found.as_json()["visible"] is None and found.as_json()["hidden"]["killed"] > 0 and found.suggested == ()


def test_a_mutant_that_our_world_failed_on_is_in_no_score() -> None:
    """A fault of ours neither kills nor survives."""

    class Failing(HostPython):
        async def observe(self, candidate: Candidate, *args: Any, **more: Any) -> Observation:
            seen = await super().observe(candidate, *args, **more)
            broken = "x >= low" in candidate.code
            return replace(seen, exit=Exit.FAULT, replies=()) if broken else seen

    said = mutated(sandbox=Failing()).as_json()
    assert said["visible"]["untold"] == said["hidden"]["untold"] == 1
    assert said["visible"]["of"] == said["made"] - 1


def test_mutants_that_the_time_does_not_allow_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a suite's time is over no mutant more is tried, and the number left is said."""
    monkeypatch.setattr(verb, "SUITE_S", -1.0)
    found = mutated(5)
    assert (found.late, found.fates) == (5, ())
    assert list(verb.mutation_lines("t", found)) == ["mutants t: none: 5 were not tried for want of time"]


ANSWERS = [
    None,
    {"mutants": []},
    {"mutants": [{"line": 1, "what": "", "code": 5}], "possible": 1, "why": None},
    {"mutants": [{"line": "x", "what": "", "code": ""}], "possible": 1, "why": None},
    {"mutants": [{"line": 1, "what": "", "code": ""}], "possible": 0, "why": None},
    {"mutants": [{"line": 1, "what": "", "code": ""}] * 3, "possible": 3, "why": None},
    {"mutants": [], "possible": 0, "why": 5},
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_of_another_form_is_our_failure(answer: Json) -> None:
    """What comes back from the maker is trusted no further than its form."""
    with pytest.raises(SandboxError, match="no list of programs"):
        verb.read_answer(answer, 2)


class OneAnswer:
    """A sandbox that ends in one way."""

    def __init__(self, exit_: Exit) -> None:
        self.exit = exit_

    async def observe(self, *args: Any, **more: Any) -> Observation:
        """See `gate.seams.Sandbox`."""
        return Observation(candidate="", calls="", exit=self.exit, detail="over 30 s")


async def test_a_reference_that_is_too_much_for_the_maker_has_no_mutants() -> None:
    """The maker's own end is a reason and no error; a fault of the sandbox is one."""
    assert await verb.make("", 5, OneAnswer(Exit.TIME_LIMIT)) == (
        [],
        0,
        "the reference is more than can be changed: time_limit, over 30 s",
    )
    with pytest.raises(SandboxError, match="while it made mutants"):
        await verb.make("", 5, OneAnswer(Exit.FAULT))


# Saying it


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bank of three suites, one without a reference; programs run in this process."""
    bare = {key: value for key, value in tree(task="bare").items() if key != "reference"}
    broken = tree(task="broken", tests=[{"args": [1, 2, 3], "expected": 7}])
    (tmp_path / "bank.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (tree(), bare, broken)))

    @contextlib.asynccontextmanager
    async def open_sandbox(*args: Any, **more: Any) -> Any:
        asked.append(more["isolation"])
        yield HostPython()

    asked: list[str] = []
    monkeypatch.setattr(wiring, "open_engine", lambda runtime: None)
    monkeypatch.setattr(wiring, "replay_isolation", lambda known, runtime: "cell")
    monkeypatch.setattr(wiring, "open_sandbox", open_sandbox)
    monkeypatch.setattr(wiring, "asked", asked, raising=False)
    return tmp_path


def said(here: Path, *, as_json: bool = False, isolation: str | None = None, most: int | None = 100) -> tuple[int, str]:
    options: dict[str, Any] = {"isolation": isolation, "runtime": None, "jobs": 1, "as_json": as_json}
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = check.check([str(here / "bank.jsonl")], **options, most_mutants=most)
    except BaseExceptionGroup as exc:
        raise first_of_ours(exc) or exc from None
    return code, out.getvalue()


def test_a_person_reads_scores_survivors_and_tests_to_add(here: Path) -> None:
    """Each suite has its scores; what GT kills comes first, as a diff; the test to add stands there to be copied."""
    code, text = said(here)
    assert code == 2  # broken is invalid
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("mutants clamp:"))
    assert lines[start : start + 7] == [
        "mutants clamp: V kills 5 of 9 (56 %), GT 5 of 9 (56 %), of 9 possible",
        "  line 4: the condition becomes False: survives V; GT kills it by hidden[1]",
        "    @@ -3,3 +3,3 @@",
        "             return low",
        "    -    if x > high:",
        "    +    if False:",
        "             return high",
    ]
    add = next(line for line in lines if line.startswith("  add to tests: "))
    test, _, why = add.removeprefix("  add to tests: ").partition("   # ")
    assert why == "hidden[1], kills 2 of 4"
    stronger = mutated(tests=[*tree()["tests"], json.loads(test)])
    assert sum(fate.visible == "killed" for fate in stronger.fates) == 7
    assert "mutants bare: none: there is no reference" in lines
    assert "mutants broken: none: the reference does not pass the visible tests" in lines
    assert lines[-4:] == [
        "mutants: 9 of 1 reference; V kills 5 of 9 (56 %), GT 5 of 9 (56 %)",
        "  2 survive V and not GT; 1 hidden test, suggested above, would kill 2 of them",
        "  2 survive both; a survivor may be equivalent to the reference: nothing can tell",
        "3 suites: 2 sound, 0 weak, 1 invalid",
    ]


def test_what_is_long_or_unknown_is_said_in_few_words() -> None:
    """A test too long to be copied from a terminal is cut and says how to have it; what was not told is counted."""
    test = {"args": ["x" * 1000], "expected": 1}
    found = Mutation(
        possible=9,
        late=3,
        fates=tuple(
            Fate(line=1, what="\x1b", diff="a\nb\n@@\n+\x1b", visible="survived", hidden="untold", killed_by=())
            for _ in range(5)
        ),
        suggested=(Suggestion(index=0, kills=1, test=test),),
    )
    lines = list(verb.mutation_lines("t", found))
    late = "3 not tried for want of time"
    assert lines[0] == f"mutants t: V kills 0 of 5 (0 %), GT – (5 could not be told), of 9 possible, {late}"
    assert lines[1:4] == ["  line 1: \\x1b: survives V; GT could not tell", "    @@", "    +\\x1b"]
    assert lines[-2] == "  … and 2 more that survive V (--json has all)"
    assert len(lines[-1]) < 500 and "(--json has it whole)" in lines[-1]
    tried = Mutations()
    tried.add(found)
    assert "  0 survive V and not GT" in list(verb.bank_lines(Mutations()))
    assert list(verb.bank_lines(tried))[-1] == "  3 were not tried for want of time"
    part = Mutation(fates=(replace(found.fates[0], visible="untold"), replace(found.fates[0], visible="killed")))
    assert "V kills 1 of 1 (100 %, 1 could not be told)" in next(verb.mutation_lines("t", part))


def test_programs_read_the_same(here: Path) -> None:
    """The JSON has it under strength, for each suite; without --mutants there is no such key."""
    suites = json.loads(said(here, as_json=True)[1])["suites"]
    found = suites[0]["strength"]["mutants"]
    assert (found["made"], found["visible"]["killed"], found["hidden"]["killed"]) == (9, 5, 5)
    assert suites[1]["strength"]["mutants"]["why"] == "there is no reference"
    suites = json.loads(said(here, as_json=True, most=None)[1])["suites"]
    assert all("mutants" not in suite["strength"] for suite in suites)


@pytest.mark.parametrize(
    ("isolation", "most", "used"), [(None, 5, "cell"), (None, None, "container"), ("container", 5, "container")]
)
def test_mutants_run_in_cells_unless_it_is_said_otherwise(
    here: Path, isolation: str | None, most: int | None, used: str
) -> None:
    """Many programs go into cells where they hold; a check without mutants takes containers, as before."""
    said(here, isolation=isolation, most=most)
    assert wiring.asked == [used]  # type: ignore[attr-defined]


def test_a_number_of_mutants_without_mutants_is_a_usage_error(tmp_path: Path) -> None:
    """An option that would do nothing is a mistake."""
    done = subprocess.run([GATE, "check", "x.yaml", "--most", "5"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "give --mutants, too" in done.stderr


@pytest.mark.docker
def test_real_mutants_in_the_real_sandbox(tmp_path: Path) -> None:
    """The maker and its mutants run in the sandbox, a loop without end among them."""
    loop = "def clamp(x, low, high):\n    while x > high:\n        x -= 1\n    return max(x, low)\n"
    suite = json.dumps(tree(reference=loop))
    (tmp_path / "clamp.json").write_text(suite)
    done = subprocess.run(
        [GATE, "check", "clamp.json", "--mutants", "--json"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    (found,) = json.loads(done.stdout)["suites"]
    fates = found["strength"]["mutants"]
    assert done.returncode == 0, done.stderr
    assert fates["made"] == fates["possible"] == 8 and fates["visible"]["untold"] == 0
    assert {"> becomes >=", "1 becomes 2"} >= {
        each["what"] for each in fates["survivors"] if each["hidden"] == "survived"
    }
