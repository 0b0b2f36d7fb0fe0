"""The connection that only the engine ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import requests
from fake_engine import FakeEngine, error, settle

from gate.backends.docker_client import connect
from gate.backends.lifeline import Lifeline


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    with FakeEngine(tmp_path / "e") as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        yield engine


@pytest.fixture
def client(played: FakeEngine) -> Iterator[docker.APIClient]:
    opened = connect(answer_s=1)
    yield opened
    opened.close()


def test_it_holds_while_the_engine_lives(client: docker.APIClient) -> None:
    """Nothing comes, so other requests change nothing, and it is whole until it is closed."""
    lifeline = Lifeline(client)
    client.version()
    assert not lifeline.is_broken()
    lifeline.close()
    assert lifeline.is_broken()


def test_it_breaks_with_the_engine_for_good(played: FakeEngine, client: docker.APIClient) -> None:
    """Once the engine has gone it stays broken, also when another engine answers at the same place."""
    lifeline = Lifeline(client)
    played.die()
    assert settle(lifeline.is_broken)
    played.revive()
    later = Lifeline(client)
    assert (lifeline.is_broken(), later.is_broken()) == (True, False)
    lifeline.close()
    later.close()


def test_an_engine_that_tells_no_events_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nobody could tell a crash from a restart, so there is no going on without."""
    with FakeEngine(tmp_path / "f", play={"events": error(403, "forbidden")}) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        client = connect(answer_s=1)
        with pytest.raises(requests.HTTPError, match="403"):
            Lifeline(client)
        client.close()


@pytest.mark.docker
def test_a_real_engine_answers_at_once(engine: docker.APIClient) -> None:
    """The engine at hand opens it, and says nothing on it while containers come and go."""
    lifeline = Lifeline(engine)
    assert not lifeline.is_broken()
    lifeline.close()
