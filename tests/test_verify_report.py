"""A report that was changed is found out; one that was moved finds its run, or says what to do."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from golden import make
from reported import run_of, tampered
from run_here import gate

from gate.cli.verify_report import pieces


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the golden run and its reports in every format that can be verified."""
    shutil.copytree(make.RUN, tmp_path / "runs" / "one")
    outputs = [part for ending in (".html", ".md", ".json", ".xml", ".csv") for part in ("-o", tmp_path / f"r{ending}")]
    assert gate("report", tmp_path / "runs" / "one", *outputs) == 0
    return tmp_path


@pytest.mark.parametrize("ending", [".html", ".md", ".json", ".xml"])
def test_a_report_derives_from_its_run(here: Path, ending: str) -> None:
    """As it was written it verifies, also when the folder was moved as a whole."""
    assert gate("verify", here / f"r{ending}") == 0
    shutil.move(here / "runs", here / "away")
    assert gate("verify", here / f"r{ending}") == 2
    assert gate("verify", here / f"r{ending}", "--run", here / "away" / "one") == 0


CHANGES = [
    (".html", "3 of 4 (75.0 %)", "4 of 4 (75.0 %)"),
    (".html", "<strong>75.0 %</strong>", "<strong>85.0 %</strong>"),
    (".html", "<dd>{&#39;a&#39;: 1}</dd>", "<dd>{&#39;a&#39;: 2}</dd>"),
    (".html", "def halves(number)", "def halves(numbers)"),
    (".html", "class=\"task s-refused\"", "class=\"task s-delivered\""),
    (".html", "passed only the visible tests (1)", "passed only the visible tests (0)"),
    (".md", "3 of 4 (75.0 %)", "4 of 4 (75.0 %)"),
    (".md", "| refused | 1 |", "| refused | 0 |"),
    (".json", "\"delivered\": 3", "\"delivered\": 4"),
    (".xml", "failures=\"2\"", "failures=\"0\""),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "old", "new"), CHANGES)
def test_a_changed_claim_is_found(
    here: Path, ending: str, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A number, a verdict, a program or a mark that was changed does not derive: exit 4, and where."""
    tampered(here / f"r{ending}", old, new)
    capsys.readouterr()
    assert gate("verify", here / f"r{ending}", "--json") == 4
    result = json.loads(capsys.readouterr().out)
    assert (result["schema"], result["ok"], result["level"]) == ("gate.verify/1", False, "report")
    assert all(found.keys() == {"where", "claimed", "derived"} for found in result["mismatches"])


@pytest.mark.parametrize("ending", [".html", ".md", ".json"])
@pytest.mark.parametrize("with_run", [True, False])
def test_a_missing_premise_or_line_is_found(
    here: Path, ending: str, with_run: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its premise, or without the line on V ⊆ GT, a report fails, with its run at hand or without."""
    path = here / f"r{ending}"
    whole = path.read_text(encoding="utf-8")
    if not with_run:
        shutil.rmtree(here / "runs")
    for pattern, where in (
        (r"These numbers hold under one premise.{0,700}?how often\.", "the premise"),
        (r"V (?:⊆|\\u2286) GT: no, the hidden tests contain the visible ones in . of . tasks", "V ⊆ GT"),
    ):
        cut, times = re.subn(pattern, "", whole, count=1, flags=re.DOTALL)
        assert times == 1
        path.write_text(cut, encoding="utf-8")
        capsys.readouterr()
        assert gate("verify", path, "--json") == 4
        assert where in [found["where"] for found in json.loads(capsys.readouterr().out)["mismatches"]]


@pytest.mark.parametrize("ending", [".html", ".md", ".json"])
def test_without_its_run_a_report_may_not_gainsay_itself(
    here: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the run is not at hand a share that is not its counts' is found; what others wrote is no share."""
    path = here / f"r{ending}"
    shutil.move(here / "runs", here / "away")
    assert gate("verify", path) == 2
    tampered(path, "3 of 4 (75.0 %)", "3 of 4 (95.0 %)")
    capsys.readouterr()
    assert gate("verify", path, "--json") == 4
    found = json.loads(capsys.readouterr().out)["mismatches"]
    assert {"claimed": "3 of 4 (95.0 %)", "derived": "3 of 4 (75.0 %)", "where": "a share beside its counts"} in found


def test_a_bank_that_is_called_like_a_share(here: Path) -> None:
    """A bank's name is the customer's, whatever it says; a report that names its runs badly is no crash."""
    page = here / "r.md"
    shutil.rmtree(here / "runs")
    text = page.read_text(encoding="utf-8")
    assert "golden" in text
    page.write_text(text.replace("golden", "9 of 4 (1.0 %)"), encoding="utf-8")
    assert gate("verify", page) == 2
    nowhere, times = re.subn(r'"sources": \[.*\]', '"sources": 5', text)
    assert times == 1
    page.write_text(nowhere, encoding="utf-8")
    assert gate("verify", page) == 2


def test_a_report_of_another_record_is_found(here: Path) -> None:
    """A report does not derive from a run that went on after it was written, or from another run."""
    other = make.make(here / "other", rounds=1)
    assert gate("verify", here / "r.html", "--run", other.path) == 4


def test_a_report_of_an_earlier_state_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a report names another head than the record has, that is what is said, not every number."""
    other = make.make(here / "other", rounds=1)
    assert gate("verify", here / "r.html", "--run", other.path, "--json") == 4
    assert [found["where"] for found in json.loads(capsys.readouterr().out)["mismatches"]] == ["head of the ledger"]


LIBRARY = '"markdown-it-py": "'


def test_figures_of_other_libraries_are_no_pass(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where others drew the page, its figures may lie elsewhere: exit 1, and what could not be checked is named."""
    page = here / "r.html"
    assert gate("verify", page) == 0
    tampered(page, LIBRARY, f"{LIBRARY}1.")
    path = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"<path d=\"M 0 ", '<path d="M 1 ', path, count=1), encoding="utf-8")
    assert gate("verify", page) == 1
    assert "only the words were compared: markdown-it-py 1." in capsys.readouterr().out
    assert gate("verify", page, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["unchecked"], found["mismatches"]) == (False, ["figures"], [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<section id="part-1" class="premise">', '<section id="part-1" class="premise" hidden>'),
        ("</head>", "<style>.premise{display:none}</style></head>"),
        ("default-src 'none'", "default-src *"),
        ('"kind": "run"', '"kind": "runs"'),
        ("</title>", "</title><!-- -->"),
    ],
)
def test_other_libraries_are_no_excuse(here: Path, old: str, new: str) -> None:
    """A page that hides its premise is found, whatever it says of what drew it, and as it was written."""
    page = here / "r.html"
    tampered(page, old, new)
    assert gate("verify", page) == 4
    tampered(page, LIBRARY, f"{LIBRARY}1.")
    assert gate("verify", page) == 4


