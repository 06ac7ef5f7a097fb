"""Definitions that an operator gave for unresolved statements, and the effect of later statements
on them.

Invariant: a given definition is valid from its position to the next statement that changes the
table. Later statements are resolved again from it, even if they were resolved from a wrong definition
before; a statement that cannot be resolved ends its validity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Execution, Session, Table, TableChange, TableName
from connectors.mysql.ddl.parsed_statement import parse_statement
from tables.history.position import HistoryPosition, reached
from tables.history.record import Given, SchemaRecord, Unresolved
from tables.history.steps import Steps
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
