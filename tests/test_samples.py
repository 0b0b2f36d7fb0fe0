"""`gate.backends.samples` and the `ScriptedSource`: saved programs as a source."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import records
from gate.backends import samples
from gate.backends.samples import SamplesSource, open_samples
from gate.backends.scripted import ScriptedSource, open_scripted
from gate.errors import SourceError, SpecError
from gate.model import Candidate, Limits, SuiteSpec, Task
from gate.seams import CandidateSource

PROMPT = "def f(x):\n"


def task(task_id: str) -> Task:
    suite = SuiteSpec(
        task_id=task_id, prompt=PROMPT, entry_point="f", limits=Limits(), tests=(), hidden=(), reference=None,
        must_fail=(), digest="", source={},
    )  # fmt: skip
    return Task(id=task_id, prompt=PROMPT, entry_point="f", suite=suite)


def draw(source: CandidateSource, task_id: str, index: int) -> Candidate:
    return anyio.run(source.draw, task(task_id), index)


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def saved(folder: Path, content: bytes, name: str = "samples.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def codes(source: SamplesSource, task_id: str) -> list[str]:
    return [draw(source, task_id, index).code for index in range(source.task_ids().get(task_id, 0))]


@given(rows=st.lists(st.tuples(st.sampled_from(["a", "b/0", "c"]), st.text()), min_size=1, max_size=12))
def test_lines_are_draws(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    """The n-th line of a task is its n-th draw, whatever stands between, and gzip changes nothing."""
    folder = tmp_path_factory.mktemp("rows")
    content = lines(*({"task_id": task_id, "solution": code} for task_id, code in rows))
    for path in (saved(folder, content), saved(folder, gzip.compress(content), "packed")):
        source = open_samples(path)
        for task_id in ("a", "b/0", "c"):
            assert codes(source, task_id) == [code for owner, code in rows if owner == task_id]
        source.close()


def test_solution_wins(tmp_path: Path) -> None:
    """A solution is the whole program; only without one does a completion follow the prompt."""
    both = {"task_id": "a", "solution": "whole", "completion": "    rest"}
    rest = {"task_id": "a", "completion": "    return x\n"}
    source = open_samples(saved(tmp_path, lines(both, rest)))
    assert codes(source, "a") == ["whole", PROMPT + "    return x\n"]
    source.close()


@pytest.mark.parametrize(("task_id", "index"), [("a", 1), ("a", -1), ("other", 0)])
def test_missing_sample_is_empty(tmp_path: Path, task_id: str, index: int) -> None:
    """A draw that the samples cannot give is an empty candidate that says so, not an error."""
    source = open_samples(saved(tmp_path, lines({"task_id": "a", "solution": "x"})))
    scripted = ScriptedSource({"a": ["x"]})
    for seam in (source, scripted):
        candidate = draw(seam, task_id, index)
        assert (candidate.task_id, candidate.index, candidate.code) == (task_id, index, "")
        assert candidate.origin == {"missing": f"no sample {index} for this task"}
    source.close()


def test_empty_solution_is_not_missing(tmp_path: Path) -> None:
    """A model that answered nothing gave an empty sample, which is not the same as none."""
    source = open_samples(saved(tmp_path, lines({"task_id": "a", "solution": ""})))
    assert draw(source, "a", 0).origin == {"file": "samples.jsonl", "line": 1}
    source.close()


def test_origin_keeps_short_facts(tmp_path: Path) -> None:
    """Short scalars beside a program are kept as facts; programs, lists and long texts are not."""
    row = {
        "task_id": "a", "solution": "x = 1", "model": "m", "sample_index": 3, "passed": True, "t": 0.5, "none": None,
        "copy": "x = 1", "raw": "a\nb", "long": "y" * 201, "list": [1], "huge": 1 << 70, "$set": 1, "file": "lie",
    }  # fmt: skip
    source = open_samples(saved(tmp_path, b"\n" + lines(row)))
    facts = {"model": "m", "sample_index": 3, "passed": True, "t": 0.5, "none": None}
    assert draw(source, "a", 0).origin == facts | {"file": "samples.jsonl", "line": 2}
    source.close()


def test_origin_is_bounded(tmp_path: Path) -> None:
    """A sample with a thousand keys does not bring a thousand facts."""
    row = {"task_id": "a", "solution": "x"} | {f"k{n}": n for n in range(1000)}
    source = open_samples(saved(tmp_path, lines(row)))
    assert len(draw(source, "a", 0).origin) == samples.MAX_FACTS + 2
    source.close()


def test_unicode_line_ends_do_not_split(tmp_path: Path) -> None:
    """Only a line feed ends a line: U+2028, U+0085, form feeds and carriage returns stay in the code."""
    code = "a = '\u2028\u2029\x85\x0b\x0c\x1c'\r\n"
    row = json.dumps({"task_id": "a", "solution": code}, ensure_ascii=False).encode()
    source = open_samples(saved(tmp_path, row + b"\r\n \t\r\n\n" + row))
    assert codes(source, "a") == [code, code]
    assert draw(source, "a", 1).origin["line"] == 4
    source.close()


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    """An escaped lone surrogate in a solution reaches the candidate's bytes as it is."""
    source = open_samples(saved(tmp_path, b'{"task_id": "a", "solution": "\\ud800"}\n'))
    assert draw(source, "a", 0).code_bytes == b"\xed\xa0\x80"
    source.close()


