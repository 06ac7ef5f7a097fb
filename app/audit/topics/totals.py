"""The totals of an examination after all records: losses, numbers, epochs, the cursor.

Invariant: a change without a record is lost unless a named reason accounts for it; it is then counted under
that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from app.audit.change_store import ORDINAL_BITS, Change
from app.audit.table_shape import Shape
from app.audit.topics.record_check import (
    DEAD,
    GIVEN_UP,
    NEW_HALF,
    OLD_HALF,
    PARKED,
    WAITING,
    WHOLE,
    RecordCheck,
    Span,
    rows_after,
)
from app.audit.topics.topics import CursorRecord, Journal
from app.audit.verdict import FaultKind, Finding
from tables.rules.routes.routes import Route
from wire.changes import DDL_ORDINAL, change_id

_OPERATION = {"c": "insert", "u": "update", "d": "delete", "t": "delete"}
_DONE = {WHOLE, OLD_HALF | NEW_HALF}

Shadows = Callable[[str, str], bool]


def tombstones(done: RecordCheck) -> None:
    """Report deletes without a tombstone."""
    for held in done.held.values():
        for finding in held.tombstones.values():
            done.verdict.add(finding)


def lost_changes(done: RecordCheck, *, shadows: Shadows, compacted: bool) -> None:
    """Report changes without records, or count them by the reason."""
    if all(value & 7 in _DONE for value in set(done.seen)):
        return
    verdict, store = done.verdict, done.truth.store
    for position, n, shape in store.positions():
        seen = done.seen[n] & 7
        if seen in _DONE:
            continue
        name = ".".join(shape.name)
        rank = position >> ORDINAL_BITS
        ordinal = position & ((1 << ORDINAL_BITS) - 1)
        blurred = done.truth.blurred.get(rank)
        if blurred is not None and ordinal >= blurred[0]:
            verdict.unjudged[rows_after(blurred[1])] += 1
        elif done.seen[n] & WAITING:
            verdict.quarantined[name] += 1
        elif done.seen[n] & GIVEN_UP:
            verdict.unjudged[f"{name}: given up by an operator"] += 1
        elif done.seen[n] & DEAD:
            verdict.unjudged[f"{name}: dead letters"] += 1
        elif not (routes := _routes_of(done, n, shape, rank)):
            verdict.filtered[name] += 1
        elif not seen and (why := _left_out(done, routes, rank, ordinal)):
            verdict.unjudged[f"{name}: {why}"] += 1
        elif shadows(*shape.name):
            verdict.shadows[name] += 1
        elif compacted or _is_expired(done, routes[0].topic, position):
            verdict.expired[routes[0].topic] += 1
        else:
            change = store.change(rank, ordinal)
            transaction = store.ranked(rank)
            half = {OLD_HALF: 1, NEW_HALF: 0}.get(seen)
            verdict.add(
                Finding(
                    kind=FaultKind.LOST,
                    what=f"no record has this change of {name}",
                    change_id=change_id(transaction.id, ordinal, half),
                    source=f"{transaction.file}:{change.pos if change else transaction.pos}",
                )
            )


def _routes_of(done: RecordCheck, n: int, shape: Shape, rank: int) -> list[Route]:
    """The routes by which a change may have been published; empty if no version captures its table.

    They are the routes in force at its transaction and, for a quarantined change, also all later routes.
    """
    routes, store = done.subject.routes, done.truth.store
    waited = done.seen[n] & PARKED
    found = routes.since(store, rank) if waited else [routes.of_transaction(store, rank)]
    return [route for one in found if (route := one.of(shape.name)) is not None]


def _left_out(done: RecordCheck, routes: list[Route], rank: int, ordinal: int) -> str | None:
    """Why rules may omit a change; None if all routes publish every change of the table."""
    change = done.truth.store.change(rank, ordinal)
    reasons = (_rule_that_omits(route, change) for route in routes)
    return next(filter(None, reasons), None)


def _rule_that_omits(route: Route, change: Change | None) -> str | None:
    if change is not None and change.kind == "t" and not route.records_truncates:
        return f"TRUNCATEs without a record (truncates: {route.truncates})"
    if route.mapped is None:
        return None
    rules = route.mapped.rules
    if rules.row_filter and (change is None or change.kind != "t"):
        return "without a record, as the row filter of the mapping may have it"
    if rules.operations and change is not None and _OPERATION[change.kind] not in rules.operations:
        return f"{_OPERATION[change.kind]}s, which the mapping leaves out"
    return None


def _is_expired(done: RecordCheck, topic: str, position: int) -> bool:
    """Whether a record may have expired in its topic or, if it is from before a merge, in the merged topic."""
    home = done.subject.shares.home(topic)
    return _is_cut_before(done, topic, position) or (
        home != topic
        and not _has_begun(done, topic, position)
        and _is_cut_before(done, home, position)
    )


def _has_begun(done: RecordCheck, topic: str, position: int) -> bool:
    """Whether a topic has a record of this position or an earlier one."""
    return any(
        held.first_position is not None and held.first_position <= position * 2 + 1
        for (name, _), held in done.held.items()
        if name == topic
    )


def _is_cut_before(done: RecordCheck, topic: str, position: int) -> bool:
    """Whether a partition of a topic may have lost its record of this position."""
    for number in range(done.subject.partitions.get(topic, 0)):
        if done.subject.beginnings.get((topic, number), 0) > 0:
            held = done.held.get((topic, number))
            if held is None or held.first_position is None or position * 2 < held.first_position:
                return True
    return False


def lost_statements(
    done: RecordCheck, *, publishes: Callable[[str], bool], shadows: Callable[[str], bool]
) -> None:
    """Report statements without records, or count them by the reason."""
    for rank, text, pos in done.truth.store.statements():
        if not publishes(text):
            continue
        done.verdict.statements += 1
        if rank in done.statements:
            continue
        transaction = done.truth.store.ranked(rank)
        topic = done.subject.ddl_topic
        if shadows(text):
            done.verdict.shadows["statements on shadow tables"] += 1
        elif done.subject.beginnings.get((topic, 0), 0) > 0 and (
            not done.statements or rank < min(done.statements)
        ):
            done.verdict.expired[topic] += 1
        else:
            done.verdict.add(
                Finding(
                    kind=FaultKind.LOST,
                    what="no record has this statement",
                    change_id=change_id(transaction.id, DDL_ORDINAL),
                    source=f"{transaction.file}:{pos}",
                )
            )


def numbers(done: RecordCheck, *, compacted: bool) -> None:
    """Report the numbers up to the cursor's that no record has, and a cursor whose last numbers are missing."""
    subject, verdict = done.subject, done.verdict
    first = _first_number(done)
    if compacted or first is None:
        verdict.unjudged["seq, as the topics do not keep all records"] += 1
        return
    if first > 1:
        verdict.unjudged[f"seq below {first}, which the topics do not keep"] += 1
    for begin, end in _gaps(done.numbers, first, subject.seq):
        what = f"seq {begin} is missing" if begin == end else f"seq {begin} to {end} are missing"
        verdict.add(Finding(kind=FaultKind.SEQ_GAPS, what=what), times=end - begin + 1)
        if end == subject.seq:
            verdict.add(
                Finding(
                    kind=FaultKind.CURSOR,
                    what=f"the cursor has seq {subject.seq}, and the topics end at {begin - 1}",
                )
            )


