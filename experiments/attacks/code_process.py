"""A suite that is code, in a process of its own: the candidate answers calls from another process.

Kept as a text for `gate attack`, which sends it into the sandbox as a program. It is here to
be broken: never import it, and never run it anywhere else.
"""

import io
import json
import os
import sys


def judge(suite, programs):
    """Fork a process for each program, then execute the suite; whether each program was passed."""
    candidates = [Candidate(program, entry_point) for program, entry_point in programs]
    gauge = {}
    exec(suite, gauge)
    return [verdict(gauge, candidate) for candidate in candidates]


def verdict(gauge, candidate):
    try:
        gauge["check"](candidate)
        return True
    except BaseException:
        return False
    finally:
        candidate.end()


class Candidate:
    """Stands for the function under test; each call goes through a pipe as a text and comes back as one."""

    def __init__(self, program, entry_point):
        asked, self.ask = os.pipe()
        self.answered, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.ask)
            os.close(self.answered)
            serve(program, entry_point, os.fdopen(asked, "r"), os.fdopen(answer, "w"))
        os.close(asked)
        os.close(answer)
        self.answered = os.fdopen(self.answered, "r")

    def __call__(self, *args, **kwargs):
        os.write(self.ask, (repr((args, kwargs)) + "\n").encode())
        line = self.answered.readline()
        if not line:
            raise RuntimeError("the candidate's process is gone")
        kind, text = json.loads(line)
        if kind == "raised":
            raise (
                getattr(__builtins__, text, RuntimeError)
                if not isinstance(__builtins__, dict)
                else __builtins__.get(text, RuntimeError)
            )
        return eval(text, {"inf": float("inf"), "nan": float("nan")})

    def end(self):
        os.close(self.ask)
        self.answered.close()


def serve(program, entry_point, asked, answer):
    """The candidate's process: calls in, the texts of what came of them out."""
    try:
        function = load(program, entry_point)
        for line in asked:
            args, kwargs = eval(line, {"inf": float("inf"), "nan": float("nan")})
            try:
                said = ["returned", repr(plain(function(*args, **kwargs)))]
            except Exception as exc:
                said = ["raised", type(exc).__name__]
            answer.write(json.dumps(said) + "\n")
            answer.flush()
    except BaseException:
        pass
    os._exit(0)


def plain(value):
    """A value whose text reads back: of a subclass of a container its base."""
    for kind in (dict, list, tuple, set, frozenset):
        if isinstance(value, kind):
            return kind(value)
    return value


def load(program, entry_point):
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
