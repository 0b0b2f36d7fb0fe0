"""The one way to the engine: local connections are kept, no request waits without end, foreign errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import requests
from fake_engine import HANGS, FakeEngine

from gate.backends.docker_client import connect, engine_errors
from gate.errors import SandboxError


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    with FakeEngine(tmp_path / "e", play={"start": HANGS}) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        yield engine


@pytest.fixture
def client(played: FakeEngine) -> Iterator[docker.APIClient]:
    opened = connect(answer_s=1)
    yield opened
    opened.close()


def test_a_connection_serves_every_container(played: FakeEngine, client: docker.APIClient) -> None:
    """Each container has URLs of its own; a pool for each URL, as the SDK has it, would connect anew each time."""
    before, config = played.accepted, {"Image": "i", "HostConfig": {}}
    made = [client.create_container_from_config(config, name=f"c{number}")["Id"] for number in range(5)]
    for each in made:
        client.inspect_container(each)
        client.remove_container(each)
    assert len(set(made)) == 5
    assert played.accepted <= before + 1


def test_an_engine_that_came_back_is_connected_to_anew(played: FakeEngine, client: docker.APIClient) -> None:
    """What was kept open to an engine that died is not used for the next one."""
    client.version()
    played.die()
    played.revive()
    assert client.version()["ApiVersion"]


def test_a_silent_engine_is_an_error_in_time(client: docker.APIClient) -> None:
    """An answer that does not come is an error of ours after the time that `connect` was given."""
    made = client.create_container_from_config({"Image": "i"}, name="c")["Id"]
    with pytest.raises(SandboxError, match="failed while starting it"), engine_errors("starting it"):
        client.start(made)


def test_proxies_are_for_engines_elsewhere(
    played: FakeEngine, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy variable changes nothing for a socket; over TCP the SDK goes on to heed it."""
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert client.version()["ApiVersion"]
    elsewhere = docker.APIClient(base_url="tcp://127.0.0.1:9", version="1.41", timeout=1)
    assert elsewhere.trust_env and isinstance(elsewhere, requests.Session)
    elsewhere.close()
