"""Conversion of a table's rows to a shape that its columns cannot be widened to.

Invariant: a value is converted as MySQL's ALTER TABLE does it, or it is kept as text in `__unrepresentable`;
it never silently becomes NULL. A conversion that depends on the time zone of the session that ran the ALTER is
not guessed. All functions return Spark SQL text and do no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from spark_sink.errors import KeyChanged, TypeConflict
from spark_sink.source.schemas import TableVersion
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.identity import source_parts
from spark_sink.warehouse.shape import Shape
from wire.warehouse_types import SOURCE_COLUMNS, widened

_ZONED: Final = {("timestamp_ntz", "timestamp"), ("timestamp", "timestamp_ntz")}
_ASIDE: Final = "__unrepresentable"


def target(held: Shape, versions: Sequence[TableVersion]) -> Shape:
    """The shape that takes the rows of all `versions`, converting the columns of `held` where needed.

    Raise TypeConflict and KeyChanged if the versions of different sources disagree.
    """
    columns = dict(held.columns)
    where = f"{held.database}.{held.table}"
    keys = set()
    for version in versions:
        for name, column in version.present:
            own = held.spelling(name) or name
            wanted = column.reading.type
            columns[own] = widened(columns.get(own, wanted), wanted) or wanted
        keys.add(tuple(held.spelling(name) or name for name in version.present_key))
    for version in versions:
        for name, column in version.present:
            own = held.spelling(name) or name
            if widened(columns[own], column.reading.type) != columns[own]:
                raise TypeConflict(f"{where}.{own} differs between sources", advice=_SAME)
    if len({tuple(sorted(key)) for key in keys}) > 1:
        raise KeyChanged(f"the primary key of {where} differs between sources", advice=_SAME)
    key = keys.pop()
    mapped = held.mapped or any(not name.replace("_", "").isalnum() for name in columns)
    key = held.key if sorted(key) == sorted(held.key) else key
    return replace(held, columns=tuple(columns.items()), key=key, mapped=mapped)


_SAME: Final = (
    "Make the same change at all sources of the table, then reload it with --from-beginning"
)


def needs_time_zone(held: Shape, wanted: Shape) -> list[str]:
    """The columns whose old values have a different meaning in each time zone."""
    after = dict(wanted.columns)
    return [name for name, kind in held.columns if (kind, after[name]) in _ZONED]


def row_sql(
    held: Shape, wanted: Shape, altered: Mapping[str, str] | None = None, *, time_zone: str
) -> list[str]:
    """Expressions of the columns of `wanted` over a row of `held`, without `__delta`.

    `altered` are the values of columns that a statement is known to have converted.
    """
    before = dict(held.columns)
    row, kept, lost = [], [], []
    for name, kind in wanted.columns:
        own = quoted(name)
        if name not in before:
            row.append(f"CAST(NULL AS {kind}) AS {own}")
        elif altered is not None and name in altered:
            row.append(f"{altered[name]} AS {own}")
            if before[name] != kind:
                kept.append(literal(name))
        elif before[name] == kind:
            row.append(own)
        else:
            value = _value(name, before[name], kind, time_zone)
            row.append(f"{value} AS {own}")
            kept.append(literal(name))
            text = _text(name, before[name])
            lost.append(f"struct({literal(name)} AS k, if({value} IS NULL, {text}, NULL) AS t)")
    row += ["__destination", "__epoch", "__seq", "__deleted", "__schema", "__ts_ms"]
    row += [name for name, _ in SOURCE_COLUMNS] if held.apart else []
    return [*row, f"{_aside(kept, lost)} AS {_ASIDE}"]


def keys_sql(wanted: Shape) -> tuple[str, str]:
    """The condition that a row has no key, and the expression that is equal for rows with the same key."""
    missing = " OR ".join(
        f"({quoted(name)} IS NULL AND try_element_at({_ASIDE}, {literal(name)}) IS NULL)"
        for name in wanted.key
    )
    parts = ", ".join(
        f"{quoted(name)}, try_element_at({_ASIDE}, {literal(name)})" for name in wanted.key
    )
    return missing, f"struct({', '.join([parts, *source_parts(wanted, '')])})"


def _value(name: str, before: str, after: str, time_zone: str) -> str:
    own = quoted(name)
    if (before, after) == ("timestamp_ntz", "timestamp"):
        return f"to_utc_timestamp(CAST({own} AS TIMESTAMP), {literal(time_zone)})"
    if (before, after) == ("timestamp", "timestamp_ntz"):
        return f"CAST(from_utc_timestamp({own}, {literal(time_zone)}) AS TIMESTAMP_NTZ)"
    text = _text(name, before)
    if after == "string":
        return text
    if after == "binary":
        return f"CAST({text} AS BINARY)"
    if after.startswith(("struct", "array")):
        return f"from_json({text}, {literal(after)})"
    return f"try_cast({text} AS {after})"


def _text(name: str, kind: str) -> str:
    """SQL for a value as text; if Spark cannot represent the value, its text from the wire."""
    own = quoted(name)
    if kind.startswith(("struct", "array")):
        return f"to_json({own})"
    if kind in {"float", "double"}:
        # MySQL formats a whole number without a decimal point.
        return f"regexp_replace(CAST({own} AS STRING), '[.]0$', '')"
    return f"coalesce(CAST({own} AS STRING), try_element_at({_ASIDE}, {literal(name)}))"


def _aside(kept: list[str], lost: list[str]) -> str:
    if not kept:
        return _ASIDE
    others = f"map_filter({_ASIDE}, (k, x) -> k NOT IN ({', '.join(kept)}))"
    if not lost:
        return f"if(size({others}) = 0, NULL, {others})"
    entries = (
        f"array_union(coalesce(map_entries({others}), array()), "
        f"transform(filter(array({', '.join(lost)}), x -> x.t IS NOT NULL), "
        "x -> struct(x.k AS key, x.t AS value)))"
    )
    return f"if(size({entries}) = 0, NULL, map_from_entries({entries}))"
