"""A table comes back: what waited for it is decoded by the definition that a person gave, in order.

The law: each event is decoded once and where it stands, so statements that waited take effect between the rows
around them. Where an event does not fit, the release ends in front of it, and the table stays set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.pipeline.formats.registry import value_counter
from app.pipeline.gather.gather import Gathering, weight
from app.pipeline.gather.items import Ddl, values_of
from app.pipeline.gather.parked_event import Parked
from app.pipeline.number.numbers import Numbers
from app.pipeline.piece import Piece
from app.pipeline.stage import ChunkStage, DecodedChunk, StageSpec
from connectors.errors import AqueductError
from connectors.mysql.binlog.query_session import session_of
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Database, Table
from connectors.mysql.position import Coordinates
from connectors.mysql.schema.from_table_map import adopted
from connectors.mysql.stream.chunk import Chunk
from tables.cursor import Cursor
from tables.quarantine import Entry, Outcome, Resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Some of what waited, decoded, and how far that is."""

    piece: Piece
    entry: Entry
    events: int
    """How many of those that were given."""


class Release:
    """Decodes what waited for one table, by one resolution."""

    def __init__(self, spec: StageSpec, resolution: Resolution, entry: Entry) -> None:
        self._charsets, self._mariadb = spec.charsets, spec.mariadb
        self._resolution, self._server = resolution, spec.server
        self._entry = entry
        goes_on = entry.resolution == resolution.id and entry.outcome is Outcome.RELEASING
        self.table = entry.table if goes_on else resolution.table
        """What the next event is decoded by; None where the binlog itself is to tell."""
        self._by_binlog = resolution.table is None
        self._is_met = goes_on
        """Whether rows were decoded: from there on statements take effect. The definition that was given is
        that of the first rows, so it has the effect of what stands before them."""
        self.offset = entry.offset
        """Where the next event may stand in the quarantine topic."""
        # That their transactions ended was told long ago; and what does not fit is refused, not buried.
        rules = replace(spec.rules, borders=False, borders_of_parts=False, poison_limit=0)
        self._stage: ChunkStage = replace(spec, rules=rules, known={}).make()
        self._stage.tables.put(resolution.name, self.table)
        self._maps: dict[bytes, TableMap] = {}
        self._last: TableMap | None = None
        latest = spec.versions.get(resolution.name)
        self._nullable = {
            column.name: column.nullable for column in (latest.definition.columns if latest else ())
        }
        """Which columns may be NULL, as the latest event says that shows it."""

    def decode(self, events: Sequence[Parked], cursor: Cursor) -> Released:
        """The next events, in their order, as many as one Kafka transaction takes; the progress tells whether
        all of these fitted."""
        gathering = Gathering(self._stage.tables, self._stage.rules, value_counter)
        outcome, reason, done, size = Outcome.RELEASING, "", 0, 0
        for event in events:
            known = len(gathering.items)
            try:
                self._gather(event, gathering)
            except AqueductError as error:
                place = Coordinates(event.transaction.file, event.pos)
                outcome, reason = Outcome.REFUSED, f"{error.name} at {place}: {error.detail}"
                break
            self.offset, done = event.offset + 1, done + 1
            size += sum(weight(item, values_of(item)) for item in gathering.items[known:])
            if size >= self._stage.rules.max_bytes:
                break
        entry = self.entry(outcome, reason)
        return Released(piece=self._piece(gathering, cursor), entry=entry, events=done)

    def definition(self, database: Database) -> Table | None:
        """What the table is behind all that waited; where the binlog was to tell, what it told last."""
        if self._by_binlog and self._last is not None:
            return adopted(self._last, self._charsets, database=database, nullable=self._nullable)
        return self.table

    def entry(self, outcome: Outcome, reason: str = "") -> Entry:
        """How far it is, as the journal is to say."""
        return replace(
            self._entry,
            offset=self.offset,
            resolution=self._resolution.id,
            outcome=outcome,
            reason=reason,
            table=self.table if outcome is Outcome.RELEASING else None,
            given=None,
            lost=0,
        )

    def _gather(self, event: Parked, gathering: Gathering) -> None:
        gathering.ordinal = event.ordinal
        if event.query is not None:
            self._state(event, gathering)
            return
        if event.text is not None:
            gathering.query(event.text)
        table_map = self._mapped(event.table_map)
        gathering.rows(event.transaction, table_map, event.event_type, event.body, event.pos)
        self._last = table_map
        if not table_map.hides_not_null:
            self._nullable = {one.name or "": one.nullable for one in table_map.columns}
        self._is_met = True

    def _state(self, event: Parked, gathering: Gathering) -> None:
        """A statement between the rows: it was told on the DDL topic, and takes its effect here."""
        query = event.query
        assert query is not None
        if event.statement == Kind.TRUNCATE.value:
            route = self._stage.tables.route(event.name)
            at = event.pos, event.ordinal
            item = Ddl(event.transaction, Kind.TRUNCATE, query, *at, route, None, (), told=False)
            gathering.first = gathering.first or event.transaction
            gathering.items.append(item)
            gathering.values += item.values
        elif self._is_met and not self._by_binlog:
            self.table = self._after(event)
            self._stage.tables.put(event.name, self.table)

    def _after(self, event: Parked) -> Table | None:
        """The definition behind a statement; None where the table is gone."""
        query = event.query
        assert query is not None
        catalog = Catalog(self._server)
        if self.table is not None:
            catalog.put(event.name, self.table)
        session = session_of(
            query.status,
            database=query.database,
            thread=query.thread,
            charsets=self._charsets,
            mariadb=self._server.mariadb,
        )
        catalog.apply(query.sql, session)
        return catalog.get(event.name)

    def _mapped(self, raw: bytes) -> TableMap:
        table_map = self._maps.get(raw)
        if table_map is None:
            table_map = self._maps[raw] = parse_table_map(raw, mariadb=self._mariadb)
        return table_map

    def _piece(self, gathering: Gathering, cursor: Cursor) -> Piece:
        """What was gathered, behind the last number and at the place where the cursor is."""
        at = cursor.offset.coordinates
        chunk = Chunk(start=at, data=b"", checksum=False)
        decoded = DecodedChunk(self._stage, chunk, gathering, open_=None, events=Counter())
        decoded.number(Numbers(seq=cursor.seq, safe=at), [])
        piece = decoded.encode()
        piece.resume = cursor.resume
        return piece
