"""SQL statements that fill, replace and truncate a table of any format, given how the format names it.

Invariant: each statement may be repeated, also after other ones; `identity` decides which row wins.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.identity import NEWER, below_sql, same_key
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.shape import Entry, Shape
from wire.warehouse_types import HISTORY_COLUMNS, OWN_COLUMNS, SOURCE_COLUMNS

KEY_PROPERTY: Final = "aqueduct.primary_key"
NAME_PROPERTY: Final = "aqueduct.table"
CUT_PROPERTY: Final = "aqueduct.cut"
FOLLOWED_PROPERTY: Final = "aqueduct.followed"
COLUMNS_PROPERTY: Final = "aqueduct.columns"


def shape_properties(shape: Shape) -> dict[str, str]:
    """The table properties from which a shape is read again."""
    followed = {FOLLOWED_PROPERTY: json.dumps(shape.followed)} if shape.followed else {}
    return {
        KEY_PROPERTY: json.dumps(shape.key),
        NAME_PROPERTY: json.dumps([shape.database, shape.table]),
        **made_property(shape),
        **followed,
    }


def made_property(shape: Shape, *, coming: Shape | None = None) -> dict[str, str]:
    """The property with the columns that the sink has made, and those that it begins to make (`coming`)."""
    body = {"made": dict(shape.all_columns)}
    body |= {"coming": dict(coming.all_columns)} if coming is not None else {}
    return {COLUMNS_PROPERTY: json.dumps(body, separators=(",", ":"))}


def made_in(properties: Mapping[str, str]) -> tuple[dict[str, str] | None, dict[str, str]]:
    """The columns that the sink has made, None if that is not recorded, and those that it has begun to make."""
    body = json.loads(properties.get(COLUMNS_PROPERTY) or "{}")
    return body.get("made"), body.get("coming", {})


def without_foreign(shape: Shape, properties: Mapping[str, str]) -> Shape:
    """A table's shape without columns that other programs added to it."""
    made, coming = made_in(properties)
    if made is None:
        return shape
    own = {name.lower() for name in (*made, *coming)}
    there = tuple(one for one in shape.columns if one[0].lower() in own)
    comments = tuple(one for one in shape.comments if not one[0] or one[0].lower() in own)
    return replace(shape, columns=there, comments=comments)


def name_of(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """The name that `shape_properties` stored; None in a table that the sink did not make."""
    stored = json.loads(properties.get(NAME_PROPERTY, "null"))
    return None if stored is None else (stored[0], stored[1])


def key_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The key that `shape_properties` stored."""
    return tuple(json.loads(properties[KEY_PROPERTY]))


def shape_of(
    name: tuple[str, str],
    properties: Mapping[str, str],
    schema: StructType,
    *,
    comment: str = "",
    mapped: bool = False,
) -> Shape | None:
    """The shape in a table's properties and schema; None if the sink did not make the table so named.

    `comment` is the table's own.
    """
    if name_of(properties) != name:
        return None
    kinds = {one.name: one.dataType.simpleString() for one in schema.fields}
    comments = [
        ("", comment),
        *((one.name, one.metadata.get("comment", "")) for one in schema.fields),
    ]
    return Shape(
        *name,
        tuple((column, kind) for column, kind in kinds.items() if column not in OWN_COLUMNS),
        key_of(properties),
        mapped=mapped,
        apart=all(column in kinds for column, _ in SOURCE_COLUMNS),
        followed=followed_in(properties),
        comments=tuple((column, text) for column, text in comments if text),
        history=all(column in kinds for column, _ in HISTORY_COLUMNS),
    )


def followed_in(properties: Mapping[str, str]) -> tuple[Entry, ...]:
    """A table's `Shape.followed`, from its properties."""
    return tuple(tuple(one) for one in json.loads(properties.get(FOLLOWED_PROPERTY, "[]")))


def own_rows(rows: DataFrame, shape: Shape) -> DataFrame:
    """A table's rows without columns that other programs added to it."""
    own = {name.lower() for name, _ in shape.all_columns}
    foreign = [name for name in rows.columns if name.lower() not in own]
    return rows.drop(*foreign) if foreign else rows


def properties_sql(properties: Mapping[str, str]) -> str:
    """Table properties, as in parentheses after TBLPROPERTIES."""
    return ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())


def columns_sql(shape: Shape) -> str:
    """All columns with their types and comments, as in a CREATE TABLE."""
    comments = dict(shape.comments)
    return ", ".join(
        f"{quoted(name)} {kind}{_comment(comments.get(name, ''))}"
        for name, kind in shape.all_columns
    )


def table_comment_sql(shape: Shape) -> str:
    """The clause with the table's comment, after the columns of a CREATE TABLE; empty without one."""
    return _comment(dict(shape.comments).get("", ""))


def _comment(text: str) -> str:
    return f" COMMENT {literal(text)}" if text else ""


