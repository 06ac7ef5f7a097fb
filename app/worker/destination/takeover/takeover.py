"""Takeover of a destination: from its journal and its server to an epoch claimed in the journal.

Invariant, in this order: the transactional id is taken over, the journal is read, the server is
checked, and the first transaction claims an epoch. Nothing is published before that claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from app import metrics
from app.failpoints import point
from app.worker.destination.background import beside
from app.worker.destination.failover.source_selection import Sources
from app.worker.destination.plan import Plan, Signals
from app.worker.destination.takeover.initial_snapshots import gone_snapshots, snapshots_of_run
from app.worker.destination.takeover.initial_state import InitialState, InitialStateBuilder
from app.worker.destination.takeover.journal_verification import Confirm, Verification
from app.worker.destination.takeover.published_check import Published
from app.worker.destination.takeover.recovery import (
    installation_of,
    known_installation,
    last_claim,
    recover,
)
from app.worker.destination.takeover.source_answers import EarlyAnswer, SourceAnswers
from app.worker.destination.takeover.timings import Phases
from app.worker.mapping_versions.choice import MappingChoice
from app.worker.pipeline.hidden_statement import hidden_table
from app.worker.pipeline.publish.publisher import BLIND_SECONDS, Publisher
from app.worker.pipeline.publish.topic_ids import TopicIds
from app.worker.status import DestinationStatus
from app.worker.unit.takeover import OtherWorkers, this_process
from connectors.errors import (
    AqueductError,
    Fenced,
    HistoryTooShort,
    JournalDamaged,
    PositionGone,
    PositionUnknown,
    RunRestarts,
    StateUnknown,
    TopicReplaced,
    TopicUnusable,
    WitnessesDiffer,
)
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import Follower, StoredRecord
from connectors.kafka.topics import Topics
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.lookup.start import Latest, Start
from connectors.mysql.position import Coordinates
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from connectors.mysql.server.preflight import warnings as preflight_warnings
from tables.history.history import SchemaHistory
from tables.history.position import HistoryPosition
from tables.journal_format import Entry, decoded, is_tombstone, tombstone
from tables.journal_format import Entry as Note
from tables.rules.routes.routes import Routes
from tables.rules.routes.written_topics import (
    Growth,
    Spread,
    changed_keys,
    changes_refused,
    growth,
    kept,
    partitions_of,
    returned,
    returning,
    spread_of,
    tag_counts,
)
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor, next_epoch
from tables.state.journal.checkpoint import Checkpoint
from tables.state.journal.records import VERSION, Leader
from tables.state.journal.records import note_of as leader_note
from tables.state.journal.state import DestinationState
from tables.state.known_topics import TOPIC_PART
from tables.state.known_topics import note_of as topic_note
from tables.state.operator_requests import RECOVERY_PART, HistoryRecovery, recovery_note
from tables.state.quarantine import Outcome, Quarantine, note_of
from tables.state.snapshots.snapshot_progress import note_of as snapshot_note
from wire.text import printed

# Recovery of the schema history at the start of a run, where `snapshot.mode` is `recovery`.
#
# A history that is wrong, incomplete or unreadable begins again at the cursor, with the tables
# whose definition is certain there.
#
# Invariant: the history begins again once each time that the mode is set, and otherwise only if
# it cannot be used. Cursor, numbers, table versions and quarantine stay as they are, and
# everything else in the journal is checked as usual.


_REQUESTED = "snapshot.mode is recovery"


class ReadState(Protocol):
    """Reads the verified state of a destination from its journal."""

    async def __call__(
        self, *, whole_history: bool = False, without_history: bool = False
    ) -> DestinationState: ...


@dataclass(slots=True, kw_only=True)
class HistoryReading:
    """The state that a run begins with: with its schema history, or with one that begins again."""

    destination: str
    recovers: bool
    read: ReadState
    why: str | None = None
    """The reason for which the history begins again; None if it does not."""

    async def state(self) -> DestinationState:
        """Return the state; without its history if the history is to begin again."""
        try:
            state = await self.read()
        except JournalDamaged as error:
            return await self._without_history(error)
        last = state.parts[RECOVERY_PART].last
        is_done = last is not None and last.is_requested
        if not self.recovers or is_done or state.cursor is None:
            return state
        return await self._begun_again(_REQUESTED)

    def check(self, state: DestinationState, start: Start) -> None:
        """Raise StateUnknown if there is no position to continue at, and the start names none."""
        if self.recovers and state.cursor is None and isinstance(start, Latest):
            raise StateUnknown(
                "snapshot.mode is recovery, which continues at the cursor, and there is none",
                destination=self.destination,
                remedy="Check the prefix and the destination's name in the settings; or set start to the "
                "position to begin at; or, to begin at the end of the binlog, set snapshot.mode to no_data.",
            )

    async def opened(
        self, state: DestinationState, open_: Callable[[DestinationState], InitialState]
    ) -> tuple[DestinationState, InitialState]:
        """Return the initial state, after the state from which it was made; raise the errors of ``open_``."""
        try:
            try:
                return state, await asyncio.to_thread(open_, state)
            except HistoryTooShort:
                # The cursor was set back to before the newest checkpoint; the journal holds older ones.
                state = await self.read(whole_history=True)
                return state, await asyncio.to_thread(open_, state)
        except (HistoryTooShort, PositionUnknown, JournalDamaged) as error:
            state = await self._without_history(error)
            return state, await asyncio.to_thread(open_, state)

    async def _without_history(self, error: AqueductError) -> DestinationState:
        """Read the state without a history that cannot be used.

        Raise ``error`` if the history is not to begin again, or the error of any other unreadable record.
        """
        if not self.recovers:
            raise error
        where = {name: error.context[name] for name in ("key", "offset") if name in error.context}
        parts = [error.detail, *(f"{name} {printed(value)}" for name, value in where.items())]
        return await self._begun_again(f"{error.name}: {', '.join(parts)}")

    async def _begun_again(self, why: str) -> DestinationState:
        self.why = why
        return await self.read(without_history=True)

    def notes(self, state: DestinationState, opened: InitialState) -> list[Note]:
        """Return the journal's records of a recovery, or of the end of its request.

        They must precede the records of the new history.
        """
        last = state.parts[RECOVERY_PART].last
        if not self.recovers:
            has_ended = last is not None and last.is_requested
            return [recovery_note(replace(last, is_requested=False))] if last and has_ended else []
        if self.why is None and state.cursor is not None:
            return []
        recovery = HistoryRecovery(
            destination=self.destination,
            at=str(opened.cursor.offset),
            why=self.why or "first start",
            ts_ms=time.time_ns() // 1_000_000,
        )
        return [*map(tombstone, state.removed), recovery_note(recovery)]

    def warnings(self, state: DestinationState, opened: InitialState) -> list[str]:
        """Return what is to be shown while the mode is ``recovery``, and log it."""
        if not self.recovers:
            return []
        last, at = state.parts[RECOVERY_PART].last, str(opened.cursor.offset)
        if self.why is None and last is not None:
            text = f"{_REQUESTED} still: the schema history began again at {last.at}, which is done once"
        else:
            count = len(opened.history.now().tables()) if opened.history is not None else 0
            why = "" if self.why in (None, _REQUESTED) else f", as it could not be used: {self.why}"
            text = f"{_REQUESTED}: the schema history begins at {at} with {count} table(s){why}"
        shown = f"{text}; set the mode back to what it was"
        log.warning("%s: %s", self.destination, shown)
        return [shown]


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """A destination whose epoch this worker has claimed."""

    publisher: Publisher
    state: DestinationState
    """The state in the journal before the claim."""
    opened: InitialState
    facts: ServerFacts
    address: SourceAddress
    names: frozenset[TableName]
    """The server's tables that the account has privileges for."""
    lacking: tuple[TableVersion, ...] = ()
    """Table versions that the topic of table versions lacks, since it was recreated."""
    spread: Mapping[str, Spread] = field(default_factory=dict)
    """Topics whose keys are spread over more partitions from this claim on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The takeover of one destination by this worker."""

    plan: Plan
    checkpoint: Checkpoint
    signals: Signals
    sources: Sources
    status: DestinationStatus
    phases: Phases
    timeout_factor: float = 1.0
    """The factor by which Kafka's time limits for a transaction are extended."""
    offline: dict[str, float] = field(default_factory=dict)
    """See Publisher."""
    mapping: MappingChoice | None = None
    """The version of the mapping that this run is to publish by; None if it is read from a file."""

    @contextlib.asynccontextmanager
    async def lead(self, unreadable: list[WitnessesDiffer]) -> AsyncIterator[TakenOver]:
        """Lead within the block; the producer is discarded at its end.

        Tables that the previous run could not read are quarantined, and the list is cleared.
        """
        plan = self.plan
        topics = Topics(plan.kafka_options, report=shows_weak_topics(self.status))
        # The last confirmed id comes first: Faust's tables may be of a journal that was deleted.
        known = self.signals.installation or known_installation(self.checkpoint)
        if known is None:
            known = await self._installation(topics)
        self.phases.reached("installation known")
        producer = TransactionalProducer(
            f"{known}.{plan.name}",
            options=plan.kafka_options,
            compression=plan.compression,
            timeout_factor=self.timeout_factor,
            has_spare=True,
            is_ours=self.signals.permit.has_taken_id,
        )
        try:
            async with beside(self._installation(topics)) as confirmed:
                led = await self._taken_over(producer, topics, known, confirmed, unreadable)
            grown = growth(plan.rules.routes, led.state.published)
            self.status.warnings["partitions"] = kept(plan.rules.routes, led.state.published)
            for warning in self.status.warnings["partitions"]:
                log.warning("%s: %s", plan.name, warning)
            self._check_keys(led.state, led.opened.history)
            claim = claim_of(plan, led.opened.cursor.epoch)
            notes = [*led.opened.notes, claim]
            if self.mapping is not None:
                notes += self._mapping_notes(self.mapping, led)
            notes += await self._topic_notes(led)
            # Topics get more partitions only once nothing can refuse the mapping any more.
            led = replace(led, spread=await self._spread(grown, topics, led))
            # Set before the claim, which may be committed without an acknowledgement.
            self.signals.claimed = led.opened.cursor.epoch
            await led.publisher.claim(notes, led.lacking)
            self.phases.reached("epoch claimed")
            if self.mapping is not None:
                self.mapping.claimed()
            self._leads(led.opened.cursor)
            await self.signals.permit.lease.announce(led.opened.cursor.epoch)
            yield led
        finally:
            await producer.discard()

    def _check_keys(self, state: DestinationState, history: SchemaHistory | None) -> None:
        """Raise MappingError if keys, or a form, of published rows would change, unless that is accepted."""
        routes = self.plan.rules.routes

        def primary(name: TableName) -> tuple[str, ...] | None:
            table = history.find(*name) if history is not None else None
            return None if table is None else tuple(map(str.lower, table.primary_key)) or None

        self.status.warnings["returned"] = [
            _returns(self.plan.name, *one) for one in returning(routes, state.published)
        ]
        for warning in self.status.warnings["returned"]:
            log.warning("%s: %s", self.plan.name, warning)
        changes = changed_keys(routes, state.published, primary)
        if changes and not self.plan.accepts("changed_keys"):
            raise changes_refused(changes)
        for change in changes:
            log.warning(
                "%s: keys or values of published rows change, which is accepted: %s",
                self.plan.name,
                change,
            )

    def _mapping_notes(self, mapping: MappingChoice, led: TakenOver) -> list[Note]:
        """The notes of a version that comes into force, and of the tables on which it is tried again."""
        notes = mapping.notes(led.opened.cursor, self.plan.rules.routes, led.names)
        kept, version = mapping.kept(led.state), mapping.number
        if not notes or version is None:
            return kept
        now = time.time_ns() // 1_000_000
        again = led.state.quarantine.try_rules_again(version=version, ts_ms=now)
        # These are newer than the resolutions that this worker has received from the journal so far.
        self.signals.resolutions.update({one.name: one for one in again})
        return [*notes, *kept, *map(note_of, again)]

    async def _spread(
        self, grown: Mapping[str, Growth], topics: Topics, led: TakenOver
    ) -> Mapping[str, Spread]:
        """Give topics the partitions that the mapping requires; return how keys are spread from here on.

        Earlier leaders are fenced, so all their records are before the ends that are read.
        """
        counts = {topic: one.partitions for topic, one in grown.items()}
        tagged = tag_counts(self.plan.rules.routes, led.state.published, grown)
        waiting = await self._grow({**counts, **tagged}, topics, led.state)
        grown = {topic: one for topic, one in grown.items() if topic not in waiting}
        counts = {topic: one.partitions for topic, one in grown.items()}
        back = returned(led.state.published)
        if not grown:
            return back
        async with Follower.opened(self.plan.kafka_options) as follower:
            ends = await follower.ends(partitions_of(grown.items()))
        for topic, one in grown.items():
            log.info(
                "%s: keys of %s are in %d partitions from here on, instead of %d",
                self.plan.name, topic, one.partitions, one.before,
            )  # fmt: skip
        led.publisher.written |= counts
        return {**back, **spread_of(grown, ends)}

    async def _grow(
        self, counts: Mapping[str, int], topics: Topics, state: DestinationState
    ) -> set[str]:
        """Give topics these partition counts; return the topics that cannot get them, whose tables all wait.

        Raise TopicUnusable with the tables of these topics, if some tables do not wait yet. Tables that were
        given up do not count.
        """
        refused = await topics.grow(counts) if counts else {}
        if not refused:
            return set()
        error = refused[min(refused)]
        routes, tables = self.plan.rules.routes, dict[TableName, str]()
        for one in refused.values():
            one.context["destination"] = self.plan.name
        for name in state.versions:
            route = routes.of(name)
            for topic in refused.keys() & {*(route.topics if route is not None else ())}:
                tables[name] = refused[topic].in_one_line
        if not tables:
            raise error
        quarantine = state.quarantine
        pending = {one.name for one in quarantine.pending() if not one.gives_up}
        # Nothing is written for a table that was given up, unless an operator brings it back.
        for name in quarantine.given_up.keys() - pending:
            tables.pop(name, None)
        waiting = {name for name, one in quarantine.quarantined.items() if one.is_by_topic}
        if tables.keys() - waiting or pending & tables.keys():
            raise TopicUnusable.of_all(tables) from error
        return {*refused}

    async def _installation(self, topics: Topics) -> str:
        """The installation id in the journal, after a check of all existing topics."""
        plan = self.plan
        await topics.ensure(plan.topics.journal())
        await topics.check(*plan.topics.of(plan.name))
        found = self.signals.installation = await installation_of(
            plan.topics.journal().name, options=plan.kafka_options, worker=plan.worker
        )
        return found

    async def _taken_over(
        self,
        producer: TransactionalProducer,
        topics: Topics,
        installation: str,
        confirmed: asyncio.Task[str],
        unreadable: list[WitnessesDiffer],
    ) -> TakenOver:
        """The steps before the claim; the known installation is confirmed by then."""
        # Requests after the end that is read below are followed from here on, so that none is missed.
        await self.signals.following()
        point("init.before")
        lease = self.signals.permit.lease
        await lease.confirm()
        if not lease.shared:
            others = OtherWorkers(self.plan.journal, self.plan.worker)
            await others.check(self._last_leader, had_led=self.signals.claimed > 0)
        await producer.init_transactions()
        self.signals.permit.id_is_taken()
        self.phases.reached("id taken over")
        point("init.after")

        async def confirm(*, is_new: bool) -> None:
            if await confirmed != installation:
                raise RunRestarts(f"as the journal is of {await confirmed}, not of {installation}")
            # A merge may be added to an existing destination; its topic has nothing that can be lost.
            await topics.ensure(*self.plan.topics.progress_of(self.plan.name))
            await self.plan.topics.ready(topics, self.plan.name, is_new=is_new)

        # The previous leader is fenced, so the server has all transactions that the journal mentions.
        answers = SourceAnswers(
            plan=self.plan,
            installation=installation,
            sources=self.sources,
            signals=self.signals,
            status=self.status,
        )
        first = answers.first(self.checkpoint)
        async with beside(answers.answer(first)) as answer:
            led = await self._read(
                producer, topics, answers, (first, answer), confirm=confirm, unreadable=unreadable
            )
        point("recover.after")
        # If this took long since the first check, the id may have been taken from a later leader.
        await lease.confirm()
        return led

    async def _read(
        self,
        producer: TransactionalProducer,
        topics: Topics,
        answers: SourceAnswers,
        early: EarlyAnswer,
        *,
        confirm: Confirm,
        unreadable: list[WitnessesDiffer],
    ) -> TakenOver:
        """Determine the position to resume from, and whether the server has it."""
        plan = self.plan
        reading = HistoryReading(
            destination=plan.name,
            recovers=plan.snapshot.recovers,
            read=partial(self._recovered, answers.installation, confirm),
        )
        state = await reading.state()
        self.phases.reached("journal read")
        if self.mapping is not None:
            self.mapping.journal_read(state)
        self.signals.requests.check(state.control)
        if not plan.rules.routes.merged:
            published = Published(
                destination=plan.name, prefix=plan.journal.prefix, options=plan.kafka_options
            )
            await published.check_merged(
                state,
                plan.topics.journal().partitions,
                destinations=plan.all_destinations,
                merges=plan.merges,
            )
        selected = await answers.selected(state, early)
        self.phases.reached("server asked")
        facts, address = selected.facts, selected.address
        reading.check(state, selected.source.start)
        names = answers.names.get(str(address), frozenset())
        opening = InitialStateBuilder(
            destination=plan.name,
            installation=answers.installation,
            start=selected.source.start,
            facts=facts,
            address=address,
            policy=plan.history,
            moved=selected.moved.offset if selected.moved is not None else None,
            is_same_binlog=selected.moved is not None and selected.moved.is_same_binlog,
            captures=None if plan.snapshot.is_initial else plan.rules.routes.captures,
            hidden=partial(hidden_table, routes=plan.rules.routes),
            accepts_incomplete=plan.accepts("incomplete_start"),
            accepts_unproven=plan.accepts("unproven"),
            names=names,
        )
        missed = False
        try:
            state, opened = await reading.opened(state, opening.open)
        except PositionGone as error:
            if not (plan.snapshot.replaces_gaps and error.is_gap) or state.cursor is None:
                raise
            missed = True
            log.warning(
                "%s: %s: %s: all existing rows are published again, as snapshot.mode is when_needed",
                plan.name, error.name, error.detail,
            )  # fmt: skip
            opened = await asyncio.to_thread(opening.after_gap, state)
        self.phases.reached("history opened")
        notes = [*reading.notes(state, opened), *opened.notes, *selected.notes]
        opened = replace(opened, notes=notes)
        self.status.warnings["roles"] = preflight_warnings(selected.facts, selected.address)
        for warning in self.status.warnings["roles"]:
            log.warning("%s: %s", plan.name, warning)
        self.status.warnings["recovery"] = reading.warnings(state, opened)
        ended = gone_snapshots(state, opened, (address, facts), names)
        for one in ended:
            log.info(
                "%s: %s does not exist any more: its existing rows are %s no longer",
                plan.name, ".".join(one.name), state.snapshots.all[one.name].state.value,
            )  # fmt: skip
        wanted = snapshots_of_run(plan, state, opened, (address, facts), missed=missed, names=names)
        state.snapshots.add([*ended, *wanted])
        opened.notes.extend(map(snapshot_note, [*ended, *wanted]))
        last, now = state.cursor.epoch if state.cursor is not None else 0, time.time()
        epoch = next_epoch(last, term=self.signals.permit.lease.term, now=now)
        cursor = replace(opened.cursor, epoch=epoch, written_ms=int(now * 1000))
        opened = replace(opened, cursor=cursor)
        opened.notes.extend(self._quarantined(unreadable, state, facts, opened))
        ids = self._topic_ids(topics, state, names)
        lacking = await self._lacking_versions(state)
        opened.notes.extend(await self._confirmed_topics(ids, state))
        opened.notes.extend(
            topic_note(replace(one, lacks_versions=False))
            for one in state.parts[TOPIC_PART].by_name.values()
            if one.lacks_versions
        )
        publisher = Publisher(
            producer,
            plans=plan.topics,
            topics=topics,
            cursor=opened.cursor,
            permit=self.signals.permit,
            written=_counts(state.published),
            ids=ids,
            offline=self.offline,
        )
        return TakenOver(
            publisher=publisher,
            lacking=tuple(lacking),
            state=state,
            opened=opened,
            facts=facts,
            address=address,
            names=names,
        )

    def _topic_ids(
        self, topics: Topics, state: DestinationState, names: frozenset[TableName]
    ) -> TopicIds:
        """The ids of the topics, as the journal has them."""

        def tables() -> dict[str, list[str]]:
            found: dict[str, list[str]] = {}
            published = state.versions.keys() - state.quarantine.given_up.keys()
            for name in published & names if names else published:
                route = self.plan.rules.routes.of(name)
                for topic in route.topics if route is not None else ():
                    found.setdefault(topic, []).append(".".join(name))
            return found

        return TopicIds(
            destination=self.plan.name,
            topics=topics,
            reread=self.plan.topics.journal().name,
            known=state.parts[TOPIC_PART].ids,
            tables=tables,
        )

    async def _confirmed_topics(self, ids: TopicIds, state: DestinationState) -> list[Note]:
        """Compare the ids of the destination's own topics, and of the present topics of published tables.

        Raise TopicReplaced for one of its own topics, TopicUnusable with its tables for any other.
        """
        notes = await ids.confirm({plan.name for plan in self.plan.topics.of(self.plan.name)})
        tables: dict[str, set[TableName]] = {}
        waiting: set[str] = set()
        # Nothing is written for a table that was given up.
        for name in state.versions.keys() - state.quarantine.given_up.keys():
            route = self.plan.rules.routes.of(name)
            for topic in route.topics if route is not None else ():
                tables.setdefault(topic, set()).add(name)
            if route is not None and name in state.quarantine.quarantined:
                waiting.update(route.topics)
        # The topics of tables that wait are compared before these tables come back.
        try:
            return [*notes, *await ids.confirm(tables.keys() - waiting)]
        except TopicReplaced as error:
            raise TopicUnusable.of_all(
                {name: error.in_one_line for one in ids.suspects for name in tables[one]}
            ) from error

    async def _topic_notes(self, led: TakenOver) -> list[Note]:
        """The notes of tables that come back, since their topics can take their rows now."""
        quarantine, epoch = led.state.quarantine, led.opened.cursor.epoch
        names = await usable(self.plan.rules.routes, quarantine, led.publisher)
        now = time.time_ns() // 1_000_000
        return [note_of(one) for one in quarantine.try_topics_again(names, epoch=epoch, ts_ms=now)]

    async def _lacking_versions(self, state: DestinationState) -> list[TableVersion]:
        """All table versions, if an operator has accepted that their topic was recreated; else no versions."""
        found: dict[bytes, TableVersion] = {}

        def take(record: StoredRecord) -> None:
            if VERSION.is_of(record.key) and not is_tombstone(record):
                version = TableVersion.from_json(decoded(record))
                if version.destination == self.plan.name:
                    found[record.key] = version

        if any(one.lacks_versions for one in state.parts[TOPIC_PART].by_name.values()):
            await self.plan.journal.read(take)
        return sorted(found.values(), key=lambda one: (one.database, one.table, one.version))

    async def _last_leader(self) -> Leader | None:
        """The leader in the journal, if the cursor shows that this leader claimed after this worker.

        Raise Fenced if a leader that is not recorded has claimed the cursor since.
        """
        claimed = self.signals.claimed
        cursor, leader = await last_claim(self.plan.journal, self.checkpoint)
        if cursor is None or cursor.by is not None or cursor.epoch <= claimed:
            return None
        if leader is None or leader.epoch != cursor.epoch:
            if claimed:
                raise Fenced(f"epoch {cursor.epoch} is in the journal, this led in {claimed}")
            return None
        return leader

    async def _recovered(
        self,
        installation: str,
        confirm: Confirm,
        *,
        whole_history: bool = False,
        without_history: bool = False,
    ) -> DestinationState:
        plan = self.plan
        return await recover(
            plan.journal,
            self.checkpoint,
            Verification(installation=installation, confirm=confirm),
            whole_history=whole_history,
            without_history=without_history,
        )

    def _leads(self, cursor: Cursor) -> None:
        name = self.plan.name
        self.signals.epoch = self.signals.led = cursor.epoch
        self.signals.superseded_by = 0
        metrics.EPOCH.labels(name).set(cursor.epoch)
        log.info("%s: leads in epoch %d, from %s", name, cursor.epoch, cursor.offset)

    def _quarantined(
        self,
        unreadable: list[WitnessesDiffer],
        state: DestinationState,
        facts: ServerFacts,
        opened: InitialState,
    ) -> list[Note]:
        """Return the notes that quarantine the tables that the previous run could not read or publish."""
        found = [each for error in unreadable for each in (error, *error.others)]
        unreadable.clear()
        return [_noted(each, state.quarantine, facts, opened) for each in found]


