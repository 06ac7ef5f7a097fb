"""A corpus file as the lines that `schema replay` takes, and its answer in the shape of the server's."""

from __future__ import annotations

from typing import Any

import orjson

from app.operator.replay import replay
from tests.integration.ddl.difference import differences
from tests.integration.ddl.player import Played
from tests.integration.ddl.truth import Seen, SeenColumn, SeenTable

_GENERATED = "in one way or the other"


class Lines:
    """The lines collected of a file while it is played."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []

    def take(self, sql: str, played: Played, *, as_written: bool) -> None:
        """Adds a statement; one that depends on data or settings is taken as written to the binlog."""
        if played.error is not None:
            return
        statements = [one.sql for one in played.written] if as_written else [sql]
        for one in statements:
            under = {
                "database": played.session.database,
                "sql_mode": ",".join(played.session.sql_mode),
            }
            self._lines.append(orjson.dumps({**under, "sql": one}))

    def differences(self, truth: Seen) -> list[str]:
        """The differences between the replayed lines and the server."""
        result = replay(b"\n".join(self._lines))
        found = [str(one) for one in result["unparsed"]]
        tables = {name: _seen(table) for name, table in result["tables"].items()}
        values = {".".join(name): _alike(table) for name, table in truth.tables.items()}
        named = [{("", name): table for name, table in one.items()} for one in (values, tables)]
        return found + list(differences(*(Seen(databases={}, tables=one) for one in named)))


def _seen(table: dict[str, Any]) -> SeenTable:
    columns = (
        SeenColumn(**{**one, "generated": _GENERATED if one["generated"] else None})
        for one in table["columns"]
    )
    return SeenTable(
        columns=tuple(columns), primary_key=tuple(table["primary_key"]), collation=None
    )


def _alike(table: SeenTable) -> SeenTable:
    """The same without parts that a result does not contain."""
    columns = (
        SeenColumn(
            name=one.name,
            type=one.type,
            nullable=one.nullable,
            charset=one.charset,
            collation=one.collation,
            generated=_GENERATED if one.generated else None,
            invisible=one.invisible,
        )
        for one in table.columns
    )
    return SeenTable(columns=tuple(columns), primary_key=table.primary_key, collation=None)
