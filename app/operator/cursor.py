"""`cursor`: a destination's cursor shown, exported, set and imported, and one transaction skipped.

Invariant: the cursor is read from the journal alone. A command changes it as a leader does, with an epoch of
its own: it first takes over the transactional id, so that a running worker is fenced before anything is read or
written. The cursor, its further records and the operator's name are in one Kafka transaction. The cursor
records that a command set it, so that workers resume from there and no worker stays fenced. A change is made
only after its cost is shown and confirmed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from app.operator.arguments import add_destination, add_format, add_gtid_or_file, parse_time
from app.operator.journal_access import Journal
from app.operator.snapshot import replacing_requests
from app.operator.source_connection import ReachableSource, ReportUnreachable, reachable_source
from app.operator.terminal import (
    add_reason,
    confirm,
    operator,
    print_answer,
    report_unreachable,
    run_operation,
)
from app.settings.model import load
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.failover.cursor_translation import subtracted
from app.worker.destination.plan import Plan
from app.worker.destination.takeover.journal_verification import Verification
from app.worker.destination.takeover.published_check import Published
from app.worker.destination.takeover.recovery import installation_of, recover
from connectors.errors import (
    AlreadyPast,
    Fenced,
    HistoryTooShort,
    JournalDamaged,
    PositionGone,
    PositionUnknown,
    PositionWithin,
    SourceDiverged,
    UsageError,
)
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import source_of
from connectors.kafka.topics import Topics
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.landmark_search import find_landmark
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import (
    AfterGtids,
    AtCoordinates,
    AtTime,
    Earliest,
    Latest,
    Start,
    first_offset,
    in_current_terms,
)
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import FIRST_EVENT, Coordinates, SourceOffset, parse_gtids
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from tables.journal_format import Entry as Note
from tables.state.cursor import Cursor, CursorProof, next_epoch
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.state import DestinationState, cursor_key, encoded, version_key
from tables.state.operator_requests import (
    INTERVENTION_PART,
    SKIP_PART,
    Intervention,
    Skip,
    intervention_note,
    skip_note,
)
from wire.text import utc


async def read_cursor(journal: Journal) -> dict[str, Any]:
    """Return the cursor, the source that is read, the skips and the interventions, each oldest first, as JSON.

    The source is None if the journal does not have it. Raise StateUnknown if the destination has never run.
    """
    state = await journal.state(whole_history=False)
    assert state.cursor is not None
    source = state.source_choice.current
    skips = sorted(state.parts[SKIP_PART].all.values(), key=lambda one: one.ts_ms)
    return {
        "cursor": state.cursor.to_json(),
        "source": source and asdict(source),
        "skips": [asdict(one) for one in skips],
        "interventions": [asdict(one) for one in state.parts[INTERVENTION_PART].in_order()],
    }


def configure_show(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    add_destination(parser)
    add_format(parser)


def run_show(options: argparse.Namespace) -> int:
    """Print the cursor."""
    found = run_operation(read_cursor(Journal.of(load(), options.destination)))
    if options.format == "json":
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        print_answer("text", None, _view_lines(found))
    return 0


def _view_lines(found: dict[str, Any]) -> list[str]:
    cursor = found["cursor"]
    lines = [
        f"destination {cursor['destination']} of installation {cursor['installation']}",
        f"server      {cursor['server_uuid']}",
        f"position    {cursor['file']}:{cursor['pos']}",
        f"gtids       {'none' if cursor['gtid_set'] is None else cursor['gtid_set'] or 'the empty set'}",
        f"seq         {cursor['seq']}, epoch {cursor['epoch']}",
    ]
    if found["source"] is not None:
        source = found["source"]
        lines.append(
            f"source      {source['address']} since {utc(source['ts_ms'])}: {source['why']}"
        )
    if cursor["resume"] is not None:
        resume = cursor["resume"]
        lines.append(
            f"within      {resume['transaction_id']}, {resume['rows']} row(s) of it are published"
        )
    lines += [
        f"prepared    {xid} at {at['file']}:{at['pos']}" for xid, at in cursor["prepared"].items()
    ]
    for skip in found["skips"]:
        done = (
            f"done at {skip['done']}, {skip['events']} event(s)"
            if skip["done"]
            else "not reached yet"
        )
        lines.append(f"skip        {skip['transaction']}: {done}")
    for one in found["interventions"]:
        lines.append(
            f"changed     {utc(one['ts_ms'])} by {one['by']} in epoch {one['epoch']}: {one['what']} "
            f"from {one['before'] or 'nothing'} to {one['after']} ({one['effect']}): {one['why']}"
        )
    return lines


EXPORT_FORM = 1
EXPORT_KIND = "aqueduct cursor"


async def export_cursor(journal: Journal) -> dict[str, Any]:
    """Return the cursor as `cursor import` takes it; raise StateUnknown if the destination has never run."""
    return {
        "what": EXPORT_KIND,
        "form": EXPORT_FORM,
        "prefix": journal.settings.prefix,
        "exported_ms": time.time_ns() // 1_000_000,
        "cursor": (await read_cursor(journal))["cursor"],
    }


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Take a destination."""
    parser.epilog = (
        "Stop the destination first: what it publishes later is published again by the installation that "
        "imports the cursor."
    )
    add_destination(parser)