def _returns(destination: str, there: TableVersion, latest: TableVersion) -> str:
    """The warning of a table that a mapping brings back to a topic."""
    name = f"{there.database}.{there.table}"
    return (
        f"{name} returns to {there.topic}, which lacks its changes since version {there.version}, published to "
        f"{latest.topic}: python -m app snapshot start {destination} {shlex.quote(name)} --replace"
    )


def _counts(versions: Iterable[TableVersion]) -> dict[str, int | None]:
    """The topics that were written to, with the partitions over which their keys are spread."""
    found: dict[str, int | None] = {}
    for one in versions:
        found[one.topic] = max(one.partitions or 0, found.get(one.topic) or 0) or None
    return found


def _noted(
    error: WitnessesDiffer, quarantine: Quarantine, facts: ServerFacts, opened: InitialState
) -> Note:
    cursor, history, name = opened.cursor, opened.history, error.name_of_table
    position, gtid = error.context.get("coordinates"), error.context.get("gtid")
    at = position if isinstance(position, Coordinates) else cursor.offset.coordinates
    since = HistoryPosition(
        server_uuid=facts.server_uuid,
        start=at,
        end=at,
        gtid=str(gtid) if gtid else None,
        ts_ms=time.time_ns() // 1_000_000,
    )
    is_by_rule = error.keeps_definition and history is not None
    # The history is at the cursor, and so before all events that will wait.
    table = history.find(*name) if is_by_rule and history is not None else None
    refused = error.refused if is_by_rule and isinstance(error, TopicUnusable) else None
    entry = quarantine.add(
        name,
        error.detail,
        since,
        table=table,
        is_by_rule=is_by_rule,
        is_by_topic=refused is not None,
        refused=refused,
        error=error.name,
    )
    return note_of(entry)


