"""Interfaces that a table format implements to hold the sink's warehouse.

`Rows` is a set of rows in the format's own representation: a Spark DataFrame, or lists in memory. Batches,
reloads, maintenance and commands use a warehouse only through these interfaces.

Invariant: each write is an atomic commit of its own and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from spark_sink.source.positions import At, Offsets
from spark_sink.warehouse.coverage import Cut, Marker
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.milestones import Commit, Position
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.shape import Shape

Name = tuple[str, str]
"""Database and table, as named in the warehouse."""
Rows = TypeVar("Rows")
Given = TypeVar("Given", contravariant=True)
"""Rows that are only written."""


class CommitConflict(Exception):
    """Another writer committed to the table first; nothing was changed."""


class OutOfTime(Exception):
    """The time that was given is over; what was committed until then stays."""


class VersionGone(Exception):
    """A version of a table, or what it needs, was removed."""


class Tables(Protocol[Rows]):
    """Tables, by database and name."""

    def names(self) -> list[Name]:
        """The names of all tables."""

    def shape(self, database: str, table: str) -> Shape | None:
        """The table's shape, without columns that other programs added; None without such a table.

        Raise ForeignTable.
        """

    def evolve(self, held: Shape | None, wanted: Shape, *, is_made: bool = True) -> None:
        """Create the table, or alter it to the columns and types of `wanted`.

        Without `is_made`, record that the sink made these columns even if nothing has to be altered.
        """

    def rename_columns(self, shape: Shape, names: Mapping[str, str]) -> Shape:
        """Rename columns to names that are free, without writing rows; safe to repeat. Return the new shape.

        An interrupted call has renamed some of the columns; the key is changed last.
        """

    def reads_once(self, shape: Shape) -> bool:
        """Whether a merge would now read its rows only once, so that they need not be computed before."""

    def merge(
        self, shape: Shape, rows: Rows, *, is_hard: bool = False, is_new: bool = False
    ) -> None:
        """Merge rows that `compact.changes` made. Thread-safe for different tables.

        Deletes leave markers; with `is_hard`, they remove their rows. A table that `is_new` is created, with
        the rows in the same commit where the format can.
        """

    def truncate(self, shape: Shape, floor: Floor, *, is_hard: bool = False) -> None:
        """Remove the rows from before a truncate, of the truncated source table only.

        Leave markers, as `merge`.
        """

    def rows(self, shape: Shape, *, beside: Rows | None = None, fixed: bool = False) -> Rows:
        """All rows, with the bookkeeping columns, and without columns that other programs added.

        `beside` are rows that they will be combined with. With `fixed`, they are the rows of now, whenever
        they are read.
        """

    def as_of(self, database: str, table: str, version: int) -> tuple[Shape, Rows]:
        """The table's shape and all its rows at a version (`Upkeep.version`). Raise VersionGone."""

    def newest(self, shape: Shape) -> dict[str, Position]:
        """The newest change of each destination that the table holds; its transaction is not known."""

    def replace(self, shape: Shape, rows: Rows, *, cut: tuple[int, Offsets] | None = None) -> None:
        """Replace the table's shape and rows in one commit.

        `cut` is stored with the table. It is the start of the wait that it ends (ms), with the offset up to
        which each partition is applied; or it is 0, with the `seq` up to which the DDL of each destination and
        epoch is carried out.
        """

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        """The `cut` that `replace` stored with the table; None without one."""

    def drop(self, database: str, table: str) -> None:
        """Remove the table if it exists."""

    def current(self, database: str, table: str, *, bookkeeping: bool = False) -> Rows:
        """The rows that readers see, without deleted rows. Raise UnknownTable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMerge:
    """The last merge into a table, as the format recorded it: times in ms, numbers of rows and files."""

    at_ms: int
    scan_ms: int | None
    """The time of the search for the rows that the merge replaces; None if the format does not record it."""
    rewrite_ms: int | None
    rows_folded: int
    """Rows that were merged, one for each key; in some formats, without rows that changed nothing."""
    rows_inserted: int
    rows_updated: int
    rows_copied: int
    """Rows that were written again because another row of their file was replaced."""
    files_added: int
    files_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the format's own records state about a table."""

    shape: Shape
    rows: int | None
    """Rows and markers of deleted rows, or the images of a log; None if the number is not recorded."""
    files: int
    bytes: int
    newest_ms: int | None
    """The commit time at the source of the newest change; None without rows, or if it is not recorded."""
    destinations: tuple[str, ...]
    """Destinations that have rows; with many, some of these may be missing."""
    written_ms: int
    """When the table was last written, by a batch or by maintenance."""
    last_merge: LastMerge | None
    """None if the last commits have no merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """What only reading the rows can show."""

    live: int
    """Rows, or the images of a log."""
    deleted: int
    """Markers of deleted rows."""
    newest_ms: int | None
    destinations: tuple[str, ...]
    """All destinations that have rows or markers."""


class Facts(Protocol):
    """Information about tables for operators; read-only."""

    def of(self, name: Name) -> TableFacts | None:
        """The table's facts, without reading its rows; None without such a table. Raise ForeignTable."""

    def size(self, name: Name) -> int:
        """The bytes of the table's files; 0 if only a job could find that out."""

    def count(self, name: Name) -> RowCount:
        """Count the rows of an existing table."""

    def last_merge(self, name: Name) -> LastMerge | None:
        """The last merge into the table; None if its last commits have none."""


