"""Statements of the DDL topics, read and parsed.

Invariant: what is read includes each statement that precedes a row visible when reading began. A Kafka
transaction becomes visible partition by partition, but by then all its records are written; so the sink waits
until all written records are committed or aborted. Only what the worker resolved is followed. A table that a
schema change tool moves out of the way keeps its rows: the tool gives its copy the table's name.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession

from spark_sink.errors import MalformedRecord, UnsupportedWire
from spark_sink.settings.model import Settings
from spark_sink.source.admin import admin
from spark_sink.source.kafka import KafkaTopics, pattern
from spark_sink.source.positions import Offsets
from spark_sink.warehouse.moves import Name, Place
from wire.records import (
    COLUMN_GENERATED,
    ROWS_CHANGED,
    TABLE_COMES_IN,
    TABLE_QUARANTINED,
    TRUNCATE_OMITTED,
    WIRE_VERSION,
)
from wire.topics import ddl_pattern

_log = logging.getLogger(__name__)
_COMMENT: Final = re.compile(r"/\*(?!!).*?\*/|(?:--[ \t]|#)[^\n]*", re.DOTALL)
_OF_TABLES: Final = re.compile(
    r"\s*(?:DROP\s+(?:TABLES?|DATABASE|SCHEMA)|RENAME\s+TABLES?)\b", re.IGNORECASE
)
_PARTITION: Final = re.compile(
    r"\b(?:(TRUNCATE|DROP|EXCHANGE|CONVERT)\s+PARTITION\b|(IMPORT|DISCARD)\s+(?:PARTITION\b.*)?TABLESPACE\b)",
    re.IGNORECASE | re.DOTALL,
)
_ALTERED: Final = re.compile(
    r"\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?"
    r"(?P<first>`(?:[^`]|``)+`|[^\s`.(]+)(?:\s*\.\s*(?P<second>`(?:[^`]|``)+`|[^\s`.(]+))?",
    re.IGNORECASE,
)
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement: the tables that it renames, drops and creates."""

    destination: str
    epoch: int
    seq: int
    ts_ms: int
    renamed: Mapping[Name, Name] = field(default_factory=dict)
    """From the name before the statement to the name after it; a name in between is omitted."""
    dropped: tuple[Name, ...] = ()
    created: tuple[Name, ...] = ()
    come_in: tuple[Name, ...] = ()
    """Names of tables that were not captured under their earlier names."""
    emptied: tuple[tuple[Name, str], ...] = ()
    """Tables that lost rows which no record names, each with the cause."""
    omitted: tuple[Name, ...] = ()
    """Tables whose rows are gone, of which nothing is in their row topic, as the worker's settings omit it."""
    mapped: Mapping[Name, Name] = field(default_factory=dict)
    """The names in the warehouse of mapped tables, by their real names, if the worker states them. It publishes
    what the statement does to their rows."""
    unmapped: Collection[Name] = ()
    """Tables of which the worker states that no mapping applies to them now."""
    altered: tuple[tuple[Name, int], ...] = ()
    """Tables that the statement altered or renamed, by their names after it, each with its new version."""
    is_unknown: bool = False
    """Whether tables were dropped or renamed that the record does not name."""

    @property
    def place(self) -> Place:
        """The position of the statement among the rows of its destination."""
        return self.epoch, self.seq

    @property
    def names(self) -> set[Name]:
        """The tables that it renames or drops, by their names before and after it."""
        return {*self.renamed, *self.renamed.values(), *self.dropped}


def parse_statement(value: str, where: str) -> Statement:
    """Parse a value of a DDL topic; `where` is its position. Raise MalformedRecord, UnsupportedWire."""
    try:
        body = json.loads(value)
        source = body["source"]
        if source["wire"] != WIRE_VERSION:
            raise UnsupportedWire(
                f"{where}: wire {source['wire']}", advice="Use a sink of the worker's version"
            )
        return _statement(body, source)
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise MalformedRecord(
            f"{where}: {type(fault).__name__} {fault}",
            advice="To skip the topic, add it to exclude",
        ) from fault


def _statement(body: dict[str, Any], source: dict[str, Any]) -> Statement:
    tables: list[dict[str, Any]] = body.get("tables", [])
    effects: list[dict[str, Any]] = body.get("effects", [])
    kinds = [(one["kind"], _named(one)) for one in effects]
    aside = {name for kind, name in kinds if kind == TABLE_QUARANTINED}
    now = _names_after(tables, aside)
    text = _COMMENT.sub(" ", body["ddl"])
    return Statement(
        destination=str(source["name"]),
        epoch=int(source["epoch"]),
        seq=int(source["seq"]),
        ts_ms=int(source["ts_ms"]),
        renamed={old: new for old, new in now.items() if new is not None and new != old},
        dropped=tuple(old for old, new in now.items() if new is None),
        created=tuple(_named(one) for one in tables if one["change"] == "created"),
        altered=tuple(
            (_named(one), int(one["version"])) for one in tables if one.get("version") is not None
        ),
        come_in=tuple(name for kind, name in kinds if kind == TABLE_COMES_IN),
        omitted=tuple(name for kind, name in kinds if kind == TRUNCATE_OMITTED),
        mapped={_named(one): _named(one["logical"]) for one in effects if one.get("logical")},
        unmapped={_named(one) for one in effects if one.get("logical", one) is None},
        emptied=tuple(_changed_rows(effects) or _emptied(text, body.get("database"))),
        is_unknown="tables" not in body and _OF_TABLES.match(text) is not None,
    )


