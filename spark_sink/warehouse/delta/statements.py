"""SQL statements that create, widen, replace, fill and truncate a Delta table.

Invariant: each may be repeated, in any mixture with the others; `identity` decides which row wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructType

from spark_sink.names import literal, quoted
from spark_sink.source.schemas import SOURCE_COLUMNS
from spark_sink.warehouse.identity import NEWER, below_sql, same_key
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.shape import Shape

KEY_PROPERTY = "aqueduct.primary_key"
NAME_PROPERTY = "aqueduct.table"
FOLLOWED_PROPERTY = "aqueduct.followed"


def delta(path: str) -> str:
    """The Delta table at a path, as Spark SQL names it."""
    return f"delta.{quoted(path)}"


def followed_in(properties: Mapping[str, str]) -> tuple[tuple[str, str, str, int], ...]:
    """A table's `Shape.followed`, from its properties."""
    found = json.loads(properties.get(FOLLOWED_PROPERTY, "[]"))
    return tuple((one[0], one[1], one[2], one[3]) for one in found)


def comments_in(schema: StructType, comment: str) -> tuple[tuple[str, str], ...]:
    """A table's `Shape.comments`, from its schema and its own comment."""
    found = [("", comment), *((one.name, one.metadata.get("comment", "")) for one in schema.fields)]
    return tuple((name, text) for name, text in found if text)


def create_sql(path: str, shape: Shape) -> str:
    """The statement that creates a table of `shape`."""
    comments = dict(shape.comments)
    columns = ", ".join(
        f"{quoted(name)} {kind}{_comment(comments.get(name, ''))}"
        for name, kind in shape.all_columns
    )
    return (
        f"CREATE TABLE IF NOT EXISTS {delta(path)} ({columns}) USING delta{_comment(comments.get('', ''))} "
        f"TBLPROPERTIES ({_properties(_own_properties(shape))})"
    )


def replace_sql(path: str, shape: Shape, *, source: str, more: Mapping[str, str]) -> str:
    """The statement that replaces a table with the rows of the view `source`, in one commit."""
    columns = ", ".join(
        f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in shape.all_columns
    )
    properties = _properties({**_own_properties(shape), **more})
    table = f"CREATE OR REPLACE TABLE {delta(path)} USING delta TBLPROPERTIES ({properties})"
    return f"{table} AS SELECT {columns} FROM {quoted(source)}"  # noqa: S608 - every name is quoted


def _own_properties(shape: Shape) -> dict[str, str]:
    properties = {
        KEY_PROPERTY: json.dumps(shape.key),
        NAME_PROPERTY: json.dumps([shape.database, shape.table]),
    }
    if shape.mapped:
        properties["delta.columnMapping.mode"] = "name"
    if shape.followed:
        properties[FOLLOWED_PROPERTY] = json.dumps(shape.followed)
    return properties


def alter_sql(path: str, held: Shape, wanted: Shape) -> list[str]:
    """The statements that turn `held` into `wanted`, in order; each may be run twice."""
    before = dict(held.columns)
    new = [(name, kind) for name, kind in wanted.columns if name not in before]
    if wanted.apart and not held.apart:
        new += SOURCE_COLUMNS
    wider = [(n, kind) for n, kind in wanted.columns if n in before and before[n] != kind]
    properties = {}
    if wanted.mapped and not held.mapped:
        properties["delta.columnMapping.mode"] = "name"
    if any(kind == "timestamp_ntz" for _, kind in (*new, *wider)):
        properties["delta.feature.timestampNtz"] = "supported"
    if wider:
        properties["delta.enableTypeWidening"] = "true"
    followed = {FOLLOWED_PROPERTY: json.dumps(wanted.followed)}
    table = f"ALTER TABLE {delta(path)}"
    statements = [f"{table} SET TBLPROPERTIES ({_properties(properties)})"] if properties else []
    if new:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in new)
        statements.append(f"{table} ADD COLUMNS ({columns})")
    statements += [f"{table} ALTER COLUMN {_altered(name, kind)}" for name, kind in wider]
    statements += comment_sql(path, held, wanted)
    if wanted.followed != held.followed:
        # Last: until then the columns are found to be missing.
        statements.append(f"{table} SET TBLPROPERTIES ({_properties(followed)})")
    return statements


