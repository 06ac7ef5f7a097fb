"""Interfaces that a table format implements to hold the sink's warehouse.

`Rows` is a set of rows in the format's own representation: a Spark DataFrame, or lists in memory. Batches,
reloads, maintenance and commands use a warehouse only through these interfaces.

Invariant: each write is an atomic commit of its own and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from spark_sink.recent.coverage import Cut
from spark_sink.source.offsets import Offsets
from spark_sink.warehouse.ledger import Entry, Floor
from spark_sink.warehouse.moves import Event, History, Place
from spark_sink.warehouse.shape import Shape

Name = tuple[str, str]
"""Database and table, as named in the warehouse."""
Rows = TypeVar("Rows")


class CommitConflict(Exception):
    """Another writer committed to the table first; nothing was changed."""


class Tables(Protocol[Rows]):
    """Tables, by database and name."""

    def names(self) -> list[Name]:
        """The names of all tables."""

    def shape(self, database: str, table: str) -> Shape | None:
        """The table's shape; None without such a table. Raises ForeignTable."""

    def evolve(self, held: Shape | None, wanted: Shape) -> None:
        """Creates the table, or alters it to the columns and types of `wanted`."""

    def merge(self, shape: Shape, rows: Rows) -> None:
        """Merges rows that `compact.changes` made. Thread-safe for different tables."""

    def truncate(self, shape: Shape, floor: Floor) -> None:
        """Removes the rows from before a truncate, of the truncated source table only."""

    def rows(self, shape: Shape, *, beside: Rows | None = None, fixed: bool = False) -> Rows:
        """All rows, with the bookkeeping columns.

        `beside` are rows that they will be combined with; `fixed` rows are those of now, whenever
        they are read.
        """

    def replace(self, shape: Shape, rows: Rows, *, cut: tuple[int, Offsets] | None = None) -> None:
        """Replaces the table's shape and rows in one commit.

        `cut` is stored with it: the start of the wait that it ends (ms), and the offset up to which each
        partition is applied.
        """

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        """The `cut` that `replace` stored with the table; None without one."""

    def drop(self, database: str, table: str) -> None:
        """Removes the table if it exists."""

    def current(self, database: str, table: str, *, bookkeeping: bool = False) -> Rows:
        """The rows that readers see, without deleted ones. Raises UnknownTable."""


class Ledger(Protocol):
    """Applied batches, from which the sink resumes without a checkpoint."""

    def applied(self) -> dict[tuple[str, int], int]:
        """The offset up to which each partition is applied."""

    def newest_ms(self) -> int:
        """The time the last batch was applied (ms); 0 without one."""

    def append(self, entries: Iterable[Entry]) -> None:
        """Records a batch as applied."""


class FloorLog(Protocol):
    """The log of truncates, which exclude older rows for good."""

    def highest(self) -> list[Floor]:
        """The highest floor of each table and source."""

    def add(self, floors: Iterable[Floor]) -> None:
        """Records truncates, before they are applied."""


class DdlLog(Protocol):
    """The log of DDL: what was decided on, and up to where it is read and carried out."""

    def history(self) -> History:
        """All events, and up to where they are carried out."""

    def read_until(self) -> dict[tuple[str, int], int]:
        """The offset up to which each partition of the DDL topics is read."""

    def add(self, events: Iterable[Event], until: Offsets) -> None:
        """Records events, before they are carried out, and up to where the topics are read."""

    def done(self, places: Mapping[str, Place]) -> None:
        """Records up to which position each destination's events are carried out."""


class WaitLog(Protocol):
    """The log of waiting tables and of the requests for them."""

    def state(self) -> object:
        """A value that changes with each new row; false without any."""

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in any order; members that were not given are missing or None."""

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row."""


class RecentLog(Protocol[Rows]):
    """Records that are stored before they are merged.

    Rows have `kind` ("record", "version" or "statement"), `text` (of a version: its value in the schemas topic;
    of a statement: in the DDL topic) and the columns of `envelope.FIELDS`.
    """

    def begin(self, rows: Rows, cut: Cut, *, versions: Iterable[str]) -> None:
        """Replaces everything by these rows and these values of the schemas topic."""

    def add(self, rows: Rows, cut: Cut) -> None:
        """Adds rows; `cut` is then what all stored rows cover."""

    def rewrite(self, rows: Rows, cut: Cut) -> None:
        """Adds rows, and removes the records from before `cut.since`."""

    def remove_unused(self) -> None:
        """Removes what has not been used for minutes."""

    def newest(self) -> Recent[Rows] | None:
        """What is stored as of the newest commit; None before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent(Generic[Rows]):
    """The recent changes as of one commit."""

    cut: Cut
    records: Rows
    """Those of all tables, in the columns of `envelope.FIELDS`."""
    versions: list[str]
    """All stored values of the schemas topic."""
    statements: list[str]
    """All stored values of the DDL topics."""


class Upkeep(Protocol):
    """Maintenance beside a table's writer; each call raises CommitConflict if a batch committed first."""

    def retain(self, name: Name, seconds: int) -> None:
        """Sets how long files that the table no longer uses are kept for its readers."""

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        """The destinations that have rows; empty if no marker is from before that time (ms)."""

    def purge(self, name: Name, before: int) -> None:
        """Removes the markers of deleted rows from before that time (ms)."""

    def compact(self, name: Name) -> None:
        """Compacts many small files into few."""

    def remove_unused(self, name: Name) -> None:
        """Removes what the table has not used for longer than its retention."""

    def version(self, name: Name, *, at_least: bool = False) -> int:
        """The number of the last commit; with `at_least`, a lower bound that is cheap to read."""


class Notes(Protocol):
    """The sink's own small texts, stored beside the tables."""

    def read(self, name: str) -> str | None:
        """The text; None if it does not exist."""

    def write(self, name: str, text: str) -> None:
        """Creates or replaces the text."""

    def make(self) -> None:
        """Creates the storage for them, and proves that it is writable."""


class Warehouse(Protocol[Rows]):
    """A warehouse: all data of the sink, in one format."""

    @property
    def tables(self) -> Tables[Rows]:
        """The tables that readers see."""

    @property
    def stage(self) -> Tables[Rows]:
        """Tables being rebuilt, which no reader sees."""

    @property
    def ledger(self) -> Ledger:
        """The applied batches."""

    @property
    def floors(self) -> FloorLog:
        """The truncates."""

    @property
    def moving(self) -> Tables[Rows]:
        """Tables that are being renamed, which no reader sees."""

    @property
    def ddl(self) -> DdlLog:
        """The tables that were dropped and renamed."""

    @property
    def waits(self) -> WaitLog:
        """The waiting tables."""

    @property
    def recent(self) -> RecentLog[Rows]:
        """Records that are not merged yet."""

    @property
    def upkeep(self) -> Upkeep:
        """Maintenance of the tables."""

    @property
    def notes(self) -> Notes:
        """The sink's own texts."""