def run_export(options: argparse.Namespace) -> int:
    """Print the exported cursor."""
    found = run_operation(export_cursor(Journal.of(load(), options.destination)))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect as text, and whether an operator has to confirm it."""

    text: str
    is_free: bool = False
    is_back: bool = False
    """Whether no change is skipped; changes may be published again."""


def move_effect(
    before: Cursor | None,
    after: SourceOffset,
    address: SourceAddress,
    facts: ServerFacts | None = None,
) -> Effect:
    """Return the effect of setting a cursor.

    ``facts`` are the server's; they show whether its binlog is still the binlog that was read.
    """
    if before is None:
        return Effect("it is the destination's first cursor", is_free=True)
    if facts is not None and (why := _reset_reason(before, facts, address)):
        return _effect_after_reset(before, after, facts, address, why=why)
    half = ""
    if before.resume is not None:
        half = (
            f"; {before.resume.published} record(s) of {before.resume.transaction_id}, which is published in "
            "part, are published again or stay without the rest"
        )
    found = _effect_between(before.offset, after, address)
    return Effect(found.text + half, found.is_free and not half, found.is_back)


def _reset_reason(before: Cursor, facts: ServerFacts, address: SourceAddress) -> str:
    """Return why the server's binlog is not the binlog that was read; empty if it may be the same."""
    if before.offset.server_uuid != facts.server_uuid or not facts.binlogs:
        return ""
    landmark = before.proof.landmark
    if landmark is not None:
        try:
            found = find_landmark(landmark, facts, address)
        except PositionGone:
            return ""
        return "" if found.is_there or found.is_purged else found.detail
    gtids = before.offset.gtid_set
    if isinstance(gtids, GtidSet) and facts.has_gtids and not gtids.issubset(facts.gtid_executed):
        missing = _count_difference(gtids, facts.gtid_executed, address)
        return f"{missing} of the cursor's transactions are no longer on the server"
    return ""


def _effect_after_reset(
    before: Cursor, after: SourceOffset, facts: ServerFacts, address: SourceAddress, *, why: str
) -> Effect:
    """Return the effect on a server that was reset or restored, whose transactions cannot be compared."""
    text = (
        f"the binlog is not the one that was read ({why}): published changes stay, and changes written "
        f"after {before.offset} and before the binlog was reset are lost"
    )
    if isinstance(after.gtid_set, GtidSet) and facts.has_gtids:
        appeared = _count_difference(facts.gtid_executed, after.gtid_set, address)
        skipped = after.gtid_set.count()
        text += (
            f"; of its {appeared + skipped} transaction(s), {skipped} are never published, "
            f"{appeared} are published as new"
        )
    return Effect(text)


