"""How a run begins: at which cursor, with which schema history, and what the journal must hold before it.

The law: history and cursor stand at the same place. A history that is further is gone back in; where there is
none, it begins at the cursor with what is certain there, and with nothing else. A table that it does not know
is taken in as soon as the cursor is so near to the present that this is certain too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from app.destination.takeover.cursor_verification import Proving
from app.destination.takeover.existing_rows import check_earliest, tell_latest
from connectors.mysql.ddl.definition import Database, Table, TableName
from connectors.mysql.lookup.start import Earliest, Latest, Start, as_of_now, check, first_offset
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema.affected_tables import mentioned, touched
from connectors.mysql.schema.baseline import Baseline, read_baseline, server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.schema.statements_between import Passage, Written
from connectors.mysql.server.facts import ServerFacts, SourceAddress, connected
from tables.cursor import Cursor
from tables.cursor_proof import Proof
from tables.journal.state import DestinationState
from tables.journal_format import Entry as Note
from tables.schema_history.checkpoint import CheckpointPolicy
from tables.schema_history.codec.journal_records import (
    checkpoint_records,
    history_records,
    rewound_records,
)
from tables.schema_history.history import SchemaHistory
from tables.schema_history.position import HistoryPlace

log = logging.getLogger(__name__)

_NEAR_BYTES = 16 << 20
"""Of binlog, which are read in 2 to 4 s where the transactions are small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a run begins with."""

    cursor: Cursor
    history: SchemaHistory | None
    notes: list[Note] = field(default_factory=list)
    """For the journal, in the transaction that claims the destination."""
    is_partial: bool = False
    """Whether there are tables that the history could know if the cursor were nearer to the present."""
    by_place: bool = False
    """Whether the binlog is read by file and offset, GTIDs or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Of one destination at one server. It blocks while it asks the server."""

    destination: str
    installation: str
    start: Start
    facts: ServerFacts
    address: SourceAddress
    policy: CheckpointPolicy | None
    """Of the schema history; None keeps none."""
    moved: SourceOffset | None = None
    """The cursor's place at this server, where it is of another one."""
    is_same_binlog: bool = False
    """Whether that one's binlog is this one's too: the same files under another server_uuid."""
    names: frozenset[TableName] = frozenset()
    """The server's tables, where it was asked for them already."""
    captures: Callable[[str, str], bool] | None = None
    """Which tables are published; None says nothing of rows that are there before a start."""
    accepts_incomplete: bool = False
    """Whether to begin with the earliest change although the binlog does not begin at its beginning."""
    accepts_unproven: bool = False
    """Whether to go on where nothing shows that the server is still the one that was read."""

    def open(self, state: DestinationState) -> Opened:
        """Raises PositionGone and its kin where the server cannot go on, SourceReset and its kin where it is
        another one, HistoryTooShort where the history cannot go on."""
        opened = self._first() if state.cursor is None else self._again(state, state.cursor)
        return replace(opened, by_place=self._by_place(opened.cursor))

    def _again(self, state: DestinationState, before: Cursor) -> Opened:
        """Go on at a cursor."""
        offset, proof = self.moved, before.proof
        if offset is None:
            offset = as_of_now(before.offset, self.facts, self.address)
            check(offset, self.facts, self.address)
            proof = self._proving.at_home(offset, proof)
        elif not self.is_same_binlog:
            proof = self._proving.moved(offset, proof)
        epoch, is_new_start = before.epoch + 1, before.is_new_start
        cursor = replace(
            before, epoch=epoch, offset=offset, by=None, is_new_start=False, proof=proof
        )
        if self.policy is None:
            return Opened(cursor=replace(cursor, history=None), history=None)
        history = state.history()
        if history is None or is_new_start:
            return self._begun_in_the_past(cursor, history)
        if self.moved is not None:
            return self._carried_over(history, cursor, before.offset)
        return self._gone_back(history, cursor)

    @property
    def _proving(self) -> Proving:
        return Proving(
            destination=self.destination,
            facts=self.facts,
            address=self.address,
            accepts_unproven=self.accepts_unproven,
        )

    def _by_place(self, cursor: Cursor) -> bool:
        return self._proving.reads_by_place(cursor.offset, cursor.proof)

    def _carried_over(self, history: SchemaHistory, cursor: Cursor, before: SourceOffset) -> Opened:
        """The history as it was at the old server's place, going on at this one.

        Without GTIDs places of two servers do not compare, so it has a checkpoint where the new ones begin.
        """
        history.policy = self.policy or history.policy
        notes = rewound_records(history.rollback(before))
        history.serve(server_of(self.facts))
        at = HistoryPlace.between(cursor.offset, ts_ms=_now_ms())
        checkpoint = history.checkpoint(at, made_ms=_now_ms(), count=history.count)
        notes += checkpoint_records(checkpoint)
        return Opened(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=notes,
            is_partial=self._lacks(history),
        )

    def _first(self) -> Opened:
        """Begin where the settings say."""
        self._look_at_rows()
        if self.policy is not None and isinstance(self.start, Latest):
            baseline = self._baseline()
            return self._begun(
                self._cursor(baseline.at), baseline.tables, baseline.databases, views=baseline.views
            )
        offset = first_offset(self.start, self.facts, self.address)
        if self.policy is None:
            return Opened(cursor=self._cursor(offset), history=None)
        return self._begun_in_the_past(self._cursor(offset))

    def _look_at_rows(self) -> None:
        """Refuse or log a start that leaves out rows that are there."""
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
            tell_latest(self.destination, self.address, self.captures)

    def _cursor(self, offset: SourceOffset) -> Cursor:
        return Cursor(
            destination=self.destination,
            installation=self.installation,
            epoch=1,
            seq=0,
            versions=0,
            offset=offset,
            proof=self._proving.first(offset, Proof()),
        )

    def _baseline(self) -> Baseline:
        baseline = read_baseline(self.address, self.facts)
        for name, reason in baseline.unseen.items():
            log.warning(
                "%s: table %s is not in the baseline: %s", self.destination, ".".join(name), reason
            )
        return baseline

    def _begun_in_the_past(self, cursor: Cursor, before: SchemaHistory | None = None) -> Opened:
        """A history that begins at a place that may be long past.

        A server that tells the columns of each row is asked about all statements since then only where that is
        quick: what it tells with its rows is certain too.
        """
        baseline = self._baseline()
        if tells_columns(self.facts) and not self._is_near(cursor.offset):
            opened = self._begun(cursor, {}, baseline.databases, before)
            return replace(opened, is_partial=bool(baseline.tables))
        kept, changed, views = self._certain(cursor, baseline)
        if changed and not tells_columns(self.facts):
            log.warning(
                "%s: it is not known what these were at %s, and their rows will be set aside until a statement "
                "makes them anew: %s", self.destination, cursor.offset.coordinates, _listed(changed),
            )  # fmt: skip
        return self._begun(cursor, kept, baseline.databases, before, views=views)

    def _certain(
        self, cursor: Cursor, baseline: Baseline
    ) -> tuple[dict[TableName, Table], set[TableName], set[TableName]]:
        """The tables of a place before a baseline: as they are there, where no statement came between.

        Beside them the names of the others, and the views of which the same is true.
        """
        passage = Passage(
            begin=cursor.offset, server=baseline.server, by_place=self._by_place(cursor)
        )
        passage.read_to(baseline.at.coordinates, self.address, self.facts.charsets)
        known = baseline.tables.keys()
        changed = {
            name
            for written in passage.statements
            for name in touched(written.query, written.statement, known)
        } & known
        kept = {name: table for name, table in baseline.tables.items() if name not in changed}
        views = {
            name
            for name in baseline.views
            if not any(_concerns(written, name) for written in passage.statements)
        }
        return kept, changed, views

    def _is_near(self, offset: SourceOffset) -> bool:
        """Whether all that the server wrote since then is read in a few seconds."""
        files = [name for name, _ in self.facts.binlogs]
        at = offset.coordinates
        if at.file not in files:
            return False
        sizes = [size for _, size in self.facts.binlogs[files.index(at.file) :]]
        return sum(sizes) - at.pos <= _NEAR_BYTES

    def _begun(
        self,
        cursor: Cursor,
        tables: Mapping[TableName, Table],
        databases: Mapping[str, Database],
        before: SchemaHistory | None = None,
        *,
        views: Iterable[TableName] = (),
    ) -> Opened:
        """A history that begins at the cursor; the numbers of one before go on."""
        now, history = _now_ms(), before or SchemaHistory(policy=self.policy)
        history.policy = self.policy or history.policy
        if before is None:
            history.init(self.destination)
        at = HistoryPlace.between(cursor.offset, ts_ms=now)
        checkpoint = history.baseline(
            tables, databases, at, server_of(self.facts), made_ms=now, views=views
        )
        log.info("%s: the schema history begins with %d table(s)", self.destination, len(tables))
        return Opened(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=checkpoint_records(checkpoint),
        )

    def _gone_back(self, history: SchemaHistory, cursor: Cursor) -> Opened:
        """The history as it was at the cursor; what came later comes again."""
        history.policy = self.policy or history.policy
        history.serve(server_of(self.facts))
        notes = rewound_records(history.rollback(cursor.offset))
        is_near = self._is_near(cursor.offset)
        lacks = self._lacks(history)
        if lacks and is_near:
            notes += self._taken_in(history, cursor)
        return Opened(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=notes,
            is_partial=lacks and not is_near,
        )

    def _lacks(self, history: SchemaHistory) -> bool:
        """Whether the server has tables or views of which the history has never heard."""
        now, server = history.now(), server_of(self.facts)
        with connected(self.address) as cursor:
            reader = InventoryReader(cursor, server)
            if any(now.state(*name) is None for name in self.names or reader.names()):
                return True
            return any(not now.has_view(*name) for name in reader.views())

    def _taken_in(self, history: SchemaHistory, cursor: Cursor) -> list[Note]:
        """Complete a history by the tables that are certain at its end, which is the cursor's place."""
        baseline = self._baseline()
        kept, _, views = self._certain(cursor, baseline)
        now = history.now()
        news = {name: table for name, table in kept.items() if now.state(*name) is None}
        at = HistoryPlace.between(cursor.offset, ts_ms=_now_ms())
        records = history.add_baseline(news, baseline.databases if news else {}, at, views)
        if news:
            log.info("%s: the schema history takes in %s", self.destination, _listed(news))
        return [note for record in records for note in history_records(record)]


def _concerns(written: Written, name: TableName) -> bool:
    """Whether a statement may have made or dropped a view; rather once too often."""
    names = (name,)
    found = touched(written.query, written.statement, names) | mentioned(written.query, names)
    return name in found


def tells_columns(facts: ServerFacts) -> bool:
    """Whether each row comes with its columns' names, so that it can be read without a history."""
    return facts.variables.get("binlog_row_metadata", "").upper() == "FULL"


def _listed(names: Iterable[TableName]) -> str:
    return ", ".join(sorted(".".join(name) for name in names))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
