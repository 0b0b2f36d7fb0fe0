"""Candidates from a program of the user's own: the source `command:'PROG ARGS'`.

Theory of operation. Each draw starts the program once, without a shell. It reads one JSON
object from its standard input:

    {"schema": "gate.draw/1", "task": "words/reverse", "index": 0, "seed": 0,
     "prompt": "…", "entry_point": "reverse_words", "tests": [],
     "messages": [{"role": "system", "content": "…"}, {"role": "user", "content": "…"}]}

`index` is the draw, from 0, and `seed` the base seed plus it; `entry_point` is null for a
program on stdin and stdout; `tests` are the visible tests as lines of text where they are to be
shown; `messages` is the chat that the source `openai` would send. What it prints is taken for a
model's answer and read by the same rules (a fenced block, or the whole text), as UTF-8. It must
end with status 0. Nothing printed is an empty draw, more than the cap is too_large; both are
used up. Another status, or no end in time, is our world failing: the task ends as infra, with
the last line of what stood on standard error, and no draw is used up. The program has a process
group of its own, which is killed in the end, whatever the program has started.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

import anyio
from anyio.abc import ByteReceiveStream, Process

from gate.backends.answers import MAX_RESPONSE_CHARS, candidate_of
from gate.backends.prompts import Prompts, shown_tests
from gate.backends.redaction import Redaction
from gate.errors import SourceError, SpecError
from gate.extract import Prelude, without_reasoning
from gate.model import Candidate, Json, Task, digest_json, program_text

MAX_OUTPUT_BYTES = 4 * MAX_RESPONSE_CHARS
MAX_STDERR_BYTES = 16 << 10
TIMEOUT_S = 120.0
MAX_CONNECTIONS = 8


class CommandSource:
    """Draws programs from a command, one process a draw.

    Args:
        command: The program and its arguments, as a shell would split them.
        seed: The seed of draw 0; draw k has `seed + k`.
        prompts: What `messages` says, and whether tests are shown.
        prelude: What is put before each program, by name.
        timeout_s: How long one draw may take.
        max_connections: Processes at a time, over all tasks.
        secrets: What no text may show.

    Raises:
        SpecError: There is no such program.
    """

    def __init__(
        self,
        command: str,
        *,
        seed: int = 0,
        prompts: Prompts | None = None,
        prelude: Prelude | None = None,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        secrets: tuple[str | None, ...] = (),
    ) -> None:
        self._words = command_words(command)
        self._seed = seed
        self._prompts = prompts or Prompts()
        self._prelude = prelude
        self._timeout_s = timeout_s
        self._redaction = Redaction(secrets)
        self._limiter = anyio.CapacityLimiter(max_connections)

    @property
    def digest(self) -> str:
        """SHA-256 of the command and of what it is told, in hex; what the program itself is, nobody knows."""
        prompts = {"prompts": asdict(self._prompts), "prelude": self._prelude}
        return digest_json({"kind": "command", "words": self._words, "seed": self._seed, **prompts})

    def task_ids(self) -> Mapping[str, int]:
        """Nothing: a command holds no candidates beforehand."""
        return {}

    def check_task(self, task: Task) -> None:
        """See that a task can be asked for.

        Raises:
            SpecError: The template makes nothing of it.
        """
        self._prompts.messages(task)

    async def draw(self, task: Task, index: int) -> Candidate:
        """Start the program once and read what it prints.

        Raises:
            SourceError: It could not be started, failed, or did not end in time; no draw is used up.
        """
        async with self._limiter:
            output = await self._run(self._request(task, index))
        text = None if len(output) > MAX_OUTPUT_BYTES else without_reasoning(program_text(output))
        kept = {"text": self._redaction.of_json(text), "finish_reason": "", "refusal": "", "facts": {}, "usage": {}}
        return candidate_of(kept, task, index, {"seed": self._seed + index}, self._prelude)

    def _request(self, task: Task, index: int) -> bytes:
        asked: dict[str, Json] = {
            "schema": "gate.draw/1",
            "task": task.id,
            "index": index,
            "seed": self._seed + index,
            "prompt": task.prompt,
            "entry_point": task.entry_point,
            "tests": shown_tests(task) if self._prompts.show_tests else [],
            "messages": self._prompts.messages(task),
        }
        return json.dumps(asked).encode("ascii") + b"\n"

    async def _run(self, request: bytes) -> bytes:
        """What the program prints; at most one chunk more than the cap."""
        try:
            process = await anyio.open_process(self._words, start_new_session=True, stdin=subprocess.PIPE)
        except OSError as exc:
            raise SourceError(f"{self._name}: cannot be started ({exc.strerror}): see to the program") from None
        try:
            with anyio.fail_after(self._timeout_s):
                output, errors = await _exchange(process, request)
                status = None if len(output) > MAX_OUTPUT_BYTES else await process.wait()
        except TimeoutError:
            raise SourceError(
                f"{self._name}: did not end within {self._timeout_s:g} s: give --request-timeout more"
            ) from None
        finally:
            await _end(process)
        if status:
            last = self._redaction.quote(errors.decode("utf-8", "replace").strip().rpartition("\n")[2])
            raise SourceError(f"{self._name}: ended with status {status} ({last or 'no word on standard error'})")
        return output

    @property
    def _name(self) -> str:
        return f"command {self._redaction.quote(os.path.basename(self._words[0]))}"


def command_words(command: str) -> list[str]:
    """A command as a list of words, the program as a path.

    Raises:
        SpecError: It cannot be split, or names no program.
    """
    try:
        words = shlex.split(command)
    except ValueError as exc:
        raise SpecError(f"--source command: cannot be split into words ({exc}): quote it as for a shell") from None
    program = shutil.which(words[0]) if words else None
    if program is None:
        name = repr(words[0]) if words else "nothing"
        raise SpecError(f"--source command: {name} is no program: write command:'PROG ARGS'")
    return [program, *words[1:]]


async def _exchange(process: Process, request: bytes) -> tuple[bytes, bytes]:
    """Give a process its input, and read both outputs to their ends or caps."""
    output, errors = bytearray(), bytearray()
    async with anyio.create_task_group() as group:
        group.start_soon(_write, process, request)
        if process.stderr is not None:
            group.start_soon(_read_end, process.stderr, errors)
        if process.stdout is not None:
            await _read(process.stdout, output)
        if len(output) > MAX_OUTPUT_BYTES:
            group.cancel_scope.cancel()
    return bytes(output), bytes(errors)


async def _write(process: Process, request: bytes) -> None:
    """A program need not read its input."""
    if process.stdin is not None:
        with suppress(anyio.BrokenResourceError, BrokenPipeError, ConnectionResetError):
            await process.stdin.send(request)
            await process.stdin.aclose()


async def _read(stream: ByteReceiveStream, into: bytearray) -> None:
    """All that comes, until it is more than the cap."""
    async for piece in stream:
        into += piece
        if len(into) > MAX_OUTPUT_BYTES:
            return


async def _read_end(stream: ByteReceiveStream, into: bytearray) -> None:
    """All that comes, of which the last bytes stay."""
    async for piece in stream:
        into += piece
        del into[:-MAX_STDERR_BYTES]


async def _end(process: Process) -> None:
    """Kill the whole group and wait until the program is gone; bounded, also when cancelled."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(5, shield=True):
        await process.wait()
        await process.aclose()
