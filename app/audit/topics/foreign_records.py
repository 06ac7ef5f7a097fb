"""Records in another format than the envelope, as far as an audit sees them.

Invariant: their existence, order, numbers, epochs and format are judged like those of any record. Their values,
keys, partitions and tombstones are not, and the audit counts them by name.
"""

from __future__ import annotations

from typing import Any

import orjson

from app.audit.topics.shares import Shares
from app.audit.topics.topics import Versions
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.kafka.reading.record_source import format_of, source_of
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.rules import DEBEZIUM
from tables.rules.routes.routes import Route, Routes

FORMAT = "format"


def contents_of(record: StoredRecord) -> dict[str, Any]:
    """Return the value of a record; of another format, its ``source`` as in the envelope, and ``format``.

    Raises KeyError or ValueError if it follows neither.
    """
    name = format_of(record)
    if name is None:
        value: dict[str, Any] = orjson.loads(record.value)
        return value
    return {"source": source_of(record), FORMAT: name}


def is_foreign(record: StoredRecord) -> bool:
    """Whether a record or a tombstone is of another format."""
    return format_of(record) is not None


def format_fault(value: dict[str, Any], route: Route | None) -> str | None:
    """Return what is wrong with the format of a record's contents; None if nothing, or no mapping states it."""
    found = value.get(FORMAT, DEBEZIUM)
    if route is None or route.mapped is None or found == route.format:
        return None
    return f"its format is {found}, and that of the mapping in force for its seq is {route.format}"


def topics_of(name: TableName, routes: Routes, versions: Versions, shares: Shares) -> set[str]:
    """The topics of a table: that of its route, and those of all its versions, as no record names its own."""
    route, number = routes.of(name), 1
    found = set() if route is None else {route.topic}
    while version := versions.get((*name, number)):
        found.add(version.topic)
        number += 1
    return shares.with_homes(found)


def unjudged(name: str) -> str:
    """The name by which records of a format are counted as not judged."""
    return f"values, keys and partitions of records in the format {name}"
