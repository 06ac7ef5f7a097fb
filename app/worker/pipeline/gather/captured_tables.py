"""The captured tables, as TABLE_MAP events and the schema history describe them.

Invariant: whether a table is captured, and how its rows are decoded, is decided once per description; a row
is never read by a definition that a witness contradicts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

import orjson

from app.worker.pipeline.gather.masked_columns import Decode, MaskedColumns
from app.worker.pipeline.gather.row_selection import RowSelection
from app.worker.pipeline.hidden_statement import hidden_query, parsed
from connectors.errors import (
    AqueductError,
    DefinitionMismatch,
    RowUnreadable,
    RuleImpossible,
    TopicUnusable,
    UnsupportedEvent,
    WitnessesDiffer,
)
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.statement_kind import statement_type
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets, Replaced
from connectors.mysql.ddl.definition import Server, Table, TableChange
from connectors.mysql.ddl.hidden_literals import query_without_literals
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.ddl.resolve.columns import column_comment
from connectors.mysql.ddl.resolve.options import is_in_memory, is_sequence, table_comment
from connectors.mysql.rows.compiled import CompiledDecoder, Row
from connectors.mysql.rows.counter import RowCounter
from connectors.mysql.rows.decoder import ColumnRule, RowDecoder
from connectors.mysql.schema.definition_check import completed_map, differences, with_nullability
from connectors.mysql.schema.hidden_columns import row_hashes
from connectors.mysql.schema.table_map_completion import has_full_metadata
from connectors.mysql.select.described_table import described_table
from connectors.mysql.select.packets import PacketDecoder
from connectors.mysql.types.registry import MappedColumn, column_charset, column_type
from tables.history.record import SchemaRecord, remakes
from tables.rules.mapping.mapping import MOST_TABLES
from tables.rules.routes.routes import Route, Routes
from tables.rules.routes.rule_faults import table_faults
from wire.records import shard_head
from wire.table_version import Column, Definition

Name = tuple[str, str]
"""Database and table."""


class CapturedTable:
    """A table as one TABLE_MAP describes it, with the decoder of its rows."""

    __slots__ = (
        "definition",
        "has_row_keys",
        "identifies_rows",
        "left_out",
        "name",
        "packets",
        "route",
        "rows",
        "selection",
        "shows_not_null",
    )

    def __init__(
        self,
        table_map: TableMap,
        charsets: Charsets,
        *,
        route: Route,
        hidden: frozenset[int] = frozenset(),
        never_null: frozenset[int] = frozenset(),
        key_is_logged: bool = True,
        known: Table | None = None,
    ) -> None:
        """``known``: the definition of its history, which agrees with ``table_map``."""
        self.name, self.route = (table_map.database, table_map.table), route
        key = _key(table_map, route)
        self.definition = _definition(table_map, charsets, key, hidden=hidden, known=known)
        self.selection: RowSelection | None = None
        masked = MaskedColumns.of(table_map, route)
        omitted, left_out = masked.dropped, frozenset[int]()
        _check_fit(route, self.definition)
        if route.mapped is not None:
            rules = route.mapped.rules
            self.selection = RowSelection.of(self.name, rules, self.definition)
            left_out = _omitted(table_map, rules.columns) - hidden - omitted
            omitted |= left_out
            if omitted:
                self.definition = _definition(
                    table_map, charsets, key, hidden=hidden | omitted, known=known
                )
            self.definition = masked.definition(self.definition)
        decoder = CompiledDecoder(
            table_map,
            charsets,
            key=key,
            rules=masked.rules,
            renames=masked.renames,
            hidden=hidden,
            omitted=omitted,
            key_is_logged=key_is_logged,
            key_head=shard_head(route.shard),
            place=_place(table_map, route),
        )
        is_direct = not masked.watched and not never_null
        self.packets = PacketRows(decoder, table_map, charsets, masked.rules, is_direct=is_direct)
        self.rows: Decode = masked.guarded(decoder.rows, table_map, charsets)
        if never_null:
            self.rows = _null_checked(self.rows, table_map, charsets, never_null)
        names = {table_map.columns[index].name for index in key}
        is_own = bool(key) and set(key) == set(table_map.primary_key or ())
        self.identifies_rows = is_own and masked.merged.isdisjoint(key)
        """Whether the records' key is the table's own, with values that differ wherever the table's do."""
        self.has_row_keys = self.identifies_rows and names.isdisjoint(masked.rules)
        """Whether the records' key is the table's own, with unchanged values."""
        self.left_out = frozenset((table_map.columns[at].name or "").lower() for at in left_out)
        """The columns, in lower case, that the mapping's list of columns omits."""
        self.shows_not_null = not table_map.hides_not_null
        """Whether ``definition`` has the columns' nullability."""


