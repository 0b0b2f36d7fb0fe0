"""Draws from a model over a real socket: what a fault, a refusal and an odd answer each come to."""

from __future__ import annotations

import base64
import gzip
import json
import time
import traceback
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from fake_openai import FakeOpenAI, Request, Step, completion, error, stream

from gate import rules
from gate.backends import answers
from gate.backends.answer_cache import AnswerCache
from gate.backends.answers import MAX_RESPONSE_CHARS, MAX_RETRY_AFTER_S, retry_after_s
from gate.backends.books import Books
from gate.backends.openai import MAX_ATTEMPTS, MAX_CROWDED, MAX_WAITS_S, OpenAISource
from gate.backends.prompts import Prompts
from gate.errors import FatalSourceError, SourceError, SpecError
from gate.model import Candidate, Json, Limits, SuiteSpec, Task, canonical_json
from gate.money import Account, Tokens

ADD = "def add(a, b):\n    return a + b\n"
GOOD = completion(f"Sure!\n```python\n{ADD}```\nDone.")
KEY = "sk-test/K+y=0123456789abcdef"


def task_of(prompt: str = "Write add(a, b).", entry_point: str | None = "add") -> Task:
    """A task; what a source sees of it is the prompt and the entry point."""
    suite = SuiteSpec(
        task_id="t",
        prompt=prompt,
        entry_point=entry_point,
        limits=Limits(),
        tests=(),
        hidden=(),
        reference=None,
        must_fail=(),
        digest="",
        source=None,
    )
    return Task(id="t", prompt=prompt, entry_point=entry_point, suite=suite)


