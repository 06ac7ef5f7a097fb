"""Initial state of a run: its cursor, its schema history and the journal records of its claim.

Invariant: history and cursor are at the same position. A history past the cursor is rolled back; a
new history begins at the cursor with only the tables that are certain there. A missing table is added
once the cursor is so near the end of the binlog that the table's definition is certain too.

Rows older than a start are not published. Invariant: a start at the earliest change is accepted without
a message only if, as far as can be determined, the binlog reaches back to the server's beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from app.worker.destination.takeover.cursor_verification import CursorVerification
from connectors.errors import StartIncomplete
from connectors.mysql.ddl.definition import Database, Table, TableName
from connectors.mysql.lookup.binlog_retention import created_at
from connectors.mysql.lookup.position_by_time import was_purged
from connectors.mysql.lookup.position_within import (
    PublishedPart,
    published_part,
    published_through,
)
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import (
    AfterEvent,
    AfterGtids,
    AtCoordinates,
    Earliest,
    Latest,
    Start,
    first_offset,
    in_current_terms,
)
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema.baseline import (
    Baseline,
    LoggedStatement,
    StatementsRead,
    affected_tables,
    mentioned,
    read_baseline,
    server_of,
)
from connectors.mysql.schema.information_schema import Estimate, InventoryReader, estimates, shown
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import ServerFacts
from tables.history.codec import (
    checkpoint_records,
    history_records,
    rewound_records,
)
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.history.record import CheckpointPolicy, Unresolved
from tables.history.view import SchemaView
from tables.journal_format import Entry as Note
from tables.state.cursor import Cursor, CursorProof, Resume
from tables.state.journal.state import DestinationState

log = logging.getLogger(__name__)

_NEAR_BYTES = 16 << 20
"""The most bytes that count as near the binlog's end; read in 2 to 4 s if transactions are small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialState:
    """The initial state of a run."""

    cursor: Cursor
    history: SchemaHistory | None
    notes: list[Note] = field(default_factory=list)
    """Journal records for the transaction that claims the destination."""
    is_partial: bool = False
    """Whether the history lacks tables that can be added nearer to the end of the binlog."""
    by_coordinates: bool = False
    """Whether the binlog is read by file and offset, with or without GTIDs."""
    found: frozenset[TableName] = frozenset()
    """Tables that existed before, without a statement in the stream: tables that the history takes in now, and
    tables that it cannot take in yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialStateBuilder:
    """The start of a run of one destination at one server. Blocks while it queries the server."""

    destination: str
    installation: str
    start: Start
    facts: ServerFacts
    address: SourceAddress
    policy: CheckpointPolicy | None
    """The policy of the schema history; None keeps no history."""
    moved: SourceOffset | None = None
    """The cursor's position at this server, if the cursor is of another one."""
    is_same_binlog: bool = False
    """Whether both servers have the same binlog: the same files under another server_uuid."""
    names: frozenset[TableName] = frozenset()
    """The server's tables, if already queried."""
    captures: Callable[[str, str], bool] | None = None
    """The filter of captured tables; None disables the check for existing rows."""
    accepts_incomplete: bool = False
    """Whether to begin with the earliest change although the binlog may lack earlier ones."""
    accepts_unproven: bool = False
    """Whether to resume without proof that the server is still the one that was read."""
    hidden: Callable[[TableName, Table], Table] | None = None
    """Removes the literals from a definition that must not show them; None: no table is masked."""

    def open(self, state: DestinationState) -> InitialState:
        """Return the initial state.

        Raise PositionGone and related errors if the server lacks the position, SourceReset and related
        errors if its binlog is a different one, HistoryTooShort if the history begins after the cursor.
        """
        opened = self._first() if state.cursor is None else self._again(state, state.cursor)
        return replace(opened, by_coordinates=self._by_coordinates(opened.cursor))

    def after_gap(self, state: DestinationState) -> InitialState:
        """Begin again at the end of the binlog, as the server lacks the cursor's position; numbers continue."""
        before = state.cursor
        assert before is not None
        baseline = self._baseline()
        cursor = replace(
            before,
            epoch=before.epoch + 1,
            offset=baseline.at,
            resume=None,
            prepared={},
            by=None,
            is_new_start=False,
            proof=self._proving.first(baseline.at, CursorProof()),
        )
        opened = self._new_history(
            cursor, baseline.tables, baseline.databases, state.history(), views=baseline.views
        )
        return replace(opened, found=frozenset(baseline.unseen))

    def _again(self, state: DestinationState, before: Cursor) -> InitialState:
        offset, proof = self.moved, before.proof
        if offset is None:
            offset = in_current_terms(before.offset, self.facts, self.address)
            check(offset, self.facts, self.address)
            proof = self._proving.at_home(offset, proof)
        elif not self.is_same_binlog:
            proof = self._proving.moved(offset, proof)
        epoch, is_new_start = before.epoch + 1, before.is_new_start
        cursor = replace(
            before, epoch=epoch, offset=offset, by=None, is_new_start=False, proof=proof
        )
        if self.policy is None:
            return InitialState(cursor=replace(cursor, history=None), history=None)
        history = state.history()
        if history is None or is_new_start or not history.has_begun:
            return self._from_earlier(cursor, history or state.new_history())
        quarantine = state.quarantine
        waiting = {*quarantine.quarantined, *quarantine.given_up}
        if self.moved is not None:
            return self._continued(history, cursor, before.offset, waiting)
        return self._rolled_back(history, cursor, waiting)

    @property
    def _proving(self) -> CursorVerification:
        return CursorVerification(
            destination=self.destination,
            facts=self.facts,
            address=self.address,
            accepts_unproven=self.accepts_unproven,
        )

    def _by_coordinates(self, cursor: Cursor) -> bool:
        return self._proving.reads_by_coordinates(cursor.offset, cursor.proof)

    def _continued(
        self,
        history: SchemaHistory,
        cursor: Cursor,
        before: SourceOffset,
        waiting: Collection[TableName],
    ) -> InitialState:
        """The history at the old server's position, continued at this one.

        Without GTIDs positions of two servers do not compare, so a checkpoint marks the change.
        """
        history.policy = self.policy or history.policy
        notes = rewound_records(history.rollback(before))
        history.serve(server_of(self.facts))
        at = HistoryPosition.between(cursor.offset, ts_ms=_now_ms())
        checkpoint = history.checkpoint(at, made_ms=_now_ms(), count=history.count)
        notes += checkpoint_records(checkpoint)
        return InitialState(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=notes,
            is_partial=self._lacks(history, waiting),
        )

    def _first(self) -> InitialState:
        self._check_existing_rows()
        if self.policy is not None and isinstance(self.start, Latest):
            baseline = self._baseline()
            opened = self._new_history(
                self._cursor(baseline.at), baseline.tables, baseline.databases, views=baseline.views
            )
            return replace(opened, found=frozenset(baseline.unseen))
        start, part = self.start, None
        if isinstance(start, AfterEvent):
            published = published_through(start.coordinates, self.facts, self.address)
            start, part = AtCoordinates(published.coordinates), published.part
        offset = first_offset(start, self.facts, self.address)
        if isinstance(start, AfterGtids) and start.within is not None:
            part = published_part(offset, start.within, self.address)
        cursor = replace(self._cursor(offset), resume=self._resumed(part))
        if self.policy is None:
            return InitialState(cursor=cursor, history=None)
        return self._from_earlier(cursor)

    def _resumed(self, part: PublishedPart | None) -> Resume | None:
        """The part of the first transaction that another program has published; None if there is none."""
        if part is None:
            return None
        log.info(
            "%s: %s was published to row %d by another program",
            self.destination, part.transaction_id, part.rows,
        )  # fmt: skip
        return Resume(
            transaction_id=part.transaction_id, rows=part.rows, published=part.rows, part=1
        )

    def _check_existing_rows(self) -> None:
        """Refuse or log a start that omits existing rows."""
        if self.captures is None or not self.facts.binlogs:
            return
        if isinstance(self.start, Earliest):
            check_earliest(
                self.destination,
                self.facts,
                self.address,
                self.captures,
                accepted=self.accepts_incomplete,
            )
        elif isinstance(self.start, Latest):
            log_omitted_rows(self.destination, self.address, self.captures)

    def _cursor(self, offset: SourceOffset) -> Cursor:
        return Cursor(
            destination=self.destination,
            installation=self.installation,
            epoch=1,
            seq=0,
            versions=0,
            offset=offset,
            proof=self._proving.first(offset, CursorProof()),
        )

    def _baseline(self) -> Baseline:
        baseline = read_baseline(self.address, self.facts)
        for name, reason in baseline.unseen.items():
            log.warning(
                "%s: table %s is not in the baseline: %s", self.destination, ".".join(name), reason
            )
        if (hidden := self.hidden) is None:
            return baseline
        tables = {name: hidden(name, table) for name, table in baseline.tables.items()}
        return replace(baseline, tables=tables)

    def _from_earlier(self, cursor: Cursor, before: SchemaHistory | None = None) -> InitialState:
        """A history that begins at a position that may be old.

        If the server logs column names with each row, the statements since then are read only if
        that is quick: the logged names are certain too.
        """
        baseline = self._baseline()
        if has_column_names(self.facts) and not self._is_near(cursor.offset):
            opened = self._new_history(cursor, {}, baseline.databases, before)
            return replace(opened, is_partial=bool(baseline.tables))
        kept, changed, views = self._certain(cursor, baseline)
        if changed and not has_column_names(self.facts):
            log.warning(
                "%s: it is not known what these were at %s, and their rows are quarantined until a statement "
                "creates them again, or `python -m app schema resolve` gives their definition: %s",
                self.destination, cursor.offset.coordinates, _listed(changed),
            )  # fmt: skip
        opened = self._new_history(cursor, kept, baseline.databases, before, views=views)
        # If there was a history, more than rows may need a missing table, such as a snapshot in progress.
        is_partial = before is not None and has_column_names(self.facts) and bool(changed)
        return replace(opened, is_partial=is_partial)

    def _certain(
        self, cursor: Cursor, baseline: Baseline
    ) -> tuple[dict[TableName, Table], set[TableName], set[TableName]]:
        """The baseline's tables that no statement changed between a cursor and the baseline.

        Also the names of the changed ones, and the views that no statement changed.
        """
        passage = StatementsRead(
            begin=cursor.offset, server=baseline.server, by_coordinates=self._by_coordinates(cursor)
        )
        passage.read_to(baseline.at.coordinates, self.address, self.facts.charsets)
        known = baseline.tables.keys()
        changed = {
            name
            for written in passage.statements
            for name in affected_tables(written.query, written.statement, known)
        } & known
        kept = {name: table for name, table in baseline.tables.items() if name not in changed}
        views = {
            name
            for name in baseline.views
            if not any(_concerns(written, name) for written in passage.statements)
        }
        return kept, changed, views

    def _is_near(self, offset: SourceOffset) -> bool:
        """Whether the binlog since then can be read in a few seconds."""
        files = [name for name, _ in self.facts.binlogs]
        at = offset.coordinates
        if at.file not in files:
            return False
        sizes = [size for _, size in self.facts.binlogs[files.index(at.file) :]]
        return sum(sizes) - at.pos <= _NEAR_BYTES

    def _new_history(
        self,
        cursor: Cursor,
        tables: Mapping[TableName, Table],
        databases: Mapping[str, Database],
        before: SchemaHistory | None = None,
        *,
        views: Iterable[TableName] = (),
    ) -> InitialState:
        """A history that begins at the cursor; numbers continue those of ``before``."""
        now, history = _now_ms(), before or SchemaHistory(policy=self.policy)
        history.policy = self.policy or history.policy
        if before is None:
            history.init(self.destination)
        at = HistoryPosition.between(cursor.offset, ts_ms=now)
        checkpoint = history.baseline(
            tables, databases, at, server_of(self.facts), made_ms=now, views=views
        )
        log.info("%s: the schema history begins with %d table(s)", self.destination, len(tables))
        return InitialState(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=checkpoint_records(checkpoint),
        )

    def _rolled_back(
        self, history: SchemaHistory, cursor: Cursor, waiting: Collection[TableName]
    ) -> InitialState:
        """The history rolled back to the cursor; later changes are read again."""
        history.policy = self.policy or history.policy
        history.serve(server_of(self.facts))
        notes = rewound_records(history.rollback(cursor.offset))
        is_near = self._is_near(cursor.offset)
        lacks = self._lacks(history, waiting)
        found: Collection[TableName] = ()
        if lacks and is_near:
            found, added = self._added(history, cursor, waiting)
            notes += added
        return InitialState(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=notes,
            is_partial=lacks and not is_near,
            found=frozenset(found),
        )

    def _lacks(self, history: SchemaHistory, waiting: Collection[TableName]) -> bool:
        """Whether the history lacks tables or views of the server, or does not know tables whose rows are read.

        ``waiting``: tables whose rows are not read.
        """
        now, server = history.now(), server_of(self.facts)
        with connected(self.address) as cursor:
            reader = InventoryReader(cursor, server)
            if any(self._is_lacking(now, name, waiting) for name in self.names or reader.names()):
                return True
            return any(not now.has_view(*name) for name in reader.views())

    def _is_lacking(self, now: SchemaView, name: TableName, waiting: Collection[TableName]) -> bool:
        state = now.state(*name)
        is_read = has_column_names(self.facts) and name not in waiting
        return state is None or (isinstance(state, Unresolved) and is_read)

    def _added(
        self, history: SchemaHistory, cursor: Cursor, waiting: Collection[TableName]
    ) -> tuple[Collection[TableName], list[Note]]:
        """Add the tables that are certain at the history's end, which is the cursor's position."""
        baseline = self._baseline()
        kept, _, views = self._certain(cursor, baseline)
        now = history.now()
        news = {name: table for name, table in kept.items() if self._is_lacking(now, name, waiting)}
        at = HistoryPosition.between(cursor.offset, ts_ms=_now_ms())
        records = history.add_baseline(news, baseline.databases if news else {}, at, views)
        if news:
            log.info("%s: the schema history takes in %s", self.destination, _listed(news))
        return news, [note for record in records for note in history_records(record)]


