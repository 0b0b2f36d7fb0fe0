"""Runs the command with a wall clock that can be set under it: `python jumping_clock.py OFFSET_FILE ARGS…`.

The file holds seconds that are added to the time of day from now on; the monotonic clock stays as it is.
"""

import datetime
import sys
import time
from pathlib import Path

OFFSET = Path(sys.argv[1])
_time, _time_ns = time.time, time.time_ns


def offset_s() -> int:
    return int(OFFSET.read_text())


class Jumping(datetime.datetime):
    """What `datetime` is for every module that is imported after this."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "Jumping":
        return super().now(tz) + datetime.timedelta(seconds=offset_s())


datetime.datetime = Jumping  # type: ignore[misc]
time.time = lambda: _time() + offset_s()
time.time_ns = lambda: _time_ns() + offset_s() * 10**9

if __name__ == "__main__":
    from gate.cli import main

    sys.argv[:] = ["gate", *sys.argv[2:]]
    main()