def _effect_between(old: SourceOffset, new: SourceOffset, address: SourceAddress) -> Effect:
    before, after = old.gtid_set, new.gtid_set
    if isinstance(before, GtidSet) and isinstance(after, GtidSet):
        skipped, repeated = (
            _count_difference(after, before, address),
            _count_difference(before, after, address),
        )
        return _counted_effect(skipped, repeated)
    if isinstance(before, MariadbGtidList) and isinstance(after, MariadbGtidList):
        if before == after:
            return _counted_effect(0, 0)
        if before.holds_all(after):
            return Effect("back: the changes in between are published again", is_back=True)
        if after.holds_all(before):
            return Effect("forward: the changes in between are never published")
        return Effect("forward in some domains, back in others: changes are lost and repeated")
    if old.server_uuid != new.server_uuid:
        return Effect("a position of another server: what is lost or repeated is unknown")
    if old.coordinates == new.coordinates:
        return _counted_effect(0, 0)
    if new.coordinates.order < old.coordinates.order:
        return Effect(
            f"back from {old.coordinates}: the changes in between are published again", is_back=True
        )
    return Effect(f"forward from {old.coordinates}: the changes in between are never published")


def _counted_effect(skipped: int, repeated: int) -> Effect:
    if not skipped and not repeated:
        return Effect("the same position as before", is_free=True, is_back=True)
    parts = [f"forward: {skipped} transaction(s) are never published"] if skipped else []
    parts += [f"back: {repeated} transaction(s) are published again"] if repeated else []
    return Effect("; ".join(parts), is_back=not skipped)


def _count_difference(first: GtidSet, second: GtidSet, address: SourceAddress) -> int:
    """Return the number of transactions that only the first has."""
    return subtracted(str(first), str(second), address).count()


_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The records to write to the journal."""

    cursor: Cursor
    """The new cursor; its epoch and author are filled in later."""
    what: str
    after: str
    effect: str
    notes: list[Note] = field(default_factory=list)


Make = Callable[[DestinationState, str], Change]
"""Makes the change from the state, as it is once no other process can write, and the installation's id."""


async def commit_change(
    journal: Journal, make: Make, *, by: str, why: str, sets: bool = False
) -> Intervention:
    """Commit a change; raise Fenced if workers repeatedly take the destination over meanwhile.

    A change that ``sets`` the cursor also works if the journal is older than the topics: numbers continue after
    the numbers in the topics, and table versions are taken from the topics.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return await _commit_once(journal, make, by=by, why=why, sets=sets)
        except Fenced:
            # A worker resumed in between: its claim is committed, and nothing of this change is.
            if not tries_left:
                raise
    raise AssertionError


async def _commit_once(
    journal: Journal, make: Make, *, by: str, why: str, sets: bool
) -> Intervention:
    plan = journal.plan
    topics = Topics(journal.options)
    await topics.ensure(plan.topics.journal())
    installation = await installation_of(journal.topic, options=journal.options, worker=plan.worker)
    producer = TransactionalProducer(
        f"{installation}.{plan.name}", options=journal.options, compression=None, has_spare=True
    )
    try:
        await producer.init_transactions()
        verification = Verification(
            installation=installation,
            # As a leader does: earlier published records show whether the journal has lost its
            # cursor.
            confirm=partial(plan.topics.ready, topics, plan.name),
            is_published=not sets,
        )
        state = await recover(plan.journal, MemoryCheckpoint(), verification, whole_history=True)
        lacking_versions = await _add_published(state, plan) if sets else []
        change = await asyncio.to_thread(make, state, installation)
        intervention = _intervention(state, change, by=by, why=why)
        cursor = replace(
            change.cursor,
            epoch=intervention.epoch,
            by=intervention.id,
            written_ms=intervention.ts_ms,
        )
        notes = [
            *lacking_versions,
            *change.notes,
            intervention_note(intervention),
            (cursor_key(plan.name), encoded(cursor.to_json())),
        ]
        async with producer.transaction() as kafka:
            await plan.journal.send(kafka, notes)
        return intervention
    finally:
        await producer.discard()


async def _add_published(state: DestinationState, plan: Plan) -> list[Note]:
    """Add newer numbers and versions from the topics to a state; return the versions that the journal lacks."""
    if state.cursor is None:
        return []
    published = Published(
        destination=plan.name, prefix=plan.topics.prefix, options=plan.kafka_options
    )
    lacking = []
    for version in await published.all_versions():
        known = state.versions.get((version.database, version.table))
        if known is None or known.version < version.version:
            state.versions[version.database, version.table] = version
            lacking.append((version_key(version), encoded(version.to_json())))
    numbers = [source_of(one) for one in (await published.newest(state)).values()]
    state.cursor = replace(
        state.cursor,
        epoch=max([state.cursor.epoch, *(one["epoch"] for one in numbers)]),
        seq=max([state.cursor.seq, *(one["seq"] for one in numbers)]),
        versions=state.version_count,
    )
    return lacking


def _intervention(state: DestinationState, change: Change, *, by: str, why: str) -> Intervention:
    old = state.cursor
    return Intervention(
        destination=state.destination,
        id=uuid.uuid4().hex[:12],
        what=change.what,
        by=by,
        why=why,
        ts_ms=time.time_ns() // 1_000_000,
        epoch=max(
            change.cursor.epoch, next_epoch(old.epoch if old is not None else 0, now=time.time())
        ),
        before=None if old is None else str(old.offset),
        after=change.after,
        effect=change.effect,
    )


MakeChange = Callable[[DestinationState, str, Effect, str], Change]
"""Makes the change from the valid state, the installation's id, the effect at that time, and the author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A planned move: its position, its source, and its effect according to the journal when it was planned."""

    journal: Journal
    source: ReachableSource
    offset: SourceOffset
    effect: Effect
    change: MakeChange


