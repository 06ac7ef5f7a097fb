"""A trial of a mapping: what would be published differently by it than by the one in force.

Both mappings run in the worker's own pipeline over the same events, and the records of each change are compared
by ChangeId; so the trial has no reading of its own that a worker could contradict.

Invariant: nothing is written, neither to Kafka nor to the journal, ZooKeeper or the claim store; memory does
not grow with what is read.
"""

from __future__ import annotations

from collections.abc import Mapping as Names
from dataclasses import dataclass, replace
from pathlib import Path

from app.operator.journal_access import Journal
from app.operator.operations.mapping.in_force import PresentMapping, mapping_in_force
from app.operator.operations.mapping.trial.reading import (
    TrialReading,
    own_address,
    refuse_early_end,
)
from app.operator.operations.mapping.trial.shown_values import ShownValues
from app.operator.operations.mapping.trial.side import (
    Side,
    known_tables,
    rules_of_next,
    tried_again,
)
from app.operator.operations.mapping.trial.start import (
    LastMinutes,
    LastTransactions,
    TrialOffset,
    TrialStart,
    recorded_offset,
    trial_offset,
)
from app.operator.operations.mapping.trial.tally import Counts, TableDifferences, Tally
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.settings.mapping import read_mapping
from app.settings.model import Settings
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.takeover.initial_state import has_column_names
from app.worker.mapping_versions.choice import faults_of
from app.worker.pipeline.rules import Rules
from app.worker.pipeline.stage import StageSpec
from connectors.errors import AqueductError, HistoryTooShort, MappingError, UsageError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Gtids, SourceOffset
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server.facts import SourceAddress, connected
from tables.history.history import SchemaHistory
from tables.rules.mapping.mapping import Mapping
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """The parameters of a trial."""

    mapping: Path
    """The file or folder of the new mapping."""
    destination: str | None = None
    """None: the only one of the settings."""
    start: TrialStart
    seconds: float | None = None
    """For how long the binlog is followed; None: up to its present end."""
    samples: int = 3
    """The number shown of each kind of difference in a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a trial."""

    destination: str
    in_force: str
    """The name of the mapping that the new one was compared with."""
    begin: SourceOffset
    end: SourceOffset
    committed_ms: int
    """The commit time of the last transaction read, in milliseconds since 1970; 0: none was read."""
    tables: tuple[TableDifferences, ...]
    totals: Counts
    quarantined: Names[TableName, str]
    """Tables that only the new mapping quarantines, and why."""
    not_compared: Names[TableName, str]
    """Tables that this trial cannot read, though the worker could, and why."""


async def try_mapping(
    settings: Settings, request: TrialRequest, report: ReportUnreachable
) -> Trial:
    """Make the trial.

    Raises MappingError if the new mapping is invalid or does not fit the source's tables, HistoryTooShort if
    the schema history begins after the position, UsageError if the new mapping is the settings' own file, and
    the errors of the source, Kafka and ZooKeeper.
    """
    _refuse_the_settings_own(settings, request.mapping)
    new = settings.mapping.usable(read_mapping(request.mapping), settings.prefix)
    journal = Journal.of(settings, request.destination or _only_destination(settings))
    state = await journal.state()
    present = await mapping_in_force(settings, state)
    assert state.cursor is not None
    server = state.cursor.offset.server_uuid
    source = await reachable_source(journal, state, report, server_uuid=server)
    run = _Run(journal, state, source, request, present, new)
    return await in_its_own_thread(run.trial)


def _refuse_the_settings_own(settings: Settings, file: Path) -> None:
    own = settings.mapping.file
    if own is not None and file.exists() and own.exists() and file.samefile(own):
        raise UsageError(
            f"{file} is mapping.file of the settings, so it would be compared with itself",
            remedy="Change a copy of it, and try that; workers read the file itself only when they start.",
        )


def _only_destination(settings: Settings) -> str:
    names = sorted(settings.destinations)
    if len(names) != 1:
        raise UsageError(f"give --destination, one of: {', '.join(names)}")
    return names[0]


