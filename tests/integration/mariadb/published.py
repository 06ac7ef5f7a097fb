"""A destination's records as a consumer reads them, and the rows that they add up to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from devstack import topics


@dataclass(frozen=True, slots=True)
class Published:
    """A record with a value."""

    topic: str
    value: dict[str, Any]
    change_id: str | None

    @property
    def destination(self) -> str:
        """The destination of a row or DDL record."""
        return str(self.value["source"]["name"])

    @property
    def seq(self) -> int:
        """Its number within its destination, of a row or of DDL."""
        return int(self.value["source"]["seq"])


async def changes(kafka: str, prefix: str) -> list[Published]:
    """All rows and DDL, by destination and number."""
    found = await _read(kafka, re.escape(prefix) + r"\.(__ddl\.|[^_])")
    return sorted(found, key=lambda change: (change.destination, change.seq))


async def marker_records(kafka: str, prefix: str, destination: str) -> list[dict[str, Any]]:
    """The beginnings and ends of a destination's transactions."""
    topic = re.escape(f"{prefix}.__transactions.{destination}") + "$"
    return [marker.value for marker in await _read(kafka, topic)]


async def _read(kafka: str, pattern: str) -> list[Published]:
    """All records of these topics that have a value, committed ones only."""
    found = []
    wanted = [topic for topic in await topics.names(kafka) if re.match(pattern, topic)]
    async for messages in topics.batches(kafka, wanted):
        for message in messages:
            if message.value is not None:
                change_id = dict(message.headers).get("change_id")
                name = change_id.decode() if change_id else None
                found.append(Published(message.topic, orjson.loads(message.value), name))
    return found


def rows_of(changes: list[Published], table: str, key: str = "id") -> dict[Any, dict[str, Any]]:
    """The rows that a table has after these changes, by key."""
    rows: dict[Any, dict[str, Any]] = {}
    for change in changes:
        value = change.value
        if value.get("op") is None or value["source"]["table"] != table:
            continue
        if value["op"] == "t":
            rows.clear()
        if value["before"] is not None:
            # A column that was added since is in the images after it, and nowhere else.
            assert rows.pop(value["before"][key]).items() <= value["before"].items()
        if value["after"] is not None:
            assert value["after"][key] not in rows
            rows[value["after"][key]] = value["after"]
    return rows
