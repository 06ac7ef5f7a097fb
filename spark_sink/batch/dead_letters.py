"""The unusable records of one batch, which become dead letters up to a limit per hour.

Invariant: a record is skipped only once it is a dead letter. Either all of a table's new dead letters in one
step are within the limit, or none is stored and the table waits. The hour is counted in the stored dead
letters, so a restart does not begin a new hour. A record is not unusable while what it lacks may yet come, and
its table waits: half of a move without its other half, an image that lacks columns while rows from before a
rename may yet come, or a claim whose value is not in the claim store. Nor are records in another format, or of
another version of the contract: all records of their topic may be so.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from spark_sink.batch.contents import Contents, advised, contents, error_of, unusable
from spark_sink.batch.partial_images import Change, halves, partners
from spark_sink.errors import (
    ClaimLost,
    DataLost,
    ForeignFormat,
    MalformedRecord,
    RowNotInRecord,
    TableError,
    UnsupportedPartialImage,
    UnsupportedWire,
    UnusableLimitReached,
)
from spark_sink.metrics import Metrics
from spark_sink.source.claims import LOST
from spark_sink.source.envelope import OF_NO_TABLE, OTHER_FORMAT, OTHER_WIRE, of_table
from spark_sink.source.positions import At, Offsets, any_of, is_within, spanned
from spark_sink.spark.error_mapping import place
from spark_sink.text.quoting import argument
from spark_sink.warehouse.moves import Place
from spark_sink.warehouse.protocol import HOUR_MS, LETTER_COLUMNS, DeadLetters, Name

_log = logging.getLogger(__name__)
MOST: Final = 10_000
"""The most records that are found at a time."""
_PLACE: Final = re.compile(r"topic (\S+), partition (\d+), offset (\d+)")

Reasons = Mapping[At, tuple[str, str]]
"""The class of the error and the reason of each record."""


def positions_of(fault: MalformedRecord | ClaimLost | UnsupportedPartialImage) -> list[At]:
    """Return the positions of the records that an error names."""
    if isinstance(fault, UnsupportedPartialImage):
        return list(fault.places)
    if fault.reasons:
        return list(fault.reasons)
    found = _PLACE.search(fault.where)
    return [(found[1], int(found[2]), int(found[3]))] if found else []


def at_of(row: Row) -> At:
    """Return the position of a row with the columns topic, partition and offset."""
    return row.topic, row.partition, row.offset


def outside(batch: DataFrame, places: Iterable[At]) -> DataFrame:
    """Return the batch without these records."""
    return batch.where(f"NOT {any_of(places)}")


_MAY_COME: Final = f"coalesce(reason LIKE '{LOST}%', false)"
_OF_OTHERS: Final = f"coalesce(reason LIKE '{OTHER_FORMAT}%' OR reason LIKE '{OTHER_WIRE}%', false)"
"""The condition that all records of a topic may be like this one, which is then no single unusable record."""
_REASONS: Final = (
    "array<struct<topic: STRING, partition: INT, offset: BIGINT, database: STRING, `table`: STRING, "
    "error: STRING, reason: STRING>>"
)
_LACKS: Final = "lacks columns whose values are not known"

_NO_LETTERS: Final = frozenset(one.__name__ for one in (ClaimLost, ForeignFormat, UnsupportedWire))
"""The errors of records that become no dead letters."""
Owner = tuple[str | None, str | None]
"""A table; None if a record does not name it."""


@dataclass(slots=True, kw_only=True)
class PutAside:
    """Makes unusable records of one batch dead letters."""

    letters: DeadLetters[DataFrame]
    metrics: Metrics
    limit: int
    """The largest number of new dead letters in an hour."""
    records: DataFrame
    """The batch as Kafka has it."""
    moved: tuple[Offsets, Offsets]
    """The (start, end) offsets of the batch."""
    clock: Callable[[], float]
    is_late: Callable[[str, Name, Place], bool] = lambda *_: False
    """Whether rows that precede a record may still come; receives destination, source table, (epoch, seq)."""
    found: dict[At, tuple[str, str]] = field(default_factory=dict)
    """Error and reason of each of the batch's dead letters."""
    new: int = 0
    """The number of the batch's dead letters that were not stored before."""
    _known: set[At] | None = None
    _waiting: dict[Name, TableError] = field(default_factory=dict)
    """The tables that keep their unusable records: more than the limit allows, or claims of lost values."""
    _halves: set[Change] = field(default_factory=set)
    """Halves of moves that are dead letters."""
    _gate: threading.Lock = field(default_factory=threading.Lock)
    """Held while dead letters are stored: tables are merged in parallel."""

    def sort_out(self, batch: DataFrame, found: Contents) -> tuple[DataFrame, Contents]:
        """Return the batch without the unusable records that `found` has, and its contents then.

        If a table has more of them than the limit allows, it keeps them, and its fault is UnusableLimitReached;
        or ClaimLost, ForeignFormat or UnsupportedWire, if it has such records. The same applies to the records
        that name no table; the fault is then that of their partitions.
        """
        if not found.nameless and not any(part.fault for part in found.tables.values()):
            return batch, found
        kept, nameless = batch, dict[tuple[str, int], TableError]()
        for owner, reasons in self._unusable(batch):
            name = _named(owner)
            whole = {at: why for at, why in reasons.items() if why[0] in _NO_LETTERS}
            if name is not None and whole:
                first = min(whole)
                reason = whole[first][1]
                self._waiting[name] = advised(name, error_of(reason)(place(*first, reason)))
                continue
            letters = {at: why for at, why in reasons.items() if at not in whole}
            try:
                self._admit(owner, letters)
            except UnusableLimitReached as fault:
                if name is None:
                    nameless |= {at[:2]: fault for at in letters}
                else:
                    self._waiting[name] = fault
                continue
            of = of_table(name) if name is not None else f"{OF_NO_TABLE} AND NOT {_OF_OTHERS}"
            kept = kept.where(f"NOT coalesce({of} AND {unusable()}, false)")
        again = contents(kept)
        again.records = found.records
        again.nameless |= nameless
        for name, part in found.tables.items():
            # The batch may have none of their records, if this is a second call.
            if name in self._waiting:
                part.fault = self._waiting[name]
                again.tables[name] = part
        return kept, again

    def without(
        self, batch: DataFrame, name: Name, fault: MalformedRecord | UnsupportedPartialImage
    ) -> DataFrame:
        """Make a table's records that `fault` names dead letters; return the batch without them.

        Records read past the batch's end are only omitted: the stream has yet to come to them. Raise `fault` if
        records still to come may complete one of the named records.
        """
        places = positions_of(fault)
        if not places:
            raise fault
        found = halves(batch, any_of(places))
        if isinstance(fault, UnsupportedPartialImage):
            there = halves(batch, of_table(name)).keys() | self._halves
            followers = _followers(batch.where(any_of(places)))
            if not partners(found) <= there or any(self.is_late(*one) for one in followers):
                raise fault
            why = dict.fromkeys(places, _LACKS)
        else:
            why = dict(fault.reasons) or dict.fromkeys(places, fault.where)
        own = {at: why[at] for at in places if is_within(at, *self.moved)}
        error = type(fault).__name__
        self._admit(name, {at: (error, reason) for at, reason in own.items()})
        self._halves |= found.keys()
        return outside(batch, places)

    def report(self, batch_id: int) -> None:
        """Log the dead letters of the batch in one line; fewer of them are new if it was applied before."""
        if not self.found:
            return
        first = min(self.found)
        error, reason = self.found[first]
        _log.warning(
            "dead letters batch=%d number=%d new=%d first=%s",
            batch_id,
            len(self.found),
            self.new,
            place(*first, f"{error}: {reason}"),
        )

    def _unusable(self, batch: DataFrame) -> Iterator[tuple[Owner, Reasons]]:
        """Yield the unusable records of each table that are found before a merge, those of no table first.

        At most as many records of a table are found as show that they exceed the limit.
        """
        most = self.limit + len(self._stored()) + 1
        kind = f"{_OF_OTHERS}, {_MAY_COME}"
        nth = f"row_number() OVER (PARTITION BY database, `table`, {kind} ORDER BY topic, partition, offset)"
        rows = batch.where(unusable()).selectExpr(
            *("topic", "partition", "offset", "database", "`table`", "reason", "left_out"),
            f"{nth} AS nth",
        )
        found: dict[Owner, dict[At, tuple[str, str]]] = {}
        for row in rows.where(f"nth <= {most}").collect():
            whole = row.database is not None and row["table"] is not None
            one = found.setdefault((row.database, row["table"]) if whole else (None, None), {})
            if row.reason is None:
                why = RowNotInRecord.__name__, f"bytes omitted: {row.left_out}"
            else:
                why = error_of(row.reason).__name__, row.reason
            one[at_of(row)] = why
        yield from sorted(found.items(), key=lambda item: (item[0][0] or "", item[0][1] or ""))

    def _stored(self) -> set[At]:
        """The dead letters stored already in the batch's ranges, because the batch was applied before."""
        if self._known is None:
            self._known = self.letters.within(*self.moved)
        return self._known

    def _admit(self, owner: Owner, reasons: Reasons) -> None:
        """Make records dead letters; raise UnusableLimitReached if they exceed the limit.

        Raise DataLost if Kafka no longer has one of them.
        """
        with self._gate:
            new = {at: why for at, why in sorted(reasons.items()) if at not in self._stored()}
            if not new:
                self.found |= reasons
                return
            now = int(self.clock() * 1000)
            used = self.letters.since(now - HOUR_MS)
            if len(new) > self.limit - used:
                raise self._too_many(owner, new, used)
            self.letters.add(_rows(self.records, owner, new, now))
            lost = new.keys() - self.letters.within(*spanned(new))
            if lost:
                raise DataLost(f"{place(*min(lost))} was read before, and is not in Kafka now")
            self._stored().update(new)
            self.found |= reasons
            self.new += len(new)
            for error, number in Counter(error for error, _ in new.values()).items():
                self.metrics.dead_letters(".".join(_named(owner) or ()), error, number)

    def _too_many(self, owner: Owner, new: Reasons, used: int) -> UnusableLimitReached:
        at = list(new)[max(0, self.limit - used)]
        error, reason = new[at]
        name = _named(owner)
        more = "at least " if len(new) > self.limit else ""
        what = f"of {'.'.join(name)}" if name else "that name no table"
        advice = "If they have no common cause, "
        return UnusableLimitReached(
            f"{place(*at)}: {error}: {reason} ({more}{len(new)} records {what} in this batch and {used} "
            f"dead letters in the last hour; unusable_limit is {self.limit})",
            advice=advice + f"run: python -m spark_sink reload {argument(name)} --skip-unusable"
            if name
            else "",
        )


