"""The folders of the warehouse's tables.

The sink makes tables there; the worker reports by the same rule which tables a statement will change.

Invariant: two tables never share a folder, and no name leaves the warehouse.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import unquote

CUT: Final = "%x"
"""Marks the folder of a very long name; no other folder contains it."""
_PLAIN_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-.")
_LONGEST: Final = 200


def folder(name: str) -> str:
    """The folder of a database or table: percent-encoded UTF-8, safe on any file system.

    Capitals are encoded too (some stores treat `A` as `a`), and so is a leading `.` or `_`, which
    would hide the folder from Spark or collide with the sink's own folders. A very long name is cut and ends in
    `%x` and 32 hexadecimal digits of its SHA-256, which no encoded name contains.
    """
    encoded = "".join(
        char if char in _PLAIN_CHARACTERS and (at or char not in "._") else _percent(char)
        for at, char in enumerate(name)
    )
    if len(encoded) <= _LONGEST:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return re.sub(r"%[0-9A-F]?$", "", encoded[:150]) + CUT + digest


def unfolder(encoded: str) -> str:
    """The name of a folder made by `folder`; a cut name stays as it is."""
    return encoded if CUT in encoded else unquote(encoded)


def warehouse_path(database: str, table: str) -> str:
    """The path of a table below the warehouse's folder."""
    return f"{folder(database)}/{folder(table)}"


def table_path(warehouse: str, database: str, table: str) -> str:
    """The path of a table: `<warehouse>/<database>/<table>`."""
    return f"{warehouse.rstrip('/')}/{warehouse_path(database, table)}"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
