"""Banks: found by name or path, read as a stream, refused in a sentence."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.backends import banks
from gate.backends.banks import Bank, bundled_banks, open_bank
from gate.errors import SpecError

YAML = "version: 1\ntask: %s\nentry_point: f\ntests: [{args: [1], expected: 2}]\n"


def line(task: str, answer: int = 2) -> bytes:
    """One task as a line of a bank."""
    tests = [{"args": [1], "expected": answer}]
    return json.dumps({"version": 1, "task": task, "entry_point": "f", "tests": tests}).encode() + b"\n"


def lines(*tasks: str) -> bytes:
    return b"".join(map(line, tasks))


def ids(bank: Bank) -> list[str]:
    return [task.id for task in bank.tasks()]


def refusal(reference: Path | str, bundled: Path = Path("/nowhere")) -> str:
    """What is said about a bank that cannot be opened or read."""
    with pytest.raises(SpecError) as caught:
        ids(open_bank(str(reference), bundled))
    text = str(caught.value)
    assert text.isprintable()
    return text


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    """A folder of bundled banks, as an installation has one."""
    folder = tmp_path / "bundled"
    for name, file in (("words", "bank.jsonl"), ("numbers", "bank.jsonl.gz"), ("notes", "README.md")):
        (folder / name).mkdir(parents=True)
        data = lines(f"{name}/1", f"{name}/2")
        (folder / name / file).write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
    (folder / "README.md").write_text("no bank")
    return folder


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.yaml", YAML.encode() % b"t1"),
        ("a.yml", YAML.encode() % b"t1"),
        ("a.json", line("t1")),
        ("a.jsonl", line("t1")),
        ("a.jsonl.gz", gzip.compress(line("t1"), mtime=0)),
        ("a.YAML", YAML.encode() % b"t1"),
    ],
)
def test_a_file_is_a_bank(tmp_path: Path, name: str, data: bytes) -> None:
    """One suite or many lines: the suffix says which."""
    (tmp_path / name).write_bytes(data)
    bank = open_bank(str(tmp_path / name), tmp_path)
    assert (bank.name, bank.paths) == ("a", (tmp_path / name,))
    assert ids(bank) == ["t1"]
    assert ids(bank) == ["t1"]  # it can be read as often as one likes


def test_a_folder_is_a_bank(tmp_path: Path) -> None:
    """Suite files below a folder are read in the order of their names; other and hidden files do not count."""
    for path, text in {
        "b/2.yaml": YAML % "two",
        "b/10.yaml": YAML % "ten",
        "a.yml": YAML % "a",
        "c.jsonl": lines("c/1", "c/2").decode(),
        "README.md": "no suite",
        ".hidden.yaml": "no suite",
        ".git/x.yaml": "no suite",
        "b/evil.py": "raise SystemExit",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    bank = open_bank(str(tmp_path), tmp_path / "none")
    assert bank.name == tmp_path.name
    assert ids(bank) == ["a", "ten", "two", "c/1", "c/2"]


def test_a_bundled_bank_is_found_by_its_name(bundled: Path) -> None:
    """A folder with a bank file in it is a bundled bank."""
    assert bundled_banks(bundled) == ["numbers", "words"]
    assert ids(open_bank("numbers", bundled)) == ["numbers/1", "numbers/2"]
    assert open_bank("words", bundled).name == "words"


def test_the_compressed_file_of_a_bundled_bank_comes_first(bundled: Path) -> None:
    """Of two files, one is read and never both."""
    (bundled / "words" / "bank.jsonl.gz").write_bytes(gzip.compress(line("other")))
    assert ids(open_bank("words", bundled)) == ["other"]


def test_where_nothing_is_bundled_nothing_is_listed(tmp_path: Path) -> None:
    """A missing folder holds no banks."""
    assert bundled_banks(tmp_path / "none") == []


def test_an_unknown_bank_is_refused_with_the_known_ones(bundled: Path) -> None:
    """The message lists what there is."""
    kinds = "name a .yaml, .yml, .json, .jsonl or .jsonl.gz file, or a folder of them"
    assert refusal("nowhere", bundled) == f"nowhere: no such bank: {kinds}; the bundled banks are numbers, words"
    assert refusal("nowhere", bundled / "none") == f"nowhere: no such bank: {kinds}"
    assert refusal("no\0where\x1b", bundled).startswith("no\\x00where\\x1b: no such bank")
    assert refusal("../bundled/notes/README.md", bundled).startswith("../bundled/notes/README.md: no such bank")
    assert refusal(bundled / "README.md", bundled) == f"{bundled}/README.md: no bank: {kinds}"
    assert refusal(bundled / "notes", bundled) == f"{bundled}/notes: no suite in it: {kinds}"


@pytest.mark.parametrize("name", ["a.yaml", "a.jsonl", "a.jsonl.gz"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    """An empty file is no bank of zero tasks, alone or in a folder."""
    (tmp_path / name).touch()
    message = f"{tmp_path}/{name}: an empty file: write a suite, or remove it"
    assert refusal(tmp_path / name) == message
    assert refusal(tmp_path) == message


@pytest.mark.parametrize(("name", "data"), [("a.jsonl", b"\n \n"), ("a.jsonl.gz", gzip.compress(b"", mtime=0))])
def test_a_bank_without_tasks_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    """Nothing to do is never a success."""
    (tmp_path / name).write_bytes(data)
    assert refusal(tmp_path / name) == f"{tmp_path}/{name}: no task in it: write one suite on each line"


def test_a_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe is refused at once and never waited for."""
    os.mkfifo(tmp_path / "a.yaml")
    message = f"{tmp_path}/a.yaml: no regular file: put a file there, or remove it"
    assert refusal(tmp_path / "a.yaml") == message
    assert refusal(tmp_path) == message


