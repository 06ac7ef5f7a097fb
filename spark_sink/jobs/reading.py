"""One reading of Kafka's topics for all tables that are reloaded at once.

A reload looks at its records several times, and each look would read and parse all records of the table's
topics again. So the records of all these tables are read and parsed once, and kept on the executors, as those
of a batch are.

Invariant: a reading that is kept has no more records than a batch may have; a table with more is read alone,
and its records are read as often as they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.batch.apply import Applier
from spark_sink.batch.contents import Contents, contents
from spark_sink.batch.descriptions import describe
from spark_sink.batch.merging import few, local
from spark_sink.source.envelope import of_table
from spark_sink.source.kafka import Topics
from spark_sink.source.offsets import Offsets
from spark_sink.source.positions import within_sql
from spark_sink.warehouse.protocol import Name
from wire.table_version import VersionKey

_VERSION: Final = ("destination", "source_database", "source_table", "version")


@dataclass(slots=True, kw_only=True)
class Reading:
    """The records of some tables, each from its own offsets on, up to `end`."""

    applier: Applier
    topics: Topics
    starts: Mapping[Name, Offsets]
    """Where each table's records begin; it has none in other partitions."""
    end: Offsets
    most: int
    """The records that are kept; of more, none is."""
    rows: DataFrame = field(init=False)
    """All of them, as envelopes with the tables that they belong to now."""
    found: Contents = field(init=False)
    """What they have, of each table."""

    def read(self) -> None:
        """Reads them."""
        start = first_of(self.starts.values())
        rows = self._envelopes(self.topics.read(start, self.end))
        is_kept = size(start, self.end) <= self.most
        self.rows = rows.localCheckpoint(eager=False) if is_kept else rows
        describe(rows.sparkSession, f"reload: read {len(self.starts)} tables")
        self.found = contents(self.rows)
        if is_kept:
            number = sum(part.ops.total() for part in self.found.tables.values())
            self.applier.keep_pace(self.rows, number)

    def of(self, name: Name) -> DataFrame:
        """The records of one table."""
        rows, part = self.rows.where(of_table(name)), self.found.tables.get(name)
        if part is None:
            return rows.limit(0)
        at_hand = part.fault is None and few(rows=part.ops.total(), size=part.size)
        return local(rows) if at_hand else rows

    def records(self, name: Name) -> DataFrame:
        """Kafka's records in the range of one table."""
        return self.topics.read(self.starts[name], self.end)

    def has_versions_since(self, first: Offsets) -> bool:
        """Whether a table has records of a version at or after these offsets, and none before them."""
        late = contents(self._envelopes(self.topics.read(first, self.end))).tables.values()
        wanted = {(part.name, key) for part in late if not part.fault for key in part.versions}
        if not wanted:
            return False
        before = self.rows.where(within_sql({}, first)).select("database", "table", *_VERSION)
        known = {((row[0], row[1]), VersionKey(*row[2:])) for row in before.distinct().collect()}
        return not wanted <= known

    def _envelopes(self, records: DataFrame) -> DataFrame:
        rows = self.applier.envelopes(records, tables=list(self.starts))
        return rows.where(" OR ".join(map(self._of, self.starts)))

    def _of(self, name: Name) -> str:
        """The condition that a record is of a table, and in its range."""
        start = self.starts[name]
        until = {at: end for at, end in self.end.items() if at in start}
        return f"({of_table(name)} AND {within_sql(start, until)})"


def first_of(starts: Iterable[Offsets]) -> dict[tuple[str, int], int]:
    """The first offset of each partition in any of them."""
    found: dict[tuple[str, int], int] = {}
    for start in starts:
        for at, offset in start.items():
            found[at] = min(offset, found.get(at, offset))
    return found


def size(start: Offsets, end: Offsets) -> int:
    """The number of offsets in a range."""
    return sum(max(0, end.get(at, first) - first) for at, first in start.items())
