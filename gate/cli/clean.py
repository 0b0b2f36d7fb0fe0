"""`gate clean`: containers that dead gates left behind."""

from __future__ import annotations

from gate.backends import leftovers
from gate.backends.docker_client import connect
from gate.cli import exits, printing


def clean(*, dry_run: bool, everything: bool, as_json: bool) -> int:
    """Remove what surely nobody owns any more; `everything`: all containers of any gate."""
    client = connect()
    found = leftovers.find_leftovers(client)
    chosen = [each for each in found if each.orphaned or everything]
    failed = [] if dry_run else [each for each in chosen if not leftovers.remove(client, each)]
    if as_json:
        printing.print_json(
            {
                "schema": "gate.clean/1",
                "dry_run": dry_run,
                "found": len(found),
                "removed": [each.id for each in chosen if each not in failed],
                "kept": [each.id for each in found if each not in chosen],
                "failed": [each.id for each in failed],
            }
        )
        return exits.WORLD if failed else exits.DONE
    word = "would remove" if dry_run else "removed"
    for each in chosen:
        print(f"{'could not remove' if each in failed else word} {each.id[:12]} ({each.owner})")
    kept = len(found) - len(chosen)
    note = f"; {kept} kept, whose owner may live: --all takes them too" if kept else ""
    print(f"{word} {len(chosen) - len(failed)} of {len(found)} containers{note}")
    return exits.WORLD if failed else exits.DONE
