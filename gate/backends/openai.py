"""Candidates from a language model: the source `openai`, at any server that speaks its protocol.

Theory of operation. One draw is one chat completion (`n=1`, not streamed), with the seed
`seed + index`. What a server can do wrong falls into three classes:

- A fault of the transport: no connection, no answer in time, a cut body, no JSON, no
  choices, a choice that the server itself gave up, 408, 409, 425, 429 or 5xx. The request
  is sent again under one policy, with a jittered back-off that doubles, or as Retry-After
  says. It ends after MAX_ATTEMPTS requests or when the waits would come to more than
  MAX_WAITS_S, so a draw takes at most MAX_ATTEMPTS × timeout + MAX_WAITS_S once it has a
  connection; then it is a SourceError, and no draw is used up.
- A refusal to serve: any other status is a SourceError at once. Where the next task would
  fare no better (401, 402, 403, 404, an exhausted quota) it is a FatalSourceError.
- An answer without a program: truncated, content_filter, refusal, empty or too_large. The
  draw is used up by an empty program, and `origin["missing"]` says which.

The server's body is read as bytes and parsed here: the client's own models choke on a
lone surrogate. Reasoning is cut before anything is kept. The key goes to the client and
into no text: what a server or the client says passes through `Redaction` first, and no
foreign exception, which would carry the request and its headers, is chained to ours.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from random import uniform
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from gate import values
from gate.errors import FatalSourceError, SourceError, SpecError
from gate.extract import extract_program, response_text, without_reasoning
from gate.model import Candidate, Json, Task, digest_json
from gate.rules import MAX_CODE_BYTES

MAX_ATTEMPTS = 8
MAX_WAITS_S = 300.0
MAX_RETRY_AFTER_S = 120.0
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
JITTER_S = 1.0  # at most this later than Retry-After says, so that not all come back at once
CONNECT_S = 10.0
MAX_BODY_BYTES = 32 << 20
MAX_RESPONSE_CHARS = 1 << 20  # a longer answer is too_large, and its record keeps so much of it
MAX_FACT_CHARS = 200
MIN_SECRET_CHARS = 16  # a shorter key ("none", "ollama") is no secret, and may stand in a program

SYSTEM_PROMPT = "Answer with one complete Python program in a single ```python code block."
FUNCTION_PROMPT = "{prompt}\n\nThe program must define `{entry_point}`."
PROGRAM_PROMPT = "{prompt}\n\nThe program must read standard input and write standard output."

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
_HOST = re.compile(r"[0-9A-Za-z._:-]+\Z")
_VISIBLE = re.compile(r"[!-~]+\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """What a model is told. Each task's text goes in for `{prompt}` and `{entry_point}`.

    Attributes:
        system: The system message; empty for none.
        function: The user message where a function or class is asked for.
        program: The user message where a program on stdin and stdout is asked for.
    """

    system: str = SYSTEM_PROMPT
    function: str = FUNCTION_PROMPT
    program: str = PROGRAM_PROMPT

    def messages(self, task: Task) -> list[dict[str, str]]:
        """The chat that asks for a task's program."""
        template = self.program if task.entry_point is None else self.function
        user = _filled(template, {"{prompt}": task.prompt, "{entry_point}": task.entry_point or ""})
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": user}]


