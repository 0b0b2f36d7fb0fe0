"""`gate init`: a starter suite, a program to hold against it, and the schema for the editor."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from gate.cli import exits
from gate.errors import SpecError
from gate.suite import suite_json_schema

SCHEMA_FILE = "suite.schema.json"
SUITE_FILE = "suite.yaml"
CANDIDATE_FILE = "candidate.py"

SUITE = f"""\
# yaml-language-server: $schema=./{SCHEMA_FILE}
#
# What must hold for one task. This is data: nothing in it runs but `reference` and
# `must_fail`, and those only in the sandbox, by `gate check`.

version: 1
task: starter/initials              # the id: letters, digits and ._- in parts joined by /

# What a model is asked. Tests that stand in here word for word are weak: a program that
# looks them up passes.
prompt: |
  Write initials(name, dots=False): the first letter of each word of name, in upper case,
  each followed by a dot if dots is true. A name without words is a ValueError.

entry_point: initials               # or Class.method; leave it out for a program on stdin and stdout
compare: json                       # json, python, strict, unordered or set; for text lines, tokens or exact
limits: {{wall_s: 5, memory_mb: 256}} # also cpu_s, output_kb and total_cpu_s

# The visible tests decide. Write enough of them, and different enough, that no program
# passes that knows nothing of the task: `gate check` tries some.
tests:
  - {{args: ["Ada Lovelace"], expected: AL}}
  - {{args: ["grace brewster hopper"], expected: GBH}}
  - {{args: ["  Alan   Turing "], expected: AT}}
  - {{args: ["Barbara Liskov"], kwargs: {{dots: true}}, expected: B.L.}}
  - {{args: ["plato"], expected: P}}
  - {{args: [" "], raises: ValueError}}   # a built-in exception, or one that descends from it
# More that a test can say:
#   any_of: [1, 2]                  several right answers
#   tolerance: {{rel: 1.0e-6}}        how close floats must be
#   project: set                    applied to the result before comparing
#   {{$tuple: [1, 2]}}                a value that YAML has no word for, also $set, $bytes, $float

# Hidden tests measure what was delivered. They decide nothing.
hidden:
  - {{args: ["Edsger W. Dijkstra"], expected: EWD}}

# `gate check` runs both in the sandbox: the reference must pass, the others must not.
reference: |
  def initials(name, dots=False):
      words = name.split()
      if not words:
          raise ValueError("a name without words")
      return "".join(word[0].upper() + ("." if dots else "") for word in words)
must_fail:
  - |
    def initials(name, dots=False):
        return "".join(word[0] for word in name.split())
"""

CANDIDATE = '''\
def initials(name, dots=False):
    """The first letter of each word, in upper case."""
    letters = [word[0].upper() for word in name.split()]
    if not letters:
        raise ValueError("a name without words")
    return "".join(letter + "." if dots else letter for letter in letters)
'''


def init(folder: Path) -> int:
    """Write the starter files into a folder and say what to do with them.

    Raises:
        SpecError: One of them is there already, or cannot be written.
    """
    texts = {
        SUITE_FILE: SUITE,
        CANDIDATE_FILE: CANDIDATE,
        SCHEMA_FILE: json.dumps(suite_json_schema(), indent=2) + "\n",
    }
    there = [name for name in texts if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise SpecError(f"{folder / there[0]}: is there already: name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as exc:
        raise SpecError(f"{folder}: cannot be written ({exc.strerror}): name another folder") from exc
    suite, candidate = (shlex.quote(str(folder / name)) for name in (SUITE_FILE, CANDIDATE_FILE))
    print(f"{suite}: a suite to start from; {SCHEMA_FILE} beside it is for your editor")
    print(f"is it sound?        gate check {suite}")
    print(f"try a program:      gate test {suite} {candidate}")
    return exits.DONE