GOOD = b'{"task_id": "a", "solution": "x"}\n'


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (GOOD + GOOD[:20], ":2: ", "torn"),
        (GOOD + b"\n" + b"{]\n" + GOOD, ":3: ", "no JSON"),
        (b'{"task_id": "a", "task_id": "b", "solution": ""}\n', ":1: ", "duplicate key"),
        (b"[1]\n", ":1: ", "no JSON object"),
        (b'{"solution": ""}\n', ":1: ", "task_id"),
        (b'{"task_id": 7, "solution": ""}\n', ":1: ", "task_id"),
        (b'{"task_id": "a"}\n', ":1: ", "completion"),
        (b'{"task_id": "a", "solution": null, "completion": ""}\n', ":1: ", "solution"),
        (b'{"task_id": "a", "solution": "\xff"}\n', ":1: ", "not UTF-8"),
        (b'{"task_id": "a", "solution": "", "t": NaN}\n', ":1: ", "NaN"),
        (b"\xef\xbb\xbf" + GOOD, ":1: ", "BOM"),
        (b"[" * 100_000 + b"\n", ":1: ", "nested"),
        (gzip.compress(GOOD, mtime=0)[:-9], ": ", "no whole gzip"),
        (gzip.compress(GOOD, mtime=0)[:10] + b"\xff" * 30, ": ", "no whole gzip"),
        (gzip.compress(GOOD, mtime=0) + b"tail", ": ", "no whole gzip"),
        (b"\n\n", ": ", "holds no samples"),
    ],
)
def test_malformed_file_is_refused(tmp_path: Path, content: bytes, where: str, what: str) -> None:
    """A malformed line is an error that names file and line; nothing is skipped."""
    path = saved(tmp_path, content)
    with pytest.raises(SpecError) as caught:
        open_samples(path)
    assert str(caught.value).startswith(f"{path}{where}") and what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_last_line_needs_no_line_feed(tmp_path: Path) -> None:
    """A whole last line without its line feed counts."""
    source = open_samples(saved(tmp_path, GOOD + GOOD.rstrip()))
    assert codes(source, "a") == ["x", "x"]
    source.close()


