"""What a ledger tells of each task."""

from __future__ import annotations

import pytest
from golden import make

from gate.cli.recorded import read_recorded
from gate.model import Call, Reply
from gate.report.story import MAX_CHARS, TaskStory, call_text, reply_text


@pytest.fixture(scope="module")
def stories() -> dict[str, TaskStory]:
    """Those of the golden run, by task."""
    return {story.id: story for story in read_recorded(make.RUN).stories}


def test_a_refused_task_tells_all_its_draws(stories: dict[str, TaskStory]) -> None:
    """Each draw has its verdict; a program that comes again says so; a draw that was not there has its reason."""
    story = stories[make.COUNT]
    assert (story.state, story.reason, story.delivered) == ("refused", "none_passed", None)
    assert [draw.same_as for draw in story.draws] == [None, None, 1, None, None]
    assert [draw.visible.reason for draw in story.draws if draw.visible] == [
        *("raised", "wrong_answer", "wrong_answer", "timeout", "no_program")
    ]
    assert story.reasons == ("raised", "wrong_answer", "timeout", "no_program")
    assert story.draws[4].missing and not story.draws[4].code
    assert all(draw.hidden is None for draw in story.draws)


def test_the_first_failing_test_has_got_and_expected(stories: dict[str, TaskStory]) -> None:
    """The call, what was expected and what came back stand beside each other, of both parts."""
    draw = stories[make.REVERSE].draws[0]
    assert draw.visible and draw.visible.failure
    failure = draw.visible.failure
    assert (failure.test, failure.call, failure.expected) == (1, "reverse_words('é \\u2028 x')", "'x é'")
    assert failure.got == "'x \\u2028 é'"
    hidden = stories[make.HALVES].draws[0].hidden
    assert hidden and hidden.failure and hidden.failure.expected == "ValueError to be raised"
    assert stories[make.HALVES].state == "wrong"


def test_a_failure_of_our_world_is_superseded(stories: dict[str, TaskStory]) -> None:
    """Of two verdicts on one draw the later one stands."""
    story = stories[make.SUM]
    assert (story.state, story.delivered) == ("delivered", 0)
    assert story.draws[0].visible and story.draws[0].visible.outcome == "pass"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(kind="returned", value={"$tuple": [1]}), "(1,)"),
        (Reply(kind="returned", value={"$what": 1}), "a value that is no tagged JSON"),
        (Reply(kind="raised", types=("KeyError",), message="KeyError: 'a'"), "raised KeyError: 'a'"),
        (Reply(kind="raised", types=("KeyError",)), "raised KeyError"),
        (Reply(kind="printed", value={"$bytes": "YQr/"}, status=0), "'a\\n\\\\xff'"),
        (Reply(kind="printed", value={"$bytes": ""}, status=3), "'', and ended with status 3"),
        (Reply(kind="too_large", message="9 MB"), "too large: 9 MB"),
    ],
)
def test_what_came_back_in_words(reply: Reply, text: str) -> None:
    """Every kind of reply has words."""
    assert reply_text(reply).startswith(text)


def test_a_call_in_words() -> None:
    """A call reads as a person would write it, within bounds."""
    assert call_text("f", Call(args=(1, {"$set": [2]}), kwargs={"k": "x"})) == "f(1, {2}, k='x')"
    assert call_text(None, Call(stdin="1\n")) == "input: '1\\n'"
    assert len(call_text("f" * 1000, Call(args=()))) == MAX_CHARS
