"""Every table of a destination as of any position: the schema history, Canal's TSDB.

Invariant: a version is never changed, and at a position the greatest version at or before it is valid. A
statement applied again at the same position changes nothing. A table is called known only if its definition
is known. A definition that an operator gave is valid from its position to the next statement that changes
the table. Later statements are resolved again from it, even if they were resolved from a wrong definition
before; a statement that cannot be resolved ends its validity. Source: the interface of Canal's
TableMetaTSDB.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from connectors.errors import DdlUnresolved, HistoryTooShort
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import (
    Change,
    Database,
    DatabaseChange,
    Execution,
    Server,
    Session,
    Table,
    TableChange,
    TableName,
    ViewChange,
)
from connectors.mysql.ddl.parsed_statement import ParsedStatement, parse_statement
from connectors.mysql.ddl.show_create import create_table
from tables.history.definition_json import packs
from tables.history.position import HistoryPosition, PositionQuery, reached
from tables.history.record import (
    CheckpointHead,
    CheckpointPolicy,
    Given,
    Known,
    SchemaCheckpoint,
    SchemaRecord,
    TableState,
    Unresolved,
)
from tables.history.resolved_statement import (
    UNKNOWN,
    ResolvedStatement,
    fill,
    resolved,
    without_change,
)
from tables.history.steps import RewoundHistory, Steps
from tables.history.view import SchemaView

Identity = tuple[str, str, int]


class Corrections:
    """All definitions ever given, also for positions after the one that the history was rolled back to."""

    def __init__(self) -> None:
        self._given: dict[TableName, dict[Identity, SchemaRecord]] = {}

    def note(self, record: SchemaRecord) -> None:
        """Keep a resolution, which is of one table; the last one at a position is valid."""
        for name in record.tables:
            self._given.setdefault(name, {})[record.position.identity] = record

    def changes_of(
        self, position: HistoryPosition, names: Iterable[TableName], before: SchemaView
    ) -> tuple[TableChange, ...]:
        """The changes given for an unresolved statement; empty unless each of the tables has one."""
        found = []
        for name in names:
            record = self._given.get(name, {}).get(position.identity)
            if record is None:
                return ()
            found.append(TableChange(name=name, old=before.find(*name), new=given_by(record)))
        return tuple(found)

    def after(self, position: HistoryPosition) -> tuple[SchemaRecord, ...]:
        """The definitions given for positions that are not reached yet."""
        given = (record for records in self._given.values() for record in records.values())
        return tuple(record for record in given if not reached(record.position, position))


def given_by(record: SchemaRecord) -> Table | None:
    """The definition that a resolution gives; None: the table is dropped."""
    (change,) = record.changes
    assert isinstance(change, TableChange)
    return change.new


def resolutions(
    steps: Steps,
    name: TableName,
    table: Table | None,
    position: HistoryPosition,
    given: Given | None = None,
) -> list[SchemaRecord]:
    """The records of a given definition: its own, and one for each later statement that it
    resolves.

    Without a definition there is one, which records the author.
    """
    if table is None:
        return [_noted(steps, name, position, given)]
    amends = _step_at(position, name, steps)
    made = _Given(steps, amends, given)
    made.take(name, table, position=position, amends=amends, session=Session(), statement="")
    for record in steps.records[amends - steps.base.count :]:
        if not made.names:
            break
        made.observe(record)
    return made.numbered(steps.count)


def _noted(
    steps: Steps, name: TableName, position: HistoryPosition, given: Given | None
) -> SchemaRecord:
    return SchemaRecord(
        destination=steps.base.destination,
        number=steps.count + 1,
        kind="resolution",
        position=position,
        type="RESOLVE",
        amends=steps.count,
        given=given,
        unchanged=(name,),
    )


def _step_at(position: HistoryPosition, name: TableName, steps: Steps) -> int:
    """The last step at a position; the checkpoint's own if the table is unresolved there by that statement."""
    number = steps.number_of(position)
    if number is not None:
        return number
    state = steps.view(steps.base.count).state(*name)
    if isinstance(state, Unresolved) and state.last.identity == position.identity:
        return steps.base.count
    return steps.number_at(position)