class Sleeper:
    """Waits that take no time, noted in seconds."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    async def __call__(self, wait_s: float) -> None:
        self.waits_s.append(wait_s)
        await anyio.sleep(0)


def source_at(url: str | None, **options: Any) -> OpenAISource:
    """A source with what the tests do not care about filled in."""
    return OpenAISource(**{"base_url": url, "model": "stub", "api_key": KEY, "sleep": Sleeper(), **options})


async def draw(server: FakeOpenAI, index: int = 0, **options: Any) -> Candidate:
    """One draw from a server."""
    async with source_at(server.url, **options) as source:
        return await source.draw(task_of(), index)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


async def test_a_program_is_drawn() -> None:
    """A draw brings the program, and as facts what the server said of it."""
    with FakeOpenAI(GOOD) as server:
        candidate = await draw(server, 2, seed=40)
    assert (candidate.task_id, candidate.index, candidate.code) == ("t", 2, ADD)
    assert candidate.origin == {
        "seed": 42,
        "attempts": 1,
        "id": "answer-1",
        "model": "stub-1",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
        "response": f"Sure!\n```python\n{ADD}```\nDone.",
    }


async def test_one_request_a_draw() -> None:
    """The request asks for one whole answer with the seed of its index, and carries the key in its header alone."""
    with FakeOpenAI(GOOD) as server:
        await draw(server, 3, seed=7, temperature=0.5, top_p=0.9, max_tokens=100)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    messages = request.body.pop("messages")
    assert request.body == {
        "model": "stub",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "seed": 10,
        "n": 1,
        "stream": False,
    }
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["content"] == "Write add(a, b).\n\nThe program must define `add`."


async def test_each_index_has_its_seed() -> None:
    """Draw k is asked for with seed base + k, whatever was drawn before."""
    with FakeOpenAI(GOOD) as server:
        async with source_at(server.url, seed=100) as source:
            for index in (0, 4, 1):
                await source.draw(task_of(), index)
    assert [request.body["seed"] for request in server.requests] == [100, 104, 101]
    assert "top_p" not in server.requests[0].body


FAULTS: dict[str, Step] = {
    "429 with Retry-After": error(429, headers={"Retry-After": "2"}),
    "429": error(429),
    "500": error(500),
    "502, no JSON": Step(status=502, body=b"<html>Bad gateway</html>"),
    "503": error(503),
    "408": error(408),
    "409": error(409),
    "reset": Step(reset=True),
    "cut body": Step(body=GOOD.body, cut=True),
    "cut error": Step(status=500, body=b"x" * 100, cut=True),
    "half a JSON": Step(body=GOOD.body_bytes[:-20]),
    "no JSON": Step(body=b"ok"),
    "no body": Step(),
    "a stream": Step(body=b'data: {"choices": []}\n\n', headers={"Content-Type": "text/event-stream"}),
    "a cut stream": stream("```python\n", ADD, "```", finish=None, done=False),
    "a stream of no JSON": Step(body=b"data: {\n\ndata: [DONE]\n\n"),
    "an empty stream": Step(body=b"data: [DONE]\n\n"),
    "an error in a stream": Step(body=b'data: {"error": {"message": "overloaded"}}\n\ndata: [DONE]\n\n'),
    "JSON nested deep": Step(body=b"[" * 100_000),
    "not UTF-8": Step(body=b'{"choices": "\xff"}'),
    "no gzip": Step(body=b"plain", headers={"Content-Encoding": "gzip"}),
    "no object": Step(body=[]),
    "no choices": Step(body={"id": "x"}),
    "empty choices": Step(body={"choices": []}),
    "odd choices": Step(body={"choices": {"0": 1}}),
    "no message": Step(body={"choices": [{"finish_reason": "stop"}]}),
    "error in a 200": Step(body={"error": {"message": "overloaded"}}),
    "broken off": completion("def add(", finish="error"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_uses_up_no_draw(fault: str) -> None:
    """After a fault of the transport the same request is sent again, and the draw brings its program."""
    with FakeOpenAI([FAULTS[fault], GOOD]) as server:
        candidate = await draw(server, 1, seed=5)
    assert candidate.code == ADD
    assert candidate.origin["attempts"] == len(server.requests) == 2
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize(
    "step",
    [
        stream("```python\n", ADD, "```"),
        stream("```python\n", ADD, "```", finish=None),
        stream("```python\n", ADD, "```", done=False),
        Step(body=stream(f"```python\n{ADD}```").body.replace(b"\n", b"\r\n")),
    ],
    ids=["whole", "no finish_reason", "no DONE", "CRLF, no content type"],
)
async def test_a_stream_that_is_whole_is_an_answer(step: Step) -> None:
    """A server that streams unasked is understood, where something says that it is at its end."""
    with FakeOpenAI(step) as server:
        candidate = await draw(server)
    assert (candidate.code, candidate.origin["attempts"]) == (ADD, 1)


async def test_a_stream_cut_by_its_length_is_truncated() -> None:
    """The finish_reason of a stream counts as that of a whole answer does, and its reasoning stays out."""
    thought = Step(body=b'data: {"choices": [{"index": 0, "delta": {"reasoning_content": "secret thought"}}]}\n\n')
    step = stream("def add(", finish="length")
    with FakeOpenAI(Step(body=thought.body + step.body)) as server:
        candidate = await draw(server)
    assert (candidate.code, candidate.origin["missing"], candidate.origin["response"]) == ("", "truncated", "def add(")
    assert "secret thought" not in canonical_json(candidate.origin)


@pytest.mark.parametrize("slow", [Step(body=GOOD.body, wait_s=5), Step(body=GOOD.body, drip_s=0.02)])
async def test_too_slow_is_a_fault(slow: Step) -> None:
    """An answer that is not whole in time is asked for again, and a trickle of bytes buys no time."""
    with FakeOpenAI([slow, GOOD]) as server:
        begun_s = time.monotonic()
        candidate = await draw(server, timeout_s=0.5)
        assert time.monotonic() - begun_s < 3
    assert (candidate.code, candidate.origin["attempts"], len(server.requests)) == (ADD, 2, 2)


async def test_no_server_is_a_fault() -> None:
    """Where nothing listens the source asks in vain, then says where and how often."""
    with FakeOpenAI(GOOD) as server:
        url = server.url
    async with source_at(url) as source:
        with pytest.raises(SourceError, match=f"{url}: gave no usable answer in {MAX_ATTEMPTS} requests") as caught:
            await source.draw(task_of(), 0)
    assert not isinstance(caught.value, FatalSourceError)


async def test_patience_has_an_end_in_requests() -> None:
    """A fault that stays is a SourceError after a bounded number of requests, with waits that grow."""
    sleeper = Sleeper()
    with (
        FakeOpenAI(error(500, "busy\x1b[31m\n now")) as server,
        pytest.raises(SourceError, match=r"the last: answered 500 \(busy \[31m now\)"),
    ):
        await draw(server, sleep=sleeper)
    assert len(server.requests) == MAX_ATTEMPTS == len(sleeper.waits_s) + 1
    assert sleeper.waits_s[0] <= 0.5 < 4 <= sleeper.waits_s[-1] <= 30


async def test_a_429_is_borne_longer() -> None:
    """A server that serves us one by one says 429 many times; there is an end to that as well."""
    with FakeOpenAI([*[error(429)] * (MAX_ATTEMPTS + 2), error(500), GOOD]) as server:
        candidate = await draw(server)
    assert candidate.origin["attempts"] == MAX_ATTEMPTS + 4
    with (
        FakeOpenAI(error(429, headers={"Retry-After": "0"})) as server,
        pytest.raises(SourceError, match=f"in {MAX_CROWDED} requests"),
    ):
        await draw(server)
    assert len(server.requests) == MAX_CROWDED


async def test_patience_has_an_end_in_time() -> None:
    """Waits as the server tells us end before they come to more than the bound in all."""
    sleeper = Sleeper()
    with (
        FakeOpenAI(error(429, headers={"Retry-After": "110"})) as server,
        pytest.raises(SourceError, match=r"in 3 requests and 22\d s"),
    ):
        await draw(server, sleep=sleeper)
    assert len(server.requests) == 3
    assert sum(sleeper.waits_s) <= MAX_WAITS_S < sum(sleeper.waits_s) + 110


@pytest.mark.parametrize("told", ["3", "date"])
async def test_retry_after_is_honoured(told: str) -> None:
    """The next request comes no sooner than Retry-After says, and not much later."""
    told = formatdate(time.time() + 4, usegmt=True) if told == "date" else told
    sleeper = Sleeper()
    with FakeOpenAI([error(429, headers={"Retry-After": told}), GOOD]) as server:
        await draw(server, sleep=sleeper)
    (wait_s,) = sleeper.waits_s
    assert 3 <= wait_s <= 5


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("told", ["86400", "date"])
async def test_a_long_retry_after_is_the_end(status: int, told: str) -> None:
    """Told to wait for a day, the source stops at once and says so."""
    told = formatdate(time.time() + 86400, usegmt=True) if told == "date" else told
    with (
        FakeOpenAI(error(status, headers={"Retry-After": told})) as server,
        pytest.raises(SourceError, match=f"asks to wait 8....? s, more than the {MAX_RETRY_AFTER_S:.0f} s"),
    ):
        await draw(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0),
        ({"retry-after": "Thu, 01 Jan 1970 01:00:10 GMT", "date": "Thu, 01 Jan 1970 01:00:00 GMT"}, 10),
        ({"retry-after": "Thu, 99 Jan 1970 00:00:01 GMT"}, None),
    ],
)
def test_reading_retry_after(headers: dict[str, str], wait_s: float | None) -> None:
    """Seconds or a date, the latter by the server's own clock where it tells it; anything else says nothing."""
    assert retry_after_s(headers, now_s=1000.0) == wait_s