def _concerns(written: LoggedStatement, name: TableName) -> bool:
    """Whether a statement may have created or dropped a view; errs on the side of True."""
    names = (name,)
    found = affected_tables(written.query, written.statement, names) | mentioned(
        written.query, names
    )
    return name in found


def has_column_names(facts: ServerFacts) -> bool:
    """Whether the binlog has column names with each row, so that no history is needed."""
    return facts.variables.get("binlog_row_metadata", "").upper() == "FULL"


def _listed(names: Iterable[TableName]) -> str:
    return ", ".join(sorted(".".join(name) for name in names))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


Captures = Callable[[str, str], bool]


def check_earliest(
    destination: str,
    facts: ServerFacts,
    address: SourceAddress,
    captures: Captures,
    *,
    accepted: bool,
) -> None:
    """Raise StartIncomplete if the binlog may lack rows of captured tables, unless accepted."""
    oldest = facts.binlogs[0][0]
    found = estimates(captures, address)
    if was_purged(facts):
        why = f"it has purged its binlog before {oldest}"
    elif found := _older(found, int(created_at(address, oldest))):
        why = f"these tables are older than its oldest binlog file, {oldest}"
    else:
        return
    detail = f"{why}; rows that are there may not be in it: {shown(found)}"
    if not accepted:
        raise StartIncomplete(detail, source=address)
    log.warning("%s: begins with the earliest change, as accepted: %s", destination, detail)


def _older(found: Iterable[Estimate], seconds: int) -> list[Estimate]:
    return [one for one in found if one.created < seconds]


def log_omitted_rows(destination: str, address: SourceAddress, captures: Captures) -> None:
    """Log the rows that a start at the end omits."""
    found = estimates(captures, address)
    log.warning(
        "%s: begins at the end of the binlog; existing rows are not published: %s",
        destination,
        shown(found),
    )
