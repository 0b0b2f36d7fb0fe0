"""What must be seen before the first draw: the sandbox tells right from wrong, and it holds.

A probe lists, from inside, what does not hold of the hardening. Then a known-good and a
known-bad program go through the whole path and must get different verdicts, so a runner
that executes nothing cannot look right.
"""

from __future__ import annotations

from collections.abc import Sequence

from gate import rules, values
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Expect, Limits, Observation, Outcome, Test
from gate.seams import Sandbox

LIMITS = Limits(memory_mb=256)
LAST_WORDS_CHARS = 200
GOOD = "def double(x):\n    return 2 * x\n"
BAD = "def double(x):\n    return x * x\n"
TESTS = tuple(
    Test(call=Call(args=(number,)), expect=Expect(kind="value", values=(2 * number,))) for number in (2, 3, 17)
)


async def check_sandbox(sandbox: Sandbox, probe: str) -> None:
    """Run the probe, which can name what is wrong, then the two canaries.

    Args:
        sandbox: What is about to be used.
        probe: The probe's program, `sandbox/probe.py`.

    Raises:
        SandboxError: The probe found something, or a canary got the wrong verdict.
    """
    findings = await find_weaknesses(sandbox, probe)
    if findings:
        raise SandboxError(f"The sandbox does not hold: {'; '.join(findings)}; run `gate doctor`.")
    for name, code, wanted in (("right", GOOD, Outcome.PASS), ("wrong", BAD, Outcome.FAIL)):
        candidate = Candidate(task_id="canary", index=0, code=code)
        seen = await sandbox.observe(candidate, "double", [test.call for test in TESTS], LIMITS)
        verdict = rules.grade(TESTS, seen)
        if verdict.outcome is not wanted:
            raise SandboxError(
                f"The sandbox cannot be trusted: a program known to be {name} got {verdict.outcome.value} "
                f"({verdict.reason}: {verdict.detail}{last_words(seen)}); run `gate doctor`."
            )


async def find_weaknesses(sandbox: Sandbox, probe: str) -> Sequence[str]:
    """What the probe finds wrong, seen from inside; no answer is a finding too."""
    candidate = Candidate(task_id="probe", index=0, code=probe)
    seen = await sandbox.observe(candidate, "probe", [Call(args=(LIMITS.memory_mb << 20,))], LIMITS)
    if seen.exit is not Exit.OK or len(seen.replies) != 1 or seen.replies[0].kind != "returned":
        said = [seen.detail, seen.load.message if seen.load else "", *(reply.message for reply in seen.replies)]
        return [f"the probe did not answer ({'; '.join(filter(None, said))}{last_words(seen)})"]
    findings = values.decode(seen.replies[0].value)
    return [str(finding) for finding in findings] if isinstance(findings, list) else ["the probe answered no list"]


def last_words(seen: Observation) -> str:
    """The last line that was printed, ready to be appended: a runner that fails says there why."""
    lines = seen.output_tail.strip().splitlines()
    return f"; last words: {lines[-1][-LAST_WORDS_CHARS:]}" if lines else ""