@pytest.mark.parametrize(
    ("step", "do"),
    [
        (error(401), "check OPENAI_API_KEY"),
        (error(402), "top up the account"),
        (error(403), "check what the API key may use"),
        (error(404, "The model `stub` does not exist"), r"\(The model `stub` does not exist\).* check --model"),
        (Step(status=404, body=b"not found"), "check --model and --base-url"),
        (error(429, "You exceeded your quota", code="insufficient_quota"), "its quota is used up"),
    ],
)
async def test_a_refusal_to_serve_is_fatal(step: Step, do: str) -> None:
    """What every task would meet is said at once, after exactly one request, by an error that ends the run."""
    sleeper = Sleeper()
    with FakeOpenAI(step) as server, pytest.raises(FatalSourceError, match=do):
        await draw(server, sleep=sleeper)
    assert (len(server.requests), sleeper.waits_s) == (1, [])


async def test_a_request_that_is_refused_is_not_repeated() -> None:
    """A 400 is about this request: said at once, and the next task may fare better."""
    with (
        FakeOpenAI(error(400, "maximum context length")) as server,
        pytest.raises(SourceError, match=r"answered 400 \(maximum context length\)") as caught,
    ):
        await draw(server)
    assert not isinstance(caught.value, FatalSourceError)
    assert len(server.requests) == 1