class Unpublished(Enum):
    """Why the rows of a captured table are not published; in place of its definition and of its decoder."""

    QUARANTINED = "quarantined"
    """Its events are parked."""
    GIVEN_UP = "given up"
    """An operator gave it up; its events are dropped."""


Schema = Table | Unpublished
"""The entry of a table in the schema history; a table that the history does not know has no entry."""

TableHandling = CapturedTable | Unpublished
"""The handling of a table's rows."""


class CapturedTables:
    """All tables that a decoder has met."""

    def __init__(
        self,
        routes: Routes,
        charsets: Charsets,
        *,
        server: Server,
        has_column_names: bool = True,
        shadows: ShadowRules | None = None,
        known: Mapping[Name, Schema] | None = None,
    ) -> None:
        self._routes = routes
        self._shadows = shadows or ShadowRules()
        self._names: set[Name] = set(known or ())
        """The existing tables, as far as known."""
        self._by_case: dict[Name, set[Name]] | None = None
        """The existing names by their lower case; computed when first needed."""
        self._wanted: dict[Name, Route | None] = {}
        self._charsets = charsets
        self._server = server
        self._has_column_names = has_column_names
        self._known: dict[Name, Schema] = dict(known or {})
        self._tables: dict[int, tuple[TableMap, TableHandling | None]] = {}
        self._counters: dict[int, tuple[TableMap, RowCounter]] = {}

    def learn(self, record: SchemaRecord) -> None:
        """Record the effect of a statement on tables; their descriptions are checked again.

        A quarantined table stays quarantined: its later events follow those already parked. A table that was
        given up stays so until a statement creates or drops it.
        """
        for change in record.changes:
            if not isinstance(change, TableChange) or self.is_quarantined(change.name):
                continue
            if not self.is_given_up(change.name) or remakes(change):
                self.put(change.name, change.new)
        for name in self.lost(record):
            self.put(name, Unpublished.QUARANTINED)

    def lost(self, record: SchemaRecord) -> list[Name]:
        """Return the captured tables whose rows cannot be read after a statement that could not be resolved.

        A table that the history does not know can still be read if the binlog has column names.
        """
        return [
            name
            for name in record.unresolved
            if self.captures(name)
            and not self.is_quarantined(name)
            and not self.is_given_up(name)
            and (name in self._known or not self._has_column_names)
        ]

    def put(self, name: Name, schema: Schema | None) -> None:
        """Set a table's definition from here on; None if its history has none."""
        if schema is None:
            self._known.pop(name, None)
            self._names.discard(name)
        else:
            self._known[name] = schema
            self._names.add(name)
        self._tables.clear()
        self._wanted.clear()
        self._by_case = None

    def route(self, name: Name) -> Route | None:
        """Return the route of a table; None if it is not captured, a sequence, or a tool's shadow table."""
        if name not in self._wanted:
            route = self._routes.of(name)
            if route is not None and (self.is_shadow(name) or self._is_sequence(name)):
                route = None
            if len(self._wanted) >= MOST_TABLES:
                self._wanted.clear()
            self._wanted[name] = route
        return self._wanted[name]

    def captures(self, name: Name) -> bool:
        """Whether a table is captured."""
        return self.route(name) is not None

    def publishes_statement(self, query: Query) -> bool:
        """Whether the rules of the tables that a statement names let it be published."""
        routes = self._routes
        verb = statement_type(query.sql).partition(" ")[0].lower()
        if verb not in routes.omitted_statements:
            return True
        statement = parsed(query, server=self._server, charsets=self._charsets)
        return routes.publishes_statement(verb, statement.tables)

    def hidden_query(self, query: Query) -> Query:
        """Return a statement as it may be published."""
        return hidden_query(query, self._routes, server=self._server, charsets=self._charsets)

    def hidden_text(self, text: str) -> str | None:
        """Return the statement that changed rows as it may be published; None if no part of it may."""
        return query_without_literals(text, self._server) if self._routes.masks_any else text

    def may_capture_of(self, database: str) -> bool:
        """Whether any table of a database may be captured."""
        return self._routes.may_capture_of(database)

    def is_shadow(self, name: Name) -> bool:
        """Whether a table is a tool's shadow of another."""
        return self._shadows.shadow(name, self._names) is not None

    def may_be_shadow(self, name: Name) -> bool:
        """Whether a table has a shadow's name, even if its main table does not exist."""
        return self._shadows.fits(name)

    def _is_sequence(self, name: Name) -> bool:
        known = self._known.get(name)
        return isinstance(known, Table) and is_sequence(known)

    def quarantined_among(
        self, record: SchemaRecord | None, truncated: Name | None
    ) -> tuple[Name, ...]:
        """Return the quarantined tables among those that a statement affects."""
        names = set(record.tables) if record is not None else set()
        if truncated is not None:
            names.add(truncated)
        return tuple(
            sorted(name for name in names if self.is_quarantined(name) and self.captures(name))
        )

    def is_in_memory(self, name: Name) -> bool:
        """Whether a captured table is known to lose its rows when its server restarts."""
        known = self._known.get(name)
        return isinstance(known, Table) and is_in_memory(known) and self.captures(name)

    def is_given_up(self, name: Name) -> bool:
        """Whether a table was given up, so that its events are dropped."""
        return self._known.get(name) is Unpublished.GIVEN_UP

    def is_quarantined(self, name: Name) -> bool:
        """Whether a table is quarantined, so that its events are parked."""
        return self._known.get(name) is Unpublished.QUARANTINED

    def of(self, table_map: TableMap) -> TableHandling | None:
        """Return the table, or None if it is not captured.

        Raise RowUnreadable if a column of a captured table cannot be read. Raise WitnessesDiffer if its rows
        contradict its definition in the history, or if that is missing or lacks labels. Raise RuleImpossible if
        the mapping's rules do not fit the table, and TopicUnusable if they do not determine its topic.
        """
        known = self._tables.get(id(table_map))
        return known[1] if known is not None else self._judged(table_map)

    def defined(self, name: Name, table: Table) -> CapturedTable | None:
        """Return a table as its rows will show it, by a definition of its history.

        None if it is not captured, is quarantined or given up, or if only its rows show how they are published.
        """
        route = self.route(name)
        if route is None or route.fault or isinstance(self._known.get(name), Unpublished):
            return None
        try:
            described = described_table(
                name, table, self._charsets, server=self._server, is_selected=False
            )
            return CapturedTable(described, self._charsets, route=route, known=table)
        except AqueductError:
            return None

    def count(self, table_map: TableMap, event_type: int, body: bytes) -> int:
        """Return the count of rows in an event of a table that is not captured."""
        counter = self._counters.get(id(table_map))
        if counter is None:
            if len(self._counters) >= MOST_TABLES:
                self._counters.clear()
            counter = self._counters[id(table_map)] = (table_map, RowCounter(table_map))
        return counter[1].count(event_type, body)

    def _judged(self, table_map: TableMap) -> TableHandling | None:
        name = (table_map.database, table_map.table)
        route = self.route(name)
        table = self._described(table_map, route) if route is not None else None
        if len(self._tables) >= MOST_TABLES:
            self._tables.clear()
        # The map is kept too, so that its id is not reused while the entry exists.
        self._tables[id(table_map)] = (table_map, table)
        return table

    def _described(self, table_map: TableMap, route: Route) -> TableHandling:
        name = route.table
        known = self._known.get(name)
        if isinstance(known, Unpublished):
            return known
        names_columns = has_full_metadata(table_map)
        if route.fault:
            raise TopicUnusable.of(name, route.fault)
        never_null: frozenset[int] = frozenset()
        if known is not None:
            as_logged, table_map = table_map, self._completed(table_map, name, known)
            never_null = _unproven(as_logged, table_map)
        elif names_columns:
            self._add_unknown(name)
        else:
            raise WitnessesDiffer.of(
                name, "its rows have no names, and its history has no definition"
            )
        self._refuse_shared_keys(route)
        hidden = row_hashes(table_map, known, server=self._server)
        try:
            return CapturedTable(
                table_map,
                self._charsets,
                route=route,
                hidden=hidden,
                never_null=never_null,
                key_is_logged=names_columns,
                known=known,
            )
        except UnsupportedEvent as error:
            raise RowUnreadable.of(name, error.detail) from error

    def _refuse_shared_keys(self, route: Route) -> None:
        """Raise RuleImpossible if another table with the same keys is published in place of this one.

        A literal name of the mapping ignores case, and may match several tables whose rows have the same keys.
        Then the table in the rule's own case is published, else the first by name.
        """
        mapped = route.mapped
        if mapped is None or route.shard is not None or mapped.rules.shard_in_key != "auto":
            return
        if self._server.lower_case_table_names:
            return
        if self._by_case is None:
            self._by_case = {}
            for name in self._names:
                self._by_case.setdefault(_lower(name), set()).add(name)
        own = (not mapped.has_own_case, route.table)
        for name in sorted(self._by_case.get(_lower(route.table), set()) - {route.table}):
            other = self.route(name)
            if other is None or other.mapped is None or other.topic != route.topic:
                continue
            if (not other.mapped.has_own_case, name) < own:
                raise RuleImpossible.of(
                    route.table,
                    f"the mapping ignores case, and takes {'.'.join(name)} too: keys of both would be equal in "
                    f"{route.topic}; state shard_in_key: always, or never if they share no key, or exclude one",
                )

    def _add_unknown(self, name: Name) -> None:
        """Add an existing table that the history does not have: other tables may be its shadows."""
        if name not in self._names:
            self._names.add(name)
            self._tables.clear()
            self._wanted.clear()
            self._by_case = None

    def _completed(self, table_map: TableMap, name: Name, known: Table) -> TableMap:
        """Return the table map completed from the history; raise WitnessesDiffer if they contradict."""
        faults = differences(table_map, known, self._charsets, server=self._server)
        if faults:
            raise WitnessesDiffer.of(name, "; ".join(faults))
        if has_full_metadata(table_map):
            return with_nullability(table_map, known, self._charsets, server=self._server)
        try:
            return completed_map(table_map, known, self._charsets, server=self._server)
        except (DefinitionMismatch, UnsupportedEvent) as error:
            raise WitnessesDiffer.of(name, error.detail) from error


