"""The lock of a bank: which suites a customer has bound, as a text for their own repository.

It holds digests alone, one line for each suite, so that what changes is a line of a diff.
The same bank gives the same text byte for byte, and a lock whose lines were changed by
hand no longer has the bank's digest that it states.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gate.document import MAX_BYTES, parse_document
from gate.errors import SpecError
from gate.model import Json, SuiteSpec, Task
from gate.places import shown

SCHEMA = "gate.lock/1"

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_MAX_NAMED = 20
_AGAIN = "make it again: gate check BANK --lock"
_HEAD = {"schema": str, "gate": str, "bank": dict, "suites": dict}
_BANK = {"name": str, "digest": str}
_SUITE = {"digest": str, "visible": int, "hidden": int}


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One suite as it was bound: its digest, and how many tests decide (V) and measure (GT)."""

    digest: str
    visible: int
    hidden: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A bank as it was bound.

    Attributes:
        gate: The version of gate that made it.
        bank: The bank's name then; a renamed file holds the same suites.
        suites: By task, in the bank's order.
    """

    gate: str
    bank: str
    suites: Mapping[str, Locked]

    @property
    def digest(self) -> str:
        """The digest of the whole bank, as a run states it."""
        return bank_digest((task_id, each.digest) for task_id, each in self.suites.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What tells a bank from the one that was bound, as task ids.

    Attributes:
        changed: Tasks that have another suite now.
        missing: Tasks that were bound and are not there.
        new: Tasks that are there and were not bound.
        reordered: Whether the same suites stand in another order, so that another one would be the first.
    """

    changed: tuple[str, ...]
    missing: tuple[str, ...]
    new: tuple[str, ...]
    reordered: bool = False

    @property
    def none(self) -> bool:
        """Whether it is the bound bank."""
        return not (self.changed or self.missing or self.new or self.reordered)

    def words(self) -> str:
        """`2 suites are changed: a, b; 1 is missing: c`."""
        kinds = (("changed", self.changed), ("missing", self.missing), ("new", self.new))
        parts = [_named(kind, ids) for kind, ids in kinds if ids]
        return "; ".join(parts) or "the suites are the same, in another order"


def _named(kind: str, ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
    verb = "suite is" if len(ids) == 1 else "suites are"
    return f"{len(ids)} {verb} {kind}: {', '.join(ids[:_MAX_NAMED])}{more}"


def bank_digest(suites: Iterable[tuple[str, str]]) -> str:
    """SHA-256 over the task ids and the suites' digests, in order."""
    total = hashlib.sha256()
    for task_id, digest in suites:
        total.update(f"{task_id} {digest}\n".encode())
    return total.hexdigest()


def locked(suite: SuiteSpec) -> Locked:
    """What a lock holds of one suite."""
    return Locked(digest=suite.digest, visible=len(suite.tests), hidden=len(suite.hidden))


def lock_text(lock: Lock) -> str:
    """A lock as a file: JSON, one suite a line.

    Raises:
        SpecError: It would be larger than what is read again.
    """
    head = {"schema": SCHEMA, "gate": lock.gate, "bank": {"name": lock.bank, "digest": lock.digest}}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    suites = ",\n".join(f"{json.dumps(task_id)}: {json.dumps(_suite(each))}" for task_id, each in lock.suites.items())
    text = "\n".join(["{", *lines, '"suites": {', suites, "}}", ""])
    if len(text) > MAX_BYTES:
        raise SpecError(f"{lock.bank}: its lock would be larger than {MAX_BYTES >> 20} MiB: split the bank")
    return text


def _suite(each: Locked) -> dict[str, Json]:
    return {"digest": each.digest, "visible": each.visible, "hidden": each.hidden}


def read_lock(data: bytes, name: str) -> Lock:
    """The lock that a file holds.

    Args:
        name: What error messages call the file.

    Raises:
        SpecError: It holds none, or one that was changed by hand.
    """
    tree = _whole(parse_document(data, name), _HEAD, name, "the lock")
    if tree["schema"] != SCHEMA:
        raise SpecError(f"{name}: schema: {shown(tree['schema'])} is not {SCHEMA!r}, the only one there is: {_AGAIN}")
    bank = _whole(tree["bank"], _BANK, name, "bank")
    lock = Lock(
        gate=tree["gate"],
        bank=bank["name"],
        suites={task_id: _locked(each, name, task_id) for task_id, each in tree["suites"].items()},
    )
    if lock.digest != bank["digest"]:
        raise SpecError(f"{name}: bank.digest: is not that of the suites below it, so a line was changed: {_AGAIN}")
    return lock


def _locked(found: Json, name: str, task_id: str) -> Locked:
    place = f"suites[{shown(task_id)}]"
    if not task_id.isprintable():
        raise SpecError(f"{name}: {place}: is no task id: {_AGAIN}")
    fields = _whole(found, _SUITE, name, place)
    if not _DIGEST.match(fields["digest"]):
        raise SpecError(f"{name}: {place}.digest: {shown(fields['digest'])} is no SHA-256 in hex: {_AGAIN}")
    return Locked(**fields)


def _whole(found: Json, form: Mapping[str, type], name: str, place: str) -> dict[str, Json]:
    """An object with just these keys, each of its type.

    Raises:
        SpecError: It is none.
    """
    if not isinstance(found, dict) or found.keys() != form.keys():
        raise SpecError(f"{name}: {place}: should be an object with {', '.join(form)}, as gate.lock/1 has it: {_AGAIN}")
    for key, kind in form.items():
        if type(found[key]) is not kind:
            raise SpecError(f"{name}: {place}: {key} is {shown(found[key])}, of the wrong type: {_AGAIN}")
    return found


def lock_json_schema() -> dict[str, Json]:
    """The JSON Schema of a lock, made from the tables that read it."""
    suites = {"type": "object", "additionalProperties": _object(_SUITE)}
    head = _object(_HEAD, schema={"const": SCHEMA}, bank=_object(_BANK), suites=suites)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Lock", **head}


def _object(form: Mapping[str, type], **parts: Json) -> dict[str, Json]:
    names = {str: "string", int: "integer"}
    fields = {key: parts[key] if key in parts else {"type": names[kind]} for key, kind in form.items()}
    if "digest" in fields:
        fields["digest"]["pattern"] = f"^{_DIGEST.pattern[:-2]}$"
    return {"type": "object", "properties": fields, "required": list(form), "additionalProperties": False}


def differences(lock: Lock, tasks: Iterable[Task]) -> Differences:
    """What tells the tasks of a bank from those that were bound."""
    changed, new, there = [], [], []
    for task in tasks:
        there.append(task.id)
        bound = lock.suites.get(task.id)
        if bound is None:
            new.append(task.id)
        elif bound != locked(task.suite):
            changed.append(task.id)
    known = set(there)
    missing = tuple(task_id for task_id in lock.suites if task_id not in known)
    reordered = not (changed or missing or new) and there != list(lock.suites)
    return Differences(changed=tuple(changed), missing=missing, new=tuple(new), reordered=reordered)
