"""The registration of the warehouse's tables in a metastore, by a command or beside the batches.

A text in the warehouse's folder records what was registered: so a table keeps its name for good, and what is
gone is removed.

Invariant: only what this warehouse has registered is replaced or removed: a table at its location, or a view
that names it. A failure concerns the metastore alone; it is stored with its reason, and registration is tried
again. No batch waits for the metastore, and no failure of it reaches the sink.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.errors import MetastoreUnreachable, NameTaken, SinkError
from spark_sink.settings.model import Settings
from spark_sink.spark.error_mapping import named
from spark_sink.text.quoting import METASTORE, full, literal, quoted
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.opening import open_metastore
from spark_sink.warehouse.protocol import Name, Tables, Warehouse
from spark_sink.warehouse.shape import Shape
from wire.text import utc_seconds
from wire.warehouse_folders import table_path
from wire.warehouse_types import SOURCE_COLUMNS

_log = logging.getLogger(__name__)
_VERSION: Final = 1


class Metastore(Protocol):
    """A metastore's tables and views. Each call raises MetastoreUnreachable if it does not answer."""

    def names(self, database: str) -> set[str]:
        """Return the names of a database's tables and views; empty without the database."""

    def is_at(self, name: Name, location: str) -> bool | None:
        """Whether a name belongs to the table at a location, or to the view that was put for this table.

        None if neither a table nor a view has that name.
        """

    def register(self, name: Name, location: str) -> None:
        """Make a table at a location that has one, and its database if there is none."""

    def put_view(self, name: Name, sql: str, location: str) -> None:
        """Make or replace the view of the table at a location, and its database if there is none."""

    def remove(self, name: Name) -> None:
        """Remove a table or view, if it exists; never its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What is registered, as the warehouse stores it."""

    entries: dict[Name, Entry] = field(default_factory=dict)
    faults: dict[Name, str] = field(default_factory=dict)
    """Why tables are not registered as they should be."""
    at_ms: int = 0
    """When the metastore last answered."""
    error: str = ""
    """Why it does not answer; empty if it does."""

    def text(self) -> str:
        """Return the text that is stored."""
        entries = [
            [*name, list(one.table), list(one.view) if one.view else None, one.view_sql]
            for name, one in sorted(self.entries.items())
        ]
        faults = [[*name, reason] for name, reason in sorted(self.faults.items())]
        body = {"entries": entries, "faults": faults, "at_ms": self.at_ms, "error": self.error}
        return json.dumps({"version": _VERSION, **body})

    @classmethod
    def of(cls, text: str | None) -> Registered:
        """Parse the stored text; return an empty state without a text, or if a crash left it incomplete.

        Then all tables are registered again.
        """
        try:
            body: dict[str, Any] = json.loads(text or "null") or {}
        except ValueError:
            return cls()
        if body.get("version") != _VERSION:
            return cls()
        entries = {
            (database, table): Entry(
                table=(one[0], one[1]), view=(view[0], view[1]) if view else None, view_sql=sql
            )
            for database, table, one, view, sql in body["entries"]
        }
        faults = {(database, table): reason for database, table, reason in body["faults"]}
        return cls(entries=entries, faults=faults, at_ms=body["at_ms"], error=body["error"])


