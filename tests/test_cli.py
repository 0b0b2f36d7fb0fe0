"""The command line as a user meets it: the installed command, its streams and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

GATE = str(Path(sys.executable).parent / "gate")
SUITE = """\
version: 1
task: words/reverse
prompt: Write reverse_words(text).
entry_point: reverse_words
tests:
  - {args: ["a b"], expected: "b a"}
  - {args: ["one two three"], expected: "three two one"}
hidden:
  - {args: ["a b"], expected: "b a"}
  - {args: ["one two three"], expected: "three two one"}
  - {args: [""], expected: ""}
reference: |
  def reverse_words(text):
      return " ".join(reversed(text.split()))
must_fail:
  - |
    def reverse_words(text):
        return text[::-1]
"""
RIGHT = 'def reverse_words(text):\n    return " ".join(text.split()[::-1])\n'
WRONG = "def reverse_words(text):\n    return text[::-1]\n"


def gate(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GATE, *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )


def samples(*programs: str, task: str = "words/reverse") -> str:
    return "".join(json.dumps({"task_id": task, "solution": program}) + "\n" for program in programs)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a suite, two programs and a pool that is right at the second draw."""
    (tmp_path / "reverse.yaml").write_text(SUITE)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "pool.jsonl").write_text(samples(WRONG, RIGHT, RIGHT))
    return tmp_path