def test_huge_line_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    """A compressed line of 512 MiB is refused without ever being held."""
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(GOOD + b'{"task_id": "a", "solution": "')
        for _ in range(512):
            stream.write(b"a" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(SpecError, match=r"bomb\.jsonl\.gz:2: is longer than"):
            open_samples(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * samples.MAX_LINE_BYTES


def test_memory_does_not_grow_with_the_code(tmp_path: Path) -> None:
    """Sixty-four samples of a megabyte each cost an index, not sixty-four megabytes."""
    path = tmp_path / "big.jsonl"
    with path.open("wb") as stream:
        for number in range(64):
            stream.write(lines({"task_id": "a", "solution": f"{number:07}" * (150_000)}))
    tracemalloc.start()
    source = open_samples(path)
    kept_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept_bytes < 1 << 20
    assert draw(source, "a", 63).code.startswith("0000063") and len(draw(source, "a", 0).code) > 1 << 20
    source.close()


def test_unpacked_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that unpacks to more than the limit is refused before the disk is full."""
    monkeypatch.setattr(samples, "MAX_SPOOL_BYTES", 1 << 20)
    path = saved(tmp_path, gzip.compress(GOOD * 100_000), "much.gz")
    with pytest.raises(SpecError, match="unpacks to more than"):
        open_samples(path)


def test_unpacking_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unpacked content has no name, so that nothing is left even after a kill."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    source = open_samples(saved(tmp_path, gzip.compress(GOOD, mtime=0)))
    assert codes(source, "a") == ["x"] and list(spool.iterdir()) == []
    source.close()


def test_digest_is_of_the_file(tmp_path: Path) -> None:
    """The digest is that of the bytes on disk, as `sha256sum` would say."""
    source = open_samples(saved(tmp_path, b'{"task_id":"a","solution":""}\n'))
    # printf '{"task_id":"a","solution":""}\n' | sha256sum
    assert source.digest == "a8c95d2b1e310008233d1b500ffd148564ca7b6a6a1501dacda0ec78ed4b4bac"
    source.close()


def test_changed_file_is_noticed(tmp_path: Path) -> None:
    """A sample that changed after opening is not drawn: the digest would no longer speak of it."""
    path = saved(tmp_path, GOOD)
    source = open_samples(path)
    path.write_bytes(GOOD.replace(b'"x"', b'"y"'))
    with pytest.raises(SourceError, match="changed since it was opened"):
        draw(source, "a", 0)
    source.close()


def test_context_closes(tmp_path: Path) -> None:
    """Leaving the context gives the open file back."""

    async def session() -> SamplesSource:
        async with open_samples(saved(tmp_path, GOOD)) as source:
            assert (await source.draw(task("a"), 0)).code == "x"
        return source

    with pytest.raises(ValueError, match="closed file"):
        draw(anyio.run(session), "a", 0)


def folder_of(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def test_folder_of_programs(tmp_path: Path) -> None:
    """In a folder K.py is draw K, ids with a slash are nested, and the bytes stay what they are."""
    root = folder_of(tmp_path, {
        "HumanEval/0/0.py": b"zero\r\n", "HumanEval/0/2.py": b"two", "HumanEval/0/10.py": "\ufeffé".encode(),
        "flat/0.py": b"\xed\xa0\x80", "README.md": b"notes", "flat/log.txt": b"\xff",
    })  # fmt: skip
    source = open_samples(root)
    assert source.task_ids() == {"HumanEval/0": 3, "flat": 1}
    assert [draw(source, "HumanEval/0", n).code for n in (0, 1, 2)] == ["zero\r\n", "", "two"]
    assert draw(source, "HumanEval/0", 10).code_bytes == "\ufeffé".encode()
    assert draw(source, "flat", 0).code_bytes == b"\xed\xa0\x80"
    assert draw(source, "HumanEval/0", 2).origin == {"file": "HumanEval/0/2.py"}
    assert "missing" in draw(source, "HumanEval/0", 1).origin
    assert draw(source, "../" + root.name + "/flat", 0).code == ""


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"a/01.py": b""}, "a/01.py: a folder of samples holds TASK_ID/0.py"),
        ({"a/first.py": b""}, "a/first.py: a folder of samples"),
        ({"0.py": b""}, "0.py: a folder of samples"),
        ({"a/notes.txt": b""}, "holds no samples"),
    ],
)
def test_malformed_folder_is_refused(tmp_path: Path, files: dict[str, bytes], what: str) -> None:
    """What looks like a sample and is none is an error that names it, for it would be missing silently."""
    with pytest.raises(SpecError) as caught:
        open_samples(folder_of(tmp_path, files))
    assert what in str(caught.value)


def test_a_program_of_any_encoding_keeps_its_bytes(tmp_path: Path) -> None:
    """A file that is no UTF-8 is drawn byte for byte, also through a ledger's JSON, and its digest holds."""
    latin = "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1")
    split = b"x = '\xed\xa0\xbd\xed\xb8\x80'\n"
    source = open_samples(folder_of(tmp_path, {"a/0.py": latin, "a/1.py": split, "a/2.py": bytes(range(256))}))
    for index, data in enumerate((latin, split, bytes(range(256)))):
        candidate = draw(source, "a", index)
        again = records.read_candidate(json.loads(json.dumps(records.candidate_record(candidate))))
        assert candidate.code_bytes == again.code_bytes == data
        assert candidate.digest == again.digest


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link, to a program or to a folder, is refused and never read through."""
    folder_of(tmp_path / "outside", {"0.py": b"secret"})
    for name, target in (("a/0.py", "outside/0.py"), ("b", "outside")):
        root = tmp_path / name.replace("/", "-") / "root"
        (root / name).parent.mkdir(parents=True)
        (root / name).symlink_to(tmp_path / target)
        with pytest.raises(SpecError, match="links are not followed"):
            open_samples(root)


@pytest.mark.timeout(20)
def test_special_files_do_not_block(tmp_path: Path) -> None:
    """A FIFO, as the file or in the folder, is refused and not waited for."""
    fifo = tmp_path / "root" / "a" / "0.py"
    fifo.parent.mkdir(parents=True)
    os.mkfifo(fifo)
    for path in (fifo, tmp_path / "root"):
        with pytest.raises(SpecError, match="no regular file"):
            open_samples(path)


def test_changed_folder_is_noticed(tmp_path: Path) -> None:
    """A program that changed, went or became a link after opening is not drawn."""
    root = folder_of(tmp_path / "root", {"a/0.py": b"x", "a/1.py": b"x", "a/2.py": b"x"})
    source = open_samples(root)
    (root / "a/0.py").write_bytes(b"y")
    (root / "a/1.py").unlink()
    (root / "a/2.py").unlink()
    (root / "a/2.py").symlink_to(saved(tmp_path, b"x"))
    for index in range(3):
        with pytest.raises(SourceError, match=f"{index}.py"):
            draw(source, "a", index)


def test_folder_digest_binds_names_and_bytes(tmp_path: Path) -> None:
    """Equal folders have equal digests; another name or another byte makes another one."""
    variants: Sequence[dict[str, bytes]] = (
        {"a/0.py": b"x", "b/0.py": b"y"}, {"b/0.py": b"y", "a/0.py": b"x"},
        {"a/0.py": b"x", "c/0.py": b"y"}, {"a/0.py": b"x", "b/1.py": b"y"}, {"a/0.py": b"x", "b/0.py": b"z"},
    )  # fmt: skip
    digests = [open_samples(folder_of(tmp_path / str(n), files)).digest for n, files in enumerate(variants)]
    assert digests[0] == digests[1] and len(set(digests)) == 4


def test_absent_path_is_refused(tmp_path: Path) -> None:
    """A name that leads nowhere is a usage error, for samples and for scripts."""
    for opener in (open_samples, open_scripted):
        with pytest.raises(SpecError, match="cannot be read"):
            opener(tmp_path / "nowhere")


def test_long_solution_is_kept(tmp_path: Path) -> None:
    """A solution over a mebibyte comes as it is: what becomes of it is decided elsewhere."""
    code = "#" * (3 << 20)
    source = open_samples(saved(tmp_path, lines({"task_id": "a", "solution": code})))
    assert draw(source, "a", 0).code == code
    source.close()


def test_script_records_its_draws(tmp_path: Path) -> None:
    """A script draws its texts in order and remembers what it was asked for, also in vain."""
    source = open_scripted(saved(tmp_path, json.dumps({"a": ["one", "two"], "b": []}).encode()))
    assert [draw(source, *asked).code for asked in (("a", 1), ("a", 0), ("b", 0))] == ["two", "one", ""]
    assert source.draws == [("a", 1), ("a", 0), ("b", 0)]
    assert source.task_ids() == {"a": 2, "b": 0}
    assert source.digest == ScriptedSource({"b": [], "a": ("one", "two")}).digest
    assert source.digest != ScriptedSource({"b": [], "a": ("two", "one")}).digest


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a": "text"}', b'{"a": [1]}', b'{"a": [], "a": []}'])
def test_malformed_script_is_refused(tmp_path: Path, content: bytes) -> None:
    """A script that is no object of lists of texts is an error that names the file."""
    path = saved(tmp_path, content)
    with pytest.raises(SpecError) as caught:
        open_scripted(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_script_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script over the limit is refused before it is parsed."""
    monkeypatch.setattr("gate.backends.scripted.MAX_SCRIPT_BYTES", 10)
    with pytest.raises(SpecError, match="is longer than"):
        open_scripted(saved(tmp_path, b"{" + b" " * 20 + b"}"))