HOUR_MS: Final = 3_600_000
"""How long a dead letter counts."""
LETTER_COLUMNS: Final = (
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),
    ("key", "BINARY"),
    ("value", "BINARY"),
    ("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    ("timestamp", "TIMESTAMP"),
    ("database", "STRING"),
    ("table", "STRING"),
    ("error", "STRING"),
    ("reason", "STRING"),
    ("at", "TIMESTAMP"),
)
"""The columns up to `timestamp` are the record's own, as in Spark's Kafka source; `at` is the time at which the
record became a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter without its bytes."""

    topic: str
    partition: int
    offset: int
    database: str | None
    table: str | None
    """None if the record does not name its table."""
    error: str
    """The class of the error."""
    reason: str
    at_ms: int


class DeadLetters(Protocol[Given]):
    """Records that cannot be used, byte for byte as Kafka had them. Rows have `LETTER_COLUMNS`."""

    def add(self, rows: Given) -> None:
        """Add records in one commit, without those whose positions are stored already."""

    def within(self, start: Offsets, until: Offsets) -> set[At]:
        """The stored positions in the ranges [start, until)."""

    def since(self, at_ms: int) -> int:
        """The number of records that became dead letters at or after a time (ms)."""

    def newest(self, most: int, name: Name | None = None) -> list[Letter]:
        """The newest dead letters, at most `most`, newest first; only those of the table `name`, if given."""


class RecentLog(Protocol[Rows]):
    """Records that are stored before they are merged.

    Rows have `kind` ("record", "version", "marker" or "statement"), `text` (of a version: its value in the
    schemas topic; of a marker: the end of a part of a transaction, as in the transactions topic; of a
    statement: its value in a DDL topic) and the columns of `envelope.FIELDS`.
    """

    def begin(self, rows: Rows, cut: Cut, *, markers: Iterable[str] = ()) -> None:
        """Replace everything by these rows and these values of the transactions topics.

        The rows include all versions of tables so far, which may be very many.
        """

    def add(self, rows: Rows, cut: Cut) -> None:
        """Add rows; `cut` is then what all stored rows cover."""

    def tidy(self, cut: Cut) -> None:
        """Remove records from before `cut.since`, now or at a later call, and join small files.

        Rows may be added meanwhile. Raise CommitConflict if another commit came first.
        """

    def remove_unused(self) -> None:
        """Remove what has been unused for longer than the retention time."""

    def newest(self) -> Recent[Rows] | None:
        """What is stored as of the newest commit; None before the first."""

    def version(self) -> int | None:
        """The number of the newest commit; None before the first."""

    def at(self, version: int) -> Recent[Rows]:
        """What was stored as of a commit. Raise VersionGone."""


