"""Candidates from a language model: the source `openai`, at any server that speaks its protocol.

Theory of operation. One draw is one chat completion (`n=1`, not streamed), with the seed
`seed + index`. What a server can do wrong falls into three classes:

- A fault of the transport: no connection, no answer in time, a cut body or stream, no JSON,
  no choices, a choice that the server itself gave up, 408, 409, 425, 429 or 5xx. The request
  is sent again under one policy, with a jittered back-off that doubles, or as Retry-After
  says. It ends after MAX_ATTEMPTS requests, of which a 429 is none, after MAX_CROWDED times
  429, or when the waits would come to more than MAX_WAITS_S: then it is a SourceError, and
  no draw is used up. A 429 also lowers how many requests are under way at a time (`pace`);
  with that a server has so many chances that one which serves us one by one loses no draw.
- A refusal to serve: any other status is a SourceError at once. Where the next task would
  fare no better (401, 402, 403, 404, an exhausted quota) it is a FatalSourceError.
- An answer without a program: truncated, content_filter, refusal, empty or too_large. The
  draw is used up by an empty program, and `origin["missing"]` says which.

With `books`, each request is recorded before it is sent, with the most that it may cost, and
each fault with what it did cost: nothing where the server refused or was not reached, its usage
where it told one, otherwise nobody knows, and it counts at its worst case. The worst case takes
a token for each byte of the prompt and of what wraps it, and `max_tokens` for the answer.

The key goes to the client and into no text: what a server or the client says passes through
`Redaction` first, and no foreign exception, which would carry the request and its headers, is
chained to ours.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from random import uniform
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from gate.backends.answer_cache import AnswerCache
from gate.backends.answers import Answer, Fault, candidate_of, read_answer
from gate.backends.books import Books
from gate.backends.pace import Pace
from gate.backends.prompts import Prompts
from gate.backends.redaction import Redaction
from gate.errors import SourceError, SpecError
from gate.extract import Prelude
from gate.model import Candidate, Json, Task, digest_json
from gate.money import Tokens

MAX_ATTEMPTS = 8
MAX_CROWDED = 32
MAX_WAITS_S = 300.0
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
JITTER_S = 1.0  # at most this later than Retry-After says, so that not all come back at once
CONNECT_S = 10.0
MESSAGE_TOKENS = 32  # what a server wraps a message in takes no more than so many tokens

TEMPERATURE = 0.8
MAX_TOKENS = 2048
TIMEOUT_S = 120.0
MAX_CONNECTIONS = 8

_HOST = re.compile(r"[0-9A-Za-z._:-]+\Z")
_VISIBLE = re.compile(r"[!-~]+\Z")
_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"})


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
        prelude: What is put before each program, by name.
        timeout_s: How long one request may take, from its beginning to the end of the answer.
        max_connections: Requests at a time, over all tasks; fewer while the server says 429.
        books: Where requests are recorded, and what bounds their cost; None for nowhere.
        cache: Answers of earlier runs; None for none.
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
        temperature: float = TEMPERATURE,
        top_p: float | None = None,
        max_tokens: int = MAX_TOKENS,
        seed: int = 0,
        prompts: Prompts | None = None,
        prelude: Prelude | None = None,
        timeout_s: float = TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        books: Books | None = None,
        cache: AnswerCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._prompts = prompts or Prompts()
        self._prelude = prelude
        self._seed = seed
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._books = books
        self._cache = cache
        self._sleep = sleep
        self.pace = Pace(max_connections)
        self._client = _client(base_url, api_key, timeout_s)
        self._chat = self._client.chat.completions.with_raw_response  # loaded here, not within the first time limit
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
        """What shapes the answers: server, sampling and prompts; no key, no credentials."""
        prompts = {"prompts": asdict(self._prompts), "prelude": self._prelude}
        shape = {"top_p": None, **self._sampling, "seed": self._seed, **prompts}
        return {"kind": "openai", "base_url": self.where, **shape}

    def task_ids(self) -> Mapping[str, int]:
        """Nothing: a model holds no candidates beforehand."""
        return {}

    def check_task(self, task: Task) -> None:
        """See that a task can be asked for.

        Raises:
            SpecError: The template makes nothing of it.
        """
        self._prompts.messages(task)

    def most_for(self, task: Task) -> Tokens:
        """The most tokens that a request for one draw of a task may take."""
        return self._worst({"messages": self._prompts.messages(task)})

    async def draw(self, task: Task, index: int) -> Candidate:
        """Ask the model once, and again where only the transport failed.

        Raises:
            BudgetSpent: Another request might pass the budget.
            FatalSourceError: The server would refuse every other task as well.
            SourceError: It refuses this task, or patience is at its end; no draw is used up.
        """
        messages, seed = self._prompts.messages(task), self._seed + index
        request: dict[str, Json] = {**self._sampling, "messages": messages, "seed": seed, "n": 1, "stream": False}
        key = {"base_url": self.where, "index": index, "request": request}
        kept = None if self._cache is None else self._cache.find(key)
        if kept is not None:
            facts: dict[str, Json] = {"seed": seed, "attempts": 0, "cache": "hit"}
            return candidate_of(kept, task, index, facts, self._prelude)
        kept, attempts = await self._asked(task.id, index, request)
        if self._cache is not None and kept["text"] is not None:
            self._cache.keep(key, kept)
        return candidate_of(kept, task, index, {"seed": seed, "attempts": attempts}, self._prelude)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def __aenter__(self) -> OpenAISource:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _asked(self, task_id: str, index: int, request: dict[str, Json]) -> tuple[Json, int]:
        """What is kept of the completion, and how many requests it took."""
        retrying = AsyncRetrying(
            sleep=self._sleep,
            wait=_wait_s,
            stop=lambda state: _out_of_patience(state, failed),
            retry=retry_if_exception_type(Fault),
            retry_error_callback=self._give_up,
        )
        attempts = 0
        failed: Counter[bool] = Counter()  # whether the server said that it is asked too much

        async def once() -> Json:
            nonlocal attempts
            attempts += 1
            try:
                return await self._ask(task_id, index, attempts, request)
            except Fault as fault:
                failed[fault.crowded] += 1
                raise

        return await retrying(once), attempts

    async def _ask(self, task_id: str, index: int, attempt: int, request: dict[str, Json]) -> Json:
        """What is kept of the completion that one request brings.

        Raises:
            Fault: The transport failed, in one way or another.
            SourceError: Asking again is of no use.
        """
        async with self.pace.place() as sent_under:
            if self._books is not None:
                await self._books.ask(task_id, index, attempt, self._worst(request))
            answer = await self._post(request)
        try:
            if isinstance(answer, Fault):
                raise answer
            kept = read_answer(answer, self.where, self._redaction)
        except (Fault, SourceError) as exc:
            if isinstance(exc, Fault) and exc.crowded:
                self.pace.lower(sent_under)
            if self._books is not None:
                billed = exc.billed if isinstance(exc, Fault) else Tokens()
                self._books.fault(task_id, index, str(exc), billed)
            raise
        self.pace.recover()
        return kept

    def _worst(self, request: dict[str, Json]) -> Tokens:
        """The most tokens that a request may take: none of a tokenizer's is shorter than a byte."""
        contents = [message["content"] for message in request["messages"]]
        told = sum(len(content.encode("utf-8", "surrogatepass")) for content in contents)
        return Tokens(prompt=told + MESSAGE_TOKENS * (len(contents) + 1), completion=self._max_tokens)

    async def _post(self, request: dict[str, Any]) -> Answer | Fault:
        """Send one request. What the client raises ends here: it holds the request, and so the key."""
        try:
            with anyio.fail_after(self._timeout_s):
                raw = await self._chat.create(**request, extra_headers=self._headers)
                return Answer(raw.status_code, raw.headers, raw.content)
        except openai.APIStatusError as exc:
            return Answer(exc.status_code, exc.response.headers, exc.response.content)
        except (TimeoutError, openai.APITimeoutError):
            return Fault(f"no answer within {self._timeout_s:g} s")
        except openai.APIConnectionError as exc:
            kind = type(exc.__cause__).__name__
            sent = kind not in _NOT_SENT
            what = self._redaction.quote(f"no whole answer ({str(exc.__cause__ or exc) or kind})")
            return Fault(what, billed=None if sent else Tokens())

    def _give_up(self, state: RetryCallState) -> None:
        """The end of patience, as our own error."""
        last = state.outcome.exception() if state.outcome else None
        raise SourceError(
            f"{self.where}: gave no usable answer in {state.attempt_number} requests and {state.idle_for:.0f} s of"
            f" waiting; the last: {last}: try again later, or with fewer connections"
        )


