"""A grader as many are written: the candidate and its tests in one process, which says itself how it went.

It is here to be fooled. It runs hostile programs in its own process, so it runs only as a
program inside the sandbox, under the limits of a candidate. Its input is one JSON object on
stdin: the program, the entry point, the tests. The last word that it prints is its verdict,
and where it ends with status 0 before it has said one, nothing went wrong, so that is a pass.
"""

import base64
import io
import json
import signal
import sys

CPU_S = 6.0
WALL_S = 15.0
CODECS = {"$tuple": tuple, "$set": set, "$frozenset": frozenset, "$dict": dict, "$float": float}


class TimedOut(Exception):
    pass


def plain(value):
    """A value of a suite, near enough for what such a grader would have been given."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        for tag, make in CODECS.items():
            if tag in value:
                return make(plain(value[tag]))
        if "$int" in value:
            return int(value["$int"], 16)
        if "$bytes" in value:
            return base64.b64decode(value["$bytes"])
        return {key: plain(item) for key, item in value.items()}
    return value


def on_alarm(number, frame):
    raise TimedOut()


def check_function(scope, entry_point, test):
    function = scope[entry_point.split(".")[0]]
    for name in entry_point.split(".")[1:]:
        function = getattr(function(), name)
    args = [plain(value) for value in test.get("args", [])]
    kwargs = {name: plain(value) for name, value in test.get("kwargs", {}).items()}
    if "raises" in test:
        try:
            function(*args, **kwargs)
        except Exception as exc:
            assert type(exc).__name__ == test["raises"]
            return
        raise AssertionError
    result = function(*args, **kwargs)
    assert any(result == plain(value) for value in test.get("any_of") or [test.get("expected")])


def check_program(code, test):
    sys.stdin, kept = io.StringIO(test["stdin"]), sys.stdout
    sys.stdout = printed = io.StringIO()
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit:
        pass
    finally:
        sys.stdout = kept
    assert printed.getvalue().strip() == test["stdout"].strip()


def grade(job):
    scope = {}
    if job["entry_point"]:
        exec(job["program"], scope)
    for test in job["tests"]:
        if job["entry_point"]:
            check_function(scope, job["entry_point"], test)
        else:
            check_program(job["program"], test)


job = json.load(sys.stdin)
signal.signal(signal.SIGALRM, on_alarm)
signal.signal(signal.SIGPROF, on_alarm)
signal.setitimer(signal.ITIMER_REAL, WALL_S)
signal.setitimer(signal.ITIMER_PROF, CPU_S)
try:
    grade(job)
    print("\npass")
except AssertionError:
    print("\nwrong_answer")
except TimedOut:
    print("\ntimeout")
except MemoryError:
    print("\nmemory")
except SyntaxError:
    print("\nsyntax_error")
except Exception:
    print("\nraised")
