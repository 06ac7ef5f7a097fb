"""One audit: judges the topics up to the journal's cursor, with the source's binlog as the truth.

Invariant: an audit only reads. It reads the cursor first and again at the end, so that the progress of a
running worker is no fault. It needs no settings: a binlog, Kafka and the names are enough.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import orjson

from app.audit.change_store import Store
from app.audit.errors import NotAuditable
from app.audit.routes_in_force import RoutesInForce
from app.audit.topics import totals
from app.audit.topics.existing_rows import ExistingRows, incomplete_tables
from app.audit.topics.record_check import DEAD, GIVEN_UP, PARKED, WAITING, RecordCheck, Subject
from app.audit.topics.topics import (
    Copies,
    Journal,
    Partition,
    Published,
    Quarantined,
    Shares,
    journal,
    row_topics,
    schemas,
)
from app.audit.topics.transactions_topic import MarkerCheck
from app.audit.truth.changes import Truth, read
from app.audit.truth.window import (
    Bound,
    End,
    Window,
    file_of_last,
    first_file,
    is_purged,
    last_of,
    may_contain,
)
from app.audit.truth.witness import LIMITS, Witness
from app.audit.verdict import Verdict
from app.audit.warehouse.check import Warehouse
from app.audit.warehouse.dump import Origin, lines
from app.audit.warehouse.store import WarehouseStore
from app.settings.statement_filter import StatementTypes
from connectors.kafka.reading import StoredRecord, source_of
from connectors.mysql.binlog.statement_kind import statement_type
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.store.claims import ClaimStore
from tables.history.present_columns import Versions
from tables.rules.routes.routes import Routes
from tables.state.mapping_in_force import MappingsInForce
from tables.state.quarantine import Outcome
from wire.changes import parts_of, transaction_of
from wire.records import HEADER_CHANGE_ID, HEADER_META
from wire.topics import (
    ddl_topic,
    dead_letters_topic,
    journal_topic,
    quarantine_topic,
    schemas_topic,
    transactions_topic,
)

InForce = Callable[[MappingsInForce], RoutesInForce]
"""Returns the routes for the versions of the mapping in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What to audit, and the rules by which it was published."""

    destination: str
    routes: Routes
    """The routes; without a mapping if ``in_force`` supplies it."""
    binlog: Witness
    published: Published
    in_force: InForce | None = None
    """Returns the routes by version of the mapping; None if the mapping of ``routes`` is always in force."""
    ddl_include: str = ""
    ddl_exclude: str = ""
    shadows: ShadowRules = field(default_factory=ShadowRules)
    begin: Bound | None = None
    """The beginning; None: the first binlog file, or without ``from_start`` the oldest record in the topics."""
    until: Bound | None = None
    """The end; None: the cursor."""
    from_start: bool = True
    """Whether the destination began at or before the first existing binlog file."""
    markers: bool = True
    """Whether the transactions topic is written."""
    compacted: bool = False
    """Whether row topics keep only the last record of each key."""
    claims: ClaimStore | None = None
    """The store of images that were too large for their topic."""
    warehouse: Path | None = None
    """The sink's dump of the warehouse, made before the audit."""

    @property
    def prefix(self) -> str:
        """The prefix of all topics."""
        return self.routes.prefix


