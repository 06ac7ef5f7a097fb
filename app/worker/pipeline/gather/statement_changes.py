"""Changes logged as statements, which are skipped if it is certain that no captured table changed.

Invariant: two proofs are needed. The statement's text names the tables that it writes; and no trigger, view,
foreign key or function wrote to other tables. For the second proof, MySQL lists the databases of all tables
that the statement used. If these do not suffice, only a tool's own tables and tables that the settings name are
accepted.
"""

from __future__ import annotations

from app.worker.pipeline.gather.captured_tables import CapturedTables
from connectors.errors import StatementBasedChange
from connectors.mysql.binlog import query_session
from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.query_session import databases_of
from connectors.mysql.ddl.definition import Server, Session, TableName
from connectors.mysql.dml import is_tools_own, written_tables
from tables.rules.table_filter import expressions


class StatementJudge:
    """Judges statements that change rows, for one destination."""

    def __init__(self, tables: CapturedTables, server: Server, trusted: str) -> None:
        self._tables = tables
        self._server = server
        self._trusted = expressions(trusted)

    def passed(self, query: Query) -> frozenset[TableName]:
        """Return the tables that a statement changed; raise StatementBasedChange if any may be captured."""
        session = Session(database=query.database, sql_mode=query_session.of_number(query.sql_mode))
        try:
            names = written_tables(query.sql, self._server, session)
        except ValueError as error:
            raise StatementBasedChange(
                f"which tables it writes is not certain: {error}", database=query.database
            ) from None
        if captured := sorted(filter(self._is_published, names)):
            raise StatementBasedChange("it writes captured tables", tables=listed(captured))
        if not self._is_proven(query, names):
            raise StatementBasedChange(
                "none of its tables is captured, but a trigger or a view of theirs may write tables that are",
                tables=listed(sorted(names)),
                remedy=(
                    "If there is no such trigger or view, name the tables in filter.statements and restart the "
                    "worker. Else set binlog_format=ROW for every session (SET PERSIST binlog_format = 'ROW'), "
                    "and continue without the change: `python -m app cursor skip DEST --gtid GTID --why "
                    "REASON` (without GTIDs --file and --pos); and reload the tables that it changed."
                ),
            )
        return names

    def _is_proven(self, query: Query, names: frozenset[TableName]) -> bool:
        databases = databases_of(query.status)
        if databases is not None and not any(map(self._tables.may_capture_of, databases)):
            return all(name[0].lower() in databases for name in names)
        return all(map(self._is_trusted, names))

    def _is_published(self, name: TableName) -> bool:
        return self._tables.captures(name) and not self._tables.is_given_up(name)

    def _is_trusted(self, name: TableName) -> bool:
        full = ".".join(name)
        return (
            is_tools_own(name)
            or self._tables.is_shadow(name)
            or any(one.fullmatch(full) for one in self._trusted)
        )


def passed(passing: StatementJudge | None, query: Query) -> frozenset[TableName]:
    """Return the tables that a statement changed; without a judge, no statement is skipped."""
    if passing is None:
        raise StatementBasedChange(database=query.database)
    return passing.passed(query)


def listed(names: list[TableName]) -> str:
    """Return tables as the context of an error has them."""
    return " ".join(".".join(name) for name in names)
