"""The impact of statements on subscribers, before they are run.

Invariant: nothing is run and nothing is written; statements are judged one after the other, each on
the tables that the last one left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from app.operator.operations.schema.destination_history import ReadHistory
from app.operator.operations.schema.statement_text import used_database
from app.settings.model import Settings
from app.settings.statement_filter import shadow_rules
from app.worker.wiring import routes_of
from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.column_renames import renamed_columns
from connectors.mysql.ddl.definition import Session, Table, TableName
from connectors.mysql.ddl.online.cut_over import logical
from connectors.mysql.ddl.online.shadow_rules import ShadowRules
from connectors.mysql.ddl.parsed_statement import parse_statement
from connectors.mysql.ddl.resolve.unlogged_rows import unlogged_rows
from tables.history.impact.findings import Severity
from tables.history.impact.impact import Impact, impact, rows_changed, severest, truncated
from tables.history.statement_effect import effect_of, fill
from tables.rules.routes.routes import Routes

_PLACEHOLDER = "<prefix>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for judging statements: the routes of their tables, and which tables are shadows of
    others."""

    routes: Routes = field(default_factory=lambda: Routes(prefix=_PLACEHOLDER))
    shadows: ShadowRules = field(default_factory=shadow_rules)

    @classmethod
    def of(cls, settings: Settings, destination: str) -> Rules:
        """Return the rules of a destination."""
        return cls(
            routes=routes_of(settings, destination),
            shadows=shadow_rules(never=settings.ddl.never_online, also=settings.ddl.also_online),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementImpact:
    """One statement, and its impact."""

    sql: str
    type: str
    impacts: tuple[Impact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All statements in their order."""

    statements: tuple[StatementImpact, ...]

    @property
    def severity(self) -> Severity:
        """The worst of all."""
        return severest(one for judge in self.statements for one in judge.impacts)


async def history_catalog(read: ReadHistory) -> Catalog:
    """Return the tables at the end of a history, to apply statements to."""
    found = await read()
    catalog = Catalog(found.history.checkpoints[-1].server, logged=False)
    fill(catalog, found.history.now())
    return catalog


async def judge(
    statements: Iterable[str], catalog: Catalog, session: Session, *, rules: Rules
) -> Judgement:
    """Return the impact of statements on tables; raise DdlUnresolved if one cannot be judged.

    The statements are applied to the catalog.
    """
    return Judgement(statements=tuple(_Judge(catalog, rules).each(statements, session)))


class _Judge:
    """Takes statements one after the other, each on the tables that the last one left."""

    def __init__(self, catalog: Catalog, rules: Rules) -> None:
        self._catalog = catalog
        self._rules = rules
        self._last: dict[TableName, Table] = {}

    def each(self, given: Iterable[str], session: Session) -> Iterator[StatementImpact]:
        for sql in given:
            if (database := used_database(sql)) is not None:
                session = replace(session, database=database)
            else:
                yield self._one(sql, session)

    def _one(self, sql: str, session: Session) -> StatementImpact:
        route_of = self._rules.routes.of
        statement = parse_statement(sql, self._catalog.server, session)
        self._last |= dict(self._catalog.items())
        effect = effect_of(statement, self._catalog)
        if effect.reason is not None:
            raise DdlUnresolved(
                effect.reason,
                tables=sorted(effect.unresolved),
                remedy="Nothing was run. Check the statement, its --database, and the definitions that it "
                "is judged by.",
            )
        if statement.type == "TRUNCATE TABLE":
            emptied = [truncated(name, route_of) for name in sorted(statement.tables)]
            return StatementImpact(sql=sql, type=statement.type, impacts=sum(emptied, ()))
        logical_changes = logical(
            effect.changes, self._rules.shadows, known=self._catalog, before=self._last.get
        )
        renames = renamed_columns(statement)
        impacts = impact(logical_changes, route_of, renames=renames)
        for name, what in unlogged_rows(statement, effect.changes):
            impacts += rows_changed(name, what, route_of)
        return StatementImpact(sql=sql, type=statement.type, impacts=impacts)