@dataclass(slots=True, kw_only=True)
class Registrar:
    """Registers the tables of a warehouse."""

    metastore: Metastore
    tables: Tables[Any]
    notes: Notes
    root: str
    databases: str
    """The pattern of the databases of tables."""
    views: str
    """The pattern of the databases of views; empty without views."""
    clock: Callable[[], float]
    _held: dict[str, set[str]] = field(default_factory=dict)
    """The names of tables and views in each of the metastore's databases, as of the current call."""

    def bring_up(self, changed: Collection[Name] | None = None) -> Registered:
        """Register what is new, and remove what is gone; return what is then registered.

        `changed` are the tables whose columns may have changed since, all with None: only their columns are
        read. If the metastore is unreachable, that is stored as the error.
        """
        held = Registered.of(self.notes.read(METASTORE))
        entries, faults = dict(held.entries), dict[Name, str]()
        error, at_ms = "", held.at_ms
        self._held = {}
        there = sorted(self.tables.names())
        try:
            self._remove_gone(entries, set(there))
            for name in there:
                is_known = changed is not None and name not in changed and name not in held.faults
                if not (is_known and self._is_up(entries.get(name))):
                    self._keep(name, entries, faults)
            at_ms = int(self.clock() * 1000)
        except MetastoreUnreachable as fault:
            error = str(fault)
            faults = {**held.faults, **faults}
        found = Registered(entries=entries, faults=faults, at_ms=at_ms, error=error)
        if found != held:
            self.notes.write(METASTORE, found.text())
        return found

    def _remove_gone(self, entries: dict[Name, Entry], there: set[Name]) -> None:
        for name in sorted(entries.keys() - there):
            entry = entries[name]
            for one in (entry.view, entry.table):
                if one is not None and self.metastore.is_at(one, self._location(name)):
                    self.metastore.remove(one)
            del entries[name]
            _log.info("table removed from the metastore table=%s.%s", *name)

    def _keep(self, name: Name, entries: dict[Name, Entry], faults: dict[Name, str]) -> None:
        """Register a table as it is now; a fault of the table does not stop the others."""
        try:
            shape = self.tables.shape(*name)
            if shape is None:
                return
            before = entries.get(name)
            entry = self._entry(name, shape, entries)
            if before is None or not self._is_held(before.table):
                self.metastore.register(entry.table, self._location(name))
                _log.info("table registered table=%s.%s as=%s.%s", *name, *entry.table)
            # Before the view: if the view fails, the name that the table has taken is stored.
            entries[name] = Entry(table=entry.table)
            is_up = entry == before and entry.view is not None and self._is_held(entry.view)
            if entry.view is not None and not is_up:
                self.metastore.put_view(entry.view, entry.view_sql, self._location(name))
            entries[name] = entry
        except MetastoreUnreachable:
            raise
        except (SinkError, PySparkException, Py4JError) as failure:
            fault = named(failure)
            faults[name] = f"{type(fault).__name__}: {fault.where}"
            _log.debug("table not registered table=%s.%s: %s", *name, fault)

    def _is_up(self, entry: Entry | None) -> bool:
        """Whether a table whose columns have not changed is registered as it should be."""
        if entry is None or (entry.view is None) != (not self.views):
            return False
        return self._is_held(entry.table) and (entry.view is None or self._is_held(entry.view))

    def _is_held(self, one: Name) -> bool:
        """Whether there is a table or view of the name."""
        if one[0] not in self._held:
            self._held[one[0]] = self.metastore.names(one[0])
        return one[1] in self._held[one[0]]

    def _entry(self, name: Name, shape: Shape, entries: dict[Name, Entry]) -> Entry:
        """The names of a table in the metastore; names that it has already are kept. Raise NameTaken."""
        before = entries.get(name)
        table = before.table if before else self._free(name, self.databases)
        if not self.views:
            return Entry(table=table)
        view = before.view if before else None
        view = view or self._free(name, self.views)
        return Entry(table=table, view=view, view_sql=view_sql(shape, table))

    def _free(self, name: Name, pattern: str) -> Name:
        database = in_pattern(pattern, name[0])
        tried = [(database, plain(name[1])), (database, distinct(name))]
        for one in tried:
            if self.metastore.is_at(one, self._location(name)) in (None, True):
                return one
        raise NameTaken(
            " and ".join(".".join(one) for one in tried),
            advice="Rename them, or set other databases in the setting metastore",
        )

    def _location(self, name: Name) -> str:
        return table_path(self.root, *name)


def metastore_status(notes: Notes) -> list[str]:
    """Return the lines of the metastore's stored state; empty if no sink of the warehouse has a metastore."""
    text = notes.read(METASTORE)
    return metastore_lines(Registered.of(text)) if text is not None else []


def metastore_lines(found: Registered) -> list[str]:
    """Return what `status` and the command print."""
    last = utc_seconds(found.at_ms) if found.at_ms else "never"
    lines = [f"metastore: {len(found.entries)} tables, brought up to date {last}"]
    if found.error:
        lines.append(f"  error: {found.error}")
    lines += [f"  {'.'.join(name)}: {reason}" for name, reason in sorted(found.faults.items())]
    return lines


_LONGEST: Final = 110
"""Hive takes 128 characters; a hash and the text around a database's name need the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A table of the warehouse in the metastore.

    Invariant: a name is made of `a-z 0-9 _` alone, as every metastore takes it. It depends on the table
    alone, unless another table has it already; then it ends in a hash of the table's own name.
    """

    table: Name
    """Its name in the metastore."""
    view: Name | None = None
    """The name of the view of its rows in the metastore; None without a view."""
    view_sql: str = ""


def plain(name: str) -> str:
    """Return a name as the metastore accepts it; two names may have the same result."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())[:_LONGEST] or "_"


def distinct(name: Name) -> str:
    """Return a name of a table that no other table has: `plain` with a hash."""
    return f"{plain(name[1])}_{hashlib.sha256('.'.join(name).encode()).hexdigest()[:8]}"


def in_pattern(pattern: str, database: str) -> str:
    """Return the database for a source's database; its plain name replaces `{database}` in a setting."""
    return pattern.replace("{database}", plain(database))


