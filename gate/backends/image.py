"""The sandbox image: find it by what went into it, or build it.

An image is ours by its label `gate.source`, a digest over every file that goes in. What
keys caches and resumes is `gate.content`, which adds the Python version and the machine.
Neither says when or from which base tag it was built.

A build leaves one tagged image and nothing else: no stage, no base of our own making.
A build takes seconds, and only a changed source brings a second one.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import secrets
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound
from docker.types import LogConfig
from docker.utils import parse_repository_tag

from gate.backends.docker_client import ENGINE_ERRORS, engine_errors
from gate.backends.labels import owner_labels
from gate.errors import SandboxError
from gate.resources import PACKAGE, sandbox_dir

PUBLIC_BASE = "python:3.12-slim"
TAG = "gate-sandbox"
LOCAL_BASE = "gate-base"
INSIDE = ("main.py", "runner.py", "cell_main.py", "cell.py", "zygote.py", "callfilter.py")  # and values.py

PULL_SILENCE_S = 15.0
BUILD_SILENCE_S = 600
CHECK_S = 60
ASSEMBLE_S = 300

# What candidates commonly import. sqlite3 is not here: a base may be built without it.
MODULES = (
    "asyncio,bisect,bz2,collections,csv,ctypes,dataclasses,datetime,decimal,doctest,fractions,functools,hashlib,heapq,"
    "itertools,json,lzma,math,multiprocessing,pdb,random,re,ssl,statistics,string,threading,typing,unittest,uuid,"
    "xml.etree.ElementTree,zlib,zoneinfo"
)
WHO = "import json,platform,sys;print(json.dumps([platform.python_version(),platform.machine(),sys.prefix]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image that containers are made from.

    Attributes:
        id: The image ID; containers are created by it, never by a tag.
        content: Digest of the sources, Python version and machine: the key of caches and resumes.
        python: The full Python version inside.
        base: The reference that it was built from, or "local".
        size_bytes: Its size as the engine counts it.
    """

    id: str
    content: str
    python: str
    base: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What stage one starts from: a reference for the engine, a name for people, a digest if one was seen."""

    reference: str
    name: str
    digest: str | None = None


def source_digest() -> str:
    """SHA-256 over the name and bytes of every file that goes into the image, in hex.

    Raises:
        SandboxError: One of them is missing.
    """
    return _digest(_sources())


def find_image(client: docker.APIClient) -> Image | None:
    """The newest image that was built from exactly these sources, if there is one.

    Raises:
        SandboxError: The engine failed.
    """
    with engine_errors("listing images"):
        listed: list[dict[str, Any]] = client.images(filters={"label": f"gate.source={source_digest()}"})
    for entry in sorted(listed, key=lambda entry: int(entry["Created"]), reverse=True):
        found = _image(entry["Id"], entry["Labels"], entry["Size"])
        if found is not None:
            return found
    return None


def build_image(client: docker.APIClient, *, base: str | None, say: Callable[[str], None]) -> Image:
    """Build the image and prove that its interpreter starts.

    Args:
        client: The engine.
        base: "public", "local" or an image reference; None chooses: the public base where
            it is here or can be pulled, else one made from this machine's Python.
        say: Takes one sentence about which base it is, and why.

    Raises:
        SandboxError: The engine failed, the base has no fit Python, the build failed, or
            what was built does not start.
    """
    files = _sources()
    with _base_image(client, base, say) as chosen:
        version, machine, _ = _ask_python(client, chosen.reference, "python3", f"asking base {chosen.name}")
        labels = _labels(_digest(files), version, machine, chosen)
        built = _build(client, files, chosen.reference, labels)
    try:
        _check(client, built, version)
        with engine_errors("reading the new image"):
            seen = _inspect(client, built)
    except BaseException:
        with suppress(*ENGINE_ERRORS):
            client.remove_image(built, force=True)  # else the next run would find it by its label
        raise
    image = _image(seen["Id"], seen["Config"]["Labels"], seen["Size"])
    if image is None:
        raise SandboxError("The engine dropped the labels of the sandbox image: use an engine that keeps them.")
    return image


def _image(image_id: str, labels: Mapping[str, str] | None, size_bytes: int) -> Image | None:
    """The value behind an image of ours; None where a label is missing."""
    labels = labels or {}
    if not {"gate.content", "gate.python", "gate.base"} <= labels.keys():
        return None
    return Image(
        id=image_id,
        content=labels["gate.content"],
        python=labels["gate.python"],
        base=labels["gate.base"],
        size_bytes=int(size_bytes),
    )


def _inspect(client: Any, reference: str) -> dict[str, Any]:
    """What the engine says of an image; here alone because the SDK's types leave it open."""
    seen: dict[str, Any] = client.inspect_image(reference)
    return seen


