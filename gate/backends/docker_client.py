"""The one way to the container engine, and the one place where its exceptions become ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

import docker
import requests
from docker.constants import DEFAULT_UNIX_SOCKET
from docker.errors import APIError, DockerException
from docker.transport import UnixHTTPAdapter
from docker.utils import kwargs_from_env
from urllib3.exceptions import HTTPError

from gate.errors import SandboxError

ANSWER_S = 60
# `requests` derives its errors from OSError; what breaks in the middle of a stream is not translated by it.
ENGINE_ERRORS = (DockerException, HTTPError, HTTPException, OSError)


class _SharedConnections(UnixHTTPAdapter):
    """The SDK's way over a Unix socket, but for one thing: connections are kept for any request.

    It keeps a pool for each URL, and as every container has URLs of its own, no connection
    would ever be used again.
    """

    def get_connection(self, url: str | bytes, proxies: Any = None) -> Any:
        """A pool of connections, the same one whatever is asked for."""
        return super().get_connection("http+docker://localhost", proxies)


class Client(docker.APIClient):
    """The SDK's client, but no request waits without end for its answer, and a local engine costs half the CPU."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        own = getattr(self, "_custom_adapter", None)
        if isinstance(own, UnixHTTPAdapter):
            shared = _SharedConnections(own.socket_path, timeout=own.timeout, max_pool_size=own.max_pool_size)
            own.close()
            self._custom_adapter = shared
            self.mount("http+docker://", shared)
            self.trust_env = False  # a socket has no proxy and no .netrc, which would be looked up for each request

    def post(self, url: str | bytes, data: Any = None, json: Any = None, **more: Any) -> requests.Response:
        """Attaching is the one request for which the SDK sets no time-out."""
        more.setdefault("timeout", self.timeout)
        return super().post(url, data, json, **more)


def connect(*, answer_s: int = ANSWER_S, connections: int = 32) -> docker.APIClient:
    """Connect to the engine that DOCKER_HOST names, or to the local one.

    Args:
        answer_s: How long the engine may be silent in the middle of an answer, in seconds.
        connections: How many connections are kept open for the next call.

    Returns:
        A client that has spoken with the engine; the caller closes it.

    Raises:
        SandboxError: Nothing answers there.
    """
    try:
        return Client(**kwargs_from_env(), version="auto", timeout=answer_s, max_pool_size=connections)
    except ENGINE_ERRORS as exc:
        address = os.environ.get("DOCKER_HOST") or DEFAULT_UNIX_SOCKET.replace("http+unix:", "unix:")
        raise SandboxError(
            f"No Docker engine answers at {address}: run `make setup`, or start one and set DOCKER_HOST."
        ) from exc


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what the engine or the way to it raises into a SandboxError that says what was being done."""
    try:
        yield
    except ENGINE_ERRORS as exc:
        raise SandboxError(f"The container engine failed while {doing}: {reason(exc)}") from exc


def reason(exc: BaseException) -> str:
    """What the engine itself said, on one line; else the exception's own words."""
    said = exc.explanation if isinstance(exc, APIError) and exc.explanation else exc
    return " ".join(str(said).split()) or type(exc).__name__