async def usable(routes: Routes, quarantine: Quarantine, publisher: Publisher) -> list[TableName]:
    """Return the tables that wait for their topics, if the topics can take the tables' rows now.

    A table whose events were refused waits for an operator, or for another version of the mapping. A topic that
    refused rows is tried again once its settings differ, or after a time if they may not be read.
    """
    found = {
        name: route
        for name, entry in quarantine.quarantined.items()
        if entry.is_by_topic
        and entry.outcome is not Outcome.REFUSED
        and (route := routes.of(name)) is not None
        and not route.fault
    }
    topics = {topic: route.partitions for route in found.values() for topic in route.topics}
    if not topics:
        return []
    more = {
        topic: route.partitions
        for route in found.values()
        if route.mapped is not None and not routes.merged
        # Other topics keep the partition count with which they were written.
        if route.mapped.repartition_from == (publisher.written.get(route.topic) or -1)
        for topic in route.topics
    }
    unusable = await publisher.unusable(topics, more)
    names = [name for name, route in found.items() if unusable.keys().isdisjoint(route.topics)]
    refused = {name: one for name in names if (one := quarantine.quarantined[name].refused)}
    now = await publisher.digests({topic for one in refused.values() for topic in one})
    since_ms = time.time_ns() // 1_000_000 - int(1000 * BLIND_SECONDS)
    return [
        name
        for name in names
        if not any(
            digest == now[topic] if now[topic] else quarantine.tried_ms(name) > since_ms
            for topic, digest in refused.get(name, {}).items()
        )
    ]