def renaming_sql(
    table: str,
    held: Shape,
    renamed: Shape,
    names: Mapping[str, str],
    *,
    first: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> list[str]:
    """The statements that rename columns, in order; none if everything is done.

    The `first` properties are set before the columns are renamed; the key and the properties `more`, last.
    """
    if not names and renamed.key == held.key:
        return []
    last = made_property(renamed)
    if renamed.key != held.key:
        last |= {KEY_PROPERTY: json.dumps(renamed.key), **(more or {})}
    return [
        set_sql(table, {**(first or {}), **made_property(held, coming=renamed)}),
        *(
            f"ALTER TABLE {table} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
            for old, new in sorted(names.items())
        ),
        set_sql(table, last),
    ]


def comment_sql(table: str, held: Shape, wanted: Shape) -> list[str]:
    """The statements that set the comments of `wanted` where they differ; none writes rows."""
    before, after = dict(held.comments), dict(wanted.comments)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    there = {name for name, _ in wanted.columns}
    statements = [
        f"ALTER TABLE {table} ALTER COLUMN {quoted(name)} COMMENT {literal(after.get(name, ''))}"
        for name in changed
        if name in there
    ]
    if "" in changed:
        statements.append(f"COMMENT ON TABLE {table} IS {literal(after.get('', ''))}")
    return statements


def changed_columns(
    held: Shape, wanted: Shape
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The columns of `wanted` that `held` lacks, and the columns that get another type."""
    before = dict(held.columns)
    new = [(name, kind) for name, kind in wanted.columns if name not in before]
    if wanted.apart and not held.apart:
        new += SOURCE_COLUMNS
    return new, [(n, kind) for n, kind in wanted.columns if n in before and before[n] != kind]


def altering_sql(
    table: str, new: Iterable[tuple[str, str]], wider: Iterable[tuple[str, str]]
) -> list[str]:
    """The statements that add and widen columns."""
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in new)
    statements = [f"ALTER TABLE {table} ADD COLUMNS ({columns})"] if columns else []
    for name, kind in wider:
        # Of a geometry only the SRID is ever widened.
        is_geometry = kind.startswith("struct<srid")
        of = f"{quoted(name)}.srid TYPE bigint" if is_geometry else f"{quoted(name)} TYPE {kind}"
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {of}")
    return statements


def recording_sql(
    table: str, held: Shape, wanted: Shape, *, is_made: bool, more: Mapping[str, str] | None = None
) -> list[str]:
    """The statement, if any, that records the columns of `wanted`; last, as until then they are found missing.

    `more` are further properties, set together with `Shape.followed`.
    """
    last = {} if is_made else made_property(wanted)
    if wanted.followed != held.followed:
        last |= {FOLLOWED_PROPERTY: json.dumps(wanted.followed), **(more or {})}
    return [set_sql(table, last)] if last else []


def set_sql(table: str, properties: Mapping[str, str]) -> str:
    """The statement that sets table properties."""
    return f"ALTER TABLE {table} SET TBLPROPERTIES ({properties_sql(properties)})"


def casts_sql(shape: Shape) -> str:
    """All columns of rows, cast to their types, as after SELECT."""
    return ", ".join(
        f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in shape.all_columns
    )


def merge_sql(
    table: str,
    shape: Shape,
    *,
    source: str,
    within: str = "",
    of_log: str = "",
    is_hard: bool = False,
    only_new: bool = False,
) -> str:
    """The MERGE of the view `source`, which `compact.changes` made; `within` is a further condition.

    `of_log` is a further clause for a table without a key, whose rows are only added. With `is_hard`, rows with
    deleted keys are removed, and leave no markers. With `only_new`, rows with keys that the table already has
    are omitted.
    """
    on = f"{same_key(shape)}{within}"
    merge = f"MERGE INTO {table} AS t USING {quoted(source)} AS s ON {on}"
    # Columns are listed: with `*`, Delta fails on a name with a backtick.
    names = [quoted(name) for name, _ in shape.all_columns]
    if only_new:
        pass
    elif shape.keyed:
        assignments = ", ".join(f"t.{name} = s.{name}" for name in names)
        if is_hard:
            merge += f" WHEN MATCHED AND {NEWER} AND s.__deleted THEN DELETE"
        merge += f" WHEN MATCHED AND {NEWER} THEN UPDATE SET {assignments}"
    else:
        merge += of_log
    values = ", ".join(f"s.{name}" for name in names)
    unless = " AND NOT s.__deleted" if is_hard else ""
    return f"{merge} WHEN NOT MATCHED{unless} THEN INSERT ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - the same


def truncate_sql(table: str, shape: Shape, floor: Floor, *, is_hard: bool = False) -> str:
    """The statement that truncates: it marks existing rows as deleted, or removes them from a log.

    With `is_hard`, it removes rows with a key too.
    """
    below = below_sql(shape, floor.source, floor.place)
    if not shape.keyed or is_hard:
        # The floor excludes these rows for good, so they need no marker.
        return f"DELETE FROM {table} WHERE {below}"  # noqa: S608 - every name is quoted
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
    update = f"UPDATE {table} SET {', '.join(assignments)}"  # noqa: S608 - the same
    return f"{update} WHERE NOT __deleted AND {below}"


def old_markers_sql(before: int) -> str:
    """The condition that a row is a marker of a row deleted before a time (ms)."""
    return f"__deleted AND __ts_ms < {before}"


def sources_if_old(rows: DataFrame, before: int) -> Collection[str]:
    """The destinations that have rows; empty if no marker is from before that time (ms)."""
    if rows.where(old_markers_sql(before)).isEmpty():
        return ()
    return {row[0] for row in rows.select("__destination").distinct().collect()}


def cut_text(since_ms: int, offsets: Offsets) -> str:
    """The table property that records a reload: the wait that it ended and its offsets, as JSON."""
    held = [[topic, partition, at] for (topic, partition), at in sorted(offsets.items())]
    return json.dumps({"version": 1, "since_ms": since_ms, "offsets": held})


def parse_cut(text: str) -> tuple[int, dict[tuple[str, int], int]]:
    """Parse the text that `cut_text` wrote."""
    body = json.loads(text)
    return body["since_ms"], {(topic, number): at for topic, number, at in body["offsets"]}
