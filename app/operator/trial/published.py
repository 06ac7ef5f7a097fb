"""The records that one side of a trial would publish, the rows that it refuses, and how records differ.

Invariant: topic, partition, key, value and headers are read back from the batches that a worker would send;
nothing is computed a second time. For a record in another format, the value is the envelope from which it would
be made. Numbers that depend on the other records are not compared: `seq`, `epoch`, the number of the table
version, `total_order`, and the time of encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from app.worker.pipeline.formats.registry import keeps_tombstones
from app.worker.pipeline.gather.parked_event import is_of_rows
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.rules import PublishingRules
from connectors.kafka.record_batches import FinishedBatch, Headers, finished_records
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from tables.rules.mapping.rules import DEBEZIUM
from wire.changes import change_id
from wire.records import HEADER_CHANGE_ID, HEADER_META, HEADER_TAGS
from wire.topics import ddl_topic, dead_letters_topic, quarantine_topic

STATEMENTS: TableName = ("", "")
"""In place of a table, for the records of the DDL topic, each of which may concern several tables."""


class Identity(NamedTuple):
    """The identity by which a record is found on the other side."""

    change_id: str
    is_tombstone: bool
    tag: str = ""
    """The tag whose topic has the record again; empty for the record itself."""

    @property
    def row(self) -> str:
        """The ChangeId without its half, which is the ChangeId of the source's row."""
        return self.change_id.rpartition("/")[0] or self.change_id


class PublishedRecord(NamedTuple):
    """A record, with the table and the position that it comes from."""

    table: TableName
    start: Coordinates
    """The start of its event."""
    topic: str
    partition: int
    key: bytes | None
    value: dict[str, Any] | None
    """None for a tombstone."""
    tags: str
    format: str = DEBEZIUM
    """The format of its topic; ``value`` is the envelope from which the record would be made."""


class Refusal(NamedTuple):
    """A row that would not be published as a record of its table."""

    table: TableName
    start: Coordinates
    kind: str
    """Where the row goes instead, or that it stops the destination."""
    reason: str
    """Empty for a row of a quarantined table, for which the table has the reason."""


QUARANTINED, DEAD_LETTER, TOO_LARGE = "quarantined", "dead letter", "too large for its topic"


@dataclass(frozen=True, slots=True)
class Published:
    """The output of one side for one chunk."""

    records: dict[Identity, PublishedRecord] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    """By the ChangeId of the row."""

    def part(self, begin: Coordinates | None, end: Coordinates | None) -> Published:
        """Return the output of the events between two positions; None is no limit."""

        def is_within(start: Coordinates) -> bool:
            return (begin is None or start.order >= begin.order) and (
                end is None or start.order < end.order
            )

        return Published(
            {name: one for name, one in self.records.items() if is_within(one.start)},
            {row: one for row, one in self.refused.items() if is_within(one.start)},
        )

    def add(self, later: Published) -> None:
        """Add the output of later events."""
        self.records.update(later.records)
        self.refused.update(later.refused)


def published_of(pieces: Iterable[Piece], rules: PublishingRules) -> Published:
    """Return the output of pieces of one chunk, which were made by these rules."""
    reader = _Reader(rules)
    for piece in pieces:
        for batch in piece.batches:
            reader.take(batch)
    return reader.found


