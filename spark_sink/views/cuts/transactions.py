"""The source's transactions among the recent changes.

A transaction is a run of records with its id, in the order of `seq`, that no record of another transaction
interrupts. The rows of a quarantined table are published again later, under their old ids: they are runs of
their own.

Invariant: a run with `is_seen` is known to be held as a whole, except for further Kafka transactions of a
transaction that is published in parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.source.envelope import EXISTED
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import literal
from spark_sink.warehouse.coverage import Marker
from spark_sink.warehouse.milestones import Existing, Position, joined
from spark_sink.warehouse.protocol import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The records of one transaction."""

    destination: str
    first: Position
    last: Position
    starts: bool
    """Whether `first` is the first change that the transaction has published."""
    is_seen: bool
    """Whether any of its records is before the offsets that count as whole."""
    tables: tuple[Name, ...] = ()
    existed: bool = False
    """Whether it is not a transaction, but existing rows that one SELECT has read, or looked for."""

    @property
    def before(self) -> Position:
        """The position before its first change."""
        return Position(self.first.epoch, self.first.seq - 1, self.first.ts_ms)


def runs(records: DataFrame, whole: Offsets) -> list[Run]:
    """The runs among records (columns of `envelope.FIELDS`), by destination and in order."""
    seen = " OR ".join(
        f"(topic = {literal(topic)} AND partition = {number} AND offset < {end})"
        for (topic, number), end in sorted(whole.items())
    )
    window = "OVER (PARTITION BY destination ORDER BY epoch, seq)"
    # The end of a replacement has no number of its own.
    usable = records.where(
        "destination IS NOT NULL AND epoch IS NOT NULL AND seq IS NOT NULL AND NOT (op <=> 'e')"
    )
    numbered = usable.selectExpr(
        "destination",
        "epoch",
        "seq",
        "ts_ms",
        # A record that names no transaction is a run of its own.
        "coalesce(transaction, CAST(struct(epoch, seq) AS STRING)) AS id",
        "coalesce(transaction, '') AS transaction",
        "coalesce(ordinal = 1, transaction IS NULL) AS starts",
        f"{seen or 'false'} AS is_seen",
        f"{EXISTED} AS existed",
        "struct(database, `table`) AS name",
    )
    begun = numbered.selectExpr("*", f"NOT (id <=> lag(id) {window}) AS begins")
    grouped = begun.selectExpr("*", f"count_if(begins) {window} AS run").groupBy(
        "destination", "run"
    )
    place = "struct(epoch, seq, ts_ms, transaction, starts)"
    rows = grouped.agg(
        *(
            f.expr(text)
            for text in (
                f"min({place}) AS first",
                f"max({place}) AS last",
                "bool_or(is_seen) AS is_seen",
                "bool_or(existed) AS existed",
                "collect_set(name) AS names",
            )
        )
    ).collect()
    found = [
        Run(
            destination=row.destination,
            first=Position(*row.first[:4]),
            last=Position(*row.last[:4]),
            starts=row.first.starts,
            is_seen=row.is_seen,
            tables=tuple(sorted((name.database, name["table"]) for name in row.names)),
            existed=row.existed,
        )
        for row in rows
    ]
    return timed(sorted(found, key=lambda run: (run.destination, run.first)))


def timed(found: Iterable[Run]) -> list[Run]:
    """The runs, each with the newest commit time of its destination's given runs up to it.

    Commits may not be in the order of their times. Existing rows have the time of the SELECT by the worker's
    clock, which is often earlier than the times of transactions that precede them.
    """
    result: list[Run] = []
    newest: dict[str, int] = {}
    for run in found:
        known = newest.get(run.destination)
        own = (
            run.last.ts_ms
            if known is None
            else known
            if run.existed
            else max(known, run.last.ts_ms)
        )
        if not run.existed:
            newest[run.destination] = own
        first, last = replace(run.first, ts_ms=own), replace(run.last, ts_ms=own)
        result.append(replace(run, first=first, last=last))
    return result


def existing(found: Iterable[Run]) -> Existing:
    """The position of the last existing row of each table."""
    return joined(
        {name: {run.destination: (run.last.epoch, run.last.seq)}}
        for run in found
        if run.existed
        for name in run.tables
    )


def unfinished(markers: Iterable[Marker], whole: Offsets) -> frozenset[str]:
    """The ids of transactions in parts whose last part is not known to be held as a whole."""
    finished: dict[str, bool] = {}
    for one in markers:
        body: dict[str, Any] = json.loads(one.text)
        if body.get("status") != "END":
            continue
        is_whole = one.topic is None or (
            (one.offset or 0) < whole.get((one.topic, one.partition or 0), 0)
        )
        is_last = bool(body.get("last", True)) and is_whole
        finished[body["id"]] = finished.get(body["id"], False) or is_last
    return frozenset(name for name, is_last in finished.items() if not is_last)