def view_sql(shape: Shape, table: Name) -> str:
    """Return the query of the rows that readers should see, without deleted rows and bookkeeping columns."""
    columns = ", ".join(quoted(name) for name, _ in shape.columns)
    if shape.keyed:
        return f"SELECT {columns} FROM {full(table)} WHERE NOT __deleted"  # noqa: S608 - every name is quoted
    # As in `warehouse.seen_rows`. A removal by one source does not cancel an equal image of another.
    groups = [
        *(quoted(name) for name, _ in shape.columns),
        "array_sort(map_entries(__unrepresentable))",
    ]
    if shape.apart:
        defaults = zip(SOURCE_COLUMNS, (shape.database, shape.table), strict=True)
        groups += ["__destination"]
        groups += [f"coalesce({name}, {literal(value)})" for (name, _), value in defaults]
    summed = (
        f"SELECT {columns}, CAST(sum(__delta) AS INT) AS __n FROM {full(table)} "  # noqa: S608 - the same
        f"GROUP BY {', '.join(groups)} HAVING sum(__delta) > 0"
    )
    return f"SELECT {columns} FROM ({summed}) LATERAL VIEW explode(sequence(1, __n)) AS __nth"  # noqa: S608 - the same


_UNREACHABLE: Final = MetastoreUnreachable.__name__
SECONDS_BETWEEN_LOOKS: Final = 1.0
SECONDS_UNTIL_AGAIN: Final = 30.0
"""Seconds until the next attempt after a failure."""
SECONDS_UNTIL_ALL: Final = 600.0
"""Seconds after which changes that others have made in the metastore are repaired."""


@dataclass(slots=True, kw_only=True)
class MetastoreKeeper:
    """Brings the metastore up to date after a change of the tables, and again after a failure."""

    registrar: Callable[[], Registrar]
    """Makes what registers tables; it may fail if the metastore does."""
    shapes: Callable[[], frozenset[Shape]]
    """Returns the shapes of the tables that this process has merged."""
    moved: Callable[[], int]
    """Returns a number that changes when tables are moved or removed."""
    clock: Callable[[], float]
    _registrar: Registrar | None = None
    _seen: tuple[frozenset[Shape], int] | None = None
    _registered: frozenset[Shape] = frozenset()
    _moved: int | None = None
    """The result of `moved` when all was last registered; None at first, when a move may have been missed."""
    _due: float = 0.0
    _error: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Look until a stop; `stopped` waits for so many seconds and returns whether to stop."""
        while not stopped(SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        """Bring the metastore up to date if that is due."""
        with self._lock:
            state = self.shapes(), self.moved()
            if state == self._seen and self.clock() < self._due:
                return
            changed = None
            if state[1] == self._moved:
                new = state[0] - self._registered
                changed = {(shape.database, shape.table) for shape in new}
            error = self._bring_up(changed)
            if not error:
                self._registered, self._moved = state
            # While the metastore does not answer, the same error has many texts.
            known = error.partition(":")[0] if error.startswith(_UNREACHABLE) else error
            if error and known != self._error:
                _log.warning("metastore not up to date, trying again: %s", error)
            elif self._error and not error:
                _log.info("metastore up to date again")
            self._error = known
            # A change leads to one look, without delay; the same state is looked at again only when due.
            self._seen = state
            wait = SECONDS_UNTIL_AGAIN if error else SECONDS_UNTIL_ALL
            self._due = self.clock() + wait

    def _bring_up(self, changed: Collection[Name] | None) -> str:
        """Register tables; return why that failed, wholly or for some tables; empty if it did not."""
        try:
            self._registrar = self._registrar or self.registrar()
            found = self._registrar.bring_up(changed)
        except Exception as failure:
            _log.debug("details", exc_info=failure)
            return f"{type(failure).__name__}: {failure}"
        if found.error:
            return found.error
        return "; ".join(f"{'.'.join(name)}: {why}" for name, why in sorted(found.faults.items()))


def registrar(spark: SparkSession, settings: Settings, warehouse: Warehouse[Any]) -> Registrar:
    """Return what registers a warehouse's tables; the metastore is first asked when it registers tables."""
    return Registrar(
        metastore=open_metastore(spark, settings.metastore),
        tables=warehouse.tables,
        notes=warehouse.notes,
        root=settings.warehouse,
        databases=settings.metastore.databases,
        views=settings.metastore.views,
        clock=time.time,
    )
