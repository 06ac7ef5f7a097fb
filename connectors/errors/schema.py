"""Table definitions: rows that do not match them, statements whose effect is not certain, quarantine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, Self

from connectors.errors.base import AqueductError, Retry


class DefinitionMismatch(AqueductError):
    """A table's definition does not match its rows."""

    # No remedy: it is never shown itself; WitnessesDiffer quarantines the table, or SnapshotUnsupported is the
    # state of its snapshot.
    remedy = "The table is quarantined, or its snapshot refused, by an error that says what to do."


class WitnessesDiffer(AqueductError):
    """A table's rows do not match its definition in the schema history."""

    retry = Retry.TIMED
    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. "
        "Give its definition at the first of them. With binlog_row_metadata=FULL: python -m app schema resolve "
        "DEST TABLE --binlog; if nothing has altered the table since: python -m app schema resolve DEST TABLE "
        "--server; else, with a CREATE TABLE of then: python -m app schema resolve DEST TABLE --definition "
        "FILE.sql."
    )

    keeps_definition: ClassVar[bool] = False
    """Whether the cause is not in the table's rows: the definition in its history is that of waiting rows."""

    name_of_table: tuple[str, str] = ("", "")
    others: tuple[WitnessesDiffer, ...] = ()
    """Those of further tables that have the same cause."""

    @classmethod
    def of(cls, table: tuple[str, str], detail: str) -> Self:
        """The error of one table, by its database and name."""
        error = cls(detail, table=".".join(table))
        error.name_of_table = table
        return error


class RowUnreadable(WitnessesDiffer):
    """A row of a table cannot be published exactly."""

    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. "
        "Remove the cause, run `python -m app schema resolve DEST TABLE --give-up --yes-lose-rows` and then "
        "`… --server`, and reload the table. With `poison: dead_letter` such rows alone become dead letters."
    )


class RuleImpossible(WitnessesDiffer):
    """A rule of the mapping does not fit a table."""

    keeps_definition = True
    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. "
        "Correct the mapping. In ZooKeeper, its new version is tried on the table when it comes into force; "
        "with a file, restart the worker, and run `python -m app schema resolve DEST TABLE --again`."
    )


class TopicUnusable(WitnessesDiffer):
    """The topic of a table cannot take its rows."""

    keeps_definition = True
    remedy = (
        "The tables are quarantined: their events wait in the quarantine topic while all others are published. "
        "Do what is described above; a table is published again, in order, within seconds after its topic can "
        "take its rows. `python -m app schema resolve DEST TABLE --again` tries it at once."
    )

    refused: Mapping[str, str] = MappingProxyType({})
    """The topics that exist and are fit, and whose brokers refused the rows, each with its settings' digest."""

    @classmethod
    def of_all(
        cls,
        tables: Mapping[tuple[str, str], str],
        refused: Mapping[tuple[str, str], Mapping[str, str]] = MappingProxyType({}),
    ) -> TopicUnusable:
        """The error of several tables, each with what its topic lacks; ``refused``: see the attribute."""
        found = []
        for name in sorted(tables):
            error = cls.of(name, tables[name])
            error.refused = refused.get(name, error.refused)
            found.append(error)
        found[0].others = tuple(found[1:])
        return found[0]


class SnapshotUnsupported(AqueductError):
    """The existing rows of a table cannot be read exactly."""

    remedy = (
        "Change the column, or leave the table out with a filter and load its rows by another way."
    )


class SpoolFull(SnapshotUnsupported):
    """There is no room for the rows of a table, which are kept in a file until they enter the stream."""

    remedy = (
        "Make room there, or name another folder in snapshot.spool_dir. The worker tries the table again for "
        "an hour; after that, start its snapshot again."
    )


class NotQuarantined(AqueductError):
    """The table is not quarantined."""

    remedy = (
        "No events wait for it. `python -m app schema quarantine` lists the quarantined tables."
    )


class DdlUnresolved(AqueductError):
    """The effect of a statement on a table is not certain."""

    remedy = (
        "The tables named above are quarantined, all others are published. "
        "Give their definition with `python -m app schema resolve`."
    )

    def __init__(
        self,
        detail: str = "",
        /,
        *,
        tables: Iterable[tuple[str, str]] = (),
        remedy: str = "",
        **context: object,
    ) -> None:
        super().__init__(detail, remedy=remedy, **context)
        self.tables = tuple(tables)
        """Database and name of each."""


class HistoryTooShort(AqueductError):
    """The schema history begins after this position."""

    remedy = (
        "Choose a position that it covers. If a worker reports this, set snapshot.mode to recovery and restart "
        "it: the history begins again at the cursor. "
        "Raise schema_history.snapshot_expire_hours to keep more of it in future."
    )


class PositionUnknown(AqueductError):
    """The schema history cannot locate this position."""

    remedy = "Give it as a GTID set, as file:pos of a server that was read then, or as a time."
