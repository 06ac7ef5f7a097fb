"""What one micro-batch holds, learned in a single pass, before any table is touched.

Invariant: a record that breaks the contract is found here and named by topic, partition and offset. It
makes its table wait; a record that does not name its table stops the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from spark_sink.errors import (
    ForeignFormat,
    MalformedRecord,
    RowNotInRecord,
    TableError,
    UnsupportedWire,
)
from spark_sink.source.claims import Claim
from spark_sink.source.envelope import ENVELOPE, FIELDS, JSON_OPTIONS, NUMBER, place
from spark_sink.source.schemas import VersionKey
from spark_sink.warehouse.ledger import Floor, Source

_GROUP: Final = (
    "topic",
    "partition",
    "destination",
    "source_database",
    "source_table",
    "database",
    "table",
    "version",
)
_OPS: Final = ("c", "u", "d", "r", "t")
_SIZE: Final = "coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0)"


@dataclass(slots=True)
class TablePart:
    """What a batch has for one table; `size` is in bytes of its images."""

    name: tuple[str, str]
    versions: set[VersionKey] = field(default_factory=set)
    ops: Counter[str] = field(default_factory=Counter)
    truncates: list[Floor] = field(default_factory=list)
    size: int = 0
    places: set[tuple[str, int]] = field(default_factory=set)
    """The partitions (topic, number) that have records of the table."""
    claims: list[Claim] = field(default_factory=list)
    """Where the values are of records that are too large for the topic."""
    is_partial: bool = False
    """Whether images lack columns."""
    is_apart: bool = False
    """Whether some of the records are of mapped tables, of which each has its own rows."""
    fault: TableError | None = None
    """Why no record of the table is applied."""

    @property
    def has_rows(self) -> bool:
        """Whether anything but truncates is there."""
        return self.ops.total() > self.ops["t"]


@dataclass(slots=True)
class Contents:
    """What a batch holds."""

    tables: dict[tuple[str, str], TablePart] = field(default_factory=dict)
    records: Counter[tuple[str, int]] = field(default_factory=Counter)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    newest: dict[str, int] = field(default_factory=dict)
    """The newest commit time (ms) of each destination."""

    @property
    def claims(self) -> list[Claim]:
        """All that must be fetched from the claim store."""
        return [claim for part in self.tables.values() for claim in part.claims]


def envelopes(records: DataFrame, *more: str) -> DataFrame:
    """Kafka's records as the columns of `envelope.FIELDS`, without tombstones.

    `more` are further expressions, over the record's `text` too.
    """
    text = records.where("value IS NOT NULL").selectExpr(
        "topic", "partition", "offset", "headers", "CAST(value AS STRING) AS text"
    )
    parsed = text.withColumn("e", f.from_json("text", ENVELOPE, JSON_OPTIONS))
    return parsed.selectExpr(*more, *(f"{sql} AS `{name}`" for name, sql in FIELDS.items()))


def contents(batch: DataFrame) -> Contents:
    """Reads the whole batch once. Raises where a record's wire number or table is not known."""
    where = "struct(topic, partition, offset, {})"
    rows = (
        batch.groupBy(*_GROUP)
        .agg(
            *(f.expr(f"count_if(op = '{op}')").alias(f"op_{op}") for op in _OPS),
            f.expr("count(*)").alias("records"),
            f.expr(f"sum({_SIZE})").alias("size"),
            f.expr("min(ts_ms)").alias("oldest"),
            f.expr("max(ts_ms)").alias("newest"),
            f.expr(f"min({where.format('reason')}) FILTER (WHERE reason IS NOT NULL)").alias("bad"),
            f.expr(f"min({where.format('wire')}) FILTER (WHERE wire <> {NUMBER})").alias("alien"),
            f.expr(f"min({where.format('format')}) FILTER (WHERE format IS NOT NULL)").alias(
                "foreign"
            ),
            f.expr("count_if(partial)").alias("partial"),
            f.expr("count_if(routed)").alias("routed"),
            f.expr(f"min({where.format('left_out')}) FILTER (WHERE left_out IS NOT NULL)").alias(
                "left_out"
            ),
            f.expr("collect_list(claim) FILTER (WHERE claim IS NOT NULL)").alias("claims"),
            f.expr("max(struct(epoch, seq, ts_ms)) FILTER (WHERE op = 't')").alias("truncate"),
        )
        .collect()
    )
    _refuse(rows)
    return _gathered(rows)


def unusable() -> str:
    """The condition that a record cannot be applied to any table."""
    return "(reason IS NOT NULL OR left_out IS NOT NULL)"


def _refuse(rows: Iterable[Row]) -> None:
    for row in rows:
        if row.foreign is not None:
            at = row.foreign
            raise ForeignFormat(
                place(at.topic, at.partition, at.offset, f"format {at.format}"),
                advice="Add its topic to exclude, or remove format from the rule of its tables in the mapping",
            )
        if row.alien is not None:
            at = row.alien
            raise UnsupportedWire(
                place(at.topic, at.partition, at.offset, f"wire {at.wire}"),
                advice="Use a sink of the worker's version",
            )
        if row.bad is not None and (row.database is None or row["table"] is None):
            at = row.bad
            raise MalformedRecord(
                place(at.topic, at.partition, at.offset, at.reason),
                advice="To skip the record, add its topic to exclude",
            )


def _fault(row: Row) -> TableError | None:
    """Why records of a group cannot be applied."""
    if row.bad is not None:
        at = row.bad
        return MalformedRecord(place(at.topic, at.partition, at.offset, at.reason))
    if row.left_out is not None:
        at = row.left_out
        return RowNotInRecord(
            place(at.topic, at.partition, at.offset, f"bytes omitted: {at.left_out}"),
            advice="Set oversize to claim_check, write the row again at the source, then reload the table",
        )
    return None


def _source(row: Row) -> Source:
    """The source table of a group; the warehouse's table, unless a mapping applies.

    A table that was renamed since has its rows, and their truncates, under its present name.
    """
    if row.routed:
        return Source(row.destination, row.source_database, row.source_table)
    return Source(row.destination, row.database, row["table"])


def _gathered(rows: Iterable[Row]) -> Contents:
    result = Contents()
    for row in rows:
        name = (row.database, row["table"])
        part = result.tables.setdefault(name, TablePart(name))
        part.places.add((row.topic, row.partition))
        result.records[row.topic, row.partition] += row.records
        part.fault = part.fault or _fault(row)
        if part.fault is not None:
            continue
        part.size += row.size
        part.is_partial |= row.partial > 0
        part.is_apart |= row.routed > 0
        # Only a truncate may come without: of a table that never had a row published.
        if row.version is not None:
            part.versions.add(
                VersionKey(row.destination, row.source_database, row.source_table, row.version)
            )
        part.ops.update({op: row[f"op_{op}"] for op in _OPS if row[f"op_{op}"]})
        if row.truncate is not None:
            part.truncates.append(
                Floor(
                    database=name[0],
                    table=name[1],
                    source=_source(row),
                    epoch=row.truncate.epoch,
                    seq=row.truncate.seq,
                    ts_ms=row.truncate.ts_ms,
                )
            )
        part.claims += [Claim(one.location, one.size, one.sha256) for one in row.claims]
        result.oldest_ms = min(result.oldest_ms or row.oldest, row.oldest)
        result.newest_ms = max(result.newest_ms or row.newest, row.newest)
        before = result.newest.get(row.destination, 0)
        result.newest[row.destination] = max(before, row.newest)
    return result
