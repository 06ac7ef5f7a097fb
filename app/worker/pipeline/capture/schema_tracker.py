"""The schema tracker, which applies each DDL statement to the schema history at its binlog position.

Invariant: it runs in the reader's thread, in binlog order, before a chunk goes to any decoder; so the schema
that a decoder gets with a chunk is the one valid there. It never stops the reader: a statement that it cannot
parse is refused by that chunk's decoder, or its table is quarantined.
"""

from __future__ import annotations

from dataclasses import replace

from app.worker.pipeline.hidden_statement import hidden
from app.worker.pipeline.stage import StageSpec
from connectors.errors import AqueductError
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query, execution_of
from connectors.mysql.binlog.query_session import session_of, user_of
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableChange, TableName
from connectors.mysql.ddl.hidden_literals import table_without_literals
from connectors.mysql.ddl.online import Noise, ShadowRules, TableNames, logical
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import SchemaRecord
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Routes

_MOST_DROPPED = 1000


class SchemaTracker:
    """Applies the statements of one source to its history."""

    def __init__(
        self,
        history: SchemaHistory,
        *,
        server_uuid: str,
        charsets: Charsets,
        mariadb: bool,
        server: Server,
        shadows: ShadowRules,
        routes: Routes,
    ) -> None:
        self._history = history
        self._routes = routes
        now = history.now()
        self._existing = TableNames(shadows, (*now.tables(), *now.unresolved()))
        """Names of the existing tables; cached, since each statement needs all of them."""
        self._server = server
        self._server_uuid = server_uuid
        self._charsets = charsets
        self._reader = TransactionReader(server_uuid, charsets, mariadb=mariadb)
        self._shadows = shadows
        self._dropped: dict[TableName, Table] = {}
        self.transaction: Transaction | None = None
        """The transaction of the last statement."""
        # A run may begin between the two steps that replace a table.
        for record in history.records:
            self._remember(record)

    @classmethod
    def of(cls, history: SchemaHistory, spec: StageSpec) -> SchemaTracker:
        """Return the tracker of a run whose decoders are made from ``spec``."""
        return cls(
            history,
            server_uuid=spec.server_uuid,
            charsets=spec.charsets,
            mariadb=spec.mariadb,
            server=spec.server,
            shadows=spec.rules.shadow_rules(),
            routes=spec.rules.routes,
        )

    def note(self, chunk: Chunk) -> ResolvedStatement | None:
        """Apply the statement at the end of a chunk, if any; return it if decoders must know its effect."""
        if not chunk.ends_in_statement:
            return None
        listener = _Listener()
        try:
            self._reader.read(chunk, listener)
        except AqueductError:
            # The decoder meets the same event, and reports its position and its fault.
            return None
        if listener.found is None:
            return None
        transaction, query, pos = listener.found
        return self._resolved(transaction, query, pos=pos, end=listener.end_pos)

    def _resolved(
        self, transaction: Transaction, query: Query, *, pos: int, end: int
    ) -> ResolvedStatement | None:
        self.transaction = transaction
        position = HistoryPosition(
            server_uuid=self._server_uuid,
            start=Coordinates(transaction.file, pos),
            end=Coordinates(transaction.file, end),
            gtid=transaction.gtid,
            ts_ms=transaction.committed_ms,
            server_id=transaction.server_id,
            thread=query.thread,
            user=user_of(query.status),
        )
        session = session_of(
            query.status,
            database=query.database,
            thread=query.thread,
            charsets=self._charsets,
            mariadb=self._server.mariadb,
        )
        parsed = self._history.parsed(query.sql, session)
        execution = execution_of(query, transaction.id)
        if any(map(self._is_shadow, parsed.tables)):
            # The tool copies rows later, each with its own time.
            execution = replace(execution, started_us=None)
        parsed = replace(parsed, execution=execution)
        statement = hidden(parsed, self._routes)
        conceal = None if statement is parsed else table_without_literals
        resolved = self._history.apply_parsed(position, statement, conceal)
        record = resolved.record
        if record is None or record.is_of_views:
            return self._without_change(resolved, statement.tables)
        self._follow(record)
        changes = logical(
            record.changes, self._shadows, known=self._existing, before=self._dropped.get
        )
        self._remember(record)
        return replace(
            resolved,
            logical=changes,
            is_noise=bool(changes or record.unresolved or record.unchanged)
            and all(isinstance(one, Noise) for one in changes)
            and all(map(self._is_shadow, (*record.unresolved, *record.unchanged))),
        )

    def _without_change(
        self, resolved: ResolvedStatement, tables: frozenset[TableName]
    ) -> ResolvedStatement | None:
        """Return a statement that changes no definition; None if it has no effect on rows either.

        One on temporary tables is returned, as tables of the same names must not be taken for them.
        """
        if tables and all(map(self._is_shadow, tables)):
            return replace(resolved, unlogged=(), is_noise=True)
        is_needed = resolved.emptied or resolved.unlogged or resolved.is_of_temporary
        return resolved if resolved.record or is_needed else None

    def _is_shadow(self, name: TableName) -> bool:
        return self._shadows.shadow(name, self._existing) is not None

    def _follow(self, record: SchemaRecord) -> None:
        for change in record.changes:
            if isinstance(change, TableChange):
                (self._existing.discard if change.new is None else self._existing.add)(change.name)
        self._existing.update(record.unresolved)

    def _remember(self, record: SchemaRecord) -> None:
        """Remember dropped tables: a table that later takes the name of one of them replaces it."""
        for change in record.changes:
            if not isinstance(change, TableChange):
                continue
            if change.new is not None:
                self._dropped.pop(change.name, None)
            elif change.old is not None:
                self._dropped[change.name] = change.old
        while len(self._dropped) > _MOST_DROPPED:
            del self._dropped[next(iter(self._dropped))]


class _Listener:
    """Records the statement of a chunk and ignores all other events."""

    def __init__(self) -> None:
        self.found: tuple[Transaction, Query, int] | None = None
        """The statement with its transaction, and the position at which it begins."""
        self.end_pos = 0

    def rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes, pos: int
    ) -> None:
        """Not noted."""

    def query(self, text: str) -> None:
        """Not noted."""

    def statement(self, transaction: Transaction, kind: Kind, query: Query, pos: int) -> None:  # noqa: ARG002
        """Record the statement; a chunk ends with its last statement."""
        # If it ends its transaction, its end position is reported after it.
        self.found, self.end_pos = (transaction, query, pos), pos + 1

    def change(self, transaction: Transaction, query: Query) -> None:
        """Not noted."""

    def savepoint(self, name: str) -> None:
        """Not noted."""

    def undone(self, what: str, *, earlier: bool, savepoint: str | None = None) -> None:
        """Not noted."""

    def undone_rows(
        self, transaction: Transaction, table_map: TableMap, event_type: int, body: bytes
    ) -> None:
        """Not noted."""

    def xa(self, transaction: Transaction, xid: str, *, is_prepared: bool) -> None:
        """Not noted."""

    def end(self, transaction: Transaction, pos: int) -> None:  # noqa: ARG002
        """Record the end position of the statement, if there is one."""
        self.end_pos = pos