def _followers(batch: DataFrame) -> set[tuple[str, Name, Place]]:
    """Destination, source table and (epoch, seq) of records, except of mapped tables, whose rows never move."""
    columns = ("destination", "source_database", "source_table", "epoch", "seq")
    rows = batch.where("NOT routed").select(*columns).collect()
    return {
        (row.destination, (row.source_database, row.source_table), (row.epoch, row.seq))
        for row in rows
    }


def _named(owner: Owner) -> Name | None:
    database, table = owner
    return None if database is None or table is None else (database, table)


def _rows(records: DataFrame, owner: Owner, reasons: Reasons, at_ms: int) -> DataFrame:
    """The dead letters of Kafka's records at some positions, in the columns of `LETTER_COLUMNS`."""
    database, table = owner
    described = [
        {"topic": topic, "partition": partition, "offset": offset}
        | {"database": database, "table": table, "error": error, "reason": reason}
        for (topic, partition, offset), (error, reason) in reasons.items()
    ]
    fields = f.from_json(f.lit(json.dumps(described)), _REASONS)
    why = records.sparkSession.range(1, numPartitions=1).select(f.inline(fields))
    own = records.where(any_of(reasons)).join(why, ["topic", "partition", "offset"])
    own = own.withColumn("at", f.expr(f"timestamp_millis({at_ms})"))
    return own.selectExpr(
        *(f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in LETTER_COLUMNS)
    )
