"""SQL statements that create, widen and replace an Iceberg table.

Invariant: each may be repeated, in any mixture with the others. A type is altered only where Iceberg itself
reads old files as the new type; any other widening needs new rows, in one commit with the new type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from spark_sink.errors import ColumnClash
from spark_sink.names import action, quoted
from spark_sink.source.schemas import SOURCE_COLUMNS
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.sql.statements import (
    KEY_PROPERTY,
    casts_sql,
    columns_sql,
    key_of,
    properties_sql,
    shape_properties,
)

PROPERTIES: Final = {
    "format-version": "2",
    # A batch changes few rows of large files: their positions are written, not the files again.
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    # Each commit writes a metadata file; without these they would stay for good.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "history.expire.min-snapshots-to-keep": "1",
}
NEVER_MATCHES: Final = " WHEN MATCHED AND t.__delta <> s.__delta THEN DELETE"
"""For a table without a key: makes Iceberg check the commit against others, which mere additions are not."""

NEVER_HELD: Final = " WHEN MATCHED AND t.offset <> s.offset THEN DELETE"
"""For dead letters: the same."""
FORMER_KEYS: Final = "aqueduct.former_primary_keys"
_FORMER_KEPT: Final = 20
_IN_PLACE: Final = frozenset({("int", "bigint"), ("float", "double")})
_INNER: Final = {"struct<srid": ("srid", "wkb"), "array<": ("element",), "map<": ("key", "value")}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def create_sql(table: str, shape: Shape) -> str:
    """The statement that creates a table of `shape`."""
    properties = properties_sql(_own_properties(shape))
    columns = columns_sql(shape)
    return (
        f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg TBLPROPERTIES ({properties})"
    )


def replace_sql(table: str, shape: Shape, *, source: str, more: Mapping[str, str]) -> str:
    """The statement that replaces a table with the rows of the view `source`, in one commit.

    Properties that are not given stay as they are.
    """
    properties = properties_sql({**_own_properties(shape), **more})
    replaced = f"CREATE OR REPLACE TABLE {table} USING iceberg TBLPROPERTIES ({properties})"
    return f"{replaced} AS SELECT {casts_sql(shape)} FROM {quoted(source)}"  # noqa: S608 - every name is quoted


def _own_properties(shape: Shape) -> dict[str, str]:
    # Iceberg keeps statistics of the first hundred columns, and of texts the first characters.
    metrics = "write.metadata.metrics.column."
    whole = {f"{metrics}{name}": "full" for name in ("__destination", "__ts_ms", "__seq")}
    kept = {f"{metrics}{name}": "truncate(32)" for name in shape.key}
    return {**PROPERTIES, **whole, **kept, **shape_properties(shape)}


def former_keys(properties: Mapping[str, str], version: int, wanted: Shape) -> dict[str, str]:
    """The property with the keys that a table had up to a version, given that `wanted` replaces it.

    Properties are those of the table, not of a version, so a changed key would be lost for older versions.
    """
    if KEY_PROPERTY not in properties or key_of(properties) == wanted.key:
        return {}
    held = json.loads(properties.get(FORMER_KEYS, "[]"))
    return {FORMER_KEYS: json.dumps([*held, [version, key_of(properties)]][-_FORMER_KEPT:])}


def key_of_version(properties: Mapping[str, str], version: int) -> dict[str, str]:
    """The properties with the key that the table had at a version."""
    held = json.loads(properties.get(FORMER_KEYS, "[]"))
    former = next((key for until, key in held if version <= until), None)
    return {**properties, **({} if former is None else {KEY_PROPERTY: json.dumps(former)})}


def alter_sql(table: str, held: Shape, wanted: Shape) -> list[str] | None:
    """The statements that turn `held` into `wanted`, in order; None if rows must be rewritten."""
    before = dict(held.columns)
    new = [(name, kind) for name, kind in wanted.columns if name not in before]
    if wanted.apart and not held.apart:
        new += SOURCE_COLUMNS
    wider = [(n, kind) for n, kind in wanted.columns if n in before and before[n] != kind]
    if not all(_in_place(before[name], kind) for name, kind in wider):
        return None
    statements = []
    if new:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in new)
        statements.append(f"ALTER TABLE {table} ADD COLUMNS ({columns})")
    statements += [
        f"ALTER TABLE {table} ALTER COLUMN {_altered(name, kind)}" for name, kind in wider
    ]
    return statements


def refuse_clash(shape: Shape) -> None:
    """Raises ColumnClash for a column with the full name of a part of another.

    Iceberg refers to both by that name: a column `at.srid`, and the SRID of a point `at`.
    """
    names = {name.lower() for name, _ in shape.all_columns}
    for name, kind in shape.all_columns:
        inner = next((parts for start, parts in _INNER.items() if kind.startswith(start)), ())
        for part in inner:
            if f"{name}.{part}".lower() in names:
                of = shape.database, shape.table
                raise ColumnClash(
                    f"{'.'.join(of)}: {name}.{part} is also a part of {name}", advice=action(of)
                )


def _in_place(held: str, wanted: str) -> bool:
    """Whether Iceberg reads old files with the wider type."""
    if held.startswith("struct<srid"):
        return True
    small, large = _DECIMAL.fullmatch(held), _DECIMAL.fullmatch(wanted)
    if small and large:
        return small[2] == large[2] and int(small[1]) <= int(large[1])
    return (held, wanted) in _IN_PLACE


def _altered(name: str, kind: str) -> str:
    """A column with its new type; of a geometry only the SRID is ever widened."""
    if kind.startswith("struct<srid"):
        return f"{quoted(name)}.srid TYPE bigint"
    return f"{quoted(name)} TYPE {kind}"