LARGE = f"```python\nX = '{'a' * MAX_RESPONSE_CHARS}'\n{ADD}```"
WIDE = f"```python\nX = '{'é' * (MAX_RESPONSE_CHARS - 1000)}'\n{ADD}```"


@pytest.mark.parametrize(
    ("step", "missing"),
    [
        (completion("```python\ndef add(a, b):\n    total = a +", finish="length"), "truncated"),
        (completion(f"```python\n{ADD}```", finish="content_filter"), "content_filter"),
        (completion(f"```python\n{ADD}```", finish="refusal"), "refusal"),
        (completion(None, refusal="I can't help with that."), "refusal"),
        (completion(None), "empty"),
        (completion(""), "empty"),
        (completion(" \n"), "empty"),
        (completion("```python\n```"), "empty"),
        (completion(f"<think>\n{ADD}"), "empty"),
        (completion(None, tool_calls=[{"function": {"name": "add"}}], finish="tool_calls"), "empty"),
        (completion(LARGE), "too_large"),
        (completion(WIDE), "too_large"),
    ],
    ids=[
        *("cut off", "filtered", "refused", "refused beside", "null", "nothing", "blank", "empty block"),
        *("thoughts alone", "a tool", "2 MB", "wide"),
    ],
)
async def test_an_answer_without_a_program_is_used_up(step: Step, missing: str) -> None:
    """Such a draw is an empty candidate that says why, after one request, and the rules take it from there."""
    with FakeOpenAI(step) as server:
        candidate = await draw(server)
    verdict = rules.screen(candidate)
    assert (candidate.code, candidate.origin["missing"], len(server.requests)) == ("", missing, 1)
    assert verdict is not None and (verdict.reason, verdict.detail) == ("no_program", missing)
    assert len(candidate.origin["response"]) <= MAX_RESPONSE_CHARS


async def test_the_raw_text_is_kept() -> None:
    """What was refused or cut off can be read afterwards."""
    with FakeOpenAI([completion("def add(", finish="length"), completion(None, refusal="No.")]) as server:
        cut, refused = await draw(server), await draw(server)
    assert cut.origin["response"] == "def add("
    assert (refused.origin["response"], refused.origin["refusal"]) == ("", "No.")