async def plan_move(
    journal: Journal,
    before: Cursor | None,
    offset: SourceOffset,
    source: ReachableSource,
    *,
    change: MakeChange,
) -> Move:
    """Return the move of a cursor from its present position to a position of a source."""
    found = await in_its_own_thread(
        partial(move_effect, before, offset, source.address, source.facts)
    )
    return Move(journal=journal, source=source, offset=offset, effect=found, change=change)


async def make_move(move: Move, *, by: str, why: str) -> Intervention:
    """Make the move; raise Fenced if workers repeatedly take the destination over meanwhile."""

    def change(state: DestinationState, installation: str) -> Change:
        found = move_effect(state.cursor, move.offset, move.source.address, move.source.facts)
        return move.change(state, installation, found, by)

    return await commit_change(move.journal, change, by=by, why=why, sets=True)


def moved_cursor(
    offset: SourceOffset, state: DestinationState, installation: str, *, is_back: bool
) -> Cursor:
    """Return the cursor at another position, with continued numbers."""
    old = state.cursor
    if old is None:
        return Cursor(
            destination=state.destination,
            installation=installation,
            epoch=1,
            seq=0,
            versions=state.version_count,
            offset=offset,
        )
    return replace(
        old,
        offset=offset,
        resume=None,
        prepared={},
        proof=CursorProof(),
        is_new_start=not (is_back and _history_reaches(state, offset)),
    )


def _history_reaches(state: DestinationState, offset: SourceOffset) -> bool:
    """Return whether the schema history has the tables as of a position before the cursor."""
    history = state.history()
    if history is None:
        return False
    try:
        history.rollback(offset)
    except (HistoryTooShort, PositionUnknown):
        return False
    return True


def _confirm_and_move(options: argparse.Namespace, move: Move) -> int:
    """Make the move once its cost is confirmed; return 0 once it is in the journal."""
    if not move.effect.is_free:
        confirm(options, f"{options.destination} moves to {move.offset}: {move.effect.text}")
    intervention = run_operation(make_move(move, by=operator(), why=options.why))
    line = f"{options.destination}: at {move.offset} in epoch {intervention.epoch}; {intervention.effect}"
    print_answer("text", None, [line])
    return 0


async def plan_set(
    journal: Journal,
    start: Start,
    report: ReportUnreachable,
    *,
    server: str | None = None,
    replacing_by: str | None = None,
) -> Move:
    """Return the move to a position.

    ``server`` is the server of the named file, by default the cursor's. ``replacing_by`` is the operator who
    wants all rows to be published again after the move. Raise SourceDiverged if another server than the file's
    answers, SnapshotUnsupported if the server's rows cannot be read exactly.
    """
    present = await journal.initialized_state()
    names_file = isinstance(start, AtCoordinates) or (
        isinstance(start, AtTime) and bool(start.file)
    )
    file_server = _server_of(server, present) if names_file else None
    source = await reachable_source(journal, present, report, server_uuid=file_server)
    if names_file:
        _refuse_other_server(source, file_server, journal)
    offset = await in_its_own_thread(partial(first_offset, start, source.facts, source.address))

    snapshots: list[Note] = []
    if replacing_by is not None:
        snapshots = await replacing_requests(journal, present, source, by=replacing_by)

    def change(state: DestinationState, installation: str, found: Effect, by: str) -> Change:
        if names_file:
            _refuse_other_server(source, _server_of(server, state), journal)
        return Change(
            cursor=moved_cursor(offset, state, installation, is_back=found.is_back),
            what="set",
            after=str(offset),
            effect=found.text,
            notes=[
                *source.switch_records(state.source_choice, state.destination, by=by),
                *snapshots,
            ],
        )

    return await plan_move(journal, present.cursor, offset, source, change=change)


