"""The names that the warehouse's tables have in a metastore, and the views of them.

Invariant: a name is made of `a-z 0-9 _` alone, as every metastore takes it. It depends on the table
alone, unless another table has it already; then it ends in a hash of the table's own name.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from spark_sink.text.names import full, literal, quoted
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from wire.warehouse import SOURCE_COLUMNS

_LONGEST: Final = 110
"""Hive takes 128 characters; a hash and the text around a database's name need the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A table of the warehouse in the metastore."""

    table: Name
    """Its name in the metastore."""
    view: Name | None = None
    """That of the view of its rows; None without one."""
    view_sql: str = ""


def plain(name: str) -> str:
    """A name as the metastore takes it; two names may have the same."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())[:_LONGEST] or "_"


def distinct(name: Name) -> str:
    """A name of a table that no other table has: `plain` with a hash."""
    return f"{plain(name[1])}_{hashlib.sha256('.'.join(name).encode()).hexdigest()[:8]}"


def in_pattern(pattern: str, database: str) -> str:
    """The database for a source's database; a setting's `{database}` stands for its plain name."""
    return pattern.replace("{database}", plain(database))


def view_sql(shape: Shape, table: Name) -> str:
    """The query of the rows that readers should see: none deleted, and no bookkeeping."""
    columns = ", ".join(quoted(name) for name, _ in shape.columns)
    if shape.keyed:
        return f"SELECT {columns} FROM {full(table)} WHERE NOT __deleted"  # noqa: S608 - every name is quoted
    # As `warehouse.images` has it. A removal by one source does not cancel an equal image of another.
    groups = [
        *(quoted(name) for name, _ in shape.columns),
        "array_sort(map_entries(__unrepresentable))",
    ]
    if shape.apart:
        defaults = zip(SOURCE_COLUMNS, (shape.database, shape.table), strict=True)
        groups += ["__destination"]
        groups += [f"coalesce({name}, {literal(value)})" for (name, _), value in defaults]
    summed = (
        f"SELECT {columns}, CAST(sum(__delta) AS INT) AS __n FROM {full(table)} "  # noqa: S608 - the same
        f"GROUP BY {', '.join(groups)} HAVING sum(__delta) > 0"
    )
    return f"SELECT {columns} FROM ({summed}) LATERAL VIEW explode(sequence(1, __n)) AS __nth"  # noqa: S608 - the same
