"""The verdict: the server's own binlog and tables against the topics and the journal.

Invariant: nothing of the worker is trusted or used; another library reads the binlog, and Kafka is read by
`devstack.topics`, an ordinary consumer. Each kind of fault has a name; a run passes if there is none of any
kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from demo import checks
from demo.checks import Record
from demo.truth import Truth
from devstack import topics as consumed
from tables.rules.routes.routes import Routes
from tests.crash.fencing import claims_faults, fencing_faults
from tests.crash.gtids import GtidRanges, plain

_SHOWN = 3

Row = Mapping[str, Any]
Rows = Mapping[str, Mapping[int, Row]]
"""By table and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A committed record with a value."""

    record: Record
    table: str
    key: bytes | None
    op: str
    after: Row | None
    before: Row | None


@dataclass(slots=True)
class Topics:
    """A destination's records as a consumer reads them."""

    rows: list[Read] = field(default_factory=list)
    statements: list[Record] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    """Rows in another topic than their table's route has."""
    cursors: list[dict[str, Any]] = field(default_factory=list)
    """In the journal's order."""
    offsets: list[int] = field(default_factory=list)
    """Of these cursors in the journal."""
    producers: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By offset in the journal, id and epoch of the producer, out of the broker's own files."""
    most_claims: int | None = None
    """The maximum number of epochs, if known."""

    @property
    def records(self) -> list[Record]:
        """All records with a number."""
        return [one.record for one in self.rows] + self.statements


@dataclass(frozen=True, slots=True)
class Source:
    """The source's own facts."""

    truth: Truth
    rows: Rows
    gtids: str
    counts: Mapping[tuple[str, int], int] | None = None
    """For transactions without GTIDs: the number of records due, by table and key."""


Findings = dict[str, list[str]]
"""By kind of fault, without empty kinds."""


Take = Callable[[Topics, Any, Routes, str], None]
"""Adds a record to what was read."""


async def read_topics(
    bootstrap: str, routes: Routes, destination: str, *, take: Take | None = None
) -> Topics:
    """Read all committed records of a destination; another's records by a ``take`` of their own."""
    found = Topics()
    take = take or note
    names = await _topics_of(bootstrap, routes.prefix)
    try:
        async for messages in consumed.batches(bootstrap, names):
            for message in messages:
                take(found, message, routes, destination)
    except consumed.TopicsUnreadable as error:
        raise AssertionError(str(error)) from error
    return found


async def _topics_of(bootstrap: str, prefix: str) -> list[str]:
    ours = ("__journal", "__ddl.")
    return sorted(
        name
        for name in await consumed.names(bootstrap)
        if name.startswith(f"{prefix}.")
        and (
            not (rest := name.removeprefix(f"{prefix}.")).startswith("__") or rest.startswith(ours)
        )
    )


def note(found: Topics, message: Any, routes: Routes, destination: str) -> None:
    """Add a record; it names its table, and the routes give its topic."""
    if message.value is None:
        return
    name = message.topic.removeprefix(f"{routes.prefix}.")
    if name == "__journal":
        if message.key == f"cursor/{destination}".encode():
            found.cursors.append(orjson.loads(message.value))
            found.offsets.append(message.offset)
    elif name == f"__ddl.{destination}":
        found.statements.append(_record(message, orjson.loads(message.value), named=False))
    elif not name.startswith("__"):
        value = orjson.loads(message.value)
        table = value["source"]["db"], value["source"]["table"]
        route = routes.of(table)
        if route is None or route.topic != message.topic:
            found.misplaced.append(f"{'.'.join(table)} in {message.topic}@{message.offset}")
        found.rows.append(
            Read(
                record=_record(message, value, named=True),
                table=table[1],
                key=message.key,
                op=value["op"],
                after=value["after"],
                before=value["before"],
            )
        )


def _record(message: Any, value: dict[str, Any], *, named: bool) -> Record:
    source = value["source"]
    change_id = dict(message.headers).get("change_id") if named else None
    return Record(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        change_id=change_id.decode() if change_id else None,
        seq=source["seq"],
        epoch=source["epoch"],
        committed_ms=source["ts_ms"],
    )


def compare(source: Source, topics: Topics, *, whole: bool = True) -> Findings:
    """All findings; up to the last cursor, unless the ``whole`` source had to be published."""
    if source.counts is not None:
        return _nameless(source, topics)
    held = GtidRanges(topics.cursors[-1]["gtid_set"] if topics.cursors else "")
    asks_cursor = whole or bool(topics.cursors)
    by_table: defaultdict[str, list[Record]] = defaultdict(list)
    for one in topics.rows:
        by_table[one.table].append(one.record)
    lost: set[str] = set()
    repeated: dict[str, int] = {}
    invented: list[Record] = []
    for table in {*by_table, *source.truth.change_ids}:
        expected = source.truth.change_ids.get(table, set())
        due = expected if whole else {one for one in expected if one.partition("#")[0] in held}
        lost |= checks.lost(due, by_table[table])
        repeated |= checks.duplicated(by_table[table])
        invented += checks.invented(expected, by_table[table])
    everything = topics.records
    found = {
        "lost": sorted(lost),
        "repeated": sorted(repeated),
        "invented": [str(one) for one in invented],
        "seq": checks.seq_faults(everything),
        "epochs": [*checks.epoch_regressions(everything), *_cursor_regressions(topics.cursors)],
        "fencing": fencing_faults(topics.cursors, topics.offsets, topics.producers),
        "claims": claims_faults(topics.cursors, topics.most_claims),
        "disordered": disordered(everything),
        "scattered": scattered(topics.rows),
        "misplaced": topics.misplaced,
        "values": values(source.rows, topics.rows) if whole else [],
        "cursor": cursor_faults(topics, source.gtids if whole else None) if asks_cursor else [],
    }
    return {kind: what for kind, what in found.items() if what}