def _lower(name: Name) -> Name:
    return name[0].lower(), name[1].lower()


def _unproven(as_logged: TableMap, completed: TableMap) -> frozenset[int]:
    """Return the NOT NULL columns that a table map marks as nullable; none if its key proves an outer join."""
    if as_logged.hides_not_null:
        return frozenset()
    both = enumerate(zip(as_logged.columns, completed.columns, strict=True))
    return frozenset(index for index, (one, other) in both if one.nullable and not other.nullable)


def _key(table_map: TableMap, route: Route) -> tuple[int, ...]:
    """Return the key columns of the records; raise RuleImpossible if the table lacks a column of the key."""
    if route.key_columns is None:
        return tuple(table_map.primary_key or ())
    indexes = {(column.name or "").lower(): at for at, column in enumerate(table_map.columns)}
    missing = [name for name in route.key_columns if name.lower() not in indexes]
    if missing:
        raise RuleImpossible.of(
            route.table, f"there is no column {missing[0]!r}, which its records' key is to have"
        )
    return tuple(indexes[name.lower()] for name in route.key_columns)


def _place(table_map: TableMap, route: Route) -> tuple[int, ...]:
    """Return the columns that choose a row's partition in place of its key, in the rule's order."""
    indexes = {(column.name or "").lower(): at for at, column in enumerate(table_map.columns)}
    return tuple(indexes[name.lower()] for name in route.partition_by)


