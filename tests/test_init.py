"""The starter that `gate init` writes: sound, commented, and known to an editor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.backends.banks import open_bank
from gate.cli.init import CANDIDATE_FILE, SCHEMA_FILE, SUITE_FILE, init
from gate.errors import SpecError
from gate.strength import strength
from gate.suite import load_suite, suite_json_schema

NOWHERE = Path("/nowhere")


def test_the_starter_suite_is_sound(tmp_path: Path) -> None:
    """It loads, no program that knows nothing passes it, and it has a reference and one that must fail."""
    assert init(tmp_path / "new/mine") == 0
    suite = load_suite((tmp_path / "new/mine" / SUITE_FILE).read_bytes(), SUITE_FILE)
    assert not strength(suite).weak and strength(suite).overlap == 0
    assert suite.reference and suite.must_fail and suite.hidden
    assert (tmp_path / "new/mine" / CANDIDATE_FILE).is_file()


def test_the_schema_beside_it_is_the_parsers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first line names a file that is there, and that is no suite of the folder."""
    init(tmp_path)
    first = (tmp_path / SUITE_FILE).read_text().splitlines()[0]
    assert first == f"# yaml-language-server: $schema=./{SCHEMA_FILE}"
    assert json.loads((tmp_path / SCHEMA_FILE).read_text()) == suite_json_schema()
    assert [task.id for task in open_bank(str(tmp_path), NOWHERE).tasks()] == ["starter/initials"]
    assert f"gate check {tmp_path / SUITE_FILE}" in capsys.readouterr().out


@pytest.mark.parametrize("name", [SUITE_FILE, CANDIDATE_FILE, SCHEMA_FILE])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    """Whichever of the files is there stays as it is, and no other is written."""
    (tmp_path / name).write_text("mine")
    with pytest.raises(SpecError, match="is there already"):
        init(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """A file in the way is one sentence, exit code 2."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="cannot be written"):
        init(tmp_path / "file" / "inside")
