"""How a run begins: at which cursor, with which schema history, and what the journal must hold before it.

The law: history and cursor stand at the same place. A history that is further is gone back in; where there is
none, it begins at the cursor with what is certain there, and with nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from connectors.mysql.baseline import Baseline, read_baseline, server_of
from connectors.mysql.ddl.definition import Database, Table, TableName
from connectors.mysql.passage import Passage
from connectors.mysql.position import SourceOffset
from connectors.mysql.server import ServerFacts, SourceAddress
from connectors.mysql.start import Latest, Start, as_of_now, check, first_offset
from connectors.mysql.touched import touched
from tables.cursor import Cursor
from tables.history import SchemaHistory
from tables.history_journal import checkpoint_records, rewound_records
from tables.journal import DestinationState
from tables.journal_format import Entry as Note
from tables.place import HistoryPlace
from tables.schema_checkpoint import CheckpointPolicy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a run begins with."""

    cursor: Cursor
    history: SchemaHistory | None
    notes: list[Note] = field(default_factory=list)
    """For the journal, in the transaction that claims the destination."""


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

    def open(self, state: DestinationState) -> Opened:
        """Raises PositionGone and its kin where the server cannot go on, HistoryTooShort where the history
        cannot."""
        if state.cursor is None:
            return self._first()
        offset = as_of_now(state.cursor.offset, self.facts, self.address)
        check(offset, self.facts, self.address)
        cursor = replace(state.cursor, epoch=state.cursor.epoch + 1, offset=offset)
        if self.policy is None:
            return Opened(cursor=replace(cursor, history=None), history=None)
        history = state.history()
        if history is None:
            return self._begun(cursor, *self._certain(offset))
        return self._gone_back(history, cursor)

    def _first(self) -> Opened:
        """Begin where the settings say."""
        if self.policy is not None and isinstance(self.start, Latest):
            baseline = self._baseline()
            found = baseline.tables, baseline.databases
            return self._begun(self._cursor(baseline.at), *found)
        offset = first_offset(self.start, self.facts, self.address)
        if self.policy is None:
            return Opened(cursor=self._cursor(offset), history=None)
        return self._begun(self._cursor(offset), *self._certain(offset))

    def _cursor(self, offset: SourceOffset) -> Cursor:
        return Cursor(
            destination=self.destination,
            installation=self.installation,
            epoch=1,
            seq=0,
            versions=0,
            offset=offset,
        )

    def _baseline(self) -> Baseline:
        baseline = read_baseline(self.address, self.facts)
        for name, reason in baseline.unseen.items():
            log.warning(
                "%s: table %s is not in the baseline: %s", self.destination, ".".join(name), reason
            )
        return baseline

    def _certain(
        self, offset: SourceOffset
    ) -> tuple[Mapping[TableName, Table], Mapping[str, Database]]:
        """What tables were at a place that may be long past: as they are now, where no statement came between.

        A server that tells the columns of each row is not asked: what it tells later is certain too.
        """
        baseline = self._baseline()
        if tells_columns(self.facts):
            return {}, baseline.databases
        passage = Passage(begin=offset, server=baseline.server)
        passage.read_to(baseline.at.coordinates, self.address, self.facts.charsets)
        known = baseline.tables.keys()
        changed = {
            name
            for written in passage.statements
            for name in touched(written.query, written.told, known)
        } & known
        kept = {name: table for name, table in baseline.tables.items() if name not in changed}
        if changed:
            names = ", ".join(sorted(".".join(name) for name in changed))
            log.warning(
                "%s: nobody knows what these were at %s, and their rows will be set aside until a statement "
                "makes them anew: %s", self.destination, offset.coordinates, names,
            )  # fmt: skip
        return kept, baseline.databases

    def _begun(
        self,
        cursor: Cursor,
        tables: Mapping[TableName, Table],
        databases: Mapping[str, Database],
    ) -> Opened:
        """A history that begins at the cursor."""
        now, history = _now_ms(), SchemaHistory(policy=self.policy)
        history.init(self.destination)
        at = HistoryPlace.between(cursor.offset, ts_ms=now)
        checkpoint = history.baseline(tables, databases, at, server_of(self.facts), made_ms=now)
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
        rewound = history.rollback(cursor.offset)
        return Opened(
            cursor=replace(cursor, history=history.count),
            history=history,
            notes=rewound_records(rewound),
        )


def tells_columns(facts: ServerFacts) -> bool:
    """Whether each row comes with its columns' names, so that it can be read without a history."""
    return facts.variables.get("binlog_row_metadata", "").upper() == "FULL"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