def _omitted(table_map: TableMap, columns: tuple[str, ...]) -> frozenset[int]:
    """Return the columns that are not among those to be published; none if no list is given."""
    if not columns:
        return frozenset()
    published = {name.lower() for name in columns}
    return frozenset(
        index
        for index, column in enumerate(table_map.columns)
        if (column.name or "").lower() not in published
    )


def _check_fit(route: Route, definition: Definition) -> None:
    """Raise RuleImpossible if a table does not fit its route."""
    types = {column.name: column.type for column in definition.columns}
    faults = table_faults(route, types, definition.primary_key)
    if faults:
        raise RuleImpossible.of(route.table, "; ".join(faults))


def _definition(
    table_map: TableMap,
    charsets: Charsets,
    key: tuple[int, ...],
    *,
    hidden: frozenset[int],
    known: Table | None,
) -> Definition:
    columns = [_column(column, charsets) for column in table_map.columns]
    # The server's own hidden columns are listed nowhere, and come after all others in rows.
    for index, column in enumerate(known.columns if known is not None else ()):
        columns[index] = replace(
            columns[index],
            column_type=None if column.by_rows else column.type,
            id=column.origin or None,
            initial=orjson.loads(column.initial) if column.initial else None,
            comment=column_comment(column),
        )
    for index in table_map.primary_key or ():
        columns[index] = replace(columns[index], nullable=False)
    shown_columns = tuple(column for at, column in enumerate(columns) if at not in hidden)
    return Definition(
        columns=shown_columns,
        primary_key=tuple(columns[index].name for index in key),
        comment=table_comment(known) if known is not None else None,
    )