class _Reader:
    def __init__(self, rules: PublishingRules) -> None:
        self.found = Published()
        self._stops_at = rules.largest if rules.oversize == "stop" else 0
        self._rules = rules
        self._ddl = ddl_topic(rules.prefix, rules.destination)
        self._quarantine = quarantine_topic(rules.prefix, rules.destination)
        self._dead_letters = dead_letters_topic(rules.prefix, rules.destination)
        self._routes = rules.routes
        self._tags: dict[TableName, dict[str, str]] = {}
        """For each table the tags that have a topic of their own, by topic."""
        self._deleted: dict[str, tuple[TableName, Coordinates]] = {}
        """The origin of each delete, for its tombstone."""

    def take(self, batch: FinishedBatch) -> None:
        for key, value, headers in finished_records(batch):
            if batch.topic == self._quarantine:
                self._parked(key or b"", headers)
            elif batch.topic == self._dead_letters:
                self._dead_letter(key or b"", headers)
            else:
                self._record(batch, key, value, headers)

    def _record(
        self, batch: FinishedBatch, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        by_name = dict(headers)
        name = by_name[HEADER_CHANGE_ID].decode()
        content = None if value is None else orjson.loads(value)
        if content is None:
            table, start = self._deleted[name]
        else:
            source = content["source"]
            table = STATEMENTS if batch.topic == self._ddl else (source["db"], source["table"])
            start = Coordinates(source["file"], source["pos"])
            if content.get("op") == "d":
                self._deleted[name] = table, start
        route = None if table == STATEMENTS else self._routes.of(table)
        name_of_format = route.format if route is not None else DEBEZIUM
        if content is None and not keeps_tombstones(name_of_format, self._rules):
            return
        identity = Identity(name, content is None, self._tag(table, batch.topic))
        if self._stops_at and len(batch.raw) > self._stops_at:
            reason = f"{len(batch.raw)} bytes; its topic takes {self._stops_at}"
            self.found.refused[identity.row] = Refusal(table, start, TOO_LARGE, reason)
            return
        tags = by_name.get(HEADER_TAGS, b"").decode()
        self.found.records[identity] = PublishedRecord(
            table, start, batch.topic, batch.partition, key, content, tags, name_of_format
        )

    def _tag(self, table: TableName, topic: str) -> str:
        """Return the tag that a topic is for; empty for the topic of a table's records."""
        tags = self._tags.get(table)
        if tags is None:
            route = None if table == STATEMENTS else self._routes.of(table)
            names = route.tag_topics if route is not None else {}
            tags = self._tags[table] = {one: tag for tag, one in names.items()}
        return tags.get(topic, "")

    def _parked(self, key: bytes, headers: Headers) -> None:
        """Note the rows of a quarantined event; a quarantined statement changes no record."""
        if not is_of_rows(headers):
            return
        meta = orjson.loads(dict(headers)[HEADER_META])
        refusal = _refusal(key, meta, QUARANTINED, "")
        for ordinal in range(meta["ordinal"], meta["ordinal"] + meta["rows"]):
            self.found.refused[change_id(meta["id"], ordinal)] = refusal

    def _dead_letter(self, key: bytes, headers: Headers) -> None:
        meta = orjson.loads(dict(headers)[HEADER_META])
        refusal = _refusal(key, meta, DEAD_LETTER, meta["reason"])
        self.found.refused[dict(headers)[HEADER_CHANGE_ID].decode()] = refusal


def _refusal(key: bytes, meta: dict[str, Any], kind: str, reason: str) -> Refusal:
    name = orjson.loads(key)
    start = Coordinates(meta["file"], meta["pos"])
    return Refusal((name["database"], name["table"]), start, kind, reason)


class Respect(StrEnum):
    """What would be different for a subscriber."""

    VALUE = "value"
    """The same change with other contents."""
    TOPIC = "topic"
    KEY = "key"
    PARTITION = "partition"
    """Another partition of the same topic."""
    APPEARS = "appears"
    """Only the new mapping publishes it."""
    VANISHES = "vanishes"
    """Only the mapping in force publishes it."""
    REFUSED = "refused"
    """A row that the new mapping makes impossible to publish."""


MISSING: Final = object()
"""In place of a value: the record has no such field."""


class FieldDifference(NamedTuple):
    """A column or another field that differs."""

    name: str
    old: Any
    new: Any
    is_column: bool


_IMAGES = ("before", "after")
_OF_RUN = frozenset({"ts_ms", "transaction"})
_SOURCE_OF_RUN = frozenset({"seq", "epoch", "schema"})


def respects(
    old: PublishedRecord, new: PublishedRecord
) -> tuple[list[Respect], list[FieldDifference]]:
    """Return the respects in which two records of one change differ, and the fields that differ."""
    found = []
    fields = list(_fields(old, new))
    if fields:
        found.append(Respect.VALUE)
    if old.topic != new.topic:
        found.append(Respect.TOPIC)
    elif old.partition != new.partition:
        found.append(Respect.PARTITION)
    if old.key != new.key:
        found.append(Respect.KEY)
    return found, fields


def _fields(old: PublishedRecord, new: PublishedRecord) -> Iterator[FieldDifference]:
    if old.value is None or new.value is None:
        if old.tags != new.tags:
            yield FieldDifference("tags", old.tags or MISSING, new.tags or MISSING, False)
        return
    if old.format != new.format:
        yield FieldDifference("format", old.format, new.format, False)
    yield from _columns(old.value, new.value)
    yield from _others(old.value, new.value, _OF_RUN | {*_IMAGES, "source", "tables"})
    yield from _others(_tables(old.value), _tables(new.value), frozenset())
    source = _others(old.value["source"], new.value["source"], _SOURCE_OF_RUN)
    yield from (one._replace(name=f"source.{one.name}") for one in source)


def _tables(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables of a statement's record without the numbers of their versions."""
    if "tables" not in value:
        return {}
    return {"tables": [{**one, "version": None} for one in value["tables"]]}


def _columns(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldDifference]:
    """Yield each differing column once: with its values after the change, unless only those before differ."""
    found: dict[str, FieldDifference] = {}
    for image in _IMAGES:
        first, second = old.get(image) or {}, new.get(image) or {}
        for one in _others(first, second, frozenset()):
            found[one.name] = one._replace(is_column=True)
    yield from found.values()


def _others(
    old: Mapping[str, Any], new: Mapping[str, Any], ignored: frozenset[str]
) -> Iterator[FieldDifference]:
    # Most fields are equal, and all of them are compared for each record.
    for name, first in old.items():
        second = new.get(name, MISSING)
        if first != second and name not in ignored:
            yield FieldDifference(name, first, second, False)
    for name, second in new.items():
        if name not in old and name not in ignored:
            yield FieldDifference(name, MISSING, second, False)