def _first_number(done: RecordCheck) -> int | None:
    """The number from which on none may be missing; None if a cut partition has no record to show it."""
    first = 1
    for partition, beginning in done.subject.beginnings.items():
        if beginning > 0:
            held = done.held.get(partition)
            if held is None or held.first_seq is None:
                return None
            first = max(first, held.first_seq)
    return first


def _gaps(bits: bytearray, first: int, last: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for index, byte in enumerate(bits):
        if byte == 0xFF:
            continue
        for seq in range(index * 8, index * 8 + 8):
            if first <= seq <= last and not byte & 1 << (seq & 7):
                if found and found[-1][1] == seq - 1:
                    found[-1] = (found[-1][0], seq)
                else:
                    found.append((seq, seq))
    return found


def epochs(done: RecordCheck, journal: Journal) -> None:
    """Report a leader whose numbers do not all precede the next leader's, in the topics or in the journal."""
    spans: Mapping[int, Span] = done.epochs
    ordered = sorted(spans)
    for older, newer in pairwise(ordered):
        if spans[older].last > spans[newer].first:
            finding = spans[older].finding
            _after_fencing(
                done, finding, f"epoch {older} has seq {spans[older].last}, epoch {newer} began at "
                f"{spans[newer].first}",
            )  # fmt: skip
    for cursor in journal.cursors:
        for epoch, span in spans.items():
            if epoch < cursor.epoch and span.last > cursor.seq:
                what = f"epoch {epoch} has seq {span.last}, epoch {cursor.epoch} a cursor at {cursor.seq}"
                _after_fencing(done, span.finding, what)
            elif epoch > cursor.epoch and span.first <= cursor.seq:
                what = f"epoch {epoch} has seq {span.first}, which a cursor of epoch {cursor.epoch} has too"
                _after_fencing(done, span.finding, what)
    for before, after in journal.regressions:
        if after.epoch < before.epoch:
            what = (
                f"the journal has a cursor of epoch {after.epoch} after one of epoch {before.epoch}"
            )
            done.verdict.add(
                Finding(
                    kind=FaultKind.AFTER_FENCING,
                    what=what,
                    topic="journal",
                    partition=0,
                    offset=after.offset,
                )
            )
        else:
            what = f"the journal's cursor goes back from seq {before.seq} to {after.seq}"
            done.verdict.add(
                Finding(
                    kind=FaultKind.CURSOR,
                    what=what,
                    topic="journal",
                    partition=0,
                    offset=after.offset,
                )
            )


def _after_fencing(done: RecordCheck, at: Finding, what: str) -> None:
    done.verdict.add(
        Finding(
            kind=FaultKind.AFTER_FENCING,
            what=what,
            change_id=at.change_id,
            source=at.source,
            topic=at.topic,
            partition=at.partition,
            offset=at.offset,
        )
    )


def cursor(done: RecordCheck, latest: CursorRecord) -> None:
    """Report records after the last read cursor, and GTIDs of the first read cursor that the binlog lacks."""
    if done.greatest > latest.seq:
        what = f"records go up to seq {done.greatest}, the cursor to {latest.seq}"
        done.verdict.add(Finding(kind=FaultKind.CURSOR, what=what))
    gtids = done.subject.end.gtids
    if gtids is not None:
        held = done.truth.before.copy()
        held.merge(done.truth.within)
        held.merge(done.truth.after)
        if not gtids.issubset(held):
            what = f"the cursor contains {gtids}, the source's binlog only {held}"
            done.verdict.add(Finding(kind=FaultKind.CURSOR, what=what))


def values_of(done: RecordCheck, rank: int) -> dict[str, int]:
    """Return the count of a transaction's records, without tombstones, by the topic that subscribers read."""
    found: dict[str, int] = {}
    routes = done.subject.routes.of_transaction(done.truth.store, rank)
    for n, shape in done.truth.store.of(rank):
        count, route = (done.seen[n] & 7).bit_count(), routes.of(shape.name)
        if count and route is not None:
            topic = done.subject.shares.home(route.topic)
            found[topic] = found.get(topic, 0) + count
    for name, count in done.dropped.get(rank, {}).items():
        topic = done.subject.shares.home(name)
        found[topic] = found.get(topic, 0) + count
    return found
