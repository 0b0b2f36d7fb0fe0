"""What a server answered, read: from status, headers and bytes to a completion, a fault or a refusal.

The body is read as bytes and parsed here: the client's own models choke on a lone surrogate.
One that is an event stream, which some servers send unasked, is put together from its pieces;
it is whole where its choice has a finish_reason or where `[DONE]` ends it, and cut otherwise,
however well its text reads. What is kept of a completion is made anew from the few fields that
are known: reasoning, in whatever field or tag, stays behind.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from gate import values
from gate.backends.redaction import Redaction
from gate.errors import FatalSourceError, SourceError
from gate.extract import Prelude, extract_program, response_text, with_prelude, without_reasoning
from gate.model import Candidate, Json, Task
from gate.money import Tokens, is_count, read_tokens
from gate.rules import MAX_CODE_BYTES

MAX_RETRY_AFTER_S = 120.0
MAX_BODY_BYTES = 32 << 20
MAX_RESPONSE_CHARS = 1 << 20  # a longer answer is too_large, and its record keeps so much of it
MAX_FACT_CHARS = 200

_MAX_DEPTH = 100
_TRANSIENT = frozenset({408, 409, 425, 429})
_FATAL = {
    401: "it does not accept the API key: check OPENAI_API_KEY",
    402: "it wants to be paid: top up the account",
    403: "it forbids this: check what the API key may use",
    404: "it knows no such model or path: check --model and --base-url",
}
_QUOTA = "insufficient_quota"
_GIVEN_UP = frozenset({"error", "abort"})  # a finish_reason of the server's own trouble
_MISSING = {"length": "truncated", "content_filter": "content_filter", "refusal": "refusal"}
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?\Z")
_EVENT_STREAM = "text/event-stream"
_EVENT_LINE = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n|\Z)")
_NOTHING = Tokens()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: the status, the headers, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Fault(Exception):
    """The transport failed, so the request may be sent again; the text holds no secret.

    Attributes:
        retry_after_s: How long the server asks to wait; None where it does not.
        billed: The tokens that the failed request was billed for; None where nobody knows.
        crowded: Whether the server says that it is asked too much.
    """

    def __init__(
        self, what: str, *, retry_after_s: float | None = None, billed: Tokens | None = None, crowded: bool = False
    ) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.billed = billed
        self.crowded = crowded


def read_answer(answer: Answer, where: str, redaction: Redaction) -> Json:
    """What is kept of the completion in an answer, without secrets; its text is None for one beyond the cap.

    Raises:
        Fault: There is none, and asking again may bring one.
        SourceError: Asking again is of no use.
    """
    if not 200 <= answer.status < 300:
        raise _refusal(answer, where, redaction)
    if len(answer.body) > MAX_BODY_BYTES:
        return {"text": None, "finish_reason": "", "refusal": "", "facts": {}, "usage": {}}
    try:
        body = _whole(answer)
    except values.CodecError as exc:
        raise Fault(f"an answer that is no whole JSON ({redaction.quote(str(exc))})") from None
    billed = read_tokens(body.get("usage")) if isinstance(body, dict) else None
    choice = _first_choice(body)
    if choice is None:
        raise Fault(f"an answer without choices{_quoted(body, redaction)}", billed=billed)
    if _short(choice.get("finish_reason")) in _GIVEN_UP:
        raise Fault("an answer that the server itself broke off", billed=billed)
    return redaction.of_json(_kept(body, choice))


def candidate_of(
    kept: Json, task: Task, index: int, facts: Mapping[str, Json], prelude: Prelude | None = None
) -> Candidate:
    """The candidate in what was kept of a completion, or the empty one that says why there is none.

    `origin` holds `facts`, what the server says of itself, and as `response` the message's
    content, less its reasoning, whole up to MAX_RESPONSE_CHARS: the program can be
    extracted from it again.
    """
    text, refusal = kept["text"], kept["refusal"]
    if text is None:
        return Candidate(task_id=task.id, index=index, code="", origin={**facts, "missing": "too_large"})
    code = extract_program(text, task.entry_point) if len(text) <= MAX_RESPONSE_CHARS else ""
    missing = _missing(kept["finish_reason"], refusal, text, code)
    origin = {**facts, **kept["facts"], "usage": kept["usage"], "response": text[:MAX_RESPONSE_CHARS]}
    if refusal:
        origin["refusal"] = refusal
    if missing:
        return Candidate(task_id=task.id, index=index, code="", origin={**origin, "missing": missing})
    program = with_prelude(code, prelude)
    if program != code:
        origin["prelude"] = prelude
    return Candidate(task_id=task.id, index=index, code=program, origin=origin)


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """How long Retry-After asks to wait, in seconds; None where it says nothing that can be read.

    A date is held against the server's own clock, where the answer has its Date.

    Args:
        headers: Of the answer, looked up in lower case.
        now_s: Our clock, in seconds since 1970.
    """
    told = headers.get("retry-after", "").strip()
    if _SECONDS.match(told):
        return float(told)
    until_s, server_s = _date_s(told), _date_s(headers.get("date", ""))
    return None if until_s is None else max(0.0, until_s - (now_s if server_s is None else server_s))


def _whole(answer: Answer) -> Json:
    """The completion in a body, JSON or an event stream.

    Raises:
        CodecError: It is no JSON.
        Fault: It is a stream that was cut.
    """
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _EVENT_STREAM or answer.body.lstrip().startswith(b"data:"):
        return _put_together(answer.body)
    return values.loads(answer.body, max_depth=_MAX_DEPTH)


def _put_together(body: bytes) -> Json:
    """The completion that a stream of `chat.completion.chunk` brings; only of its first choice.

    Raises:
        CodecError: An event is no JSON.
        Fault: The stream was cut: nothing says that it is at its end.
    """
    facts: dict[str, Json] = {}
    message: dict[str, list[str]] = {"content": [], "refusal": []}
    finish: Json = None
    done = found = False
    for event in _events(body):
        if event == b"[DONE]":
            done = True
            break
        chunk = values.loads(event, max_depth=_MAX_DEPTH)
        if not isinstance(chunk, dict):
            continue
        facts |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
        for choice in _choices(chunk):
            found = True
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta") if isinstance(choice.get("delta"), dict) else choice.get("message")
            message["content"].append(response_text(delta))
            refusal = delta.get("refusal") if isinstance(delta, dict) else None
            message["refusal"].append(refusal if isinstance(refusal, str) else "")
    if "error" not in facts and not done and finish is None:
        raise Fault("a stream that was cut: it has neither a finish_reason nor [DONE]")
    whole = {name: "".join(texts) for name, texts in message.items()}
    return {
        **facts,
        "choices": [{"message": whole, "finish_reason": finish}] if found and "error" not in facts else [],
    }


def _events(body: bytes) -> Iterator[bytes]:
    """The data of each event of a stream; comments and other fields are left out."""
    data: list[bytes] = []
    for found in _EVENT_LINE.finditer(body):
        line = found[0].rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)


def _choices(chunk: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The pieces of a chunk that belong to the first choice."""
    found = chunk.get("choices")
    for choice in found if isinstance(found, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            yield choice


def _first_choice(body: Json) -> dict[str, Json] | None:
    """The first choice, if it has a message."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) and isinstance(choice.get("message"), dict) else None


def _kept(body: dict[str, Json], choice: dict[str, Json]) -> Json:
    """The fields of a completion that are kept: its text without reasoning, and what the server says of it."""
    texts = {name: _short(body.get(name)) for name in ("id", "model", "system_fingerprint")}
    finish = _short(choice.get("finish_reason"))
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {
        "text": without_reasoning(response_text(choice["message"])),
        "finish_reason": finish,
        "refusal": _short(choice["message"].get("refusal")),
        "facts": {name: text for name, text in {**texts, "finish_reason": finish}.items() if text},
        "usage": {name: counts[name] for name in names if is_count(counts.get(name))},
    }


def _refusal(answer: Answer, where: str, redaction: Redaction) -> Fault | SourceError:
    """What follows from an answer that is no success; it was not billed."""
    try:
        body = values.loads(answer.body[:MAX_BODY_BYTES], max_depth=_MAX_DEPTH)
    except values.CodecError:
        body = None
    # A server that rejects a key likes to repeat a part of it.
    said = f"answered {answer.status}{'' if answer.status == 401 else _quoted(body, redaction)}"
    if answer.status in _FATAL:
        return FatalSourceError(f"{where}: {said}: {_FATAL[answer.status]}")
    if answer.status == 429 and _QUOTA in (_error(body).get("code"), _error(body).get("type")):
        return FatalSourceError(f"{where}: {said}: its quota is used up: top up the account, or wait for a new one")
    if answer.status not in _TRANSIENT and answer.status < 500:
        return SourceError(f"{where}: {said}: it does not take this request; check the model and its options")
    wait_s = retry_after_s(answer.headers, time.time())
    if wait_s is not None and wait_s > MAX_RETRY_AFTER_S:
        return SourceError(
            f"{where}: {said} and asks to wait {wait_s:.0f} s, more than the {MAX_RETRY_AFTER_S:.0f} s that we do:"
            " try again after that"
        )
    return Fault(said, retry_after_s=wait_s, billed=_NOTHING, crowded=answer.status == 429)


def _error(body: Json) -> dict[str, Json]:
    """The error object of a body, empty where it has none."""
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {"message": error}


def _quoted(body: Json, redaction: Redaction) -> str:
    """The message of a server's error, in brackets for a sentence; empty where it has none."""
    said = _error(body).get("message")
    return f" ({redaction.quote(said)})" if isinstance(said, str) and said.strip() else ""


def _missing(finish: str, refusal: str, text: str, code: str) -> str | None:
    """Why an answer has no program; None where it has one."""
    if finish in _MISSING:
        return _MISSING[finish]
    if refusal:
        return "refusal"
    if len(text) > MAX_RESPONSE_CHARS or len(code.encode("utf-8", "surrogatepass")) > MAX_CODE_BYTES:
        return "too_large"
    return None if code.strip() else "empty"


def _short(value: Json) -> str:
    """A text of the server's, at most MAX_FACT_CHARS of it; empty for what is no text."""
    return value.strip()[:MAX_FACT_CHARS] if isinstance(value, str) else ""


def _date_s(text: str) -> float | None:
    """An HTTP date in seconds since 1970; None for what is none."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