def test_a_folder_in_the_layout_of_a_bundled_bank_is_its_bank_file_alone(bundled: Path) -> None:
    """By its path or by its name a bank is the same, whatever lies beside its file: findings, samples, another bank."""
    (bundled / "numbers" / "findings.json").write_text("{}")
    (bundled / "numbers" / "samples").mkdir()
    (bundled / "numbers" / "samples" / "pool.jsonl").write_text('{"task_id": "numbers/1"}\n')
    by_path, by_name = open_bank(str(bundled / "numbers"), Path("/nowhere")), open_bank("numbers", bundled)
    assert by_path == by_name
    assert ids(by_path) == ["numbers/1", "numbers/2"]


def test_a_link_inside_the_folder_is_followed_and_one_that_leaves_it_refused(tmp_path: Path) -> None:
    """A folder is what is in it."""
    folder = tmp_path / "bank"
    (folder / ".data").mkdir(parents=True)
    (folder / ".data" / "a.yaml").write_text(YAML % "inside")
    (folder / "a.yaml").symlink_to(Path(".data", "a.yaml"))
    assert ids(open_bank(str(folder), tmp_path)) == ["inside"]
    (tmp_path / "b.yaml").write_text(YAML % "outside")
    (folder / "b.yaml").symlink_to(tmp_path / "b.yaml")
    assert refusal(folder) == f"{folder}/b.yaml: a link that leaves the folder: put the file itself there"
    (folder / "b.yaml").unlink()
    (folder / "more").symlink_to(tmp_path)
    assert refusal(folder) == f"{folder}/more: a link that leaves the folder: put the file itself there"


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    """A suite that is not there is missed, not passed over."""
    (tmp_path / "a.yaml").symlink_to("gone.yaml")
    text = refusal(tmp_path)
    assert text == f"{tmp_path}/a.yaml: cannot be read (No such file or directory): make it readable"


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be seen may hold suites."""

    def scandir(path: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    assert refusal(tmp_path) == f"{tmp_path}: cannot be read (Permission denied): make it readable"


class _Broken:
    """A stream whose disk fails."""

    def read(self, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    readline = read


def test_a_disk_that_fails_is_no_end_of_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error while reading is never taken for fewer tasks."""
    for name in ("a.yaml", "a.jsonl"):
        (tmp_path / name).write_bytes(line("t"))
        bank = open_bank(str(tmp_path / name), tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(_Broken, "__enter__", lambda self: self, raising=False)
            patch.setattr(_Broken, "__exit__", lambda *_: None, raising=False)
            patch.setattr(_Broken, "close", lambda self: None, raising=False)
            patch.setattr(banks, "_open", lambda path: _Broken())
            with pytest.raises(SpecError, match=r"cannot be read \(Input/output error\)"):
                ids(bank)


def test_a_wrong_line_is_named_by_its_number(tmp_path: Path) -> None:
    """Blank lines count, and lines end at \\n alone."""
    odd = line("b").replace(b'"b"', '"b", "prompt": "\u2028\x85\x0b"'.encode())
    (tmp_path / "a.jsonl").write_bytes(line("a") + b"\r\n" + odd.replace(b"\x0b", b"") + b"{}")
    text = refusal(tmp_path / "a.jsonl")
    assert text.startswith(f"{tmp_path}/a.jsonl:4: version: is missing")


def test_a_wrong_file_is_named_with_its_line(tmp_path: Path) -> None:
    """An error in a folder names the file."""
    (tmp_path / "a.yaml").write_text(YAML % "..")
    assert refusal(tmp_path).startswith(f"{tmp_path}/a.yaml:2: task: '..' is no task id")


@pytest.mark.parametrize("damage", ["cut", "bytes", "plain", "behind"])
def test_damaged_gzip_data_is_refused(tmp_path: Path, damage: str) -> None:
    """A copy that broke off is no shorter bank."""
    data = gzip.compress(b"".join(line(f"t{number}", number) for number in range(200)))
    wrong = {
        "cut": data[: len(data) // 2],
        "bytes": data[:60] + bytes(byte ^ 255 for byte in data[60:80]) + data[80:],
        "plain": line("t"),
        "behind": data + b"behind it",
    }[damage]
    (tmp_path / "a.jsonl.gz").write_bytes(wrong)
    assert "damaged or cut gzip data" in refusal(tmp_path / "a.jsonl.gz") or damage == "bytes"


def test_a_task_id_that_comes_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    """Two tasks of one name would be one in every result."""
    (tmp_path / "a.jsonl").write_bytes(lines("a", "b", "c"))
    (tmp_path / "b.yaml").write_text(YAML % "b")
    text = refusal(tmp_path)
    assert text == f"{tmp_path}/b.yaml: task: 'b' is at {tmp_path}/a.jsonl:2 already: rename or remove one of them"
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines("a", "b", "a"))
    assert refusal(path) == f"{path}:3: task: 'a' is at {path}:1 already: rename or remove one of them"


def test_two_ids_with_one_short_digest_are_no_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What eight bytes make suspicious, the ids themselves decide."""

    class Constant:
        def digest(self) -> bytes:
            return bytes(8)

    monkeypatch.setattr(hashlib, "blake2b", lambda data, digest_size: Constant())
    (tmp_path / "a.jsonl").write_bytes(lines("x", "y", "z"))
    assert ids(open_bank(str(tmp_path / "a.jsonl"), tmp_path)) == ["x", "y", "z"]


def test_a_digest_speaks_of_the_tasks_and_their_order(tmp_path: Path) -> None:
    """Format, compression and place change nothing; a task, its suite or its order does."""

    def digest(name: str, data: bytes) -> str:
        (tmp_path / name).write_bytes(data)
        return open_bank(str(tmp_path / name), tmp_path).digest()

    plain = digest("a.jsonl", lines("a", "b"))
    assert digest("b.jsonl.gz", gzip.compress(lines("a", "b"))) == plain
    others = [lines("b", "a"), lines("a"), line("a", 3) + line("b"), lines("a", "c")]
    assert len({plain, *(digest("c.jsonl", data) for data in others)}) == 5
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "1.yaml").write_text(YAML % "a")
    (folder / "2.yaml").write_text(YAML % "b")
    assert open_bank(str(folder), tmp_path).digest() == plain


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["a", "b", "c/d", "e.py"]), min_size=1, unique=True))
def test_tasks_come_in_the_order_of_the_file(tmp_path_factory: pytest.TempPathFactory, tasks: list[str]) -> None:
    """Nothing is sorted, left out or added."""
    path = tmp_path_factory.mktemp("bank") / "a.jsonl"
    path.write_bytes(b"\n".join(line(task) for task in tasks))
    assert ids(open_bank(str(path), path.parent)) == tasks


def test_a_long_line_is_read_whole(tmp_path: Path) -> None:
    """A task of some megabytes comes in pieces and is one task."""
    prompt = "x" * (3 << 20)
    data = json.dumps({**json.loads(line("long")), "prompt": prompt}).encode()
    (tmp_path / "a.jsonl").write_bytes(data + b"\n" + line("b") + data.replace(b'"long"', b'"last"'))
    found = [(task.id, len(task.prompt)) for task in open_bank(str(tmp_path / "a.jsonl"), tmp_path).tasks()]
    assert found == [("long", 3 << 20), ("b", 0), ("last", 3 << 20)]


def test_a_line_beyond_the_cap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line has a cap, whatever the file is packed in."""
    monkeypatch.setattr(banks, "MAX_BYTES", 2 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(line("a") + b"x" * (2 << 20) + b"\n")
    assert refusal(path) == f"{path}:2: a line longer than 2 MiB: split the task"


MEASURE = """
import resource, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from gate.backends.banks import open_bank
from gate.errors import SpecError
bank = open_bank({path!r}, Path({path!r}).parent)
next(bank.tasks(), None) if {warm} else None
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
try:
    print(sum(1 for task in bank.tasks()))
except SpecError as exc:
    print(exc)
print(peak() - before)
"""


def measured(path: Path, *, warm: bool) -> tuple[str, int]:
    """What a fresh process says of a bank, and by how many bytes it grew."""
    source = MEASURE.format(root=str(Path(__file__).parent.parent), path=str(path), warm=warm)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    said, grown = done.stdout.splitlines()
    return said, int(grown) * (1024 if sys.platform == "linux" else 1)


def write_gzip(path: Path, parts: Iterable[bytes]) -> None:
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.writelines(parts)


def test_memory_does_not_grow_with_the_bank(tmp_path: Path) -> None:
    """A hundred thousand tasks are read in the memory of one, and eight bytes for each id."""
    path = tmp_path / "large.jsonl.gz"
    write_gzip(path, (line(f"t/{number}", number) for number in range(100_000)))
    said, grown = measured(path, warm=True)
    assert said == "100000"
    assert grown < 24 << 20


def test_a_gzip_bomb_is_cut_at_the_cap_of_a_line(tmp_path: Path) -> None:
    """A line that unpacks to a gigabyte is refused after 48 MiB."""
    path = tmp_path / "bomb.jsonl.gz"
    write_gzip(path, (b"\0" * (1 << 20) for _ in range(1024)))
    said, grown = measured(path, warm=False)
    assert said == f"{path}:1: a line longer than 48 MiB: split the task"
    assert grown < 100 << 20


def test_findings_go_on_after_what_does_not_load(tmp_path: Path) -> None:
    """A line that is no suite is one finding, with its place; those after it are read all the same."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(line("a") + b"{}\n\n" + line("b") + line("a"))
    found = list(open_bank(str(path), Path("/nowhere")).findings())
    assert [place for place, _ in found] == [f"{path}:{number}" for number in (1, 2, 4, 5)]
    assert [isinstance(read, SpecError) for _, read in found] == [False, True, False, True]
    assert "is at" in str(found[-1][1]) and "version" in str(found[1][1])


def test_findings_of_a_folder_are_those_of_its_files(tmp_path: Path) -> None:
    """One file that is broken hides no other; an editor's schema beside the suites is no suite."""
    for name, text in (("a.yaml", YAML % "a"), ("b.yaml", "tests: ["), ("c.yaml", YAML % "c"), ("x.schema.json", "{}")):
        (tmp_path / name).write_text(text)
    found = list(open_bank(str(tmp_path), Path("/nowhere")).findings())
    assert [Path(place).name for place, _ in found] == ["a.yaml", "b.yaml", "c.yaml"]
    assert [isinstance(read, SpecError) for _, read in found] == [False, True, False]


def test_findings_of_a_bank_without_tasks_say_so(tmp_path: Path) -> None:
    """Nothing to find is a finding."""
    (tmp_path / "a.jsonl").write_bytes(b"\n")
    ((_, read),) = open_bank(str(tmp_path / "a.jsonl"), Path("/nowhere")).findings()
    assert "no task in it" in str(read)


def test_blank_lines_without_end_are_refused(tmp_path: Path) -> None:
    """A small gzip file of nothing but line ends would otherwise be read for hours."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line("a") + b"\n" * 200_000))
    assert "blank lines" in refusal(tmp_path / "a.jsonl.gz")
