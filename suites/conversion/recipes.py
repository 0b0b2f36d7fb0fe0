"""The banks that can be made, and what each is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from conversion.banks import Recipe, Row, Samples
from conversion.files import read_lines
from gate.model import Json

HUMAN_EVAL = {
    "repository": "openai/human-eval",
    "commit": "6d43fb980f9fee3c892a914eda09951f772ad10d",
    "licence": "MIT",
}
LLM_DEBUGGER = {
    "what": "visible tests of the tasks counted under `visible_from`: its list of the docstring's examples",
    "repository": "FloridSleeves/LLMDebugger",
    "commit": "49ac191f181d47911cf38e5b9944fbbe6d4a6e60",
    "licence": "Apache-2.0",
}
HUMAN_EVAL_PLUS = {
    "what": "hidden tests (HumanEval+ v0.1.10, OriginFmt) and references",
    "repository": "evalplus/humanevalplus_release",
    "commit": "200defce9e3429d28ca215b6dd061c0f7f31c18b",
    "licence": "Apache-2.0",
}
MBPP = {
    "what": "prompts, asserts, references of sanitized-mbpp.json (google-research/google-research), by way of a copy",
    "repository": "mrigankpawagi/PropertyEval",
    "commit": "b2be813dcff867cc350c61b8d3ea57ec088ce1ac",
    "licence": "CC-BY-4.0",
}
MBPP_PLUS = {
    "what": "hidden tests (MBPP+ v0.2.0, OriginFmt) and references",
    "repository": "evalplus/mbppplus_release",
    "commit": "dadf43da556a00f7bacd71cb154f2932757d9144",
    "licence": "Apache-2.0",
}
MBPP_FULL = {
    "what": "references: programs of mbpp.jsonl (google-research/google-research, CC-BY-4.0), by way of a copy",
    "repository": "deepseek-ai/DeepSeek-Coder",
    "commit": "2f9fd85927c669dae3c0fbb2d607274023af243e",
    "licence": "MIT; the data CC-BY-4.0",
}
MAP_CODER = {
    "repository": "Md-Ashraful-Pramanik/MapCoder",
    "commit": "0027da71030b441cca2bc6f95def86b9aa5c7dea",
}
CODE_BERT_SCORE = {
    "what": "candidates of code-davinci-002 and their published verdicts",
    "repository": "neulab/code-bert-score",
    "commit": "44106b5b5ed348b8e6fde2385653a3ce1de8a429",
    "licence": "MIT",
}
QUIX_BUGS = {
    "what": "statements, tests, correct and buggy programs",
    "repository": "jkoppel/QuixBugs",
    "commit": "4257f44b0ff1181dedaedee6a447e133219fcebf",
    "licence": "MIT",
}

VISIBLE_FROM = {
    "docstring-doctest": "the prompt's own doctest examples",
    "LDB given_tests (docstring examples)": "FloridSleeves/LLMDebugger, given_tests",
    "MapCoder sample_io": "Md-Ashraful-Pramanik/MapCoder, sample_io: one assert",
    "problem statement samples (MapCoder sample_io)": "Md-Ashraful-Pramanik/MapCoder, sample_io",
    "first 2 lines of json_testcases": "the first two lines of the task's json_testcases",
}
NOT_WRITTEN_OUT = "is not a call and an answer that are both written out"

# Tasks and tests that no suite can hold, with what they do instead.

HUMAN_EVAL_NOT_DATA = {
    "HumanEval/32": "draws random polynomials and accepts any root of them, so code has to judge the answer",
    "HumanEval/33": "holds three answers of the candidate against the candidate's own answers",
    "HumanEval/38": "draws random texts and encodes them with a function of the prompt",
    "HumanEval/44": "makes some of its calls and answers in a loop",
    "HumanEval/50": "draws random texts and encodes them with a function of the prompt",
    "HumanEval/53": "draws random numbers and adds them up itself",
    "HumanEval/151": "computes one argument and its answer from a range",
}
NO_SAVED_ANSWERS = "the answers are not written out: a reference program makes them while it judges"
HUMAN_EVAL_PLUS_NOT_DATA = {
    "HumanEval/32": "accepts any root of a polynomial, so code has to judge the answer",
    **dict.fromkeys((f"HumanEval/{number}" for number in (14, 15, 83, 100, 130, 139)), NO_SAVED_ANSWERS),
}
MBPP_PLUS_NOT_DATA = dict.fromkeys(("Mbpp/88", "Mbpp/255", "Mbpp/630"), NO_SAVED_ANSWERS)
NOT_IN_MBPP_PLUS = "is no task of MBPP+ v0.2.0"
LOST = {
    "HumanEval/38": "its one example takes its argument from a function of the prompt",
    "Mbpp/596": "the answer is what sys.getsizeof says on the machine that judges",
    "Mbpp/297": "the assert is no Python: a bracket is missing",
}
QUIX_BUGS_NOT_DATA = dict.fromkeys(
    (
        f"QuixBugs/{name}"
        for name in (
            *("breadth_first_search", "depth_first_search", "detect_cycle", "minimum_spanning_tree"),
            *("reverse_linked_list", "shortest_path_length", "shortest_path_lengths", "shortest_paths"),
            "topological_ordering",
        )
    ),
    "its tests build graphs or linked lists of objects, which are no plain data",
)
SLOW_CASE = "one case is left out: the correct program needs more than 5 s for it"
GENERATORS = ("QuixBugs/flatten", "QuixBugs/kheapsort")
AS_LIST = "\n\nGive the items as a list, not as a generator."
AS_LIST_WHY = "a generator is no plain data: the prompt asks for a list, the reference gives its items as one"

# A reference that needs seconds for one call passes on any machine only with room to do so.
PATIENCE: Json = {"wall_s": 300, "cpu_s": 30, "total_cpu_s": 600}
SLOW_IN_MBPP = {"Mbpp/123": PATIENCE}
SLOW_IN_MBPP_PLUS = {f"Mbpp/{number}": PATIENCE for number in (123, 271, 300, 389, 392, 583, 599, 603)}
SLOW_IN_QUIX_BUGS = {"QuixBugs/levenshtein": PATIENCE}


# Rows


def humaneval_rows(data: Path) -> Iterator[Row]:
    """HumanEval as published: docstring examples, and the whole of `check()`."""
    full = {row["task_id"]: row for row in read_lines(data / "banks/humaneval.jsonl")}
    for row in read_lines(data / "small/humaneval_157.jsonl"):
        yield _row(row, row["hidden"], full[row["task_id"]]["reference"])


def humaneval_left_out(data: Path) -> Mapping[str, str]:
    """Tasks whose `check()` is not all data."""
    kept = {row["task_id"] for row in read_lines(data / "small/humaneval_157.jsonl")}
    lost = (row["task_id"] for row in read_lines(data / "banks/humaneval.jsonl") if row["task_id"] not in kept)
    return {task_id: HUMAN_EVAL_NOT_DATA.get(task_id, f"its check() {NOT_WRITTEN_OUT}") for task_id in lost}


def humaneval_plus_rows(data: Path) -> Iterator[Row]:
    """HumanEval's prompts and examples, held against all tests of HumanEval+."""
    plus = {row["task_id"]: row["hidden_plus"] for row in read_lines(data / "banks/humaneval_plus_full.jsonl.gz")}
    for row in read_lines(data / "banks/humaneval.jsonl"):
        if row["task_id"] in plus:
            yield _row(row, plus[row["task_id"]], row["reference_plus"])


