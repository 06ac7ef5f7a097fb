"""Names and numbers that Aqueduct needs where another program has none, or other ones."""

from __future__ import annotations

import re
import zlib
from collections.abc import Container

_LONGEST = 63
_LEAST_SERVER_ID = 100_000
_SERVER_IDS = 900_000


def destination_name(text: str, taken: Container[str] = ()) -> str:
    """Return the name of a destination for a name of another program, one that is not taken."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "source"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain[: _LONGEST - 4]}-{number}"
    return name


def server_id(text: str, taken: Container[int] = ()) -> int:
    """Return a replica's server id for a name: always the same one, unless it is taken."""
    number = _LEAST_SERVER_ID + zlib.crc32(text.encode()) % _SERVER_IDS
    while number in taken:
        number += 1
    return number


def password_file(name: str) -> str:
    """Return the file in which an operator puts a password, relative to the settings file."""
    return f"secrets/{name}.password"