VersionsOf = Callable[[Collection[Name]], list[str]]
"""Reads the values of the schemas topic of source tables, by database and name, in all destinations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent(Generic[Rows]):
    """The recent changes as of one commit."""

    cut: Cut
    records: Rows
    """The records of all tables, in the columns of `envelope.FIELDS`."""
    versions: VersionsOf
    """Reads stored values of the schemas topic, which are those of all tables and times; raises VersionGone."""
    markers: list[Marker]
    """All stored ends of parts of transactions."""
    statements: list[str]
    """All stored values of the DDL topics."""


class Upkeep(Protocol):
    """Maintenance beside a table's writer; each call raises CommitConflict if a batch committed first.

    With `seconds`, a call raises OutOfTime once these are over, and leaves the rest of its work undone.
    """

    def retain(self, name: Name, seconds: int) -> None:
        """Set how long files that the table no longer uses are kept for its readers."""

    def sources_if_old(self, name: Name, before: int) -> Collection[str]:
        """The destinations that have rows; empty if no marker is from before that time (ms)."""

    def purge(self, name: Name, before: int, *, seconds: float | None = None) -> None:
        """Remove the markers of deleted rows from before that time (ms), in one commit."""

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        """Compact many small files into few, in several commits.

        A conflict, or the end of the time, loses only what is not committed yet. With `seconds`, a commit joins
        few files, so that many commits fit into that time.
        """

    def remove_unused(self, name: Name) -> None:
        """Remove what the table has not used for longer than its retention."""

    def version(self, name: Name, *, at_least: bool = False) -> int:
        """The number of the last commit; with `at_least`, a lower bound that is cheap to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit:
    """A commit of another program, which changed rows."""

    version: int
    operation: str
    """As the format names it."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A table as it is now, and what other programs have done since a commit of the sink's."""

    commit: Commit
    """The table's last commit."""
    columns: Mapping[str, str]
    """All columns of the table, and their types."""
    made: Mapping[str, str] | None
    """The columns that the sink made, and their types; None if an earlier version of the sink made them."""
    is_altering: bool = False
    """Whether the sink has begun to change columns, and may have been interrupted."""
    lost: tuple[str, ...] = ()
    """Columns that another program removed, even if they exist again by now."""
    foreign: tuple[ForeignCommit, ...] = ()
    obstacle: str = ""
    """A setting of another program by which the format refuses the sink's changes; empty if there is none."""


class Commits(Protocol):
    """The commits of tables: which are the sink's own, and which are not."""

    def announce(self) -> None:
        """Note that commits of this process are the sink's, before it makes any."""

    def is_at(self, name: Name, commit: Commit) -> bool:
        """Whether a commit is known to be the table's last one; makes as few requests as the format allows."""

    def descends(self, name: Name, commit: Commit) -> bool:
        """Whether a table descends from a commit, as far as it still lists commits of that version."""

    def since(self, name: Name, left: Commit | None) -> Standing | None:
        """The table now, and what happened since the commit at which the sink left it; None without a table.

        Raise TableReplaced if the table does not descend from that commit, or if another program has replaced
        it. Accept maintenance by other programs, which changes no row, and what they set or add.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Space(Generic[Rows]):
    """Tables beside the ones that readers see by name, and their maintenance."""

    tables: Tables[Rows]
    upkeep: Upkeep
    commits: Commits


class Warehouse(Protocol[Rows]):
    """A warehouse: all data of the sink, in one format."""

    @property
    def tables(self) -> Tables[Rows]:
        """The tables that readers see."""

    @property
    def stage(self) -> Tables[Rows]:
        """Tables being rebuilt, which no reader sees."""

    @property
    def deleted(self) -> Space[Rows]:
        """The markers of tables whose deleted rows are removed, by the names of these tables."""

    @property
    def histories(self) -> Space[Rows]:
        """All changes of tables that have a history, by the names of these tables."""

    @property
    def facts(self) -> Facts:
        """Information about the tables."""

    @property
    def log(self) -> SinkLog:
        """The sink's own log."""

    @property
    def commits(self) -> Commits:
        """The commits of the tables."""

    @property
    def moving(self) -> Tables[Rows]:
        """Tables that are being renamed, which no reader sees."""

    @property
    def letters(self) -> DeadLetters[Rows]:
        """The records that cannot be used."""

    @property
    def recent(self) -> RecentLog[Rows]:
        """Records that are not merged yet."""

    @property
    def upkeep(self) -> Upkeep:
        """Maintenance of the tables."""

    @property
    def notes(self) -> Notes:
        """The sink's own texts."""
