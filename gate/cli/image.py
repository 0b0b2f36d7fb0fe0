"""`gate image build`: the image that candidates run in."""

from __future__ import annotations

from dataclasses import asdict

from gate.backends.docker_client import connect
from gate.backends.image import build_image, find_image
from gate.cli import exits, printing


def build(*, base: str | None, quiet: bool, as_json: bool) -> int:
    """Build it where it is not current, or from a base that was asked for; say which."""
    client = connect()
    image = find_image(client) if base is None else None
    built = image is None
    if image is None:
        image = build_image(client, base=base, say=printing.say)
    if as_json:
        printing.print_json({"schema": "gate.image/1", "built": built, **asdict(image)})
    elif built or not quiet:
        word = "built" if built else "is current"
        print(f"image {word}: {image.content}, base {image.base}, {image.size_bytes / 1e6:.1f} MB")
    return exits.DONE