def _server_of(server: str | None, state: DestinationState) -> str | None:
    """Return the server of the file; None before the first cursor, if no server is named."""
    if server is not None or state.cursor is None:
        return server
    return state.cursor.offset.server_uuid


def _refuse_other_server(
    source: ReachableSource, file_server: str | None, journal: Journal
) -> None:
    """Raise SourceDiverged if the server that answers is not the file's."""
    found = source.facts.server_uuid
    if file_server is None:
        is_same = str(source.address) == str(journal.plan.address)
        file_server = f"at {journal.plan.address}"
    else:
        is_same = found == file_server
    if not is_same:
        raise SourceDiverged(
            f"the file belongs to server {file_server}, but server {found} answers: "
            "a file and position mean nothing on another server",
            source=source.address,
            remedy="Nothing was changed. Wait until that server answers; or, if this one is to be read and the "
            f"file is its own, add --server {found}; or give --time, --earliest, --latest or --gtid.",
        )


def configure_set(parser: argparse.ArgumentParser) -> None:
    """Add a position and a reason."""
    parser.epilog = (
        "The leader is fenced and continues from there by itself, also after FAILED. Changes between the old "
        "position and the new one are lost to subscribers (forward: reload their tables) or repeated (back)."
    )
    add_destination(parser)
    add_gtid_or_file(
        parser,
        metavar="SET",
        gtid="after these transactions",
        file="a binlog file; without --pos, its beginning",
        pos="position in the file at which a transaction begins",
    )
    parser.add_argument(
        "--server", metavar="UUID",
        help="server_uuid of the file's server; default: the cursor's, or without a cursor the first source's",
    )  # fmt: skip
    parser.add_argument(
        "--time", metavar="T", type=parse_time,
        help="the first transaction committed then or later: ISO 8601 with a zone, or milliseconds since 1970",
    )  # fmt: skip
    parser.add_argument(
        "--earliest", action="store_true", help="the oldest change that the server still has"
    )
    parser.add_argument("--latest", action="store_true", help="the end of the binlog")
    parser.add_argument(
        "--with-snapshot",
        action="store_true",
        help="with --latest: publish all rows of all captured tables again, in place of those that subscribers "
        "have, so that no change that is passed by is lost",
    )
    add_reason(parser)


def run_set(options: argparse.Namespace) -> int:
    """Set the cursor; return 0 once it is in the journal."""
    journal, start = Journal.of(load(), options.destination), _start_of(options)
    if options.with_snapshot and not options.latest:
        raise UsageError(
            "--with-snapshot goes with --latest: existing rows are read beside new changes"
        )
    by = operator() if options.with_snapshot else None
    move = run_operation(
        plan_set(journal, start, report_unreachable, server=options.server, replacing_by=by)
    )
    return _confirm_and_move(options, move)


def _start_of(options: argparse.Namespace) -> Start:
    """Return the position of the options; raise UsageError if they give none, or more than one."""
    file, pos, ts_ms = options.file, options.pos, options.time
    kinds = [options.gtid, file or ts_ms, options.earliest, options.latest]
    if sum(map(bool, kinds)) != 1 or (pos is not None and (file is None or ts_ms is not None)):
        raise UsageError(
            "give one of: --gtid SET, --file FILE [--pos N], [--file FILE] --time T, --earliest, --latest"
        )
    if options.server is not None and file is None:
        raise UsageError("--server names the server of --file; give --file too")
    if options.gtid:
        try:
            return AfterGtids(parse_gtids(options.gtid))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if ts_ms is not None:
        return AtTime(ts_ms, file)
    if file is not None:
        return AtCoordinates(Coordinates(file, pos or FIRST_EVENT))
    return Earliest() if options.earliest else Latest()