class _Run:
    """One trial; blocks while it reads."""

    def __init__(
        self,
        journal: Journal,
        state: DestinationState,
        source: ReachableSource,
        request: TrialRequest,
        present: PresentMapping,
        new: Mapping,
    ) -> None:
        assert state.cursor is not None
        self._plan, self._state, self._cursor = journal.plan, state, state.cursor
        self._source, self._facts = source, source.facts
        self._request, self._present = request, present
        rules = self._plan.rules
        self._old = replace(rules, routes=replace(rules.routes, mapping=present.mapping))
        self._new_routes = replace(rules.routes, mapping=new)
        # With a file, a worker tries no quarantined table again by itself.
        is_stored = journal.settings.mapping.store == "zookeeper"
        self._again = tried_again(state.quarantine) if is_stored else frozenset[TableName]()
        self._ids = [one.server_id for one in journal.settings.destinations.values()]

    def trial(self) -> Trial:
        self._check_existing_tables()
        rules = rules_of_next(self._old, self._new_routes, self._state.published)
        address = own_address(
            self._source.address, self._facts, self._ids, follows=self._request.seconds is not None
        )
        start = self._start(address)
        shown = ShownValues(self._old.routes, self._new_routes)
        tally = Tally(shown, samples=self._request.samples)
        old, new = self._side(self._old, start), self._side(rules, start, self._again)
        end = self._compare(address, start, tally, (old, new), shown)
        return Trial(
            destination=self._plan.name,
            in_force=self._present.name,
            begin=start.offset,
            end=end,
            committed_ms=new.committed_ms,
            tables=tally.tables(),
            totals=tally.totals(),
            quarantined={
                name: shown.table_reason(error)
                for name, error in new.unreadable.items()
                if name not in old.unreadable
            },
            not_compared={
                name: shown.table_reason(error)
                for name, error in old.unreadable.items()
                if name not in self._state.quarantine.entries
            },
        )

    def _compare(
        self,
        address: SourceAddress,
        start: TrialOffset,
        tally: Tally,
        sides: tuple[Side, Side],
        shown: ShownValues,
    ) -> SourceOffset:
        """Read to the end and compare; return the position that was reached."""
        reading = TrialReading(address=address, start=start, seconds=self._request.seconds)
        old, new = sides
        reached = start.offset
        for chunk in reading.chunks():
            try:
                tally.add(old.published(chunk), new.published(chunk))
            except AqueductError as error:
                raise shown.error(error) from None
            reached = _moved(reached, old)
        if self._request.seconds is None:
            refuse_early_end(reached, self._facts, self._source.address)
        return reached

    def _check_existing_tables(self) -> None:
        """Raise MappingError if the source's tables do not fit the new mapping, as a worker does."""
        with connected(self._source.address) as cursor:
            names = InventoryReader(cursor, server_of(self._facts)).names()
        if faults := faults_of(self._new_routes, names):
            raise MappingError.listed(faults)

    def _start(self, address: SourceAddress) -> TrialOffset:
        """Return where to begin; the last transactions at most as far back as the schema history reaches."""
        wanted = self._request.start
        start = trial_offset(wanted, self._cursor, self._facts, address)
        history = self._history()
        if history is None or not isinstance(wanted, LastTransactions | LastMinutes):
            return start
        try:
            history.at(start.offset)
        except HistoryTooShort:
            # After a failover, it may be of another server.
            return recorded_offset(history.checkpoints[0].position.offset, self._facts, address)
        return start

    def _side(
        self, rules: Rules, start: TrialOffset, again: frozenset[TableName] = frozenset()
    ) -> Side:
        state, facts, quarantine = self._state, self._facts, self._state.quarantine
        history = self._history()
        if history is not None:
            history.serve(server_of(facts))
            history.rollback(start.offset)
        cursor = Cursor(
            destination=self._plan.name,
            installation=self._cursor.installation,
            epoch=self._cursor.epoch,
            seq=0,
            versions=0,
            offset=start.offset,
        )
        spec = StageSpec(
            rules=rules,
            server_uuid=facts.server_uuid,
            charsets=facts.charsets,
            mariadb=facts.is_mariadb,
            epoch=cursor.epoch,
            versions=state.versions,
            server=server_of(facts),
            has_column_names=has_column_names(facts),
            has_gtids=facts.has_gtids,
            known=known_tables(rules.routes, history, quarantine, start.offset, again=again),
        )
        return Side(spec, history, cursor)

    def _history(self) -> SchemaHistory | None:
        """Return a copy of the schema history, which may be changed; None if none is kept."""
        count = self._cursor.history
        return None if count is None else self._state.history_fold.build(count)


def _moved(offset: SourceOffset, side: Side) -> SourceOffset:
    """Return the position after what a side has read."""
    gtids: Gtids | None = offset.gtid_set
    if gtids is not None and side.gtids:
        gtids = gtids.copy()
        for source, first, last in side.gtids:
            gtids.add_interval(source, first, last)
    return replace(offset, coordinates=side.position, gtid_set=gtids)