def _names_after(tables: Iterable[dict[str, Any]], aside: set[Name]) -> dict[Name, Name | None]:
    """The names, after a statement, of the tables that existed before it; None if dropped.

    The record lists the statement's steps in order: a swap goes through a third name. The step that leaves the
    third name is missing, as no table keeps that name; the step that arrives states the third name.
    """
    now: dict[Name, Name | None] = {}
    for one in tables:
        name = _named(one)
        if name in aside:
            continue
        if one["change"] == "dropped" or one["renamed_to"] is not None:
            first = next((old for old, new in now.items() if new == name), name)
            now[first] = None if one["change"] == "dropped" else _named(one["renamed_to"])
        elif one["renamed_from"] is not None:
            before = _named(one["renamed_from"])
            now |= {old: name for old, new in now.items() if new == before}
    return now


def _named(one: dict[str, Any]) -> Name:
    return str(one["database"]), str(one["table"])


def _changed_rows(effects: Iterable[dict[str, Any]]) -> list[tuple[Name, str]]:
    """The tables with changed rows that no record names, as the worker reports them, each with the cause."""
    found = []
    for one in effects:
        if one["kind"] == ROWS_CHANGED:
            found.append((_named(one), str(one["new"])))
        elif one["kind"] == COLUMN_GENERATED:
            found.append((_named(one), f"recomputation of {one['column']}"))
    return found


def _emptied(text: str, database: str | None) -> Iterable[tuple[Name, str]]:
    """What an ALTER TABLE does with partitions; its effect on rows is in no record."""
    altered = _ALTERED.match(text)
    found = _PARTITION.search(_TEXT.sub("''", text)) if altered else None
    if altered is None or found is None:
        return
    first, second = _plain(altered["first"]), _plain(altered["second"])
    verb = next(one for one in found.groups() if one).upper()
    what = "TABLESPACE" if verb in {"IMPORT", "DISCARD"} else "PARTITION"
    yield (first, second) if second else (database or "", first), f"{verb} {what}"


def _plain(name: str | None) -> str:
    if name is None or not name.startswith("`"):
        return name or ""
    return name[1:-1].replace("``", "`")


_PAUSE: Final = 0.1
_SECONDS: Final = 20.0
"""Seconds after which a transaction that is still open is logged: its worker may have been killed."""

Record = tuple[str, int, int, str]
"""Topic, partition, offset and value."""


class DdlTopics(Protocol):
    """The topics of DDL."""

    def settled(self) -> tuple[Offsets, Offsets]:
        """Return the (earliest, end) offsets once all records written before the call are decided."""

    def read(self, start: Offsets, end: Offsets) -> list[Record]:
        """Return the records between these offsets, in their order within each partition."""

    def written(self) -> dict[tuple[str, int], int]:
        """Return the ends of the row topics, uncommitted records included."""


class KafkaDdl:
    """See DdlTopics."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._pattern = ddl_pattern(settings.prefix, exclude=settings.exclude)
        self._rows = KafkaTopics(spark, settings)
        self._clock = clock
        self._sleep = sleep

    def settled(self) -> tuple[Offsets, Offsets]:
        with admin(self._spark, self._settings) as kafka:
            written = kafka.written(self._pattern)
            if not written:
                return {}, {}
            deadline, is_logged = self._clock() + _SECONDS, False
            while True:
                earliest, committed = kafka.ranges(self._pattern)
                hidden = sorted(at for at, end in written.items() if committed.get(at, end) < end)
                if not hidden:
                    return earliest, committed
                if self._clock() >= deadline and not is_logged:
                    is_logged = True
                    _log.warning(
                        "a transaction with DDL is neither committed nor aborted, so merging waits topic=%s",
                        hidden[0][0],
                    )
                self._sleep(_PAUSE)

    def read(self, start: Offsets, end: Offsets) -> list[Record]:
        if not any(until > start.get(at, 0) for at, until in end.items()):
            return []
        rows = self._rows.read({at: start.get(at, 0) for at in end}, end).where("value IS NOT NULL")
        found = rows.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        records = [(row.topic, row.partition, row.offset, row.value) for row in found.collect()]
        return sorted(records, key=lambda record: record[:3])

    def written(self) -> dict[tuple[str, int], int]:
        with admin(self._spark, self._settings) as kafka:
            return kafka.written(pattern(self._settings))
