"""What a table format has to offer so that the sink can keep its warehouse in it.

`Rows` is a set of rows as the format takes and gives it: a Spark DataFrame, or lists in memory. Batches,
reloads, maintenance and commands use a warehouse through these parts alone.

Invariant: each part's writes are commits of their own, made whole or not at all, and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from spark_sink.source.offsets import Offsets
from spark_sink.warehouse.ledger import Entry, Floor
from spark_sink.warehouse.shape import Shape

Name = tuple[str, str]
"""Database and table, as the warehouse has them."""
Rows = TypeVar("Rows")


class CommitConflict(Exception):
    """Another commit to the table was first; nothing was changed."""


class Tables(Protocol[Rows]):
    """The tables, by database and name."""

    def names(self) -> list[Name]:
        """All tables that are there."""

    def shape(self, database: str, table: str) -> Shape | None:
        """The table's shape; None where there is no such table. Raises ForeignTable."""

    def evolve(self, held: Shape | None, wanted: Shape) -> None:
        """Makes the table, or gives it the columns and types of `wanted`."""

    def merge(self, shape: Shape, rows: Rows) -> None:
        """Applies rows that `compact.changes` made. Safe from several threads for different tables."""

    def truncate(self, shape: Shape, floor: Floor) -> None:
        """Removes what came before a truncate, from the source table that it was of."""

    def rows(self, shape: Shape, *, beside: Rows | None = None) -> Rows:
        """All that the table holds, bookkeeping included; `beside` are rows to use it together with."""

    def replace(self, shape: Shape, rows: Rows, *, cut: tuple[int, Offsets] | None = None) -> None:
        """Puts these rows of that shape in place of all that the table is, in one commit.

        `cut` is kept with it: which wait that ended, and up to where Kafka is applied.
        """

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        """What `replace` kept with the table."""

    def drop(self, database: str, table: str) -> None:
        """Removes the table; nothing where there is none."""

    def current(self, database: str, table: str, *, bookkeeping: bool = False) -> Rows:
        """What the table holds for its readers: no deleted rows. Raises UnknownTable."""


class Ledger(Protocol):
    """What the sink has applied, from which it goes on without a checkpoint."""

    def applied(self) -> dict[tuple[str, int], int]:
        """Up to where each partition has been applied."""

    def newest_ms(self) -> int:
        """When the last batch was applied; 0 where there is none."""

    def append(self, entries: Iterable[Entry]) -> None:
        """Records a batch as applied."""


class FloorLog(Protocol):
    """The truncates, which keep older rows out for good."""

    def highest(self) -> list[Floor]:
        """The highest floor of each table and source."""

    def add(self, floors: Iterable[Floor]) -> None:
        """Records truncates, before they are applied."""


class WaitLog(Protocol):
    """The rows that say which tables wait, and what was requested for them."""

    def state(self) -> object:
        """What differs after each new row; false where there is none."""

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in any order; without those members that were not given."""

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row."""


class Upkeep(Protocol):
    """What keeps a table small beside its writer; each raises CommitConflict where a batch was first."""

    def retain(self, name: Name, seconds: int) -> None:
        """Sets for how long what the table no longer uses is kept for its readers."""

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        """The destinations that have rows; none where no marker is from before that time (ms)."""

    def purge(self, name: Name, before: int) -> None:
        """Removes the markers of deleted rows from before that time (ms)."""

    def compact(self, name: Name) -> None:
        """Puts the rows of many small files into few."""

    def remove_unused(self, name: Name) -> None:
        """Removes what the table has not used for as long as is retained."""

    def version(self, name: Name, *, at_least: bool = False) -> int:
        """The number of the last commit; or one that is no higher and costs little."""


class Notes(Protocol):
    """The sink's own small texts beside the tables."""

    def read(self, name: str) -> str | None:
        """The text; None where there is none."""

    def write(self, name: str, text: str) -> None:
        """Makes or replaces the text."""

    def make(self) -> None:
        """Makes the place for them, and proves that it can be written to."""


class Warehouse(Protocol[Rows]):
    """A warehouse: all that the sink keeps, in one format."""

    @property
    def tables(self) -> Tables[Rows]:
        """The tables that readers see."""

    @property
    def stage(self) -> Tables[Rows]:
        """Tables that are being rebuilt, which no reader sees."""

    @property
    def ledger(self) -> Ledger:
        """What is applied."""

    @property
    def floors(self) -> FloorLog:
        """The truncates."""

    @property
    def waits(self) -> WaitLog:
        """Tables that wait."""

    @property
    def upkeep(self) -> Upkeep:
        """Maintenance of the tables."""

    @property
    def notes(self) -> Notes:
        """The sink's own texts."""