def rename_sql(path: str, held: Shape, renamed: Shape, names: Mapping[str, str]) -> list[str]:
    """The statements that rename columns, in order; the key is set last."""
    table = f"ALTER TABLE {delta(path)}"
    mode = {"delta.columnMapping.mode": "name"}
    statements = [] if held.mapped else [f"{table} SET TBLPROPERTIES ({_properties(mode)})"]
    statements += [
        f"{table} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
        for old, new in sorted(names.items())
    ]
    if renamed.key != held.key:
        key = {KEY_PROPERTY: json.dumps(renamed.key)}
        statements.append(f"{table} SET TBLPROPERTIES ({_properties(key)})")
    return statements


def comment_sql(path: str, held: Shape, wanted: Shape) -> list[str]:
    """The statements that set the comments of `wanted` where they differ; none writes rows."""
    before, after = dict(held.comments), dict(wanted.comments)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    there = {name for name, _ in wanted.columns}
    statements = [
        f"ALTER TABLE {delta(path)} ALTER COLUMN {quoted(name)} COMMENT {literal(after.get(name, ''))}"
        for name in changed
        if name in there
    ]
    if "" in changed:
        statements.append(f"COMMENT ON TABLE {delta(path)} IS {literal(after.get('', ''))}")
    return statements


def _comment(text: str) -> str:
    return f" COMMENT {literal(text)}" if text else ""


def _altered(name: str, kind: str) -> str:
    """A column with its new type; of a geometry only the SRID is ever widened."""
    if kind.startswith("struct<srid"):
        return f"{quoted(name)}.srid TYPE bigint"
    return f"{quoted(name)} TYPE {kind}"


def merge_sql(path: str, shape: Shape, *, source: str, within: str = "") -> str:
    """The MERGE of the view `source`, which `compact.changes` made; `within` is a further condition."""
    on = f"{same_key(shape)}{within}"
    merge = f"MERGE INTO {delta(path)} AS t USING {quoted(source)} AS s ON {on}"
    # Columns are listed: with `*`, Delta fails on a name with a backtick.
    names = [quoted(name) for name, _ in shape.all_columns]
    if shape.keyed:
        assignments = ", ".join(f"t.{name} = s.{name}" for name in names)
        merge += f" WHEN MATCHED AND {NEWER} THEN UPDATE SET {assignments}"
    values = ", ".join(f"s.{name}" for name in names)
    return f"{merge} WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - the same


def truncate_sql(path: str, shape: Shape, floor: Floor) -> str:
    """The statement that truncates: it marks existing rows as deleted, or deletes the images of a log."""
    below = below_sql(shape, floor.source, floor.place)
    if not shape.keyed:
        # The floor excludes these images for good, so they need no marker.
        return f"DELETE FROM {delta(path)} WHERE {below}"  # noqa: S608 - every name is quoted
    emptied = [f"{quoted(name)} = NULL" for name, _ in shape.columns if name not in shape.key]
    key = ", ".join(literal(name) for name in shape.key)
    assignments = [
        *emptied,
        "__deleted = true",
        f"__epoch = {floor.epoch}",
        f"__seq = {floor.seq}",
        f"__ts_ms = {floor.ts_ms}",
        f"__unrepresentable = map_filter(__unrepresentable, (k, x) -> k IN ({key}))",
    ]
    update = f"UPDATE {delta(path)} SET {', '.join(assignments)}"  # noqa: S608 - the same
    return f"{update} WHERE NOT __deleted AND {below}"


def _properties(properties: dict[str, str]) -> str:
    return ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