def _nameless(source: Source, topics: Topics) -> Findings:
    """All findings on records of a source without GTIDs: they are counted, and applied."""
    assert source.counts is not None
    counts = Counter(
        (one.table, row["id"]) for one in topics.rows if (row := one.after or one.before)
    )
    by_table: defaultdict[str, list[Record]] = defaultdict(list)
    for one in topics.rows:
        by_table[one.table].append(one.record)
    wrong = [
        (f"{abs(due - came)} of {table} {key}", due, came)
        for table, key in sorted({*counts, *source.counts})
        if (due := source.counts.get((table, key), 0)) != (came := counts[table, key])
    ]
    repeated = [name for some in by_table.values() for name in checks.duplicated(some)]
    everything = topics.records
    found = {
        "lost": [what for what, due, came in wrong if came < due],
        "repeated": repeated + [what for what, due, came in wrong if came > due],
        "seq": checks.seq_faults(everything),
        "epochs": [*checks.epoch_regressions(everything), *_cursor_regressions(topics.cursors)],
        "fencing": fencing_faults(topics.cursors, topics.offsets, topics.producers),
        "claims": claims_faults(topics.cursors, topics.most_claims),
        "disordered": disordered(everything),
        "scattered": scattered(topics.rows),
        "misplaced": topics.misplaced,
        "values": values(source.rows, topics.rows),
        "cursor": _number_faults(topics),
    }
    return {kind: what for kind, what in found.items() if what}


def described(findings: Findings) -> str:
    """The findings in a line, the first ones of each kind."""
    return "; ".join(
        f"{kind} {len(what)}: {', '.join(what[:_SHOWN])}" for kind, what in findings.items()
    )


def disordered(records: Iterable[Record]) -> list[str]:
    """Partitions, and so keys, with a smaller seq after a greater one."""
    return [f"{b} follows {a}" for held in _partitions(records) for a, b in held if b.seq <= a.seq]


def scattered(rows: Iterable[Read]) -> list[str]:
    """Keys that are in more than one partition of a topic."""
    places: defaultdict[tuple[str, bytes], set[int]] = defaultdict(set)
    for one in rows:
        if one.key is not None:
            places[one.record.topic, one.key].add(one.record.partition)
    return [f"{key!r} in {topic}" for (topic, key), parts in places.items() if len(parts) > 1]


def values(expected: Rows, rows: Iterable[Read]) -> list[str]:
    """Rows that are not what the source has, once all changes are applied by seq."""
    return different(expected, applied(rows))


def applied(rows: Iterable[Read]) -> dict[str, dict[int, Row]]:
    """The tables' rows after all changes are applied by seq."""
    state: dict[str, dict[int, Row]] = {}
    for one in sorted(rows, key=lambda one: one.record.seq):
        held = state.setdefault(one.table, {})
        if one.op == "d" and one.before is not None:
            held.pop(one.before["id"], None)
        elif one.after is not None:
            held[one.after["id"]] = one.after
    return state


def different(expected: Rows, found: Rows) -> list[str]:
    """Rows of the expected tables that are not what they should be."""
    faults = []
    for table, wanted in expected.items():
        held = found.get(table, {})
        faults += [f"{table} {row} is missing" for row in wanted.keys() - held.keys()]
        faults += [f"{table} {row} is still there" for row in held.keys() - wanted.keys()]
        faults += [
            f"{table} {row} is {held[row]}, not {wanted[row]}"
            for row in held.keys() & wanted.keys()
            if not _same(held[row], wanted[row])
        ]
    return faults


def _same(held: Row, wanted: Row) -> bool:
    # A column that was added later is NULL in rows that nobody wrote since.
    return all(held.get(name) == value for name, value in wanted.items())


def cursor_faults(topics: Topics, gtids: str | None) -> list[str]:
    """Findings if the last cursor differs from the delivered records, or from these GTIDs."""
    faults = _number_faults(topics)
    if not topics.cursors:
        return faults
    last = topics.cursors[-1]
    held, resume = GtidRanges(last["gtid_set"]), last.get("resume") or {}
    names = {str(one.record.change_id).partition("#")[0] for one in topics.rows}
    faults += [
        f"it lacks {name}, which was published"
        for name in sorted(names - {resume.get("transaction_id")})
        if name not in held
    ]
    if gtids is not None and plain(last["gtid_set"]) != plain(gtids):
        faults.append(f"it holds {last['gtid_set']}, the source {gtids}")
    return faults


def _number_faults(topics: Topics) -> list[str]:
    """Findings if the last cursor's number is not the last record's."""
    if not topics.cursors:
        return ["there is none"]
    number, greatest = (
        topics.cursors[-1]["seq"],
        max((one.seq for one in topics.records), default=0),
    )
    return (
        [] if number == greatest else [f"its seq is {number}, that of the last record {greatest}"]
    )


def _cursor_regressions(cursors: list[dict[str, Any]]) -> list[str]:
    return [
        f"a cursor of epoch {b['epoch']} seq {b['seq']} after epoch {a['epoch']} seq {a['seq']}"
        for a, b in pairwise(cursors)
        if b["epoch"] < a["epoch"] or b["seq"] < a["seq"]
    ]


def _partitions(records: Iterable[Record]) -> Iterable[Iterable[tuple[Record, Record]]]:
    held: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in records:
        held[record.topic, record.partition].append(record)
    return [pairwise(sorted(some, key=lambda record: record.offset)) for some in held.values()]
