"""The definitions and rules by which a destination publishes its tables now.

Invariant: the definitions and rules are those of one state of the journal; two states show whether a table is
published in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from app.audit.topics.topics import take_version
from app.operator.journal_access import Journal
from app.operator.mapping import PresentMapping, mapping_in_force
from app.operator.trial.side import known_tables
from app.operator.validation.errors import NotComparable
from app.operator.validation.expected_rows import ExpectedRows
from app.worker.destination.takeover.initial_state import has_column_names
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.stage import StageSpec
from connectors.errors import UsageError
from connectors.kafka.reading import read_each
from connectors.mysql.ddl.definition import Table, TableChange, TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.server.facts import ServerFacts
from tables.history.present_columns import Versions
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from wire.topics import schemas_topic

_NO_HISTORY = "Set schema_history.store to journal, or audit the destination by its binlog."


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions and rules of tables in one state of the journal."""

    state: DestinationState
    rules: PublishingRules
    tables: Mapping[TableName, Table]
    expected: ExpectedRows
    versions: Versions
    """The versions of tables on the schemas topic."""
    mapping: PresentMapping
    renamed: Mapping[TableName, TableName]
    """The earlier name of each table that was renamed."""

    def earlier_topics(self, name: TableName) -> list[str]:
        """Return the topics that a table was published to before, by another name or another route."""
        names, now = {name}, self.rules.routes.topic(name)
        while (earlier := self.renamed.get(name)) is not None and earlier not in names:
            names.add(earlier)
            name = earlier
        found = {one.topic for (*of, _), one in self.versions.items() if tuple(of) in names}
        return sorted(found - {now})

    @property
    def cursor(self) -> Cursor:
        """The destination's cursor."""
        assert self.state.cursor is not None
        return self.state.cursor

    def is_same(self, other: Definitions, name: TableName) -> bool:
        """Return whether a table is published in the same way by both."""
        return self._of(name) == other._of(name)

    def _of(self, name: TableName) -> tuple[object, ...]:
        quarantine, version = self.state.quarantine.entries.get(name), self.state.versions.get(name)
        is_out = quarantine is not None and (quarantine.is_quarantined or quarantine.is_given_up)
        table = self.tables.get(name)
        # Two tables are equal even if a column was dropped and added again in between.
        columns = [(one.origin, one.initial) for one in table.columns] if table is not None else []
        return table, columns, self.mapping, is_out, version


async def definitions_now(journal: Journal, facts: ServerFacts) -> Definitions:
    """Return the present definitions; raise NotComparable if no schema history is kept."""
    state = await journal.state()
    mapping = await mapping_in_force(journal.settings, state)
    cursor = state.cursor
    assert cursor is not None
    if cursor.history is None:
        raise NotComparable(
            "no schema history is kept, by which selected rows could be read",
            destination=journal.plan.name,
            remedy=_NO_HISTORY,
        )
    plain = journal.plan.rules
    rules = replace(plain, routes=replace(plain.routes, mapping=mapping.mapping))
    history = state.history_fold.build(cursor.history)
    history.serve(server_of(facts))
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
        known=known_tables(rules.routes, history, state.quarantine, cursor.offset),
    )
    return Definitions(
        state=state,
        rules=rules,
        tables=history.now().tables(),
        expected=ExpectedRows(spec),
        versions=await _versions(journal.options, rules),
        mapping=mapping,
        renamed={
            change.name: change.renamed_from
            for record in history.records
            for change in record.changes
            if isinstance(change, TableChange) and change.renamed_from is not None
        },
    )


async def _versions(options: dict[str, Any], rules: PublishingRules) -> Versions:
    """All versions of a destination's tables, to which records may refer."""
    found: Versions = {}
    take = partial(take_version, found, rules.destination)
    await read_each(options, schemas_topic(rules.prefix), 0, take=take)
    return found


def wanted_tables(
    definitions: Definitions, given: Iterable[TableName], unseen: Iterable[TableName] = ()
) -> list[TableName]:
    """Return the captured real tables by these names, or all.

    ``unseen`` are tables that exist, but are not in the schema history. Raise UsageError for a name without a
    table, and if no table is captured.
    """
    captured = {
        name: definitions.rules.routes.of(name)
        for name in sorted({*definitions.tables, *unseen})
        if definitions.expected.captures(name)
    }
    if not captured:
        raise UsageError("the destination captures no table that exists")
    wanted = set[TableName]()
    for one in given:
        own = [
            name
            for name, route in captured.items()
            if route is not None and one in (name, route.logical)
        ]
        if not own:
            raise UsageError(f"{'.'.join(one)} is no table that the destination captures")
        wanted |= set(own)
    return [name for name in captured if name in wanted or not wanted]