class OpenAISource:
    """Draws programs from a model, one request a draw.

    Args:
        base_url: Where the server is, up to `/v1`; None for the client's default.
        model: The model's name, as the server knows it.
        api_key: The key; None or empty for a server that wants none.
        temperature: How freely the model chooses; it and `top_p` go to the server as they are.
        top_p: None leaves it to the server.
        max_tokens: How long an answer may be; a longer one is cut off (`truncated`).
        seed: The seed of draw 0; draw k has `seed + k`.
        prompts: What the model is told.
        timeout_s: How long one request may take, from its beginning to the end of the answer.
        max_connections: Requests at a time, over all tasks.
        sleep: How to wait between requests, in seconds.

    Raises:
        SpecError: The URL or the key cannot be used.
    """

    def __init__(
        self,
        *,
        base_url: str | None,
        model: str,
        api_key: str | None,
        temperature: float = 0.8,
        top_p: float | None = None,
        max_tokens: int = 2048,
        seed: int = 0,
        prompts: Prompts | None = None,
        timeout_s: float = 120.0,
        max_connections: int = 8,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._prompts = prompts or Prompts()
        self._seed = seed
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._limiter = anyio.CapacityLimiter(max_connections)
        self._client = _client(base_url, api_key, timeout_s)
        self._headers = {} if api_key else {"Authorization": openai.Omit()}
        self._sampling: dict[str, Json] = {"model": model, "temperature": float(temperature), "max_tokens": max_tokens}
        if top_p is not None:
            self._sampling["top_p"] = float(top_p)
        self.where = _checked_url(str(self._client.base_url))
        password = urlsplit(str(self._client.base_url)).password
        self._redaction = Redaction([api_key, None if password is None else unquote(password)])

    @property
    def digest(self) -> str:
        """SHA-256 of what shapes the answers, as `describe` says it, in hex."""
        return digest_json(self.describe())

    def describe(self) -> dict[str, Json]:
        """What shapes the answers, for `run.json`: server, sampling and prompts; no key, no credentials."""
        shape = {"top_p": None, **self._sampling, "seed": self._seed, "prompts": asdict(self._prompts)}
        return {"kind": "openai", "base_url": self.where, **shape}

    def task_ids(self) -> Mapping[str, int]:
        """Nothing: a model holds no candidates beforehand."""
        return {}

    async def draw(self, task: Task, index: int) -> Candidate:
        """Ask the model once, and again where only the transport failed.

        Raises:
            FatalSourceError: The server would refuse every other task as well.
            SourceError: It refuses this task, or patience is at its end; no draw is used up.
        """
        retrying = AsyncRetrying(
            sleep=self._sleep,
            wait=_wait_s,
            stop=_out_of_patience,
            retry=retry_if_exception_type(_Fault),
            retry_error_callback=self._give_up,
        )
        seed = self._seed + index
        completion: Json = await retrying(self._ask, self._prompts.messages(task), seed)
        facts = {"seed": seed, "attempts": retrying.statistics["attempt_number"]}
        return candidate_of(completion, task, index, facts)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def __aenter__(self) -> OpenAISource:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _ask(self, messages: list[dict[str, str]], seed: int) -> Json:
        """The completion that one request brings, with all secrets out of its texts; None beyond the cap.

        Raises:
            _Fault: The transport failed, in one way or another.
            SourceError: Asking again is of no use.
        """
        request = {**self._sampling, "messages": messages, "seed": seed, "n": 1, "stream": False}
        answer = await self._post(request)
        if isinstance(answer, _Fault):
            raise answer
        return self._redaction.of_json(_completion(answer, self.where, self._redaction))

    async def _post(self, request: dict[str, Any]) -> _Answer | _Fault:
        """Send one request. What the client raises ends here: it holds the request, and so the key."""
        try:
            async with self._limiter:
                with anyio.fail_after(self._timeout_s):
                    chat = self._client.chat.completions.with_raw_response
                    raw = await chat.create(**request, extra_headers=self._headers)
                    return _Answer(raw.status_code, raw.headers, raw.content)
        except openai.APIStatusError as exc:
            return _Answer(exc.status_code, exc.response.headers, exc.response.content)
        except (TimeoutError, openai.APITimeoutError):
            return _Fault(f"no answer within {self._timeout_s:g} s")
        except openai.APIConnectionError as exc:
            return _Fault(self._redaction.quote(f"no whole answer ({exc.__cause__ or exc})"))

    def _give_up(self, state: RetryCallState) -> None:
        """The end of patience, as our own error."""
        last = state.outcome.exception() if state.outcome else None
        raise SourceError(
            f"{self.where}: gave no usable answer in {state.attempt_number} requests and {state.idle_for:.0f} s of"
            f" waiting; the last: {last}: try again later, or with fewer connections"
        )


class Redaction:
    """Takes secrets out of texts: as they are, URL-encoded, and in base64 at any alignment."""

    def __init__(self, secrets: list[str | None]) -> None:
        known = [secret for secret in secrets if secret]
        self._any = _pattern(known)
        self._long = _pattern([secret for secret in known if len(secret) >= MIN_SECRET_CHARS])

    def quote(self, text: str) -> str:
        """Somebody else's text for a sentence of ours: no secrets, one line, printable, short."""
        clean = self._any.sub("[key]", text) if self._any else text
        words = "".join(char if char.isprintable() else " " for char in clean).split()
        line = " ".join(words)
        return line if len(line) <= MAX_FACT_CHARS else line[: MAX_FACT_CHARS - 1] + "…"

    def of_json(self, value: Json) -> Json:
        """A JSON value without secrets in its texts; what is too short to be one stays."""
        if self._long is None:
            return value
        if isinstance(value, str):
            return self._long.sub("[key]", value)
        if isinstance(value, list):
            return [self.of_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.of_json(item) for key, item in value.items()}
        return value


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a server answered: the status, the headers, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Fault(Exception):
    """The transport failed, so the request may be sent again; the text holds no secret."""

    def __init__(self, what: str, retry_after_s: float | None = None) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s


def candidate_of(completion: Json, task: Task, index: int, facts: Mapping[str, Json]) -> Candidate:
    """The candidate in a completion, or the empty one that says why there is none; None is one beyond the cap.

    `origin` holds `facts`, what the server says of itself, and as `response` the message's
    content, less its reasoning, whole up to MAX_RESPONSE_CHARS: the program can be
    extracted from it again.
    """
    if completion is None:
        return Candidate(task_id=task.id, index=index, code="", origin={**facts, "missing": "too_large"})
    choice = completion["choices"][0]
    text = without_reasoning(response_text(choice["message"]))
    code = extract_program(text, task.entry_point) if len(text) <= MAX_RESPONSE_CHARS else ""
    refusal = _short(choice["message"].get("refusal"))
    missing = _missing(_short(choice.get("finish_reason")), refusal, text, code)
    origin = {**facts, **_server_facts(completion), "response": text[:MAX_RESPONSE_CHARS]}
    if refusal:
        origin["refusal"] = refusal
    if missing:
        origin["missing"] = missing
    return Candidate(task_id=task.id, index=index, code="" if missing else code, origin=origin)


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


def _completion(answer: _Answer, where: str, redaction: Redaction) -> Json:
    """The completion in an answer: an object with a choice that has a message; None for one beyond the cap."""
    if not 200 <= answer.status < 300:
        raise _refusal(answer, where, redaction)
    if len(answer.body) > MAX_BODY_BYTES:
        return None
    try:
        body = values.loads(answer.body, max_depth=_MAX_DEPTH)
    except values.CodecError as exc:
        raise _Fault(f"an answer that is no whole JSON ({redaction.quote(str(exc))})") from None
    choice = _first_choice(body)
    if choice is None:
        raise _Fault(f"an answer without choices{_quoted(body, redaction)}")
    if _short(choice.get("finish_reason")) in _GIVEN_UP:
        raise _Fault("an answer that the server itself broke off")
    return body


def _first_choice(body: Json) -> dict[str, Json] | None:
    """The first choice, if it has a message."""
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) and isinstance(choice.get("message"), dict) else None


