"""Turn a benchmark's data into a bank: `python suites/convert.py NAME --data DIR`.

NAME is one of the banks in `conversion/recipes.py`, or `all`; DIR holds the files that its
recipe reads. What is written beside this script (or under `--out`) is `NAME/bank.jsonl.gz`,
`NAME/provenance.json` and, where there are any, `NAME/samples/`; a second run writes the
same bytes.

What has no form in a suite is listed with the reason, in `provenance.json` and on stderr.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from conversion.banks import Recipe, convert, provenance
from conversion.files import compact_lines, input_digests, write_gzip, write_json
from conversion.recipes import RECIPES, sample_rows
from gate.model import Json

SUITES = Path(__file__).resolve().parent
BANK_OUT = "bank.jsonl.gz"
PROVENANCE_OUT = "provenance.json"


def write_bank(recipe: Recipe, data: Path, out: Path) -> Json:
    """Write a bank, its samples and its provenance under `out`; the provenance is returned."""
    done = convert(recipe.rows(data), recipe.left_out(data), recipe.limits)
    outputs = {BANK_OUT: write_gzip(out / BANK_OUT, compact_lines(done.lines))}
    if recipe.samples is not None:
        content = compact_lines(sample_rows(data, recipe.samples))
        outputs[recipe.samples.written] = write_gzip(out / recipe.samples.written, content)
    record = provenance(recipe, done, input_digests(data, recipe.reads), outputs)
    write_json(out / PROVENANCE_OUT, record)
    return record


def say(record: Json) -> None:
    """Counts to stdout, what is missing to stderr."""
    print("{bank}: {tasks} tasks, {visible} visible and {hidden} hidden tests".format_map(record))
    for entry in record["not_data"]:
        print(f"{record['bank']}: not in the bank: {entry['task']}: {entry['why']}", file=sys.stderr)
    for entry in record["unconverted"]:
        print(f"{record['bank']}: not converted: {entry['task']} {entry['where']}: {entry['why']}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    """Convert the named benchmark and say what became of it; 1 if a test has no form."""
    parser = argparse.ArgumentParser(description="Turn a benchmark's data into a bank.")
    parser.add_argument("bank", choices=[*RECIPES, "all"])
    parser.add_argument("--data", type=Path, required=True, help="the folder with banks/, candidates/ and small/")
    parser.add_argument("--out", type=Path, default=SUITES, help="where the bank's folder goes (default: here)")
    options = parser.parse_args(argv)
    names = list(RECIPES) if options.bank == "all" else [options.bank]
    records = [write_bank(RECIPES[name], options.data, options.out / name) for name in names]
    for record in records:
        say(record)
    return 1 if any(record["unconverted"] for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
