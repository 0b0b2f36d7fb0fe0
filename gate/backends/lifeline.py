"""One connection that nothing but the engine ends: it shows whether the engine has lived all the while.

Theory of operation. When an engine dies, the streams of its containers end, and when it
comes back it has stopped them: status 137 or 255 and no word of error, just as if the
candidate had crashed. Process 1 in there belongs to the candidate's own user, so its end
proves nothing either. But a request for the engine's events is answered for as long as
the engine lives, nothing inside a container can reach it, and the kernel closes it with
the process at its other end. So a stream that ended while this connection did not is the
candidate's; else nobody can say, and it is ours.

The request asks for the events of a label that nothing has: as long as all is well there
is nothing to read.
"""

from __future__ import annotations

import json
import select

import docker

NOTHING = "gate.lifeline=none"
ANSWER_S = 20.0


class Lifeline:
    """Open from when it is made until the engine goes, or `close`.

    Args:
        client: The engine.

    Raises:
        Any of `docker_client.ENGINE_ERRORS`: The engine does not answer, or tells no events.
    """

    def __init__(self, client: docker.APIClient) -> None:
        self._answer = client.get(
            f"{client.base_url}/v{client.api_version}/events",
            params={"filters": json.dumps({"label": [NOTHING]})},
            stream=True,
            timeout=ANSWER_S,
        )
        if self._answer.status_code != 200:
            self._answer.close()
        self._answer.raise_for_status()

    def is_broken(self) -> bool:
        """Whether the engine has gone since this was opened, or this was closed."""
        if self._answer.raw.closed:
            return True
        poll = select.poll()
        poll.register(self._answer.raw.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Give it up."""
        self._answer.close()
