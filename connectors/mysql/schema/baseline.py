"""Baseline: all tables and databases of a server at one binlog position, the start of a schema history.

Invariant: the position is exact, and a lock blocks only sessions that alter a table that was just
altered. A few large reads are valid if the server meanwhile wrote no statement that may change a
table. The tables of such statements are read again, under a lock of the kind that every SELECT takes.
A table that the account may not see, or that kept changing, is reported by name and is not in the
baseline.

All statements in between are read. A server may report an end of its binlog that it does not send yet,
because transactions are written but not yet synced. So the binlog is read again until the server has sent
every transaction up to that end, or omitted it as known. The tables that a statement may have changed are
determined without looking up any table, and lack no changed table. For a statement that is not understood,
they are all tables whose names occur anywhere in the text, if the name of the table's database occurs there
too, or is the default database.

Before MySQL 8.0, and on MariaDB, a statement's effect is visible before the statement is in the
binlog, but reads wait for the statement's lock. Since MySQL 8.0, the effect becomes visible
afterwards: a statement in the binlog may not have taken effect yet. Only gtid_executed shows that it
has; on a server without GTIDs, a pause is used.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from connectors.errors import DdlUnresolved, SourceLost, SourceRefused
from connectors.mysql.binlog import query_session
from connectors.mysql.binlog.chunk_context import QUERIES, QUERY_COMPRESSED
from connectors.mysql.binlog.events import EventType, Query, parse_query
from connectors.mysql.binlog.mariadb_events import uncompressed_query
from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.charsets import Charsets, lowered
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Database, Server, Session, Table, TableName
from connectors.mysql.ddl.grammar.lexer import named
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.mariadb_start import position_at
from connectors.mysql.lookup.transaction_spans import gtid_announced
from connectors.mysql.position import FIRST_EVENT, Coordinates, SourceOffset
from connectors.mysql.schema.information_schema import Inventory, InventoryReader
from connectors.mysql.schema.server_columns import end_of_binlog, hold, prepare
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.database_filters import SYSTEM
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.server.privileges import account, activation, remedy
from connectors.mysql.stream.replica import unregistered


def parsed(query: Query, server: Server) -> ParsedStatement:
    """Parse a statement of the binlog."""
    return parse_statement(query.sql, server, session_for(query))


def session_for(query: Query) -> Session:
    """The session settings on which a statement's names depend."""
    return Session(database=query.database, sql_mode=query_session.of_number(query.sql_mode))


def affected_tables(
    query: Query, statement: ParsedStatement, names: Iterable[TableName]
) -> set[TableName]:
    """Return the tables that a statement may have changed: tables it names, and tables among ``names``."""
    found = set(statement.tables)
    if statement.database is not None:
        found.update(name for name in names if lowered(name[0]) == lowered(statement.database))
    if not statement.understood:
        found |= mentioned(query, names)
    return found


def sets_defaults(statement: ParsedStatement) -> bool:
    """Whether a statement may change the defaults of a database's later tables."""
    return not statement.understood or statement.type.endswith(("DATABASE", "SCHEMA"))


def mentioned(query: Query, names: Iterable[TableName]) -> set[TableName]:
    """The tables whose names occur in a statement."""
    text, default = lowered(named(query.sql)), lowered(query.database or "")
    return {
        name
        for name in names
        if _occurs_in(name[1], text) and (lowered(name[0]) == default or _occurs_in(name[0], text))
    }


def _occurs_in(name: str, text: str) -> bool:
    """Whether a name occurs in a text, plain or quoted in either way."""
    plain = lowered(name)
    forms: Collection[str] = {plain, plain.replace("`", "``"), plain.replace('"', '""')}
    return any(form in text for form in forms)