def _wait_s(state: RetryCallState) -> float:
    """How long to wait before the next request, with jitter; Retry-After goes before the back-off."""
    fault = state.outcome.exception() if state.outcome else None
    if isinstance(fault, Fault) and fault.retry_after_s is not None:
        return fault.retry_after_s + uniform(0, JITTER_S)
    return uniform(0.5, 1) * min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (state.attempt_number - 1))


def _out_of_patience(state: RetryCallState, failed: Mapping[bool, int]) -> bool:
    """Whether these were all requests that a draw may make, or the next wait would make its waits too long."""
    asked_enough = failed[False] >= MAX_ATTEMPTS or failed[True] >= MAX_CROWDED
    return asked_enough or state.idle_for + state.upcoming_sleep > MAX_WAITS_S


def _client(base_url: str | None, api_key: str | None, timeout_s: float) -> openai.AsyncOpenAI:
    """The client, with its own retries off: they would send requests that nobody counts."""
    if api_key and not _VISIBLE.match(api_key):
        raise SpecError("OPENAI_API_KEY: holds a blank, a line end or another character that no key has: set it again")
    if base_url is not None:
        _checked_url(base_url)
    timeout = openai.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    # Without a key the client looks for one by itself, or refuses to start; this one is never sent.
    return openai.AsyncOpenAI(base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=0)


def refuse_credentials(base_url: str | None) -> None:
    """An address that is going to be recorded holds no secret.

    Raises:
        SpecError: It has a user, a password or a query.
    """
    address = base_url or os.environ.get("OPENAI_BASE_URL") or ""
    if "?" in address or "@" in address.partition("://")[2].partition("/")[0]:
        raise SpecError("--base-url: holds a user, a password or a query: put the key into OPENAI_API_KEY, not here")


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
