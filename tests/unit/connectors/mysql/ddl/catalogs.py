"""A catalog to play statements in, and its tables in few words."""

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Change, Server, Session, TableName

NEWEST = Server(version=(9, 7, 4))


class Play:
    """A catalog with a database ``d`` selected, and what its statements did."""

    def __init__(self, *statements: str, server: Server = NEWEST, logged: bool = True) -> None:
        self.catalog = Catalog(server, logged=logged)
        self.session = Session(database="d")
        self.run("CREATE DATABASE d")
        for sql in statements:
            self.run(sql)

    def run(self, sql: str, session: Session | None = None) -> tuple[Change, ...]:
        return self.catalog.apply(sql, session or self.session)

    def columns(self, table: str = "t") -> list[str]:
        """Each column as name, type, and what is not the usual."""
        return [
            " ".join(
                [
                    column.name,
                    column.type,
                    *([] if column.nullable else ["not null"]),
                    *([column.collation] if column.collation else []),
                    *([column.generated] if column.generated else []),
                    *(["invisible"] if column.invisible else []),
                ]
            )
            for column in self.catalog[self.name(table)].columns
        ]

    def names(self, table: str = "t") -> str:
        return " ".join(column.name for column in self.catalog[self.name(table)].columns)

    def indexes(self, table: str = "t") -> dict[str, tuple[str, ...]]:
        return {index.name: index.columns for index in self.catalog[self.name(table)].indexes}

    def tables(self) -> list[str]:
        return sorted(f"{database}.{name}" for database, name in self.catalog)

    @staticmethod
    def name(table: str) -> TableName:
        database, _, name = table.rpartition(".")
        return database or "d", name