def audit(scope: Scope) -> Verdict:
    """Run the audit. Raise TruthUnreadable, NotAuditable, and the errors of Kafka and the source."""
    name = scope.binlog.name
    verdict = Verdict(destination=scope.destination, witness=name.value, limits=LIMITS[name])
    topics = scope.published.topics()
    partitions = topics.get(journal_topic(scope.prefix))
    if partitions is None:
        raise NotAuditable("the journal topic does not exist", topic=journal_topic(scope.prefix))
    journal_records = journal(
        scope.published, scope.prefix, scope.destination, partitions=partitions
    )
    end = _end(journal_records, scope.destination)
    routes = RoutesInForce.always(scope.routes)
    if scope.in_force is not None:
        routes = scope.in_force(journal_records.mappings)
    versions: Versions = {}
    if schemas_topic(scope.prefix) in topics:
        versions = schemas(scope.published, scope.prefix, scope.destination)
    shares = Shares(prefix=scope.prefix, destination=scope.destination)
    names = row_topics(scope.prefix, topics, versions)
    merged = sorted({shares.home(name) for name in names if shares.is_share(name)} & set(topics))
    names = sorted({*names, *merged})
    ddl = ddl_topic(scope.prefix, scope.destination)
    rows = [*names, *([ddl] if ddl in topics else [])]
    wanted = [(name, number) for name in rows for number in range(topics[name])]
    marker_topic = transactions_topic(scope.prefix, scope.destination)
    has_markers = scope.markers and marker_topic in topics
    parts = [*wanted, *([(marker_topic, 0)] if has_markers else [])]
    beginnings = scope.published.beginnings(parts)
    subject = Subject(
        routes=routes,
        destination=scope.destination,
        ddl_topic=ddl,
        seq=journal_records.cursors[-1].seq,
        end=end,
        server_uuid=scope.binlog.server_uuid,
        versions=versions,
        partitions=topics,
        beginnings={part: beginnings[part] for part in parts},
        claims=scope.claims,
        shares=shares,
    )
    begin = scope.begin
    if begin is None and not scope.from_start:
        begin = _first_delivered(scope, wanted) or _nothing_after(scope, end)
    with ExitStack() as stack:
        store = stack.enter_context(Store())
        rows_of_warehouse = stack.enter_context(WarehouseStore())
        warehouse = None
        if scope.warehouse is not None:
            origin = Origin(scope.prefix, scope.published.cluster())
            dump_lines = lines(scope.warehouse, origin)
            warehouse = Warehouse(
                rows_of_warehouse,
                dump_lines,
                scope.destination,
                versions=versions,
                routes=routes,
                shares=shares,
            )
            _read_applied(scope, warehouse, subject)
        window = Window(
            begin=begin, until=scope.until, end=end, server_uuid=scope.binlog.server_uuid
        )
        truth = _truth(scope, routes, window, store)
        _report_truth(verdict, truth)
        of_rows = replace(subject, beginnings={part: subject.beginnings[part] for part in wanted})
        existing = stack.enter_context(
            ExistingRows(of_rows, verdict, journal_records.snapshots.all)
        )
        watches = [existing.take, *([] if warehouse is None else [warehouse.take])]
        done = RecordCheck(of_rows, truth, verdict, watches)
        # Read before the rows, as it determines which of them can be compared.
        _dead_letters(scope, done, topics)
        own = [part for part in wanted if shares.is_share(part[0])]
        scope.published.read(own, done.take)
        done.copies = Copies(frozenset(merged), bytes(done.numbers) if own else b"")
        scope.published.read([part for part in wanted if not shares.is_share(part[0])], done.take)
        latest = journal(scope.published, scope.prefix, scope.destination, partitions=partitions)
        # As of the cursor that was read: a table may have been released since.
        _parked(scope, done, journal_records.quarantined, topics)
        _existing_rows(scope, done, journal_records.quarantined, existing)
        existing.chunks(latest.snapshots.all)
        totals.cursor(done, latest.cursors[-1])
        totals.tombstones(done)
        known = {shape.name for shape in store.shapes}
        totals.lost_changes(
            done,
            shadows=lambda *name: scope.shadows.shadow(name, known) is not None,
            compacted=scope.compacted,
        )
        totals.lost_statements(
            done, publishes=_publishes(scope, routes), shadows=_names_shadow(scope.shadows, known)
        )
        totals.numbers(done, compacted=scope.compacted)
        totals.epochs(done, latest)
        if warehouse is not None:
            cut = set(names) if scope.compacted else {p[0] for p, at in beginnings.items() if at}
            verdict.tables = warehouse.judge(done.has_number, cut=cut)
        if has_markers:
            done.subject = subject
            taken = MarkerCheck(done, marker_topic, _uncounted(subject, latest))
            scope.published.read([(marker_topic, 0)], taken.take)
            taken.close()
    return verdict


