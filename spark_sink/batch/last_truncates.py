"""The last truncates of all tables, by the tables' present names, as batches raise them.

Invariant: a truncate is stored once, before it is applied to a table.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from pyspark.sql import DataFrame

from spark_sink.batch.contents import TablePart
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.source.schemas import TableVersion
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.protocol import Name, Warehouse

_log = logging.getLogger(__name__)
_NONE = (-1, -1)
"""The position of no truncate."""
Floored = dict[Name, dict[Source, tuple[int, int]]]
"""The highest truncate of each table and source."""


def floors_of(part: TablePart, versions: Iterable[TableVersion]) -> list[Floor]:
    """Return what removes earlier rows of a table: its truncates and, without a key, SELECTs of existing rows.

    A table without a key is read in one piece. Rows published earlier are in that piece too, and no key shows
    that they are the same.
    """
    keyless = {version.key for version in versions if not version.primary_key}
    return [*part.truncates, *(one.start for one in part.existing if one.version in keyless)]


@dataclass(slots=True, kw_only=True)
class Truncates:
    """The truncates of all tables; keeps in memory what the warehouse has."""

    warehouse: Warehouse[DataFrame]
    ddl: Ddl | None
    _highest: Floored | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while truncates are changed: tables are rebuilt beside the batches, several at a time."""

    def forget(self) -> None:
        """Drop what is remembered, as tables have moved."""
        with self._lock:
            self._highest = None

    def raised(self, *truncates: Iterable[Floor]) -> Floored:
        """Record truncates of several tables; return the highest of each table and source."""
        with self._lock:
            found = self._raised(truncates)
            return {name: dict(sources) for name, sources in found.items()}

    def _raised(self, truncates: Iterable[Iterable[Floor]]) -> Floored:
        if self._highest is None:
            self._highest = {}
            stored = self.warehouse.log.floors()
            for floor in stored if self.ddl is None else self.ddl.floors(stored):
                known = self._highest.setdefault((floor.database, floor.table), {})
                known[floor.source] = floor.place
        new = []
        for floor in chain.from_iterable(truncates):
            known = self._highest.setdefault((floor.database, floor.table), {})
            if floor.place > known.get(floor.source, _NONE):
                known[floor.source] = floor.place
                if self.ddl is None or not self.ddl.carried(floor):
                    new.append(floor)
        self.warehouse.log.add_floors(new)
        return self._highest

    def in_force(self) -> Iterator[Floor]:
        """Yield the last truncate of each table and source; their times are not kept."""
        for (database, table), sources in self.raised().items():
            for source, (epoch, seq) in sources.items():
                yield Floor(
                    database=database, table=table, source=source, epoch=epoch, seq=seq, ts_ms=0
                )