_SENT_WITHIN = 30.0
_PAUSE = 0.02
_REPORTS_SKIPPED = (5, 7)
"""Since this version, a heartbeat contains the position after transactions that are omitted because a
reader by GTIDs already has them."""
_NOWHERE = Coordinates("", 0)
_CHANGES_NO_TABLE = {
    Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.SAVEPOINT, Kind.XA, Kind.HARMLESS, Kind.TRUNCATE, Kind.CHANGE,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStatement:
    """A statement that may have changed tables or databases."""

    query: Query
    statement: ParsedStatement
    gtid: str | None
    end: Coordinates


@dataclass(slots=True, kw_only=True)
class StatementsRead:
    """The binlog read after a position."""

    begin: SourceOffset
    server: Server
    by_coordinates: bool = False
    """Whether the binlog is read by file and offset although the position has GTIDs."""
    statements: list[LoggedStatement] = field(default_factory=list)
    gtids: list[tuple[str, Coordinates]] = field(default_factory=list)
    """The GTIDs of all transactions, each with its start."""
    _reached: Coordinates = _NOWHERE

    def read_to(self, end: Coordinates, address: SourceAddress, charsets: Charsets) -> None:
        """Read up to a position that the server reported as its end; raise SourceLost if it sends less."""
        if not self._by_gtids:
            self._reached = max(self._reached, self.begin.coordinates, key=lambda one: one.order)
        deadline = time.monotonic() + _SENT_WITHIN
        while self._reached.order < end.order:
            self._read(address, charsets)
            if self._is_all(end):
                return
            if time.monotonic() > deadline:
                raise SourceLost(f"it does not send its binlog up to {end}", source=address)
            time.sleep(_PAUSE)

    def _is_all(self, end: Coordinates) -> bool:
        """Whether a server that does not report its position after omitted transactions is read completely.

        Such a server sends everything that it has written, so a transaction that it does not send is known.
        """
        skips_silently = self._by_gtids and self.server.version < _REPORTS_SKIPPED
        return skips_silently and self.begin.coordinates.order >= end.order

    @property
    def _by_gtids(self) -> bool:
        return self.begin.gtid_set is not None and not self.by_coordinates

    def up_to(self, end: Coordinates) -> list[LoggedStatement]:
        """The statements that end at or before a position."""
        return [one for one in self.statements if one.end.order <= end.order]

    def at(self, end: Coordinates) -> SourceOffset:
        """Return the offset at ``end``, with the GTIDs of all transactions before it."""
        known = self.begin.gtid_set
        if isinstance(known, GtidSet):
            known = known.copy()
            known.update(gtid for gtid, start in self.gtids if start.order < end.order)
        return replace(self.begin, coordinates=end, gtid_set=known)

    def _read(self, address: SourceAddress, charsets: Charsets) -> None:
        """Read everything that the server sends now."""
        known = self.begin.gtid_set
        if isinstance(known, GtidSet):
            known = known.copy()
            known.update(gtid for gtid, _ in self.gtids)
        gtids = known if self._by_gtids else None
        start = replace(self.begin, coordinates=self._start(known), gtid_set=gtids)
        gtid: str | None = None
        with unregistered(start, address) as stream:
            for placed in stream.events_there_are():
                event = placed.event
                if event.type in (EventType.GTID, EventType.GTID_TAGGED):
                    gtid = gtid_announced(event)
                    self.gtids.append((gtid, placed.start))
                elif event.type in QUERIES:
                    body = event.body
                    if event.type == QUERY_COMPRESSED:
                        body = uncompressed_query(body)
                    self._take(parse_query(body, charsets), gtid, placed.end)
        self._reached = max(self._reached, stream.position, key=lambda one: one.order)

    def _take(self, query: Query, gtid: str | None, end: Coordinates) -> None:
        if kind_of(query.sql) not in _CHANGES_NO_TABLE:
            statement = parsed(query, self.server)
            if not statement.changes_nothing:
                self.statements.append(
                    LoggedStatement(query=query, statement=statement, gtid=gtid, end=end)
                )

    def _start(self, known: object) -> Coordinates:
        """Return where to start; an empty name means the first file, if no transaction is known."""
        if not self._by_gtids:
            return self._reached
        return self.begin.coordinates if known else Coordinates("", FIRST_EVENT)


_TIMEOUT = 200.0
"""Shortest heartbeat, in seconds; three times as much may pass while the server collects a large result."""
_WHOLE = 3
"""Maximum number of times that everything is read, if many tables change meanwhile."""
_FEW = 200
_ROUNDS = 10
_SETTLED = 0.5
"""Seconds after which a statement in the binlog has taken effect, on a server without GTIDs."""
_ATOMIC = (8, 0)
"""Since this version, a statement's effect becomes visible after it is in the binlog, and all at once."""
_HELD_BY_OTHERS = {ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT}
_NOT_THERE = {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.VIEW_INVALID}
_DENIED = {ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The tables of a server at one position of its binlog."""

    tables: Mapping[TableName, Table]
    databases: Mapping[str, Database]
    server: Server
    at: SourceOffset
    """The position, with all GTIDs before it if the server has GTIDs."""
    unseen: Mapping[TableName, str]
    """Tables that exist and are not in ``tables``, each with the reason."""
    views: frozenset[TableName] = frozenset()
    """The visible views."""


def read_baseline(
    address: SourceAddress, facts: ServerFacts, *, leave_out: Collection[str] = SYSTEM
) -> Baseline:
    """Read all tables except the tables of the databases ``leave_out``.

    Raise SourceLost or SourceRefused, both of which may be temporary.
    """
    patient = replace(address, heartbeat=max(address.heartbeat, _TIMEOUT))
    with connected(patient) as cursor:
        prepare(cursor)
        return _Reading(cursor, address, facts, leave_out).baseline()


def server_of(facts: ServerFacts) -> Server:
    """The server properties on which a statement's meaning depends."""
    numbers = [*map(int, re.findall(r"\d+", facts.variables.get("version", "")))]
    major, minor, patch, *_ = *numbers, 0, 0, 0
    return Server(
        version=(major, minor, patch),
        mariadb=facts.is_mariadb,
        lower_case_table_names=int(facts.variables.get("lower_case_table_names") or 0),
        system_time_zone=facts.variables.get("system_time_zone", ""),
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """The tables that were visible while some of them were locked."""

    low: SourceOffset
    """An earlier position, up to which all statements had taken effect."""
    at: Coordinates
    queried: set[TableName]
    held: set[TableName]
    """The queried tables that existed and were locked."""
    there: set[TableName]
    """All tables, listed between the two positions."""
    again: Inventory | None
    """The locked tables as read; None if another session blocked a lock or the reading."""


class _Reading:
    """The reading of one server over one connection."""

    def __init__(
        self, cursor: Cursor, address: SourceAddress, facts: ServerFacts, leave_out: Collection[str]
    ) -> None:
        self._cursor = cursor
        self._address = address
        self._facts = facts
        self._server = server_of(facts)
        self._reader = InventoryReader(cursor, self._server, leave_out)
        self._denied: set[TableName] = set()

    def baseline(self) -> Baseline:
        """Read all tables until they are known at one position."""
        for _ in range(_WHOLE):
            passage = StatementsRead(begin=self._begin(), server=self._server)
            listed = set() if self._is_atomic else self._reader.names()
            inventory, views = self._reader.all(), self._reader.views()
            at = self._read_to_end(passage)
            if not inventory.is_whole:
                continue
            known = _names(inventory)
            # While files are renamed, a table may briefly have no name.
            missed = set() if self._is_atomic else (listed | self._reader.names()) - known
            changed = _touched(passage.up_to(at), known) | missed
            if not changed and not passage.up_to(at):
                return self._result(inventory, views, passage.at(at))
            if len(changed) <= _FEW:
                break
        if not inventory.is_whole:
            raise SourceRefused(
                "statements hold tables too long: information_schema omits them",
                source=self._address,
                remedy="Aqueduct tries again by itself; end the statement if it does not end.",
            )
        return self._settled(inventory, views, passage, missed)

    def _read_to_end(self, passage: StatementsRead) -> Coordinates:
        at = self._end()
        passage.read_to(at, self._address, self._facts.charsets)
        return at

    def _settled(
        self,
        inventory: Inventory,
        views: set[TableName],
        passage: StatementsRead,
        missed: set[TableName],
    ) -> Baseline:
        """Return the baseline at a later position, with the tables that changed meanwhile read again."""
        known = _names(inventory) | missed
        for _ in range(_ROUNDS):
            self._read_to_end(passage)
            moment = self._moment(_touched(passage.statements, known) | missed)
            passage.read_to(moment.at, self._address, self._facts.charsets)
            written = passage.up_to(moment.at)
            changed = _touched(written, known | moment.there) | missed
            if not all(one.statement.understood for one in written):
                missed |= moment.there - known
            late = [one for one in written if _is_late(one, moment.low)]
            restless = self._restless(changed | missed, moment, late)
            if not restless and not any(sets_defaults(one.statement) for one in late):
                break
        joined = _joined(inventory, moment.again or inventory, changed, moment.there)
        views = self._replayed(views, passage.up_to(moment.at))
        return self._result(joined, views, passage.at(moment.at), restless=restless)

    def _replayed(self, views: set[TableName], written: list[LoggedStatement]) -> set[TableName]:
        """Return the views after the statements that ran while the views were listed."""
        catalog = Catalog(self._server)
        for name in views:
            catalog.put_view(name)
        for one in written:
            # Statements about anything but views fail, because their tables are missing here.
            with contextlib.suppress(DdlUnresolved):
                catalog.apply_parsed(one.statement)
        return set(catalog.views)

    def _restless(
        self, changed: set[TableName], moment: _Moment, late: list[LoggedStatement]
    ) -> set[TableName]:
        """The tables whose state is uncertain at a moment."""
        if moment.again is None:
            return changed
        found = _touched(late, changed | moment.there) | (changed & moment.there)
        if not self._is_atomic:
            # A table that is not listed may exist; only a query of the table itself shows that.
            found |= changed - moment.queried
        return found - moment.held - self._denied

    def _moment(self, names: set[TableName]) -> _Moment:
        """Lock tables for a moment, read them and list all others."""
        low = self._begin()
        self._cursor.execute("START TRANSACTION")
        try:
            held = {name for name in sorted(names) if self._hold(name)}
            if not self._has_to_wait:
                low = self._begin()
            there, at = self._reader.names(), self._end()
            again = self._reader.some(sorted(held))
            return _Moment(low, at, names, held, there, again if again.is_whole else None)
        except pymysql.MySQLError as error:
            if error.args[0] not in _HELD_BY_OTHERS:
                raise
        finally:
            self._cursor.execute("ROLLBACK")
        return _Moment(low, self._end(), names, set(), self._reader.names(), None)

    def _hold(self, name: TableName) -> bool:
        try:
            hold(self._cursor, *name)
        except pymysql.MySQLError as error:
            if error.args[0] in _DENIED:
                self._denied.add(name)
            elif error.args[0] not in _NOT_THERE:
                raise
            return False
        return True

    @property
    def _by_gtids(self) -> bool:
        return self._facts.has_gtids and not self._facts.is_mariadb

    @property
    def _is_atomic(self) -> bool:
        return not self._server.mariadb and self._server.version >= _ATOMIC

    @property
    def _has_to_wait(self) -> bool:
        """Whether only waiting ensures that a statement has taken effect."""
        return self._is_atomic and not self._by_gtids

    def _begin(self) -> SourceOffset:
        """Return a position up to which all statements have taken effect, by GTIDs or after a pause."""
        at, executed = end_of_binlog(self._cursor)
        if self._has_to_wait:
            time.sleep(_SETTLED)
        return SourceOffset(
            server_uuid=self._facts.server_uuid,
            coordinates=at,
            gtid_set=GtidSet.parse(executed) if self._by_gtids else None,
        )

    def _account(self) -> str:
        return account(self._facts.current_user, self._address.user)

    def _end(self) -> Coordinates:
        return end_of_binlog(self._cursor)[0]

    def _result(
        self,
        inventory: Inventory,
        views: set[TableName],
        at: SourceOffset,
        *,
        restless: Collection[TableName] = (),
    ) -> Baseline:
        """Return the baseline with the tables whose state is certain, and why other tables are missing."""
        user, in_part = self._account(), self._facts.privileges.in_part
        roles = activation(self._facts.inactive_roles, user, mariadb=self._facts.is_mariadb)
        unseen = {
            name: f"only some of its columns may be seen: {remedy(name, user)}{roles}"
            for name in inventory.tables
            if name in in_part
        }
        for name in inventory.undescribed:
            unseen[name] = f"its columns cannot be seen: {remedy(name, user)}{roles}"
        for name in restless:
            unseen[name] = "statements changed it all the while"
        if self._facts.is_mariadb:
            at = replace(at, gtid_set=position_at(at.coordinates, self._address))
        tables = {name: table for name, table in inventory.tables.items() if name not in unseen}
        return Baseline(
            tables=tables,
            databases=inventory.databases,
            server=self._server,
            at=at,
            unseen=unseen,
            views=frozenset(views),
        )


def _names(inventory: Inventory) -> set[TableName]:
    return {*inventory.tables, *inventory.undescribed}


def _touched(statements: Iterable[LoggedStatement], names: Collection[TableName]) -> set[TableName]:
    return {name for one in statements for name in affected_tables(one.query, one.statement, names)}


def _is_late(one: LoggedStatement, low: SourceOffset) -> bool:
    """Whether a statement may not yet have taken effect at a position."""
    if isinstance(low.gtid_set, GtidSet) and one.gtid:
        return one.gtid not in low.gtid_set
    return one.end.order > low.coordinates.order


def _joined(
    first: Inventory, again: Inventory, changed: set[TableName], there: set[TableName]
) -> Inventory:
    """Return the first inventory, in which the tables that changed are replaced by the second's."""
    tables = {name: table for name, table in first.tables.items() if name not in changed}
    tables.update(again.tables)
    undescribed = (first.undescribed - changed) | ((changed & there) - again.tables.keys())
    return replace(again, tables=tables, undescribed=frozenset(undescribed))