def _sources() -> dict[str, bytes]:
    """Every file that goes into the image, by its name in the build context."""
    folder = sandbox_dir()
    paths = [folder / name for name in ("Dockerfile", "assemble.py", *INSIDE)]
    try:
        return {path.name: path.read_bytes() for path in [*paths, PACKAGE / "values.py"]}
    except OSError as exc:
        raise SandboxError(f"A source of the sandbox image cannot be read ({exc}): install gate again.") from exc


def _digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 over names and contents, each with its length so that no byte can change sides."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(b"%d:%s%d:" % (len(name), name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()


def _labels(source: str, version: str, machine: str, base: _Base) -> dict[str, str]:
    labels = {
        "gate": "image",
        "gate.source": source,
        "gate.content": f"{source[:16]}-py{version}-{machine}",
        "gate.python": version,
        "gate.base": base.name,
    }
    return labels | ({"gate.base-digest": base.digest} if base.digest else {})


@contextmanager
def _base_image(client: docker.APIClient, base: str | None, say: Callable[[str], None]) -> Iterator[_Base]:
    """The base for stage one; one of our own making lives only as long as the block."""
    if base == "local":
        reference = _import_local(client)
        say(f"Base: this machine's Python {platform.python_version()}, as asked.")
    else:
        name = PUBLIC_BASE if base in (None, "public") else str(base)
        chosen, refused = _present_or_pulled(client, name, say)
        if chosen is not None:
            yield chosen
            return
        if base is not None:
            raise SandboxError(f"Base image {name} is not here and cannot be pulled ({refused}): try `--base local`.")
        reference = _import_local(client)
        say(f"Base: this machine's Python {platform.python_version()}, as {name} cannot be pulled ({refused}).")
    try:
        yield _Base(reference=reference, name="local")
    finally:
        with suppress(*ENGINE_ERRORS):
            client.remove_image(reference, force=True)


def _present_or_pulled(client: docker.APIClient, name: str, say: Callable[[str], None]) -> tuple[_Base | None, str]:
    """The base that a reference names, pulled if need be; else None and why not."""
    chosen = _present(client, name)
    if chosen is not None:
        say(f"Base: {name}, which is already here.")
        return chosen, ""
    refused = _pull(client, name)
    chosen = None if refused else _present(client, name)
    if chosen is not None:
        say(f"Base: {name}, pulled now.")
    return chosen, refused


def _present(client: docker.APIClient, name: str) -> _Base | None:
    with engine_errors(f"looking for base {name}"):
        try:
            seen = _inspect(client, name)
        except ImageNotFound:
            return None
    return _Base(reference=name, name=name, digest=next(iter(seen.get("RepoDigests") or ()), None))


def _pull(client: docker.APIClient, name: str) -> str:
    """Pull an image as long as bytes arrive; the reason why not, or "" for done.

    Not by the SDK's own `pull`, which waits without end for a registry that is silent.
    """
    repository, tag = parse_repository_tag(name)
    url = f"{client.base_url}/v{client.api_version}/images/create"
    wanted = {"fromImage": repository, "tag": tag or "latest"}
    try:
        with client.post(url, params=wanted, stream=True, timeout=PULL_SILENCE_S) as answer:
            if not answer.ok:
                return str(answer.json().get("message", answer.reason))
            return _follow_pull(json.loads(line) for line in answer.iter_lines())
    except (*ENGINE_ERRORS, ValueError) as exc:
        return f"{type(exc).__name__} after {PULL_SILENCE_S:g} s at most without an answer"


def _follow_pull(events: Iterator[dict[str, Any]]) -> str:
    """Read a pull to its end; a pull that only retries does not count as alive."""
    alive_until = time.monotonic() + PULL_SILENCE_S
    for event in events:
        if "error" in event:
            return str(event["error"])
        if event.get("status") in ("Downloading", "Extracting", "Download complete", "Pull complete"):
            alive_until = time.monotonic() + PULL_SILENCE_S
        elif time.monotonic() > alive_until:
            return f"no bytes for {PULL_SILENCE_S:g} s"
    return ""


def _import_local(client: docker.APIClient) -> str:
    """Make a base from the Python that runs this, without a registry; returns its tag."""
    tag = secrets.token_hex(8)
    command = ["sh", str(sandbox_dir() / "local.sh"), sys.executable, "-"]
    try:
        made = subprocess.run(command, capture_output=True, timeout=ASSEMBLE_S, check=True)
    except subprocess.CalledProcessError as exc:
        said = exc.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise SandboxError(f"No base can be made from {sys.executable}: {said}") from exc
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise SandboxError(f"No base can be made from {sys.executable}: {exc}") from exc
    changes = ["ENV PATH=/usr/local/bin", "LABEL gate=base"]
    with engine_errors("importing the local base"):
        client.import_image_from_data(made.stdout, repository=LOCAL_BASE, tag=tag, changes=changes)
    return f"{LOCAL_BASE}:{tag}"