def humaneval_plus_left_out(data: Path) -> Mapping[str, str]:
    """Tasks of which HumanEval+ saves no answers."""
    return HUMAN_EVAL_PLUS_NOT_DATA


def mbpp_rows(data: Path) -> Iterator[Row]:
    """The sanitized tasks with their own asserts, which are all that MBPP has."""
    for row in read_lines(data / "banks/mbpp_sanitized.jsonl"):
        yield _row(row, [], row["reference"], "its own test_list")


def mbpp_plus_rows(data: Path) -> Iterator[Row]:
    """The same tasks and asserts, held against all tests of MBPP+."""
    plus = {row["task_id"]: row["hidden"] for row in read_lines(data / "banks/mbpp_plus_full.jsonl.gz")}
    for row in read_lines(data / "banks/mbpp_sanitized.jsonl"):
        if row["task_id"] in plus:
            yield _row(row, plus[row["task_id"]], row["reference_plus"], "its own test_list")


def mbpp_plus_left_out(data: Path) -> Mapping[str, str]:
    """Tasks that MBPP+ has not, or of which it saves no answers."""
    plus = {row["task_id"] for row in read_lines(data / "banks/mbpp_plus_full.jsonl.gz")}
    others = (row["task_id"] for row in read_lines(data / "banks/mbpp_sanitized.jsonl") if row["task_id"] not in plus)
    return {task_id: MBPP_PLUS_NOT_DATA.get(task_id, NOT_IN_MBPP_PLUS) for task_id in others}


def mbpp_397_rows(data: Path) -> Iterator[Row]:
    """MBPP with typed signatures: one assert to see, the others hidden."""
    for row in read_lines(data / "banks/mbpp397.jsonl"):
        yield _row(row, row["hidden"], row.get("reference"))


def quixbugs_rows(data: Path) -> Iterator[Row]:
    """QuixBugs; where it yields items, a list of them is asked for."""
    for row in read_lines(data / "banks/quixbugs.jsonl"):
        lost = (("hidden", SLOW_CASE),) if "note" in row else ()
        if row["returns_generator"]:
            row |= {"prompt": row["prompt"] + AS_LIST, "reference": row["reference"] + _listed(row["entry_point"])}
        yield _row(row, row["hidden"], row["reference"], lost=lost)


def _listed(name: str) -> str:
    """The end of a program that makes a list of what its generator function yields."""
    return f"\n_items = {name}\n\n\ndef {name}(*args):\n    return list(_items(*args))\n"