async def plan_import(journal: Journal, given: Cursor, report: ReportUnreachable) -> Move:
    """Return the move to the other installation's position."""
    present = await journal.initialized_state()
    # GTIDs are the same on all servers; coordinates belong to one.
    server = None if given.offset.gtid_set is not None else given.offset.server_uuid
    source = await reachable_source(journal, present, report, server_uuid=server)
    offset = await in_its_own_thread(partial(_checked, given, source))

    def change(state: DestinationState, installation: str, found: Effect, by: str) -> Change:
        cursor = moved_cursor(offset, state, installation, is_back=False)
        return Change(
            cursor=replace(
                cursor,
                epoch=max(cursor.epoch, given.epoch + 1),
                seq=max(cursor.seq, given.seq),
                prepared=given.prepared,
            ),
            what="import",
            after=str(offset),
            effect=f"of installation {given.installation}, destination {given.destination}; {found.text}",
            notes=source.switch_records(state.source_choice, state.destination, by=by),
        )

    return await plan_move(journal, present.cursor, offset, source, change=change)


def _checked(given: Cursor, source: ReachableSource) -> SourceOffset:
    """Return the position in the server's present terms; raise an error if reading cannot resume there."""
    offset = in_current_terms(given.offset, source.facts, source.address)
    check(offset, source.facts, source.address)
    return offset


def configure_import(parser: argparse.ArgumentParser) -> None:
    """Take a file."""
    parser.epilog = (
        "A transaction that the exporting installation published in part is published whole here. Stop the "
        "destination there first, for good."
    )
    add_destination(parser)
    parser.add_argument("export", type=Path, metavar="FILE.json", help="output of `cursor export`")
    add_reason(parser)


def run_import(options: argparse.Namespace) -> int:
    """Import the cursor; return 0 once it is in the journal."""
    journal, given = Journal.of(load(), options.destination), _read_export(options.export)
    return _confirm_and_move(
        options, run_operation(plan_import(journal, given, report_unreachable))
    )


def _read_export(path: Path) -> Cursor:
    try:
        value: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict) or value.get("what") != EXPORT_KIND:
        raise UsageError(f"{path} is not an output of `cursor export`")
    if value.get("form") != EXPORT_FORM:
        raise UsageError(
            f"{path} has format version {value.get('form')}, this version reads {EXPORT_FORM}"
        )
    try:
        return Cursor.from_json(value["cursor"])
    except (KeyError, JournalDamaged) as error:
        raise UsageError(f"{path} has no complete cursor: {error}") from None


NamedTransaction = str | Coordinates
"""A transaction as an operator names it: by its GTID, or without GTIDs by the position where it begins."""


async def plan_skip(
    journal: Journal, named: NamedTransaction, report: ReportUnreachable
) -> tuple[str, str]:
    """Return the named transaction, which the cursor has not passed yet, and the loss that its skip causes.

    The transaction is returned as its GTID, or without GTIDs as ``server_uuid:file:pos`` of its first event.
    Raise UsageError if ``named`` is not one transaction of the source, AlreadyPast if it is published.
    """
    state = await journal.state(whole_history=False)
    cursor = state.cursor
    assert cursor is not None
    transaction = await _transaction(named, journal, state, report)
    _refuse_if_past(transaction, cursor)
    return transaction, f"the changes of {transaction} are never published"


async def request_skip(
    journal: Journal, transaction: str, effect: str, *, by: str, why: str
) -> Intervention:
    """Request the skip; raise AlreadyPast if the transaction was published meanwhile."""

    def change(state: DestinationState, _installation: str) -> Change:
        now = state.cursor
        assert now is not None
        _refuse_if_past(transaction, now)
        skip = Skip(
            destination=state.destination,
            transaction=transaction,
            id=uuid.uuid4().hex[:12],
            by=by,
            why=why,
            ts_ms=time.time_ns() // 1_000_000,
        )
        return Change(
            cursor=replace(now),
            what="skip",
            after=transaction,
            effect=effect,
            notes=[skip_note(skip)],
        )

    return await commit_change(journal, change, by=by, why=why)


