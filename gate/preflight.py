"""What must be seen before the first draw: the sandbox tells right from wrong, and it holds.

A known-good and a known-bad program go through the whole path and must get different
verdicts, so a runner that executes nothing cannot look right; a probe then lists, from
inside, what does not hold of the hardening.
"""

from __future__ import annotations

from collections.abc import Sequence

from gate import rules, values
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Expect, Limits, Outcome, Test
from gate.seams import Sandbox

LIMITS = Limits(memory_mb=256)
GOOD = "def double(x):\n    return 2 * x\n"
BAD = "def double(x):\n    return x * x\n"
TESTS = tuple(
    Test(call=Call(args=(number,)), expect=Expect(kind="value", values=(2 * number,))) for number in (2, 3, 17)
)


async def check_sandbox(sandbox: Sandbox, probe: str) -> None:
    """Run the two canaries and the probe.

    Args:
        sandbox: What is about to be used.
        probe: The probe's program, `sandbox/probe.py`.

    Raises:
        SandboxError: A canary got the wrong verdict, or the probe found something.
    """
    for name, code, wanted in (("right", GOOD, Outcome.PASS), ("wrong", BAD, Outcome.FAIL)):
        candidate = Candidate(task_id="canary", index=0, code=code)
        seen = await sandbox.observe(candidate, "double", [test.call for test in TESTS], LIMITS)
        verdict = rules.grade(TESTS, seen)
        if verdict.outcome is not wanted:
            raise SandboxError(
                f"The sandbox cannot be trusted: a program known to be {name} got {verdict.outcome.value} "
                f"({verdict.reason}: {verdict.detail}); run `gate doctor`."
            )
    findings = await find_weaknesses(sandbox, probe)
    if findings:
        raise SandboxError(f"The sandbox does not hold: {'; '.join(findings)}; run `gate doctor`.")


async def find_weaknesses(sandbox: Sandbox, probe: str) -> Sequence[str]:
    """What the probe finds wrong, seen from inside; no answer is a finding too."""
    candidate = Candidate(task_id="probe", index=0, code=probe)
    seen = await sandbox.observe(candidate, "probe", [Call(args=(LIMITS.memory_mb << 20,))], LIMITS)
    if seen.exit is not Exit.OK or len(seen.replies) != 1 or seen.replies[0].kind != "returned":
        why = seen.detail or (seen.load.message if seen.load else "") or seen.replies[0].message
        return [f"the probe did not answer ({why})"]
    findings = values.decode(seen.replies[0].value)
    return [str(finding) for finding in findings] if isinstance(findings, list) else ["the probe answered no list"]