class _Given:
    """Tables with a given definition in force, while the later statements are applied."""

    def __init__(self, steps: Steps, number: int, given: Given | None) -> None:
        self._steps, self._given = steps, given
        view = steps.view(number)
        self._catalog = Catalog(steps.base.server)
        for database, value in view.databases().items():
            self._catalog.put_database(database, value)
        self.names: set[TableName] = set()
        self._made: list[tuple[TableName, SchemaRecord]] = []

    def take(
        self,
        name: TableName,
        table: Table | None,
        *,
        position: HistoryPosition,
        amends: int,
        session: Session,
        statement: str,
    ) -> None:
        """Give the table this definition from a position on; None: it is dropped."""
        self._end(name)
        old = self._steps.view(amends).find(*name)
        record = SchemaRecord(
            destination=self._steps.base.destination,
            number=0,
            kind="resolution",
            position=position,
            statement=statement,
            type="RESOLVE",
            session=session,
            changes=(TableChange(name=name, old=old, new=table),),
            amends=amends,
            given=self._given,
        )
        self._made.append((name, record))
        if table is not None:
            self.names.add(name)
            self._catalog.put(name, table)

    def observe(self, record: SchemaRecord) -> None:
        """Process the next record of the history."""
        touched = self.names.intersection(record.tables)
        if not touched or record.kind == "resolution":
            # The definition that is given now replaces an earlier one.
            return
        if record.kind != "statement":
            for name in touched:
                self._end(name)
            return
        for other in set(record.tables) - touched:
            self._put_as_it_was(other, self._steps.view(record.number - 1))
        try:
            statement = parse_statement(record.statement, self._catalog.server, record.session)
            # Its time and time zone are not in the record.
            execution = Execution(mark=str(record.position))
            changes = self._catalog.apply_parsed(replace(statement, execution=execution))
        except DdlUnresolved:
            for name in touched:
                self._end(name)
            return
        changed = [change for change in changes if isinstance(change, TableChange)]
        for name in touched:
            self._end(name)
        now = self._steps.view(record.number)
        for change in changed:
            if record.outcome == "resolved" and now.find(*change.name) == change.new:
                # The statement did not need the given definition: it dropped or recreated the table.
                continue
            self.take(
                change.name,
                change.new,
                position=record.position,
                amends=record.number,
                session=record.session,
                statement=record.statement,
            )

    def numbered(self, count: int) -> list[SchemaRecord]:
        """The resulting records, as the next records of the history."""
        return [
            replace(record, number=number, current=record.current)
            for number, (_, record) in enumerate(self._made, start=count + 1)
        ]

    def _put_as_it_was(self, name: TableName, view: SchemaView) -> None:
        table = view.find(*name)
        if table is None:
            self._catalog.remove(name)
        else:
            self._catalog.put(name, table)

    def _end(self, name: TableName) -> None:
        """End the given definition of a table."""
        self.names.discard(name)
        self._made = [
            (made, replace(record, current=False) if made == name else record)
            for made, record in self._made
        ]


