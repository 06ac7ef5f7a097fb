"""SQL statements that create, widen and replace an Iceberg table.

Invariant: each statement may be repeated, also after other ones. A type is altered only where Iceberg itself
reads old files as the new type; any other widening needs new rows, in one commit with the new type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from spark_sink.errors import ColumnClash
from spark_sink.text.quoting import argument, literal, quoted
from spark_sink.warehouse.common.statements import (
    FOLLOWED_PROPERTY,
    KEY_PROPERTY,
    altering_sql,
    casts_sql,
    changed_columns,
    columns_sql,
    comment_sql,
    followed_in,
    key_of,
    made_property,
    properties_sql,
    recording_sql,
    set_sql,
    shape_properties,
    table_comment_sql,
)
from spark_sink.warehouse.shape import Shape

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
"""For a table without a key: makes Iceberg check the commit against others, unlike commits that only add."""

NEVER_CHANGED: Final = " WHEN MATCHED AND t.__seq <> s.__seq THEN DELETE"
"""For a history: the same."""
NEVER_HELD: Final = " WHEN MATCHED AND t.offset <> s.offset THEN DELETE"
"""For dead letters: the same."""
METRICS: Final = "write.metadata.metrics.column."
"""The beginning of the properties that state which statistics of a column are kept."""
_FORMER: Final = "aqueduct.former"
_OF_A_TIME: Final = (KEY_PROPERTY, FOLLOWED_PROPERTY)
_FORMER_KEPT: Final = 50
_IN_PLACE: Final = frozenset({("int", "bigint"), ("float", "double")})
_INNER: Final = {"struct<srid": ("srid", "wkb"), "array<": ("element",), "map<": ("key", "value")}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def create_sql(table: str, shape: Shape) -> str:
    """The statement that creates a table of `shape`."""
    properties = properties_sql(_own_properties(shape))
    columns = columns_sql(shape)
    return (
        f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg"
        f"{table_comment_sql(shape)} "
        f"TBLPROPERTIES ({properties})"
    )


def replace_sql(table: str, shape: Shape, *, source: str, more: Mapping[str, str]) -> str:
    """The statement that replaces a table with the rows of the view `source`, in one commit.

    Properties that are not given stay as they are, and so does the table's comment.
    """
    properties = properties_sql({**_own_properties(shape), **more})
    comment = literal(dict(shape.comments).get("", ""))
    laid = "USING iceberg"
    replaced = (
        f"CREATE OR REPLACE TABLE {table} {laid} COMMENT {comment} TBLPROPERTIES ({properties})"
    )
    return f"{replaced} AS SELECT {casts_sql(shape)} FROM {quoted(source)}"  # noqa: S608 - every name is quoted


def _own_properties(shape: Shape) -> dict[str, str]:
    # Iceberg keeps statistics of the first hundred columns, and of texts the first characters.
    whole = {f"{METRICS}{name}": "full" for name in ("__destination", "__ts_ms", "__seq")}
    kept = {f"{METRICS}{name}": "truncate(32)" for name in shape.key}
    # Otherwise a replacement would keep the property of the table that it replaces.
    followed = {FOLLOWED_PROPERTY: json.dumps(shape.followed)}
    return {**PROPERTIES, **whole, **kept, **followed, **shape_properties(shape)}


def lost_metrics_sql(table: str, properties: Mapping[str, str], wanted: Shape) -> list[str]:
    """The statement, if any, that removes properties of columns that `wanted` lacks.

    Iceberg refuses to set any property of a table that has such a property for a column that does not exist.
    """
    there = {f"{METRICS}{name}" for name, _ in wanted.all_columns}
    lost = sorted(key for key in properties if key.startswith(METRICS) and key not in there)
    names = ", ".join(literal(key) for key in lost)
    return [f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({names})"] if lost else []


def former(
    properties: Mapping[str, str], version: int, wanted: Shape, *, oldest: int
) -> dict[str, str]:
    """The property that keeps what other properties stated up to a version; empty if `wanted` changes none.

    Properties belong to the table, not to a version. So older versions would lose their key, and the versions
    up to which columns are followed. `oldest` is the oldest version that can be read.
    """
    if KEY_PROPERTY not in properties or (
        key_of(properties) == wanted.key and followed_in(properties) == wanted.followed
    ):
        return {}
    held = [one for one in json.loads(properties.get(_FORMER, "[]")) if one[0] >= oldest]
    if not held or held[-1][0] < version:
        held.append([version, {key: properties.get(key, "[]") for key in _OF_A_TIME}])
    left = held[-_FORMER_KEPT:]
    if left != held:
        # Without this entry, what the next entry has would be taken for what the older versions had.
        left.insert(0, [held[-_FORMER_KEPT - 1][0], None])
    return {_FORMER: json.dumps(left)}


def properties_at(properties: Mapping[str, str], version: int) -> dict[str, str] | None:
    """The properties as they were at a version that is not the newest; None if that is no longer known."""
    held: list[tuple[int, dict[str, str] | None]] = json.loads(properties.get(_FORMER, "[]"))
    then: dict[str, str] | None = next((found for until, found in held if version <= until), {})
    return None if then is None else {**properties, **then}


def alter_sql(
    table: str,
    held: Shape,
    wanted: Shape,
    *,
    more: Mapping[str, str] | None = None,
    is_made: bool = True,
) -> list[str] | None:
    """The statements that turn `held` into `wanted`, in order; None if rows must be rewritten.

    `more` are further properties, set together with `Shape.followed`. Without `is_made`, the statements record
    the columns in any case.
    """
    new, wider = changed_columns(held, wanted)
    before = dict(held.columns)
    if not all(_in_place(before[name], kind) for name, kind in wider):
        return None
    is_made = is_made and not (new or wider)
    return [
        *([set_sql(table, made_property(held, coming=wanted))] if new or wider else []),
        *altering_sql(table, new, wider),
        *comment_sql(table, held, wanted),
        *recording_sql(table, held, wanted, is_made=is_made, more=more),
    ]


def refuse_clash(shape: Shape) -> None:
    """Raise ColumnClash if a column has the full name of a part of another column.

    Iceberg refers to both by that name, for instance to a column `at.srid` and to the SRID of a point `at`.
    """
    names = {name.lower() for name, _ in shape.all_columns}
    for name, kind in shape.all_columns:
        inner = next((parts for start, parts in _INNER.items() if kind.startswith(start)), ())
        for part in inner:
            if f"{name}.{part}".lower() in names:
                of = shape.database, shape.table
                raise ColumnClash(
                    f"{'.'.join(of)}: {name}.{part} is also a part of {name}",
                    advice="Rename one of the two columns at the source, or by column_actions in the mapping; "
                    f"then run: python -m app snapshot start DESTINATION {argument(of)} --replace; once it is "
                    f"done: python -m spark_sink reload {argument(of)}",
                )


def _in_place(held: str, wanted: str) -> bool:
    """Whether Iceberg can read old files as the wider type."""
    if held.startswith("struct<srid"):
        return True
    small, large = _DECIMAL.fullmatch(held), _DECIMAL.fullmatch(wanted)
    if small and large:
        return small[2] == large[2] and int(small[1]) <= int(large[1])
    return (held, wanted) in _IN_PLACE
