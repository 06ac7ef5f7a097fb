"""Our model of a server's tables, in the shape that the server's own answer has."""

from __future__ import annotations

from connectors.errors import DdlUnresolved
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import (
    Change,
    Column,
    Database,
    DatabaseChange,
    Index,
    Server,
    Session,
    Table,
    TableName,
)
from tests.integration.ddl.truth import Seen, SeenColumn, SeenTable


class Model:
    """A catalog beside a server: its tables, and whether its changes agree with them."""

    def __init__(self, server: Server, *, logged: bool) -> None:
        self.catalog = Catalog(server, logged=logged)
        self._described: dict[TableName, Table] = {}
        """The tables, put together from the changes alone."""

    def resolves(self, sql: str, session: Session) -> bool:
        """Whether a statement can be resolved; nothing is changed."""
        try:
            self.catalog.copy().apply(sql, session)
        except DdlUnresolved:
            return False
        return True

    def apply(self, sql: str, session: Session) -> str | None:
        """Take a statement; the reason where it cannot be resolved."""
        try:
            changes = self.catalog.apply(sql, session)
        except DdlUnresolved as fault:
            return f"{fault.detail} {fault.tables}"
        try:
            for change in changes:
                self._take(change)
        except AssertionError as fault:
            return f"its changes do not follow one another: {fault}"
        if self._described != dict(self.catalog):
            return f"its changes are of other tables than it has: {changes}"
        return None

    def _take(self, change: Change) -> None:
        if isinstance(change, DatabaseChange):
            return
        if change.renamed_from is None:
            assert self._described.get(change.name) == change.old, f"old of {change.name}"
        self._described.pop(change.name, None)
        if change.new is not None:
            self._described[change.name] = change.new

    def seen(self) -> Seen:
        """The whole catalog."""
        tables = {name: seen(table) for name, table in self.catalog.items()}
        databases = {name: one.collation for name, one in self.catalog.databases.items()}
        return Seen(databases=databases, tables=tables)

    def follow(self, truth: Seen) -> None:
        """Resume from the server's tables, after a difference."""
        for name in set(self.catalog) - set(truth.tables):
            self.catalog.remove(name)
        for name, result in truth.tables.items():
            if name not in self.catalog or seen(self.catalog[name]) != result:
                self.catalog.put(name, _table(result))
        for database in set(self.catalog.databases) - set(truth.databases):
            self.catalog.remove_database(database)
        for database, collation in truth.databases.items():
            charset = collation.partition("_")[0]
            self.catalog.put_database(database, Database(charset=charset, collation=collation))
        self._described = dict(self.catalog)


def seen(table: Table) -> SeenTable:
    """A table as a server would show it."""
    return SeenTable(
        columns=tuple(
            SeenColumn(
                name=column.name,
                type=column.type,
                nullable=column.nullable,
                charset=column.charset,
                collation=column.collation,
                generated=column.generated,
                invisible=column.invisible,
            )
            for column in table.columns
        ),
        primary_key=table.primary_key,
        unique=tuple(
            sorted(
                (index.name.lower(), index.columns, index.prefixed)
                for index in table.indexes
                if index.unique and index.name != "PRIMARY"
            )
        ),
        collation=table.collation,
    )


def _table(described: SeenTable) -> Table:
    columns = tuple(
        Column(
            name=column.name,
            type=column.type,
            nullable=column.nullable,
            charset=column.charset,
            collation=column.collation,
            generated="stored" if column.generated == "stored" else "virtual",
            invisible=column.invisible,
        )
        if column.generated
        else Column(
            name=column.name,
            type=column.type,
            nullable=column.nullable,
            charset=column.charset,
            collation=column.collation,
            invisible=column.invisible,
        )
        for column in described.columns
    )
    keys = (Index(name="PRIMARY", columns=described.primary_key, unique=True),)
    unique = tuple(
        Index(name=name, columns=names, unique=True, prefixed=prefixed)
        for name, names, prefixed in described.unique
    )
    collation = described.collation or "utf8mb4_0900_ai_ci"
    return Table(
        columns=columns,
        indexes=(*(keys if described.primary_key else ()), *unique),
        charset=collation.partition("_")[0],
        collation=collation,
    )