class SchemaHistory:
    """The schema history of one destination.

    One thread may apply what it reads while others query it.
    """

    def __init__(self, *, policy: CheckpointPolicy | None = None) -> None:
        self.destination = ""
        self.policy = policy or CheckpointPolicy()
        self._catalog: Catalog | None = None
        self._server: Server | None = None
        self._steps: Steps | None = None
        self._corrections = Corrections()
        self._checkpoints = 0
        self._count = 0
        """Before there is a baseline: the number that the first record will follow."""
        self._lock = threading.RLock()

    def init(self, destination: str, *, count: int = 0, checkpoints: int = 0) -> bool:
        """Reset to an empty history; return whether it is for another destination than before.

        New records are numbered after ``count``, new checkpoints after ``checkpoints``.
        """
        with self._lock:
            changed, self.destination = destination != self.destination, destination
            self._steps, self._catalog = None, None
            self._count, self._checkpoints = count, checkpoints
            self._corrections = Corrections()
            return changed

    @property
    def has_begun(self) -> bool:
        """Whether there is a baseline."""
        return self._steps is not None

    def serve(self, server: Server) -> None:
        """Set the server of all further statements; its version may have changed since the baseline."""
        with self._lock:
            self._server, self._catalog = server, None

    def baseline(
        self,
        tables: Mapping[TableName, Table],
        databases: Mapping[str, Database],
        position: HistoryPosition,
        server: Server,
        *,
        made_ms: int | None = None,
        views: Iterable[TableName] = (),
    ) -> SchemaCheckpoint:
        """Begin with these tables; earlier records no longer belong to this history."""
        with self._lock:
            checkpoint = SchemaCheckpoint(
                head=self._head(position, self.count, server, made_ms=made_ms, begins=True),
                tables=dict(tables),
                databases=dict(databases),
                views=frozenset(views),
                given=self._corrections.after(position),
            )
            self._steps = Steps(checkpoint)
            self.serve(server)
            return checkpoint

    def add_baseline(
        self,
        tables: Mapping[TableName, Table],
        databases: Mapping[str, Database],
        position: HistoryPosition,
        views: Iterable[TableName] = (),
    ) -> tuple[SchemaRecord, ...]:
        """Add databases, tables and views that are captured later, as the server has them at a position.

        Known ones stay. A table that the history has under the name of an added view is removed.
        """
        with self._lock:
            steps, now = self._required_steps(), self.now()
            news: list[Change] = [
                DatabaseChange(name=name, old=None, new=database)
                for name, database in databases.items()
                if now.database(name) is None
            ]
            news += [
                TableChange(name=name, old=None, new=table)
                for name, table in tables.items()
                if now.find(*name) is None
            ]
            known = now.views()
            unknown_views = [
                ViewChange(name=name, is_there=True)
                for name in views
                if steps.versions.name(name) not in known
            ]
            news += [
                TableChange(name=view.name, old=table, new=None)
                for view in unknown_views
                if (table := now.find(*view.name)) is not None
            ]
            return tuple(
                self._take(
                    SchemaRecord(
                        destination=self.destination,
                        number=steps.count + 1,
                        kind="baseline",
                        position=position,
                        type="BASELINE",
                        changes=tuple(pack),
                        views=tuple(unknown_views) if number == 0 else (),
                    )
                )
                for number, pack in enumerate(packs(news) or ([[]] if unknown_views else []))
            )

    def load(
        self,
        checkpoint: SchemaCheckpoint,
        records: Iterable[SchemaRecord],
        *,
        heads: Iterable[CheckpointHead] = (),
        resolutions: Iterable[SchemaRecord] = (),
        numbered: int = 0,
    ) -> None:
        """Begin with the journal's content; ``numbered`` is the greatest number of any checkpoint there."""
        with self._lock:
            self.init(checkpoint.head.destination)
            steps = Steps(checkpoint)
            steps.heads += [head for head in heads if head.number > checkpoint.head.number]
            for record in records:
                steps.add(record)
            for record in (*checkpoint.given, *resolutions):
                self._corrections.note(record)
            self._steps, self._server = steps, checkpoint.head.server
            self._checkpoints = max(numbered, steps.newest.number)

    @property
    def count(self) -> int:
        """The number of the last record."""
        return self._steps.count if self._steps else self._count

    @property
    def records(self) -> tuple[SchemaRecord, ...]:
        """All records after the oldest checkpoint that is held here."""
        return tuple(self._required_steps().records)

    @property
    def checkpoints(self) -> tuple[CheckpointHead, ...]:
        """The held checkpoints, the oldest first; a query before the first is refused."""
        return tuple(self._required_steps().heads)

    def find(self, schema: str, table: str) -> Table | None:
        """A table's present definition; None if it is dropped, unresolved or unknown."""
        return self.now().find(schema, table)

    def state(self, schema: str, table: str) -> TableState | None:
        """The present state of a table; None for a table that the history never contained."""
        return self.now().state(schema, table)

    def now(self) -> SchemaView:
        """All schemas at the end of the history."""
        with self._lock:
            steps = self._required_steps()
            return steps.view(steps.count)

    def after(self, number: int) -> SchemaView:
        """All schemas after the record with this number."""
        with self._lock:
            return self._required_steps().view(number)

    def at(self, position: PositionQuery) -> SchemaView:
        """All schemas as of a position; raise HistoryTooShort or PositionUnknown."""
        with self._lock:
            steps = self._required_steps()
            return steps.view(steps.number_at(position), position)

    def snapshot(self) -> Mapping[str, str]:
        """For each database, the statements that rebuild it as it is now."""
        return self.now().snapshot(create_table)

    def apply(
        self, position: HistoryPosition, schema: str | None, ddl: str, extra: Session
    ) -> SchemaRecord | None:
        """Parse and apply a statement; return its record, None if it changes nothing or was applied before."""
        return self.apply_parsed(position, self.parsed(ddl, replace(extra, database=schema))).record

    def parsed(self, ddl: str, session: Session) -> ParsedStatement:
        """Parse a statement by the rules of the server whose statements are applied now."""
        with self._lock:
            return parse_statement(ddl, self._server or self._required_steps().base.server, session)

    def apply_parsed(
        self,
        position: HistoryPosition,
        statement: ParsedStatement,
        hidden: Callable[[Table], Table] | None = None,
    ) -> ResolvedStatement:
        """Resolve and apply a statement; the result has no record if it changes nothing or was applied before.

        ``hidden`` removes from a definition what must not be stored.
        """
        with self._lock:
            steps = self._required_steps()
            if steps.has_passed(position):
                return without_change(statement)
            before, catalog = self.now(), self._catalog_now()
            found = resolved(statement, catalog, may_quote=hidden is None)
            if not found.has_effect:
                return found
            given = self._corrections.changes_of(position, found.unresolved, before)
            if given:
                found = replace(
                    found,
                    changes=(*found.changes, *given),
                    reason=None,
                    unresolved=(),
                    emptied=(),
                    views=(),
                )
            if hidden is not None:
                found = found.with_tables(hidden)
            record = self._take(
                SchemaRecord(
                    destination=self.destination,
                    number=steps.count + 1,
                    position=position,
                    statement=statement.text,
                    type=statement.type,
                    session=statement.session,
                    changes=found.changes,
                    reason=found.reason,
                    unresolved=found.unresolved,
                    unchanged=found.emptied,
                    views=found.views,
                ),
                # Later statements copy these definitions from the catalog, also into other tables.
                follows=bool(given) or hidden is not None,
            )
            if record.is_of_views:
                return without_change(statement, record)
            return replace(found, record=record)

    def resolve(
        self,
        name: TableName,
        table: Table | None,
        position: HistoryPosition,
        given: Given | None = None,
    ) -> tuple[SchemaRecord, ...]:
        """Give a table's definition from a position on; for an unresolved table, from its ``since``.

        Later statements that could not be resolved without the definition are resolved again; each has a
        record too. Without a definition only the author is recorded.
        """
        with self._lock:
            return tuple(
                map(self._take, resolutions(self._required_steps(), name, table, position, given))
            )

    def rollback(self, position: PositionQuery) -> RewoundHistory:
        """Roll back to a position; if HistoryTooShort or PositionUnknown is raised, nothing has changed."""
        with self._lock:
            old = self._required_steps()
            number = old.number_at(position)
            steps, again = old.until(number, position)
            self._steps, self._catalog = steps, None
            records = [self._take(replace(one, number=steps.count + 1)) for one in again]
            return old.rewound(number, position, records)

    def is_due(self, now_ms: int, server_uuid: str | None = None) -> bool:
        """Whether a checkpoint is due; ``server_uuid`` is the server that is read now."""
        with self._lock:
            steps = self._required_steps()
            newest = steps.newest
            server_uuid = server_uuid or newest.position.server_uuid
            count = steps.count
            return self.policy.is_due(newest, count=count, server_uuid=server_uuid, now_ms=now_ms)

    def checkpoint(
        self, at: HistoryPosition, *, made_ms: int, count: int | None = None
    ) -> SchemaCheckpoint:
        """Make a checkpoint at a position; ``count``: the records that the cursor there has before it."""
        with self._lock:
            steps = self._required_steps()
            number = steps.number_at(at) if count is None else count
            head = self._head(at, number, self._server or steps.base.server, made_ms=made_ms)
            made = steps.checkpoint(head)
            steps.heads.append(head)
            oldest = at.ts_ms - self.policy.expire_ms
            kept = {name: since for name, since in made.dropped.items() if since.ts_ms >= oldest}
            return replace(made, dropped=kept, given=self._corrections.after(at))

    def content(self, head: CheckpointHead) -> SchemaCheckpoint:
        """A held checkpoint with all its schemas; raise HistoryTooShort if it is no longer held."""
        with self._lock:
            if head not in self.checkpoints:
                raise HistoryTooShort(f"checkpoint {head.number}", destination=self.destination)
            made = self._required_steps().checkpoint(head)
            return replace(made, given=self._corrections.after(head.position))

    def forget_before(self, checkpoint: int) -> None:
        """Begin at the later checkpoint with this number, as the journal does from now on.

        A checkpoint that is not held is older than all held checkpoints, and changes nothing.
        """
        with self._lock:
            steps = self._required_steps()
            for head in steps.heads[1:]:
                if head.number == checkpoint:
                    self._steps = steps.since(head)

    def _required_steps(self) -> Steps:
        if self._steps is None:
            raise HistoryTooShort("it has no baseline", destination=self.destination)
        return self._steps

    def _head(
        self,
        position: HistoryPosition,
        count: int,
        server: Server,
        *,
        made_ms: int | None,
        begins: bool = False,
    ) -> CheckpointHead:
        self._checkpoints += 1
        return CheckpointHead(
            destination=self.destination,
            number=self._checkpoints,
            position=position,
            made_ms=position.ts_ms if made_ms is None else made_ms,
            count=count,
            server=server,
            begins=begins,
        )

    def _catalog_now(self) -> Catalog:
        if self._catalog is None:
            steps = self._required_steps()
            self._catalog = Catalog(self._server or steps.base.server)
            fill(self._catalog, self.now())
        return self._catalog

    def _take(self, record: SchemaRecord, *, follows: bool = True) -> SchemaRecord:
        """Add the next record; apply it to the catalog if ``follows``."""
        self._required_steps().add(record)
        if record.kind == "resolution":
            self._corrections.note(record)
        if follows and self._catalog is not None:
            for change in record.changes:
                self._follow(change, self._catalog)
            for view in record.views:
                if view.is_there:
                    self._catalog.put_view(view.name)
        return record

    def _follow(self, change: Change, catalog: Catalog) -> None:
        if isinstance(change, DatabaseChange):
            if change.new is None:
                catalog.remove_database(change.name)
            else:
                catalog.put_database(change.name, change.new)
            return
        state = self.state(*change.name)
        if isinstance(state, Known):
            catalog.put(change.name, state.table)
        elif isinstance(state, Unresolved):
            catalog.put(change.name, UNKNOWN)
        else:
            catalog.remove(change.name)