def _refusal(answer: _Answer, where: str, redaction: Redaction) -> _Fault | SourceError:
    """What follows from an answer that is no success."""
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
    return _Fault(said, wait_s)


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


def _server_facts(completion: dict[str, Json]) -> dict[str, Json]:
    """What the server says of a completion, as far as it does: who, which, why it ended, how many tokens."""
    texts = {name: _short(completion.get(name)) for name in ("id", "model", "system_fingerprint")}
    texts["finish_reason"] = _short(completion["choices"][0].get("finish_reason"))
    facts: dict[str, Json] = {name: text for name, text in texts.items() if text}
    usage = completion.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return facts | {"usage": {name: counts[name] for name in names if _is_count(counts.get(name))}}


def _short(value: Json) -> str:
    """A text of the server's, at most MAX_FACT_CHARS of it; empty for what is no text."""
    return value.strip()[:MAX_FACT_CHARS] if isinstance(value, str) else ""


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _wait_s(state: RetryCallState) -> float:
    """How long to wait before the next request, with jitter; Retry-After goes before the back-off."""
    fault = state.outcome.exception() if state.outcome else None
    if isinstance(fault, _Fault) and fault.retry_after_s is not None:
        return fault.retry_after_s + uniform(0, JITTER_S)
    return uniform(0.5, 1) * min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (state.attempt_number - 1))


def _out_of_patience(state: RetryCallState) -> bool:
    """Whether these were all requests that a draw may make, or the next wait would make its waits too long."""
    return state.attempt_number >= MAX_ATTEMPTS or state.idle_for + state.upcoming_sleep > MAX_WAITS_S


def _date_s(text: str) -> float | None:
    """An HTTP date in seconds since 1970; None for what is none."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _filled(template: str, texts: Mapping[str, str]) -> str:
    """A template with its places filled in one pass: what looks like a place in a filled-in text stays."""
    return re.sub("|".join(map(re.escape, texts)), lambda place: texts[place[0]], template)


def _client(base_url: str | None, api_key: str | None, timeout_s: float) -> openai.AsyncOpenAI:
    """The client, with its own retries off: they would send requests that nobody counts."""
    if api_key and not _VISIBLE.match(api_key):
        raise SpecError("OPENAI_API_KEY: holds a blank, a line end or another character that no key has: set it again")
    if base_url is not None:
        _checked_url(base_url)
    timeout = openai.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    # Without a key the client looks for one by itself, or refuses to start; this one is never sent.
    return openai.AsyncOpenAI(base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=0)


def _checked_url(url: str) -> str:
    """A server's address as texts may show it: without credentials, query and last slash.

    Raises:
        SpecError: It is no address.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not _VISIBLE.match(url) or not _HOST.match(host or ""):
        raise SpecError("--base-url: is no http:// or https:// address: write it as https://HOST/v1")
    name = f"[{host}]" if ":" in str(host) else host
    return f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def _pattern(secrets: list[str]) -> re.Pattern[str] | None:
    """Finds any form of any secret, the longest secret first; None where there is no secret."""
    longest_first = sorted(secrets, key=len, reverse=True)
    forms = [
        form for secret in longest_first for form in (_url_form(secret), *map(re.escape, sorted(_base64_forms(secret))))
    ]
    return re.compile("|".join(forms)) if forms else None


def _url_form(secret: str) -> str:
    """A pattern for a secret with any of its characters URL-encoded: libraries differ in which they spare."""
    return "".join(f"(?:{re.escape(char)}|(?i:{''.join(f'%{byte:02x}' for byte in char.encode())}))" for char in secret)


def _base64_forms(secret: str) -> set[str]:
    """The characters that depend on nothing but the secret, wherever it stands in a text in base64."""
    forms: set[str] = set()
    for offset in range(3):
        padded = bytes(offset) + secret.encode()
        first, last = (8 * offset + 5) // 6, 8 * len(padded) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(padded).decode()[first:last])
    return forms - {""}
