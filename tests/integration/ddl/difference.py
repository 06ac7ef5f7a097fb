"""Differences between the model and the server, formatted to be seen at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from tests.integration.ddl.truth import Seen, SeenTable


def differences(server: Seen, model: Seen) -> Iterator[str]:
    """A line for each."""
    for database in sorted({*server.databases, *model.databases}):
        one, other = server.databases.get(database), model.databases.get(database)
        if one != other:
            yield f"database {database}: server {one}, model {other}"
    for name in sorted({*server.tables, *model.tables}):
        result, said = server.tables.get(name), model.tables.get(name)
        if result is None or said is None:
            yield f"table {name}: only the {'model' if result is None else 'server'} has it"
        elif result != said:
            yield from (f"{'.'.join(name)}: {line}" for line in _of_table(result, said))


def _of_table(server: SeenTable, model: SeenTable) -> Iterator[str]:
    for one, other in zip_longest(server.columns, model.columns):
        if one != other:
            yield f"\n      server {_short(one)}\n      model  {_short(other)}"
    if server.primary_key != model.primary_key:
        yield f"primary key: server {server.primary_key}, model {model.primary_key}"
    if server.unique != model.unique:
        yield f"unique keys: server {server.unique}, model {model.unique}"
    if server.collation != model.collation:
        yield f"its own collation: server {server.collation}, model {model.collation}"


def _short(column: object) -> str:
    return str(column).removeprefix("SeenColumn")