def test_help_names_every_verb_and_gives_an_example(tmp_path: Path) -> None:
    """`gate --help` lists the verbs, and each verb's help has an example."""
    said = gate("--help", cwd=tmp_path).stdout
    verbs = ("run", "test", "check", "init", "demo", "doctor", "banks", "schema", "version", "image")
    for verb in verbs:
        assert f" {verb} " in said
        more = ("build",) if verb == "image" else ()
        assert "Example: gate" in gate(verb, *more, "--help", cwd=tmp_path).stdout


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    """What makes a start slow is not imported for the help."""
    code = (
        "import sys\nfrom gate.cli import app\n"
        "print(sorted({'docker', 'pydantic', 'yaml', 'scipy', 'anyio', 'openai'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_version_is_the_distributions(tmp_path: Path) -> None:
    """`gate version --json` has the version of the installed distribution."""
    from importlib.metadata import version

    assert json.loads(gate("version", "--json", cwd=tmp_path).stdout)["version"] == version("acceptance-gate")


def test_schema_prints_a_json_schema(tmp_path: Path) -> None:
    """`gate schema suite` is a JSON Schema; an unknown name is a usage error with the known ones."""
    assert json.loads(gate("schema", "suite", cwd=tmp_path).stdout)["$schema"].startswith("https://json-schema.org/")
    said = gate("schema", "nope", cwd=tmp_path)
    assert said.returncode == 2 and "suite" in said.stderr


def test_banks_counts_the_bundled_banks(tmp_path: Path) -> None:
    """`gate banks --json` has HumanEval with its 157 tasks and whether V ⊆ GT."""
    banks = {row["name"]: row for row in json.loads(gate("banks", "--json", cwd=tmp_path).stdout)["banks"]}
    assert banks["humaneval"]["tasks"] == 157
    assert banks["humaneval"]["visible_subset_of_hidden"] is False


USAGE = {
    "no such bank": (["run", "nope", "--source", "samples:pool.jsonl"], "nope: no such bank"),
    "no such source": (["run", "reverse.yaml", "--source", "guess:x"], "--source: unknown 'guess:x'"),
    "no such samples": (["run", "reverse.yaml", "--source", "samples:nope.jsonl"], "nope.jsonl: cannot be read"),
    "more than five draws": (["run", "reverse.yaml", "--source", "samples:pool.jsonl", "--draws", "6"], "--draws"),
    "no draws": (["run", "reverse.yaml", "--source", "samples:pool.jsonl", "--draws", "0"], "--draws"),
    "no such suite": (["test", "nope.yaml", "right.py"], "nope.yaml: cannot be read"),
    "no such program": (["test", "reverse.yaml", "nope.py"], "nope.py: cannot be read"),
    "no such isolation": (["test", "reverse.yaml", "right.py", "--isolation", "host"], "--isolation"),
    "no such verb": (["nope"], "nope"),
    "no share": (["run", "reverse.yaml", "--source", "samples:pool.jsonl", "--infra-budget", "x"], "--infra-budget"),
}


@pytest.mark.parametrize(("args", "words"), USAGE.values(), ids=USAGE.keys())
@pytest.mark.docker
def test_wrong_usage_is_exit_2_with_a_reason(here: Path, args: list[str], words: str) -> None:
    """A wrong option or a missing file is exit 2, says what, and shows no traceback."""
    said = gate(*args, cwd=here)
    assert said.returncode == 2, said.stderr
    assert words in said.stderr and "Traceback" not in said.stderr
    assert said.stdout == ""
    assert not (here / "runs").exists()


@pytest.mark.docker
def test_a_broken_suite_names_file_line_and_path(here: Path) -> None:
    """A suite with an unknown comparator is exit 2 with file, line and path."""
    (here / "broken.yaml").write_text(SUITE.replace('expected: "b a"}', 'expected: "b a", compare: fuzzy}', 1))
    for args in (["test", "broken.yaml", "right.py"], ["run", "broken.yaml", "--source", "samples:pool.jsonl"]):
        said = gate(*args, cwd=here)
        assert said.returncode == 2
        assert "broken.yaml:6: tests[0].compare: unknown 'fuzzy'" in said.stderr
    assert not (here / "runs").exists()


def test_without_an_engine_nothing_runs_and_the_message_says_how_to_get_one(here: Path) -> None:
    """No engine is exit 3 with one sentence; there is no fall-back, and no run directory is left."""
    nowhere = "unix:///nonexistent/docker.sock"
    for args in (
        ["run", "reverse.yaml", "--source", "samples:pool.jsonl"],
        ["test", "reverse.yaml", "right.py"],
        ["doctor"],
        ["image", "build"],
    ):
        said = gate(*args, cwd=here, DOCKER_HOST=nowhere)
        assert said.returncode == 3, args
        assert "No Docker engine answers" in said.stderr + said.stdout and "make setup" in said.stderr + said.stdout
    assert not (here / "runs").exists()


@pytest.mark.docker
def test_a_program_is_judged_by_its_suite(here: Path) -> None:
    """`gate test` passes the right program, and shows got and expected of the wrong one's first failing test."""
    right, wrong = (gate("test", "reverse.yaml", name, cwd=here) for name in ("right.py", "wrong.py"))
    assert (right.returncode, right.stdout) == (0, "pass: 2 of 2 tests passed\n")
    assert wrong.returncode == 1
    assert "wrong_answer at test 1; 1 of 2 tests passed" in wrong.stdout
    assert "got 'eerht owt eno', expected 'three two one'" in wrong.stdout
    verdict = json.loads(gate("test", "reverse.yaml", "wrong.py", "--json", cwd=here).stdout)
    assert (verdict["schema"], verdict["outcome"], verdict["reason"]) == ("gate.verdict/1", "fail", "wrong_answer")
    assert (verdict["test"], verdict["tests"]) == (1, {"passed": 1, "total": 2})


@pytest.mark.docker
def test_hostile_text_is_escaped_on_the_terminal(here: Path) -> None:
    """An exception's text with terminal escapes reaches the terminal spelled out."""
    (here / "hostile.py").write_text("def reverse_words(text):\n    raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')\n")
    said = gate("test", "reverse.yaml", "hostile.py", cwd=here)
    assert "\x1b" not in said.stdout and "\\x1b[2J" in said.stdout


@pytest.mark.docker
def test_a_run_delivers_and_records(here: Path) -> None:
    """`gate run` delivers exactly the bytes that ran and leaves the documented directory."""
    said = gate("run", "reverse.yaml", "--source", "samples:pool.jsonl", "--out", "out", "--json", cwd=here)
    assert said.returncode == 0, said.stderr
    result = json.loads(said.stdout)
    assert result["schema"] == "gate.run/1" and result["run_dir"] == "out"
    counts = [result[name] for name in ("tasks", "delivered", "refused", "infra", "not_run", "draws")]
    assert counts == [1, 1, 0, 0, 0, 2]
    assert result["hidden"] == {"success": 1, "wrong_delivered": 0, "unmeasured": 0}
    assert result["visible_subset_of_hidden"] is True
    out = here / "out"
    assert (out / "delivered/words/reverse.py").read_text() == RIGHT
    assert json.loads((out / "delivered.jsonl").read_text())["solution"] == RIGHT
    assert len((out / "candidates.jsonl").read_text().splitlines()) == 2
    kinds = [json.loads(line)["kind"] for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert kinds[0] == "run" and kinds[-2:] == ["verdict", "closed"] and "decision" in kinds
    report = (out / "REPORT.md").read_text()
    assert "These numbers hold under one premise" in report and "V ⊆ GT: yes" in report


@pytest.mark.docker
def test_a_refusal_is_exit_1(here: Path) -> None:
    """A run in which a task is refused is exit 1, and nothing is delivered."""
    (here / "bad.jsonl").write_text(samples(*[WRONG] * 5))
    said = gate("run", "reverse.yaml", "--source", "samples:bad.jsonl", "--out", "out", cwd=here)
    assert said.returncode == 1
    assert "1 task = 0 delivered + 1 refused + 0 infra + 0 not run" in said.stdout
    assert not (here / "out/delivered").exists()


@pytest.mark.docker
def test_samples_of_unknown_tasks_are_counted(here: Path) -> None:
    """Samples of a task that the bank does not have are warned of and counted; missing ones are refused."""
    (here / "other.jsonl").write_text(samples(RIGHT, RIGHT, task="other"))
    said = gate("run", "reverse.yaml", "--source", "samples:other.jsonl", "--out", "out", cwd=here)
    assert "1 tasks in the samples are not in the bank (2 samples, first: other)" in said.stderr
    assert said.returncode == 1 and "1 refused" in said.stdout


@pytest.mark.docker
def test_a_used_directory_is_refused(here: Path) -> None:
    """A second run into the same directory is exit 2 and changes nothing there."""
    args = ("run", "reverse.yaml", "--source", "samples:pool.jsonl", "--out", "out")
    gate(*args, cwd=here)
    before = (here / "out/ledger.jsonl").read_bytes()
    assert gate(*args, cwd=here).returncode == 2
    assert (here / "out/ledger.jsonl").read_bytes() == before


@pytest.mark.docker
def test_a_selection_that_is_empty_leaves_nothing(here: Path) -> None:
    """An unknown --task is exit 2, names a task that there is, and leaves no directory."""
    said = gate("run", "reverse.yaml", "--source", "samples:pool.jsonl", "--task", "nope", "--out", "out", cwd=here)
    assert said.returncode == 2 and "words/reverse" in said.stderr
    assert not (here / "out").exists()


@pytest.mark.docker
def test_check_runs_the_suites_own_programs(here: Path) -> None:
    """A sound suite is exit 0; a reference that fails and a must_fail that passes are found."""
    assert gate("check", "reverse.yaml", cwd=here).returncode == 0
    (here / "bad.yaml").write_text(SUITE.replace("reversed(text.split())", "text.split()").replace("[::-1]", ""))
    said = gate("check", "bad.yaml", "--json", cwd=here)
    assert said.returncode == 2
    (suite,) = json.loads(said.stdout)["suites"]
    assert suite["status"] == "invalid"
    assert [problem["where"] for problem in suite["problems"]] == ["bad.yaml: reference"]
    (here / "lax.yaml").write_text(SUITE.replace("return text[::-1]", 'return " ".join(text.split()[::-1])'))
    said = gate("check", "lax.yaml", cwd=here)
    assert said.returncode == 2 and "lax.yaml: must_fail[0]: must be refused, and passes" in said.stdout


WEAK = SUITE.replace('  - {args: ["one two three"], expected: "three two one"}\n', "", 1)


@pytest.mark.docker
def test_a_run_on_a_weak_suite_says_so_and_goes_on(here: Path) -> None:
    """One line before the first draw, the same beside the premise and in the summary; the exit code is the run's."""
    (here / "weak.yaml").write_text(WEAK)
    said = gate("run", "weak.yaml", "--source", "samples:pool.jsonl", "--out", "out", cwd=here)
    line = "1 of 1 suite is weak: a program that knows nothing of the task passes; most often one that returns"
    assert said.returncode == 0 and said.stderr.count(line) == 1
    assert line in (here / "out/REPORT.md").read_text()
    strength = json.loads((here / "out/summary.json").read_text())["strength"]
    assert (strength["suites"], strength["weak"]) == (1, 1)


@pytest.mark.docker
def test_a_run_that_requires_sound_suites_draws_nothing_on_weak_ones(here: Path) -> None:
    """--require-sound is exit 1 before the first draw, and leaves no directory; a sound suite runs."""
    (here / "weak.yaml").write_text(WEAK)
    said = gate("run", "weak.yaml", "--source", "samples:pool.jsonl", "--require-sound", "--out", "out", cwd=here)
    assert said.returncode == 1 and "nothing was drawn" in said.stderr and "words/reverse" in said.stderr
    assert not (here / "out").exists()
    said = gate("run", "reverse.yaml", "--source", "samples:pool.jsonl", "--require-sound", "--out", "out", cwd=here)
    assert said.returncode == 0 and "weak" not in said.stderr


def test_check_says_one_line_a_suite_and_counts(here: Path) -> None:
    """A suite that is not sound is one line with its task, its place and the program; JSON is one object."""
    (here / "bank").mkdir()
    bare = SUITE.partition("reference:")[0]
    (here / "bank/a.yaml").write_text(bare)
    (here / "bank/b.yaml").write_text(bare.replace("words/reverse", "words/b").replace("three two one", "b a"))
    (here / "bank/c.yaml").write_text("version: 2\n")
    said = gate("check", "bank", cwd=here)
    assert said.returncode == 2
    weak, invalid, counts = said.stdout.splitlines()
    assert weak.startswith("weak words/b: bank/b.yaml: tests: a program that returns one constant: 'b a' passes all 2")
    assert invalid.startswith("invalid: bank/c.yaml:1: ")
    assert counts == "3 suites: 1 sound, 1 weak, 1 invalid"
    suites = json.loads(gate("check", "bank", "--json", cwd=here).stdout)["suites"]
    assert [suite["status"] for suite in suites] == ["sound", "weak", "invalid"]
    assert [suite["task"] for suite in suites] == ["words/reverse", "words/b", None]
    assert suites[0]["strength"] == {"weak": False, "programs": [], "prompt_overlap": 0, "tests": 2}
    assert gate("check", "bank/a.yaml", "bank/b.yaml", cwd=here).returncode == 1


@pytest.mark.docker
def test_doctor_finds_a_sound_engine_and_says_so(here: Path) -> None:
    """`gate doctor` is exit 0 with a line for each thing it looked at."""
    said = gate("doctor", "--json", cwd=here)
    assert said.returncode == 0
    lines = {line["name"]: line["ok"] for line in json.loads(said.stdout)["lines"]}
    assert lines.keys() >= {"engine", "image", "runtime", "probe", "canaries", "disk"}
    assert all(lines.values())


@pytest.mark.docker
def test_the_current_image_is_not_built_again(here: Path) -> None:
    """`gate image build` finds the current image and says so."""
    said = gate("image", "build", "--json", cwd=here)
    assert said.returncode == 0 and json.loads(said.stdout)["built"] is False


@pytest.mark.docker
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_order(here: Path, engine: docker.APIClient, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM stop a run soon with exit 130, and leave no container."""
    (here / "slow.jsonl").write_text(samples("import time\ntime.sleep(60)\n"))
    suite = SUITE.replace("tests:", "limits: {wall_s: 60}\ntests:", 1)
    (here / "slow.yaml").write_text(suite)
    args = [GATE, "run", "slow.yaml", "--source", "samples:slow.jsonl", "--out", "out", "--json"]
    running = subprocess.Popen(args, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline_s = time.monotonic() + 30
    ledger = here / "out/ledger.jsonl"
    while not (ledger.exists() and '"candidate"' in ledger.read_text()):
        assert time.monotonic() < deadline_s and running.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    stopped_s = time.monotonic()
    running.send_signal(number)
    said, _ = running.communicate(timeout=20)
    assert running.returncode == 130
    assert time.monotonic() - stopped_s < 5
    assert json.loads(said)["not_run"] == 1
    assert engine.containers(all=True, filters={"label": f"gate.pid={running.pid}"}) == []


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("more", [pytest.param((), marks=pytest.mark.soak), ("--isolation", "cell")], ids=["", "cell"])
def test_the_demo_ends_with_the_whole_report(tmp_path: Path, more: tuple[str, ...]) -> None:
    """`gate demo` decides all 157 tasks of HumanEval and prints all of REPORT.md on stdout."""
    words = [GATE, "demo", "--out", "out", *more]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert said.returncode == 0, said.stderr
    report = (tmp_path / "out/REPORT.md").read_text()
    assert report in said.stdout and "V ⊆ GT: no" in report
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["tasks"] == 157
    assert sum(summary[name] for name in ("delivered", "refused", "infra", "not_run")) == 157
    assert (summary["infra"], summary["not_run"]) == (0, 0)
    assert (summary["delivered"], summary["draws"]) == (123, 377)
    assert summary["hidden"] == {"success": 107, "wrong_delivered": 16, "unmeasured": 0}
    assert len(list((tmp_path / "out/delivered").rglob("*.py"))) == summary["delivered"]