def test_a_report_beside_its_record(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page in the run's own folder is verified with the run; no other file may be written there, its ledger least."""
    run = here / "runs" / "one"
    assert gate("report", run, "-o", run / "report.html", "-o", run / "report.json") == 0
    assert gate("verify", run) == 0 and gate("verify", run / "report.html") == 0
    tampered(run / "report.html", "<strong>75.0", "<strong>76.0")
    capsys.readouterr()
    assert gate("verify", run) == 4 and gate("verify", run / "report.html") == 4
    assert "report.html: Acceptance gate" in capsys.readouterr().out
    for name in ("ledger.jsonl", "summary.json", "REPORT.md", "x.html", "delivered/x.md"):
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        assert gate("report", run, "-o", run / name) == 2
        assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_report_that_is_called_like_a_record(here: Path) -> None:
    """A report may be called run.json, where no run is; it verifies, and so does what is written beside it."""
    assert gate("report", here / "runs" / "one", "-o", here / "run.json", "-o", here / "x.html") == 0
    assert gate("report", here / "runs" / "one", "-o", here / "y.html") == 0
    for name in ("run.json", "x.html", "y.html"):
        assert gate("verify", here / name) == 0


def test_many_changes_in_a_long_page_are_found_soon(tmp_path: Path) -> None:
    """What differs in thousands of texts is searched coarsely: still found, and not for minutes."""
    pool = {f"t/{number}": [f"return 2, right {number}.{draw}" for draw in range(5)] for number in range(300)}
    where = run_of(tmp_path / "run", pool)
    page = tmp_path / "r.html"
    assert gate("report", where.path, "-o", page) == 0
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("of 2 passed", "of 3 passed"), encoding="utf-8")
    assert gate("verify", page) == 4


def test_a_damaged_record_is_no_ground(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ledger whose chain is broken verifies no report."""
    tampered(here / "runs" / "one" / "ledger.jsonl", "wrong_answer", "wrong_answex")
    assert gate("verify", here / "r.html") == 4
    assert "a sound record" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.html", "<p>hello", "name it by --run"),
        ("x.csv", "a,b", "name it by --run"),
        ("x.png", "x", "nothing can be read from a picture"),
        ("x.json", "[[[", ""),
        ("x.html", '<script type="application/json" id="gate-report">[1]</script>', ""),
    ],
)
def test_what_is_no_report_of_ours(
    tmp_path: Path, name: str, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of somebody else's ends in a sentence or in what it lacks, never in a traceback."""
    (tmp_path / name).write_text(content)
    assert gate("verify", tmp_path / name) in (2, 4)
    told = capsys.readouterr()
    assert words in told.err + told.out or "premise" in told.out


def test_a_run_s_own_report_is_verified_with_the_run(here: Path) -> None:
    """`gate verify RUN/REPORT.md` is `gate verify RUN`."""
    own = here / "runs" / "one" / "REPORT.md"
    assert gate("verify", own) == 0
    tampered(own, "3 of 4", "4 of 4")
    assert gate("verify", own) == 4


def test_outputs_that_cannot_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name without a format, a folder that is not there, several runs without an output: one sentence, exit 2."""
    run = here / "runs" / "one"
    assert gate("report", run, "-o", here / "x.pdf") == 2
    assert "end the name in one of" in capsys.readouterr().err
    assert gate("report", run, "-o", here / "nowhere" / "x.html") == 2
    assert gate("report", run, run) == 2
    assert gate("report", run, run, "-o", here / "two.html") == 0
    assert gate("verify", here / "two.html") == 0


def test_the_texts_of_a_page_have_their_places() -> None:
    """Scripts and styles are no text; each text stands under the heading before it."""
    page = "<style>a</style><h2>Counts</h2><p>1 of&nbsp;2</p><script>3</script><summary><b>t/1</b> x</summary><p>y</p>"
    assert pieces(page) == [("Counts", "Counts"), ("Counts", "1 of 2"), ("t/1", "t/1"), ("x", "x"), ("x", "y")]