def _read_applied(scope: Scope, warehouse: Warehouse, subject: Subject) -> None:
    """Determine how far the sink has applied the destination's shares, from the topics they are merged into."""
    shares, counts = subject.shares, subject.partitions
    homes = {
        (shares.home(topic), number)
        for topic, number in subject.beginnings
        if shares.is_share(topic)
    }
    existing = sorted(part for part in homes if part[1] < counts.get(part[0], 0))
    for part in homes:
        if part not in subject.beginnings or subject.beginnings[part]:
            warehouse.applied.cut(part)
    scope.published.read(existing, warehouse.applied.take)


def _uncounted(subject: Subject, journal_records: Journal) -> set[str]:
    """The topics of tables that were ever quarantined."""
    return {
        version.topic
        for (database, table, _), version in subject.versions.items()
        if (database, table) in journal_records.quarantined
    }


def _report_truth(verdict: Verdict, truth: Truth) -> None:
    verdict.changes = truth.store.changes
    verdict.filtered = truth.filtered
    verdict.window = f"from {truth.first} to {truth.last}" if truth.first else "nothing to audit"
    verdict.unread = truth.unread


def _end(journal_records: Journal, destination: str) -> End:
    if not journal_records.cursors:
        raise NotAuditable("the journal has no cursor of the destination", destination=destination)
    cursor = journal_records.cursors[-1]
    gtids = None
    if cursor.gtid_set is not None:
        try:
            gtids = GtidSet.parse(cursor.gtid_set)
        except ValueError:
            raise NotAuditable(
                "the destination's cursor is not a position of MySQL",
                gtid_set=cursor.gtid_set,
                destination=destination,
                remedy="Compare its rows instead: `python -m app validate DEST`.",
            ) from None
    resume = cursor.resume
    return End(
        server_uuid=cursor.server_uuid,
        coordinates=Coordinates(cursor.file, cursor.pos),
        gtids=gtids,
        partial=None if resume is None else (resume["transaction_id"], resume["rows"]),
    )


def _truth(scope: Scope, routes: RoutesInForce, window: Window, store: Store) -> Truth:
    if isinstance(window.begin, str) and is_purged(scope.binlog, window.begin):
        window.begin = None
    first = first_file(scope.binlog, window.begin)
    if isinstance(window.begin, GtidSet):
        first = file_of_last(scope.binlog, first, window.begin)
        window.last_of_set = last_of(scope.binlog, first, window.begin)
    with closing(scope.binlog.events(first)) as events:
        truth = read(events, window, captures=routes.captures, store=store)
    if isinstance(window.begin, str) and not window.has_begun:
        raise NotAuditable(
            f"the transaction {window.begin} is not in the binlog",
            server_uuid=scope.binlog.server_uuid,
            read_from=first,
            remedy="Begin with another one (--from), or name copies of the files that have it (--binlogs).",
        )
    return truth


def _nothing_after(scope: Scope, end: End) -> Bound:
    """The beginning of an empty window."""
    if end.server_uuid == scope.binlog.server_uuid or end.gtids is None:
        return end.coordinates
    return end.gtids


def _first_delivered(scope: Scope, wanted: Sequence[Partition]) -> str | None:
    """The first transaction that the topics have a record of, and that may be in the binlog."""
    found: list[tuple[int, str]] = []

    def take(_topic: str, _partition: int, record: StoredRecord) -> None:
        try:
            source = source_of(record)
        except (KeyError, TypeError, ValueError):
            return  # the check of records reports it
        name = transaction_of(dict(record.headers).get(HEADER_CHANGE_ID, b"").decode())
        if name is None or source.get("name") != scope.destination:
            return
        is_first = not found or source["seq"] < found[0][0]
        if is_first and may_contain(scope.binlog.server_uuid, name):
            found[:] = [(source["seq"], name)]

    scope.published.read(wanted, take)
    return found[0][1] if found else None