def _column(column: MappedColumn, charsets: Charsets) -> Column:
    return Column(
        name=column.name or "",
        type=column_type(column, charsets),
        nullable=column.nullable,
        charset=column_charset(column, charsets),
    )


def _null_checked(
    decode: Decode, table_map: TableMap, charsets: Charsets, never_null: frozenset[int]
) -> Decode:
    """Decode rows as ``decode`` does; raise WitnessesDiffer if a column of ``never_null`` is NULL.

    A server marks all columns as nullable if a statement has the table on the inner side of an outer join.
    Without row metadata this looks like a table that was altered with its binlog off.

    Invariant: no row with a NULL in a column that is NOT NULL by its definition is published.
    """
    images = RowDecoder(table_map, charsets)
    name = (table_map.database, table_map.table)
    columns = {index: table_map.columns[index].name for index in never_null}

    def rows(event_type: int, body: bytes) -> list[Row]:
        rows = decode(event_type, body)
        for change in images.decode(event_type, body):
            for image in (change.before, change.after):
                for index, column in columns.items():
                    if image is not None and image[index] is None:
                        raise WitnessesDiffer.of(
                            name, f"column {column!r} is NULL in a row, NOT NULL defined"
                        )
        return rows

    return rows


_RARE = (
    UnicodeDecodeError, Replaced, IndexError, ValueError, KeyError, TypeError, struct.error,
    orjson.JSONEncodeError,
)  # fmt: skip


class PacketRows:
    """Reads rows of one table from packets of a SELECT; their decoder is made when it is first needed.

    Invariant: the rows equal those that the table's binlog decoder makes of the same values. Where that is not
    certain, no rows are returned, and the packets take the long way through the binlog decoder.
    """

    def __init__(
        self,
        decoder: CompiledDecoder,
        table_map: TableMap,
        charsets: Charsets,
        rules: Mapping[str, ColumnRule],
        *,
        is_direct: bool,
    ) -> None:
        """``decoder``: that of the table's binlog rows; ``is_direct``: whether it alone reads all of a row."""
        self._table, self._map, self._charsets = decoder.table, table_map, charsets
        self._rules, self._is_direct = rules, is_direct
        self._decoder: PacketDecoder | None = None

    def rows(self, packets: bytes) -> list[Row] | None:
        """Return the rows of packets; None if they have to take the long way."""
        if not self._is_direct:
            return None
        try:
            if self._decoder is None:
                self._decoder = PacketDecoder(
                    self._table, self._map, self._charsets, rules=self._rules
                )
            return self._decoder.rows(packets)
        except UnsupportedEvent:
            self._is_direct = False
        except _RARE:
            pass
        return None
