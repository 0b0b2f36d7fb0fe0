"""Containers that nobody owns any more: found by their labels, removed only when that is beyond doubt.

A container is ours to remove when its labels name this boot of this host, this pid
namespace, and a process that is gone (no such pid, or one that started at another time).
About all others nothing can be known from here; only `gate clean --all` takes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors

from gate.backends import labels
from gate.backends.docker_client import ENGINE_ERRORS, engine_errors

_PID = re.compile(r"[0-9]{1,10}")  # labels are anybody's text, and some digits are no number


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One container of a gate's: its id, whether it runs, and whether its owner is surely gone."""

    id: str
    running: bool
    orphaned: bool
    owner: str


def is_orphaned(found: Mapping[str, str]) -> bool:
    """Whether labels name an owner of this host and pid namespace that is gone."""
    here = labels.owner_labels()
    if any(not found.get(key) or found[key] != here[key] for key in (f"{labels.KEY}.host", f"{labels.KEY}.pidns")):
        return False
    pid, started = found.get(f"{labels.KEY}.pid", ""), found.get(f"{labels.KEY}.start", "")
    return bool(_PID.fullmatch(pid)) and bool(started) and labels.start_time(int(pid)) != started


def find_leftovers(client: docker.APIClient) -> list[Leftover]:
    """All containers that a gate made, with what can be known of their owners.

    Raises:
        SandboxError: The engine failed.
    """
    # By value: every container of the image has the image's own label of that key, whoever made it.
    with engine_errors("listing containers"):
        listed: list[dict[str, Any]] = client.containers(all=True, filters={"label": f"{labels.KEY}=container"})
    return [_leftover(entry["Id"], entry["State"], entry.get("Labels") or {}) for entry in listed]


def _leftover(container_id: str, state: str, found: Mapping[str, str]) -> Leftover:
    pid, host = found.get(f"{labels.KEY}.pid", "?"), found.get(f"{labels.KEY}.host", "?")
    return Leftover(
        id=container_id,
        running=state == "running",
        orphaned=is_orphaned(found),
        owner=f"pid {pid} on boot {host[:8]}",
    )


def remove(client: docker.APIClient, found: Leftover) -> bool:
    """Remove one container; whether it is gone."""
    with suppress(docker.errors.NotFound):
        try:
            client.remove_container(found.id, force=True, v=True)
        except ENGINE_ERRORS as exc:
            if isinstance(exc, docker.errors.NotFound):
                raise
            return False
    return True


def reap(client: docker.APIClient) -> int:
    """Remove what dead owners of this host and namespace left; how many it was."""
    return sum(remove(client, found) for found in find_leftovers(client) if found.orphaned)