async def _transaction(
    named: NamedTransaction, journal: Journal, state: DestinationState, report: ReportUnreachable
) -> str:
    """Return the transaction's id; raise UsageError if the source has no ids of that kind."""
    cursor = state.cursor
    assert cursor is not None
    if isinstance(named, str):
        return _gtid(named, cursor)
    if cursor.offset.gtid_set is not None:
        raise UsageError("the source has GTIDs; name the transaction by --gtid")
    source = await reachable_source(journal, state, report, server_uuid=cursor.offset.server_uuid)
    found = source.facts.server_uuid
    if found != cursor.offset.server_uuid:
        raise SourceDiverged(
            f"the cursor is at server {cursor.offset.server_uuid}, but server {found} answers: without GTIDs, "
            "transactions of the two cannot be matched",
            source=source.address,
            remedy="Give a position on the server that the worker reads, once it answers.",
        )
    await in_its_own_thread(partial(_check_begins, named, source.address))
    return f"{found}:{named}"


def _check_begins(position: Coordinates, address: SourceAddress) -> None:
    """Raise PositionWithin if no transaction begins at a position."""
    for span in Spans(address, position.file):
        if span.start == position:
            return
        if span.end.order > position.order:
            raise PositionWithin(
                f"{position} is within the transaction from {span.start} to {span.end}"
            )
    raise PositionWithin(f"no transaction begins at {position}", source=address)


def _gtid(text: str, cursor: Cursor) -> str:
    gtids = cursor.offset.gtid_set
    if gtids is None:
        raise UsageError("the source has no GTIDs; name the transaction by --file and --pos")
    try:
        gtid = parse_gtids(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if type(gtid) is not type(gtids):
        raise UsageError(f"{text} is not a GTID of this kind of server; the cursor is at {gtids}")
    if isinstance(gtid, GtidSet) and gtid.count() != 1:
        raise UsageError(f"{text} is not one GTID")
    if "," in str(gtid):
        raise UsageError(f"{text} is not one GTID")
    return str(gtid)


def _refuse_if_past(transaction: str, cursor: Cursor) -> None:
    gtids, is_past = cursor.offset.gtid_set, False
    if isinstance(gtids, GtidSet):
        is_past = transaction in gtids
    elif isinstance(gtids, MariadbGtidList):
        is_past = gtids.holds(transaction)
    else:
        server, _, position = transaction.partition(":")
        is_past = (
            server == cursor.offset.server_uuid
            and Coordinates.parse(position).order < cursor.offset.coordinates.order
        )
    if is_past:
        raise AlreadyPast(transaction, destination=cursor.destination, cursor=cursor.offset)


def configure_skip(parser: argparse.ArgumentParser) -> None:
    """Take a transaction and a reason."""
    parser.epilog = (
        "The leader continues by itself, also after it FAILED at this transaction. The transaction's schema "
        "changes are still applied to the schema history; its row changes are lost to subscribers. An XA "
        "transaction is skipped by the GTID of its XA COMMIT."
    )
    add_destination(parser)
    add_gtid_or_file(
        parser,
        metavar="GTID",
        gtid="the transaction's GTID",
        file="on a server without GTIDs: the transaction's binlog file",
        pos="and the position at which it begins",
    )
    add_reason(parser)


def run_skip(options: argparse.Namespace) -> int:
    """Request the skip; return 0 once it is in the journal."""
    journal = Journal.of(load(), options.destination)
    planning = plan_skip(journal, _named_transaction(options), report_unreachable)
    transaction, effect = run_operation(planning)
    confirm(options, f"{options.destination}: {effect}")
    requesting = request_skip(journal, transaction, effect, by=operator(), why=options.why)
    change = run_operation(requesting)
    sys.stdout.write(
        f"{options.destination}: {transaction} will be skipped; recorded in epoch {change.epoch}\n"
    )
    return 0


def _named_transaction(options: argparse.Namespace) -> NamedTransaction:
    """Return the transaction of the options; raise UsageError if they name none, or name it twice."""
    if bool(options.gtid) == bool(options.file):
        raise UsageError("name the transaction by --gtid, or by --file and --pos without GTIDs")
    if options.gtid:
        return str(options.gtid)
    if options.pos is None:
        raise UsageError("--file needs --pos, where the transaction begins")
    return Coordinates(options.file, options.pos)