def apps_rows(data: Path) -> Iterator[Row]:
    """APPS as programs that read standard input; there are no reference programs."""
    for row in read_lines(data / "banks/apps128.jsonl"):
        yield _row(row, row["hidden"], None)


def nothing_left_out(data: Path) -> Mapping[str, str]:
    """No task is missing."""
    return {}


def quixbugs_left_out(data: Path) -> Mapping[str, str]:
    """Tasks whose tests are programs."""
    return QUIX_BUGS_NOT_DATA


def _row(
    row: Json, hidden: list[Json], reference: str | None, visible_from: str = "", lost: tuple[tuple[str, str], ...] = ()
) -> Row:
    task_id = row["task_id"]
    missing = row.get("visible_unconverted", 0) or (not row["visible"] and task_id in LOST)
    if missing:
        lost += tuple((f"tests[{number}]", LOST.get(task_id, NOT_WRITTEN_OUT)) for number in range(int(missing)))
    source = visible_from or row["visible_source"]
    return Row(
        task_id=task_id,
        prompt=row["prompt"],
        entry_point=row["entry_point"],
        visible=row["visible"],
        hidden=hidden,
        reference=reference,
        visible_from=VISIBLE_FROM.get(source, source),
        lost=lost,
    )


# Recipes

_ALL = (
    Recipe(
        name="humaneval",
        sources=(
            {"what": "prompts, entry points, hidden tests, references", **HUMAN_EVAL},
            LLM_DEBUGGER,
            CODE_BERT_SCORE,
        ),
        reads=("small/humaneval_157.jsonl", "small/samples_davinci002_k5.jsonl", "banks/humaneval.jsonl"),
        rows=humaneval_rows,
        left_out=humaneval_left_out,
        samples=Samples(read="small/samples_davinci002_k5.jsonl", written="samples/davinci-002-k5.jsonl.gz", draws=5),
    ),
    Recipe(
        name="humaneval-plus",
        sources=(HUMAN_EVAL_PLUS, {"what": "prompts and entry points", **HUMAN_EVAL}, LLM_DEBUGGER),
        reads=("banks/humaneval.jsonl", "banks/humaneval_plus_full.jsonl.gz"),
        rows=humaneval_plus_rows,
        left_out=humaneval_plus_left_out,
    ),
    Recipe(
        name="mbpp",
        sources=(MBPP,),
        reads=("banks/mbpp_sanitized.jsonl",),
        rows=mbpp_rows,
        left_out=nothing_left_out,
        limits=SLOW_IN_MBPP,
    ),
    Recipe(
        name="mbpp-plus",
        sources=(MBPP_PLUS, MBPP),
        reads=("banks/mbpp_sanitized.jsonl", "banks/mbpp_plus_full.jsonl.gz"),
        rows=mbpp_plus_rows,
        left_out=mbpp_plus_left_out,
        limits=SLOW_IN_MBPP_PLUS,
    ),
    Recipe(
        name="mbpp-397",
        sources=(
            {
                "what": "prompts, entry points, asserts (nuprl/MultiPL-E, MBPP-typed); candidates and their verdicts",
                **MAP_CODER,
                "licence": "MIT; the data CC-BY-4.0",
            },
            MBPP_FULL,
        ),
        reads=("banks/mbpp397.jsonl", "candidates/mbpp397_gpt_family.jsonl"),
        rows=mbpp_397_rows,
        left_out=nothing_left_out,
        limits=SLOW_IN_MBPP,
        samples=Samples(
            read="candidates/mbpp397_gpt_family.jsonl",
            written="samples/gpt-4-k5.jsonl.gz",
            draws=5,
            keys=("task_id", "solution", "model", "strategy", "sample_index", "published_passed", "published_by"),
        ),
    ),
    Recipe(
        name="quixbugs",
        sources=(QUIX_BUGS,),
        reads=("banks/quixbugs.jsonl", "candidates/quixbugs_pairs.jsonl"),
        rows=quixbugs_rows,
        left_out=quixbugs_left_out,
        samples=Samples(read="candidates/quixbugs_pairs.jsonl", written="samples/pairs-k2.jsonl.gz", draws=2),
        changed=dict.fromkeys(GENERATORS, AS_LIST_WHY),
        limits=SLOW_IN_QUIX_BUGS,
    ),
    Recipe(
        name="apps-128",
        sources=({"what": "statements, examples, hidden tests (hendrycks/apps)", **MAP_CODER, "licence": "MIT"},),
        reads=("banks/apps128.jsonl",),
        rows=apps_rows,
        left_out=nothing_left_out,
    ),
)
RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def sample_rows(data: Path, samples: Samples) -> Iterator[Json]:
    """The saved candidates of a bank, with the verdicts published for them."""
    for row in read_lines(data / samples.read):
        if row["sample_index"] < samples.draws:
            if "verdict" in row:
                row |= {"published_passed": row["verdict"]["passed"], "published_by": row["verdict"]["by"]}
            yield {key: row[key] for key in samples.keys}
