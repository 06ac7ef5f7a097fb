"""The shape of records in a format other than the envelope, as functions of finished envelopes.

Invariant: pure functions. What the envelope does not have, such as a masked value, no other shape can have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.types.registry import Kind, ValueOf
from tables.rules.table_version import TableVersion

Envelope = dict[str, Any]
"""A parsed value of ``docs/wire.md``."""
Shaped = dict[str, Any]
"""The value of a record, as orjson writes it."""
ShapeRow = Callable[[Envelope], Shaped]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A format."""

    name: str
    """The name in rules of the mapping, and in the header ``format``."""
    rows: Callable[[TableVersion], ShapeRow]
    """Returns the function for the rows of a table version."""
    values: Callable[[Kind], Callable[[Any], Any] | None]
    """Returns, for a kind of column, the function that converts its values to the envelope's; it is not called
    for NULL. None: the values stay as they are."""
    truncation: Callable[[Envelope, TableName], Shaped]
    """Returns the value for a TRUNCATE of a table of this name."""
    committed_ms: Callable[[Shaped], int]
    """Returns the time of the commit that a value states."""
    op: Callable[[Shaped], str]
    """Returns the ``op`` of ``ReadRecord`` for a value."""
    table: Callable[[Shaped], TableName]
    """Returns the table that a value names."""
    image: Callable[[Shaped], dict[str, Any]]
    """Returns the row of a value that has one."""
    images: tuple[str, ...] = ("data", "old")
    """The members of a value that contain parts of the row."""


def converted(image: Mapping[str, Any], functions: Mapping[str, ValueOf]) -> dict[str, Any]:
    """Return an image with the values of these columns converted; NULL stays as it is."""
    return {
        name: functions[name](value) if value is not None and name in functions else value
        for name, value in image.items()
    }


def exact_json(value: bytes) -> dict[str, Any]:
    """Return JSON whose numbers stay as they are written: a decimal has more digits than a float."""
    found: dict[str, Any] = json.loads(
        value, parse_float=orjson.Fragment, parse_int=orjson.Fragment
    )
    return found


def truncate_statement(table: TableName) -> str:
    """Return a statement that truncates a table; the envelope does not have the source's statement."""
    return f"TRUNCATE TABLE `{table[1].replace('`', '``')}`"
