"""The rows of a transaction that another program has published, from the number of events that it has read.

Invariant: the count is Debezium's: complete events from BEGIN on, and rows of the next event. A position at
which no event begins is refused; nothing is skipped. For an update that changes a row's key, Debezium
publishes a delete and a create, and already the offset of the delete counts the row. Such an update is
therefore not considered published if it is the last row counted.
Source: ``restartEventsToSkip`` and ``restartRowsToSkip`` of Debezium's offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.errors import PositionWithin
from connectors.mysql.binlog.chunk_context import GTIDS, MARIADB_GTID, QUERIES
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.lookup.transaction_spans import ALWAYS_ENDS, Spans, gtid_announced
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.rows.counter import changed_columns, row_count
from connectors.mysql.rows.decoder import ROWS_EVENTS, UPDATES
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.stream.event_actions import PASSED
from connectors.mysql.stream.replica import unregistered

_HANDLE = 6
"""Size in bytes of the table id at the beginning of a table map or rows event."""


_KEYS = (
    "SELECT c.ORDINAL_POSITION, COUNT(s.INDEX_NAME) FROM information_schema.COLUMNS c LEFT JOIN "
    "information_schema.STATISTICS s ON s.TABLE_SCHEMA = c.TABLE_SCHEMA AND s.TABLE_NAME = c.TABLE_NAME AND "
    "s.COLUMN_NAME = c.COLUMN_NAME AND s.NON_UNIQUE = 0 WHERE c.TABLE_SCHEMA = %s AND c.TABLE_NAME = %s "
    "GROUP BY 1 ORDER BY 1"
)
"""The columns, and whether each is in a unique key: without a primary key, Debezium uses any unique key."""


@dataclass(frozen=True, slots=True)
class Within:
    """A position within a transaction."""

    events: int
    """The number of complete events, from BEGIN on."""
    rows: int
    """The number of rows of the next event."""


@dataclass(frozen=True, slots=True)
class Published:
    """The published changes: all transactions before a position, and rows of the transaction after it."""

    coordinates: Coordinates
    part: PublishedPart | None


@dataclass(frozen=True, slots=True)
class PublishedPart:
    """The beginning of a transaction."""

    transaction_id: str
    rows: int


def published_through(event: Coordinates, facts: ServerFacts, address: SourceAddress) -> Published:
    """Return the published changes, given the last published event, which begins at these coordinates.

    Raise PositionWithin if no event begins there, except on MariaDB, which does not send every event.
    """
    span = next((one for one in Spans(address, event.file) if event.order < one.end.order), None)
    if span is None:
        return Published(event, None)
    if event.order < span.start.order:
        return Published(span.start, None)
    offset = SourceOffset(server_uuid=facts.server_uuid, coordinates=span.start)
    rows, is_met = 0, False
    maps: dict[bytes, TableMap] = {}
    name = span.gtid or f"{facts.server_uuid}:{span.start}"
    with unregistered(offset, address) as stream:
        for placed in stream.events_there_are():
            found, start = placed.event, placed.start
            if found.type in PASSED or start.order < span.start.order:
                continue
            if is_met:
                if start.order >= span.end.order:
                    break
                return Published(span.start, PublishedPart(name, rows))
            if start.order > event.order and facts.is_mariadb:
                return Published(span.start, PublishedPart(name, rows))
            if start.order > event.order:
                raise PositionWithin(
                    f"no event begins at {event}, within a transaction from {span.start} to {span.end}",
                    source=address,
                )
            if found.type == EventType.TABLE_MAP:
                maps[found.body[:_HANDLE]] = parse_table_map(found.body, mariadb=facts.is_mariadb)
            if found.type in ROWS_EVENTS:
                rows += row_count(maps[found.body[:_HANDLE]], found.type, found.body)
            is_met = start.order == event.order
    return Published(span.end, None)


def published_part(
    offset: SourceOffset, within: Within, address: SourceAddress
) -> PublishedPart | None:
    """Return the certainly published part of the first transaction after an offset; None without any.

    Raise PositionWithin if that transaction does not have the events and rows of ``within``.
    """
    name, seen, rows = "", 0, 0
    maps: dict[bytes, TableMap] = {}
    with unregistered(offset, address) as stream:
        for placed in stream.events_there_are():
            event = placed.event
            if event.type in GTIDS:
                if name or event.type == MARIADB_GTID:
                    break
                name = gtid_announced(event)
                continue
            if not name:
                continue
            if event.type == EventType.TABLE_MAP:
                maps[event.body[:_HANDLE]] = parse_table_map(event.body)
            is_next = seen == within.events
            if event.type in ROWS_EVENTS:
                held = row_count(maps[event.body[:_HANDLE]], event.type, event.body)
                if is_next and within.rows <= held:
                    table = maps[event.body[:_HANDLE]]
                    published = rows + within.rows
                    if within.rows and _changes_key(
                        table, event.type, event.body, within.rows - 1, address
                    ):
                        published -= 1
                    return PublishedPart(name, published)
                rows += held
            elif is_next and not within.rows:
                return PublishedPart(name, rows)
            ends = is_next or event.type in ALWAYS_ENDS
            if ends or (seen == 0 and event.type not in QUERIES):
                break
            seen += 1
    if not name:
        return None
    raise PositionWithin(
        f"the transaction {name} has not the {within.events} events and {within.rows} rows of the next one "
        "that `start.within` counts: remove `within` to publish all of that transaction, or add the "
        "transaction to `start.gtid_set` to publish none of it",
        source=address,
    )


def _changes_key(
    table: TableMap, event_type: int, body: bytes, number: int, address: SourceAddress
) -> bool:
    """Whether a row of an event, counted from 0, is an update that may change the row's key.

    If the table's number of columns has changed since, the answer is yes: the keys are no longer known.
    """
    if event_type not in UPDATES:
        return False
    with connected(address) as cursor:
        cursor.execute(_KEYS, (table.database, table.table))
        in_keys = [bool(is_in_key) for _, is_in_key in cursor.fetchall()]
    if len(in_keys) != len(table.columns):
        return True
    changed = changed_columns(table, event_type, body, number)
    return any(is_in_key and n in changed for n, is_in_key in enumerate(in_keys))
