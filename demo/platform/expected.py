"""The changes that subscribers must get: the sources' binlogs, under the mapping in force at each transaction.

It uses mysql-replication and ``demo.platform.documents``, none of the worker's code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymysqlreplication.event import GtidEvent, QueryEvent
from pymysqlreplication.row_event import DeleteRowsEvent, WriteRowsEvent

from demo.errors import DemoError
from demo.load import Server
from demo.platform.documents import Documents, Row, Rule
from demo.truth import events_of

_BEGINNING = re.compile(r"[^:]+\.\d+:\d+")
_EMPTIED = re.compile(r"(?:TRUNCATE TABLE|DROP TABLE) `?(\w+)`?\.`?(\w+)`?.*")
_GTIDS = re.compile(r"[0-9a-f-]{36}:1(?:-(\d+))?")
Image = Mapping[str, str | None]
"""Values as text, by column."""


class UnknownBoundary(DemoError):
    """The position of a mapping's boundary is not a GTID set of one server from its first transaction on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One record, as a subscriber must get it."""

    change_id: str
    op: str
    logical: str
    topic: str
    source: tuple[str, str, str]
    """Destination, real database, real table."""
    tags: tuple[str, ...]
    key: tuple[str, ...]
    """The real table, and the id, if it is of one row."""
    image: Image
    """The row after the change; of a delete the row before it; empty if the table was emptied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """A version of the mapping, with the transaction after which a destination publishes by it."""

    version: int
    after: int
    """The number in the GTID of the last transaction before it; 0: none."""
    documents: Documents

    @classmethod
    def of(cls, version: int, position: str, documents: Documents) -> Boundary:
        """Read a boundary's position; one without GTIDs is the binlog's beginning."""
        match = _GTIDS.fullmatch(position)
        if match is None and not _BEGINNING.fullmatch(position):
            raise UnknownBoundary(f"version {version} is in force from {position!r}")
        after = int(match[1] or 1) if match else 0
        return cls(version=version, after=after, documents=documents)


def changes_of(
    server: Server, destination: str, boundaries: Sequence[Boundary]
) -> Iterator[tuple[int, Change]]:
    """Yield a master's changes in their order, each with the version of the mapping that applies to it."""
    events = (event for _, event in events_of(server, more=[QueryEvent]))
    yield from _changes(events, destination, boundaries)


def _changes(
    events: Iterable[Any], destination: str, boundaries: Sequence[Boundary]
) -> Iterator[tuple[int, Change]]:
    gtid, ordinal, boundary = "", 0, boundaries[0]
    for event in events:
        if isinstance(event, GtidEvent):
            gtid, ordinal = event.gtid, 0
            number = int(gtid.rpartition(":")[2])
            boundary = max(
                (one for one in boundaries if one.after < number), key=lambda one: one.version
            )
            continue
        if isinstance(event, QueryEvent):
            if (found := _EMPTIED.fullmatch(event.query)) is not None:
                source = destination, found[1], found[2]
                rule = boundary.documents.rule(found[1], found[2])
                yield boundary.version, _emptied(rule, source, f"{gtid}#0")
            continue
        for row in event.rows:
            if event.schema in boundary.documents.databases:
                rule = boundary.documents.rule(event.schema, event.table)
                source = destination, event.schema, event.table
                for one in _records(event, row, rule, source, f"{gtid}#{ordinal}"):
                    yield boundary.version, one
            ordinal += 1


def _emptied(rule: Rule, source: tuple[str, str, str], change_id: str) -> Change:
    """The record of a shard whose rows are gone, by a TRUNCATE or a DROP."""
    return Change(
        change_id=change_id,
        op="t",
        logical=rule.logical,
        topic=rule.topic,
        source=source,
        tags=rule.all_tags,
        key=source,
        image={},
    )


def _records(
    event: Any, row: Mapping[str, Row], rule: Rule, source: tuple[str, str, str], change_id: str
) -> Iterator[Change]:
    """The records of one row change."""

    def change(
        op: str, image: Row, *, half: str = "", tags: tuple[str, ...] | None = None
    ) -> Change:
        return Change(
            change_id=change_id + half,
            op=op,
            logical=rule.logical,
            topic=rule.topic,
            source=source,
            tags=rule.all_tags if tags is None else tags,
            key=(*source, str(image["id"])),
            image=as_text(image),
        )

    if isinstance(event, WriteRowsEvent):
        before, after = None, row["values"]
    elif isinstance(event, DeleteRowsEvent):
        before, after = row["values"], None
    else:
        before, after = row["before_values"], row["after_values"]
    before = before if before is not None and rule.has(before) else None
    after = after if after is not None and rule.has(after) else None
    if before is not None and after is not None:
        if before["id"] != after["id"]:
            yield change("d", before, half="/0")
            yield change("c", after, half="/1")
        else:
            yield change("u", after, tags=rule.tags_of(before, after))
    elif after is not None:
        yield change("c", after)
    elif before is not None:
        yield change("d", before)


def as_text(row: Row) -> Image:
    """The values of a row as text, which is the same for a number of the binlog and one of JSON."""
    return {name: None if value is None else str(value) for name, value in row.items()}