def _parked(
    scope: Scope,
    done: RecordCheck,
    quarantined: Mapping[TableName, Quarantined],
    topics: Mapping[str, int],
) -> None:
    """Mark the changes in the quarantine topic, and which of them wait there or were given up."""
    name = quarantine_topic(scope.prefix, scope.destination)
    if not quarantined or name not in topics:
        return
    store = done.truth.store
    # Of a table that was given up, the last events before the offset are the ones that waited.
    released = Counter({table: -one.lost for table, one in quarantined.items() if one.lost})

    def count(_topic: str, _partition: int, record: StoredRecord) -> None:
        table = _table_of(record)
        if table in released and record.offset < quarantined[table].offset:
            released[table] += 1

    def take(_topic: str, _partition: int, record: StoredRecord) -> None:
        table = _table_of(record)
        entry, mark = quarantined.get(table), PARKED
        if entry is not None and record.offset >= entry.offset:
            mark |= WAITING if entry.waits else 0
        elif table in released:
            mark |= 0 if released[table] > 0 else GIVEN_UP
            released[table] -= 1
        meta = orjson.loads(dict(record.headers)[HEADER_META])
        transaction = store.transaction(meta["id"])
        if transaction is None or meta["kind"] != "rows":
            return
        for ordinal in range(meta["ordinal"], meta["ordinal"] + meta["rows"]):
            change = store.change(transaction.rank, ordinal)
            if change is not None:
                done.seen[change.n] |= mark

    if released:
        scope.published.read([(name, 0)], count)
    scope.published.read([(name, 0)], take)


def _table_of(record: StoredRecord) -> TableName:
    """The table of an event in the quarantine topic."""
    key = orjson.loads(record.key)
    return key["database"], key["table"]


def _dead_letters(scope: Scope, done: RecordCheck, topics: Mapping[str, int]) -> None:
    """Mark the undecodable changes, which are dead letters."""
    name = dead_letters_topic(scope.prefix, scope.destination)
    if name not in topics:
        return
    truth = done.truth

    def take(_topic: str, _partition: int, record: StoredRecord) -> None:
        headers = dict(record.headers)
        id_, ordinal, _ = parts_of(headers[HEADER_CHANGE_ID].decode())
        transaction = truth.store.transaction(id_)
        change = transaction and truth.store.change(transaction.rank, int(ordinal))
        if transaction is None or not change:
            return
        done.seen[change.n] |= DEAD
        if orjson.loads(headers[HEADER_META])["kind"] == "event":
            # The event may hold several rows but counts as one, so later ordinals differ from the witness's.
            first = int(ordinal), ".".join(change.shape.name)
            truth.blurred[transaction.rank] = min(first, truth.blurred.get(transaction.rank, first))

    scope.published.read([(name, 0)], take)


def _existing_rows(
    scope: Scope,
    done: RecordCheck,
    quarantined: Mapping[TableName, Quarantined],
    existing: ExistingRows,
) -> None:
    """Judge the rows that a SELECT returned."""
    subject = done.subject
    is_whole = (
        subject.ddl_topic in subject.partitions
        and not subject.beginnings.get((subject.ddl_topic, 0), 0)
        and not (scope.ddl_include or scope.ddl_exclude or subject.routes.omitted_statements)
    )
    dead = set[tuple[str, str]]()
    if any(seen & DEAD for seen in set(done.seen)):
        positions = done.truth.store.positions()
        dead = {shape.name for _, n, shape in positions if done.seen[n] & DEAD}
    lacking = {name: one.outcome is not Outcome.RELEASED for name, one in quarantined.items()}
    existing.judge(incomplete=incomplete_tables(lacking, dead), knows_statements=is_whole)


def _publishes(scope: Scope, routes: RoutesInForce) -> Callable[[str], bool]:
    types = StatementTypes(scope.ddl_include, scope.ddl_exclude)
    # The witness does not report the tables that a statement names.
    unjudged = routes.omitted_statements

    def publishes(sql: str) -> bool:
        found = statement_type(sql)
        return types.publishes(found) and found.partition(" ")[0].lower() not in unjudged

    return publishes


def _names_shadow(shadows: ShadowRules, known: set[tuple[str, str]]) -> Callable[[str], bool]:
    """Whether a statement names a shadow table that a tool made."""
    word = re.compile(r"`((?:[^`]|``)+)`|([\w$]+)")
    databases = {database for database, _ in known}

    def names(sql: str) -> bool:
        found = chain.from_iterable(word.findall(sql[:4000]))
        return any(
            shadows.shadow((database, name), known) is not None
            for name in filter(None, found)
            for database in databases
        )

    return names