def _build(client: docker.APIClient, files: Mapping[str, bytes], base: str, labels: dict[str, str]) -> str:
    """Run the build; returns the image ID, and removes what lies between base and image."""
    steps: list[str] = []
    try:
        with engine_errors("building the sandbox image"):
            events = client.build(
                fileobj=_context(files),
                custom_context=True,
                tag=f"{TAG}:{labels['gate.content']}",
                buildargs={"BASE": base},
                labels=labels,
                network_mode="none",
                use_config_proxy=False,
                nocache=True,  # two builds at once then share no step that one of them removes
                rm=True,
                forcerm=True,
                timeout=BUILD_SILENCE_S,
                decode=True,
            )
            return _follow_build(events, steps)
    finally:
        _remove_steps(client, steps)


def _context(files: Mapping[str, bytes]) -> io.BytesIO:
    """The build context as a tar that is the same for the same files."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    tar.seek(0)
    return tar


def _follow_build(events: Iterator[dict[str, Any]], steps: list[str]) -> str:
    """Read a build to its end; notes the image of each step, returns that of the last stage."""
    result = ""
    for event in events:
        if "error" in event:
            raise SandboxError(f"The sandbox image does not build: {' '.join(str(event['error']).split())}")
        result = event.get("aux", {}).get("ID", result)
        mark, _, step = str(event.get("stream", "")).strip().rpartition(" ")
        if mark == "--->":
            steps.append(step)
    if not result:
        raise SandboxError("The engine ended the build of the sandbox image without naming an image.")
    return result


def _remove_steps(client: docker.APIClient, steps: list[str]) -> None:
    """Remove the untagged images that a build went through; parents of the result refuse, and stay."""
    for step in reversed(steps):
        with suppress(*ENGINE_ERRORS):
            seen = _inspect(client, step)
            if not seen.get("RepoTags") and not seen.get("RepoDigests"):
                client.remove_image(step, noprune=True)


def _check(client: docker.APIClient, image: str, version: str) -> None:
    """Start the image's interpreter under the sandbox's own conditions and import what candidates do."""
    imports = f"import {MODULES}\n"
    seen, _, prefix = _ask_python(client, image, "/usr/local/bin/python3", "checking the new image", imports)
    if (seen, prefix) != (version, "/usr/local"):
        raise SandboxError(
            f"The sandbox image runs Python {seen} in {prefix}, not {version} in /usr/local: build it again."
        )


def _ask_python(
    client: docker.APIClient, image: str, python: str, doing: str, imports: str = ""
) -> tuple[str, str, str]:
    """Version, machine and prefix of a Python inside an image, by running it there."""
    status, output = _run_once(client, image, [python, "-P", "-s", "-c", imports + WHO], doing)
    last = output.strip().rpartition("\n")[2]
    with suppress(ValueError):
        if status == 0:
            version, machine, prefix = json.loads(last)
            return str(version), str(machine), str(prefix)
    raise SandboxError(f"No Python of 3.11 or newer runs while {doing}: status {status}, {last or 'no output'}")


def _profile() -> str:
    path = sandbox_dir() / "seccomp.json"
    try:
        return path.read_text("utf-8")
    except OSError as exc:
        raise SandboxError(f"The seccomp profile cannot be read ({exc}): install gate again.") from exc


def _run_once(client: docker.APIClient, image: str, command: list[str], doing: str) -> tuple[int, str]:
    """Exit status and output of one command in a hardened container, which is removed again."""
    host = client.create_host_config(
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", "seccomp=" + _profile()],
        mem_limit=512 << 20,
        pids_limit=64,
        log_config=LogConfig(type=LogConfig.types.JSON),  # the engine's default may keep nothing to read
    )
    with engine_errors(doing):
        container = client.create_container(
            image,
            entrypoint=command,
            user="65534:65534",
            network_disabled=True,
            use_config_proxy=False,  # a proxy's address can hold a password
            labels=owner_labels(),
            host_config=host,
        )["Id"]
        try:
            client.start(container)
            status = client.wait(container, timeout=CHECK_S)["StatusCode"]
            return int(status), client.logs(container).decode("utf-8", "replace")
        finally:
            with suppress(APIError):
                client.remove_container(container, v=True, force=True)