_MOST_SHOWN = 20


def shows_weak_topics(status: DestinationStatus) -> Callable[[str, tuple[str, ...]], None]:
    """Return what receives the report of ``Topics`` on each topic that a destination uses.

    Invariant: a weak topic is written to nevertheless; it is listed while its last check found it weak.
    """
    found: dict[str, tuple[str, ...]] = {}

    def show(topic: str, weak: tuple[str, ...]) -> None:
        if weak:
            found[topic] = weak
        else:
            found.pop(topic, None)
        lines = [f"topic {name}: {why}" for name, reasons in found.items() for why in reasons]
        more = [f"{len(lines) - _MOST_SHOWN} more of this kind"] if len(lines) > _MOST_SHOWN else []
        status.warnings["topics"] = lines[:_MOST_SHOWN] + more
        metrics.WEAK_TOPICS.labels(status.name).set(len(found))

    return show


def claim_of(plan: Plan, epoch: int) -> Entry:
    """The leader record for the claim's transaction.

    Invariant: it names the process, not only the worker id, which a second worker may share by mistake.
    """
    return leader_note(
        Leader(
            destination=plan.name,
            worker=plan.worker,
            address=plan.reached_at,
            process=this_process(),
            epoch=epoch,
            ts_ms=time.time_ns() // 1_000_000,
        )
    )
