"""What all tests share: the engine and the image behind the marker `docker`, and one event loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    import docker

    from gate.backends.image import Image

# A loaded machine is slow, not wrong; what hypothesis chose for CI otherwise stays.
settings.register_profile("gate", settings(deadline=None))
settings.load_profile("gate")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The one event loop that the program runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.APIClient]:
    """The container engine; a test that needs one fails where none answers."""
    from gate.backends.docker_client import connect
    from gate.errors import GateError

    try:
        client = connect()
    except GateError as exc:
        raise pytest.fail.Exception(str(exc), pytrace=False) from None
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: docker.APIClient) -> Image:
    """The sandbox image; a test that needs it fails where it is not built."""
    from gate.backends.image import find_image

    found = find_image(engine)
    if found is None:
        pytest.fail("the sandbox image is not built, run `make image`", pytrace=False)
    return found


@pytest.fixture(autouse=True)
def _engine_behind_the_marker(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("docker"):
        request.getfixturevalue("image")
