"""Row identity and the order of changes, in SQL for both a batch and MERGE.

Invariant: two changes are of the same row exactly where the expressions of `key_parts` are equal. In a table
that mapped tables fill, these include the destination and the source table. Within a destination only a
greater (epoch, seq) wins; between destinations the later commit time, then the greater destination name.
"""

from __future__ import annotations

from typing import Final

from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.shape import Shape
from wire.warehouse_types import SOURCE_COLUMNS

SOURCES: Final = ("__destination", *(name for name, _ in SOURCE_COLUMNS))
"""The columns that identify the source of a row."""

_CHANGE: Final = ("__destination", "__epoch", "__seq")
"""The columns that identify a change."""
_IMAGE: Final = ("__destination", "__seq", "__delta")
"""The columns that identify an image in a table without a key."""

NEWER: Final = (
    "CASE WHEN s.__destination = t.__destination "
    "THEN s.__epoch > t.__epoch OR (s.__epoch = t.__epoch AND s.__seq > t.__seq) "
    "ELSE s.__ts_ms > t.__ts_ms OR "
    "(s.__ts_ms = t.__ts_ms AND s.__destination > t.__destination) END"
)


def below_sql(shape: Shape, source: Source, floor: tuple[int, int]) -> str:
    """The condition that a row's change is before a truncate of its source table."""
    epoch, seq = floor
    return (
        f"({source_sql(shape, source)} AND "
        f"(__epoch < {epoch} OR (__epoch = {epoch} AND __seq < {seq})))"
    )


def source_sql(shape: Shape, source: Source) -> str:
    """The condition that a row is from a source table."""
    if shape.apart:
        values = (source.destination, source.database, source.table)
        pairs = zip(source_parts(shape, ""), values, strict=True)
        return " AND ".join(f"{part} = {literal(value)}" for part, value in pairs)
    if (source.database, source.table) != (shape.database, shape.table):
        return "false"
    return f"__destination = {literal(source.destination)}"


def key_parts(shape: Shape, alias: str) -> list[str]:
    """Expressions that are equal exactly where two changes are of the same row."""
    types = dict(shape.columns)
    parts = [f"{alias}{quoted(name)}" for name in shape.key]
    # A zero date is NULL with its text in `__unrepresentable`, and still part of the key.
    parts += [
        f"try_element_at({alias}__unrepresentable, {literal(name)})"
        for name in shape.key
        if types[name] in {"date", "timestamp", "timestamp_ntz"}
    ]
    return [*parts, *source_parts(shape, alias)]


def source_parts(shape: Shape, alias: str) -> list[str]:
    """Expressions of a row's source (destination, database, table); none unless `shape.apart`."""
    if not shape.apart:
        return []
    # Rows from before the table had mapped sources are from the source table of the same name.
    own = zip(SOURCE_COLUMNS, (shape.database, shape.table), strict=True)
    names = [f"coalesce({alias}{column}, {literal(name)})" for (column, _), name in own]
    return [f"{alias}__destination", *names]


def same_key(shape: Shape) -> str:
    """The condition that rows `t` and `s` have the same key; in a log, are the same image or change."""
    if columns := once_by(shape):
        return " AND ".join(f"t.{name} = s.{name}" for name in columns)
    pairs = zip(key_parts(shape, "t."), key_parts(shape, "s."), strict=True)
    exact = len(key_parts(shape, "")) == len(shape.key) + len(source_parts(shape, ""))
    return " AND ".join(f"{t} {'=' if exact else '<=>'} {s}" for t, s in pairs)


def once_by(shape: Shape) -> tuple[str, ...]:
    """The columns whose values occur only once in a log or history; empty for a table with a key."""
    if shape.history:
        return _CHANGE
    return () if shape.keyed else _IMAGE