async def test_a_body_beyond_the_cap_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that is too large is used up as it is, also one that was small before it was unpacked."""
    monkeypatch.setattr(answers, "MAX_BODY_BYTES", 10_000)
    packed = gzip.compress(b" " * 20_000 + GOOD.body_bytes)
    with FakeOpenAI(Step(body=packed, headers={"Content-Encoding": "gzip"})) as server:
        candidate = await draw(server)
    assert (candidate.code, candidate.origin) == ("", {"seed": 0, "attempts": 1, "missing": "too_large"})


async def test_reasoning_is_written_nowhere() -> None:
    """Reasoning, in a field or in the content, is neither code nor fact."""
    draft = f"secret thought\n```python\n{ADD.replace('+', '-')}```\n"
    step = completion(
        f"<think>{draft}</think>\n```python\n{ADD}```",
        reasoning=draft,
        reasoning_content=draft,
        reasoning_details=[draft],
    )
    with FakeOpenAI([step, completion(None, reasoning_content=draft)]) as server:
        told, untold = await draw(server), await draw(server)
    assert (told.code, untold.origin["missing"]) == (ADD, "empty")
    assert "secret thought" not in canonical_json([told.origin, untold.origin])


async def test_odd_answers_are_data() -> None:
    """A lone surrogate, parts of content, facts of the wrong type, several choices: nothing raises."""
    parts = [{"type": "text", "text": "```python\n"}, {"type": "text", "text": f"{ADD}# \ud800\n```"}]
    odd = {
        "id": 7,
        "model": None,
        "system_fingerprint": "f" * 1000,
        "usage": {"prompt_tokens": True, "total_tokens": -1},
    }
    choices = [{"message": {"content": parts}, "finish_reason": {}}, {"message": {"content": "second"}}]
    with FakeOpenAI(Step(body={**odd, "choices": choices})) as server:
        candidate = await draw(server)
    assert candidate.code_bytes == f"{ADD}# ".encode() + b"\xed\xa0\x80\n"
    del candidate.origin["response"]
    assert candidate.origin == {"seed": 0, "attempts": 1, "system_fingerprint": "f" * 200, "usage": {}}


async def test_connections_are_bounded() -> None:
    """No more requests are under way at a time than was said, over all tasks."""
    with FakeOpenAI(Step(body=GOOD.body, wait_s=0.03)) as server:
        async with source_at(server.url, max_connections=3) as source, anyio.create_task_group() as group:
            for index in range(12):
                group.start_soon(source.draw, task_of(), index)
    assert (server.most, len(server.requests)) == (3, 12)


async def test_who_waits_holds_no_connection() -> None:
    """While one draw waits for its next request, another one is served."""

    def answer(request: Request) -> Step:
        first = request.body["seed"] == 0 and len(server.requests) == 1
        return error(429, headers={"Retry-After": "60"}) if first else GOOD

    asleep, go_on = anyio.Event(), anyio.Event()

    async def sleep(wait_s: float) -> None:
        asleep.set()
        await go_on.wait()

    with FakeOpenAI(answer) as server:
        async with source_at(server.url, max_connections=1, sleep=sleep) as source, anyio.create_task_group() as group:
            group.start_soon(source.draw, task_of(), 0)
            await asleep.wait()
            assert (await source.draw(task_of(), 1)).code == ADD
            go_on.set()
    assert [request.body["seed"] for request in server.requests] == [0, 1, 0]


async def test_a_draw_can_be_cancelled() -> None:
    """A draw that is cancelled in its request ends at once and asks nothing more."""
    with FakeOpenAI(Step(body=GOOD.body, wait_s=30)) as server:
        async with source_at(server.url) as source:
            with anyio.move_on_after(0.2) as scope:
                await source.draw(task_of(), 0)
    assert scope.cancelled_caught
    assert len(server.requests) == 1


FORMS = {
    "plain": KEY,
    "URL-encoded": quote(KEY, safe=""),
    "URL-encoded, small": quote(KEY, safe="").lower().replace("k%2by", "K%2by"),
    "URL-encoded but for /": quote(KEY),
    **{f"base64 after {n}": base64.b64encode(b"x" * n + KEY.encode() + b"x").decode() for n in range(3)},
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(KEY.encode()).decode(),
}


def leaks(text: str) -> bool:
    """Whether a text has a telling part of the key, in any form."""
    within = [KEY[3:14], KEY[-10:], quote(KEY, safe="")[3:14]]
    within += [base64.b64encode(b"x" * n + KEY.encode()).decode()[8:24] for n in range(3)]
    return any(part.lower() in text.lower() for part in within)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", [200, 401, 404, 500])
async def test_the_key_is_nowhere(form: str, status: int) -> None:
    """A server that repeats the key in its words, in any form, finds no echo: not in errors, nor in what is kept."""
    assert leaks(FORMS[form])
    text = f"You sent Authorization: Bearer {FORMS[form]} to us"
    step = completion(f"```python\n# {text}\n{ADD}```") if status == 200 else error(status, text)
    step.body.update(id=text, model=text, system_fingerprint=text)
    with FakeOpenAI(step) as server:
        async with source_at(server.url) as source:
            said = [repr(source), str(source), canonical_json(source.describe())]
            try:
                candidate = await source.draw(task_of(), 0)
                said += [repr(candidate), canonical_json(candidate.origin)]
            except SourceError as exc:
                said += everything(exc)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert not any(leaks(each) for each in said)


def everything(exc: BaseException | None) -> list[str]:
    """All texts of an exception and of those behind it, whether shown or not."""
    if exc is None:
        return []
    own = [str(exc), repr(exc), repr(exc.args), repr(vars(exc)), "".join(traceback.format_exception(exc))]
    return (
        own + everything(exc.__cause__) + (everything(exc.__context__) if exc.__context__ is not exc.__cause__ else [])
    )


async def test_no_foreign_exception_is_behind_ours() -> None:
    """What the client raised holds the request with its headers, so it is not chained to what we raise."""
    for step in (Step(reset=True), error(401), error(400), Step(body=b"ok")):
        with FakeOpenAI(step) as server, pytest.raises(SourceError) as caught:
            await draw(server)
        assert caught.value.__cause__ is caught.value.__context__ is None


async def test_no_key_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key none is sent, also where the environment has one: the caller decides."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeOpenAI(GOOD) as server:
        assert (await draw(server, api_key=None)).code == ADD
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize("key", ["sk-abc def", "sk-abcdef\n", "sk-\x00abcdef", "sk-é-abcdef"])
def test_a_key_that_no_header_can_carry(key: str) -> None:
    """A key with a blank or a line end is a usage error that does not show it."""
    with pytest.raises(SpecError, match="OPENAI_API_KEY") as caught:
        source_at("http://localhost/v1", api_key=key)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://host/v1", "http://", "http://a b/", "http://h:99999/", "http://h/\x7f", "http://a|b/"],
)
def test_an_address_that_is_none(url: str) -> None:
    """An address that cannot be asked is a usage error before anything is asked."""
    with pytest.raises(SpecError, match="--base-url"):
        source_at(url)


async def test_credentials_in_an_address_are_not_shown() -> None:
    """User, password and query of an address stand in no record and no error."""
    with FakeOpenAI(error(500, "who is u:p%40ssword-0123456789?")) as server:
        async with source_at(server.url.replace("://", "://u:p%40ssword-0123456789@")) as source:
            with pytest.raises(SourceError) as caught:
                await source.draw(task_of(), 0)
            said = [*everything(caught.value), canonical_json(source.describe())]
            assert source.describe()["base_url"] == server.url
    assert not any("ssword" in each for each in said)
    assert source_at("https://host/v1/?key=abc").where == "https://host/v1"
    assert source_at("http://[::1]:8000/v1").where == "http://[::1]:8000/v1"
    assert source_at(None).where.startswith("https://")


def test_the_digest_is_of_what_shapes_answers() -> None:
    """Another model, sampling, seed, prompt or server is another source; another key or patience is not."""
    base = source_at("http://host/v1")
    same: list[dict[str, Json]] = [
        {"api_key": "other"},
        {"timeout_s": 1.0},
        {"max_connections": 1},
        {"temperature": 0.80},
    ]
    others: list[dict[str, Json]] = [
        {"model": "m"},
        {"temperature": 1},
        {"top_p": 1.0},
        {"max_tokens": 1},
        {"seed": 1},
        {"prompts": Prompts(system="Be brief.")},
        {"prompts": Prompts(show_tests=True)},
        {"prelude": "typing"},
    ]
    assert {source_at("http://host/v1/", **each).digest for each in same} == {base.digest}
    digests = [source_at("http://host/v1", **each).digest for each in others]
    assert len({*digests, base.digest, source_at("http://host/v2").digest}) == len(others) + 2
    assert json.loads(canonical_json(base.describe())) == base.describe()
    assert base.task_ids() == {}


async def test_a_429_lowers_the_connections_and_answers_bring_them_back() -> None:
    """A server that is asked too much is asked less, then gradually more again."""
    with FakeOpenAI([*[error(429)] * 2, GOOD]) as server:
        async with source_at(server.url, max_connections=8) as source:
            await source.draw(task_of(), 0)
            lowered = source.pace.limit
            for index in range(30):
                await source.draw(task_of(), index)
    assert (lowered, source.pace.limit) == (2, 8)


USAGE = {"prompt_tokens": 3, "completion_tokens": 4}


class Recorded:
    """A ledger in a list."""

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Json]]] = []

    def append(self, kind: str, body: dict[str, Json]) -> str:
        self.records.append((kind, body))
        return ""


@pytest.mark.parametrize(
    ("step", "billed"),
    [
        (error(500), Tokens()),
        (error(401), Tokens()),
        (
            Step(body={"choices": [], "usage": USAGE}),
            Tokens(prompt=3, completion=4),
        ),
        (Step(body=b"{"), None),
        (Step(body=GOOD.body, cut=True), None),
        (Step(reset=True), None),
    ],
    ids=["500", "401", "no choices, but a usage", "no JSON", "cut", "reset"],
)
async def test_what_a_fault_has_cost(step: Step, billed: Tokens | None) -> None:
    """A refusal cost nothing, a usage is believed, and of the rest nobody knows."""
    kept = Recorded()
    with FakeOpenAI([step, GOOD]) as server:
        try:
            await draw(server, books=Books(kept, Account()), max_tokens=50)
        except FatalSourceError:
            assert step.status == 401
    (asked, worst), (kind, fault), *_ = kept.records
    assert (asked, kind) == ("asked", "fault")
    assert worst["worst"]["completion_tokens"] == 50 and worst["worst"]["prompt_tokens"] > 100
    assert fault["billed"] == (None if billed is None else billed.as_json())


async def test_a_server_that_is_not_there_costs_nothing() -> None:
    """What was never sent was never billed."""
    kept = Recorded()
    with FakeOpenAI(GOOD) as server:
        url = server.url
    async with source_at(url, books=Books(kept, Account())) as source:
        with pytest.raises(SourceError):
            await source.draw(task_of(), 0)
    assert {canonical_json(body["billed"]) for kind, body in kept.records if kind == "fault"} == {
        canonical_json(Tokens().as_json())
    }


async def test_a_cached_answer_is_not_asked_for_again(tmp_path: Path) -> None:
    """The same draw comes from the cache, marked; another index, seed, model or prompt asks the server."""
    with FakeOpenAI(GOOD) as server:
        first = await draw(server, cache=AnswerCache(tmp_path))
        again = await draw(server, cache=AnswerCache(tmp_path))
        assert len(server.requests) == 1
        for index, options in enumerate(({}, {"seed": 9}, {"model": "m"}, {"prompts": Prompts(system="x")}), 1):
            await draw(server, index if not options else 0, cache=AnswerCache(tmp_path), **options)
        assert len(server.requests) == 5
    assert (again.code, again.origin["cache"], again.origin["attempts"]) == (first.code, "hit", 0)
    assert "cache" not in first.origin


async def test_faults_and_secrets_are_not_cached(tmp_path: Path) -> None:
    """What is kept holds neither the key nor reasoning, and an answer beyond the cap is not kept."""
    with FakeOpenAI(completion(f"<think>secret thought</think># {KEY}", reasoning="secret thought")) as server:
        await draw(server, cache=AnswerCache(tmp_path))
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*.json"))
    assert held and b"secret" not in held and not leaks(held.decode())


async def test_a_prelude_is_put_before_the_program() -> None:
    """The names that a prompt assumes are there, and the draw says so."""
    with FakeOpenAI([GOOD, completion("from __future__ import annotations\n")]) as server:
        first = await draw(server, prelude="typing")
        second = await draw(server, prelude="typing")
    assert first.code.startswith("from typing import ") and first.code.endswith(f"\n{ADD}")
    assert (first.origin["prelude"], "prelude" in second.origin) == ("typing", False)
