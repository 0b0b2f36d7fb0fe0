"""A run of a fuzzing target that is guided by coverage: `python tests/fuzz_guided.py TARGET INPUTS`.

Needs the extra `fuzz`. Half of the inputs are changed by our own mutators, which keep the
structure, half by the library's, which knows what was compared with what.
"""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["gate", "json"]):
    import fuzzing


def main(name: str, inputs: int) -> None:
    target = fuzzing.TARGETS[name]

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        kind = chance.randrange(4)
        if kind == 0:
            return target.mutate(target.valid(chance), chance)[:max_size]
        if kind == 1:
            return target.mutate(data, chance)[:max_size]
        mutated: bytes = atheris.Mutate(data, max_size)
        return mutated

    limits = [f"-runs={inputs}", "-max_len=16384", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits], target.run, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
