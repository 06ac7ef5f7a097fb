"""The conversion of a batch's envelopes into the rows that one table must take: parse, check, fold.

Invariant: of each key only the last change is kept, by (epoch, seq) within a destination. A text that is
no value of its column stops the job, with an error that names its record. Everything here is Spark SQL text
over the columns of `envelope.FIELDS`, so it does no I/O and runs on any executor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.source.altered_in_turn import Turn, in_turn
from spark_sink.source.envelope import of_table
from spark_sink.source.schemas import Column, Constant, TableVersion
from spark_sink.spark.error_mapping import poison_sql
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.identity import key_parts, once_by
from spark_sink.warehouse.ledger import Floors
from spark_sink.warehouse.shape import Shape
from wire.table_version import VersionKey

_META: Final = ("topic", "partition", "offset", "op", "destination", "epoch", "seq", "version")
_SOURCE: Final = ("source_database", "source_table")
OP: Final = "__aqueduct_op"
ABSENT: Final = "__aqueduct_absent"
MOVED: Final = "__aqueduct_moved"
MARKS: Final = (OP, ABSENT, MOVED, "topic", "partition", "offset")
"""What `partial_images` must know of a row besides its columns."""
_NTH: Final = "__aqueduct_nth"
ALTERED: Final = "altered since: "
"""The prefix of the reason for an image whose values a statement has changed at the source since."""
Present = Sequence[tuple[str, Column | Constant]]


def changes(
    batch: DataFrame, shape: Shape, versions: Sequence[TableVersion], *, floors: Floors
) -> DataFrame:
    """Return the rows of the batch for one table, in the columns of its warehouse table.

    One row per key for a keyed table, one per signed image for a log, one per change for a history.
    """
    rows = standing(batch, shape, versions, floors=floors)
    if not shape.keyed:
        return once(rows, shape)
    return folded(rows, shape, several_destinations=several(versions))


def several(versions: Iterable[TableVersion]) -> bool:
    """Whether these versions are of more than one destination."""
    return len({version.key.destination for version in versions}) > 1


def standing(
    batch: DataFrame,
    shape: Shape,
    versions: Sequence[TableVersion],
    *,
    floors: Floors,
    marked: bool = False,
) -> DataFrame:
    """Return all rows of the batch for one table that no truncate has removed; if `marked`, with `MARKS`."""
    batch = _above(batch, shape, floors)
    parsed: DataFrame | None = None
    for one, keys in _alike(versions):
        rows = _images(batch.where(_of_versions(shape, keys)), shape)
        for expressions in steps(shape, one.columns, one.present, marked=marked):
            rows = rows.selectExpr(*expressions)
        parsed = rows if parsed is None else parsed.unionByName(rows)
    assert parsed is not None
    return parsed


def _above(batch: DataFrame, shape: Shape, floors: Floors) -> DataFrame:
    """The records that no truncate has removed; the values of removed records are not looked at."""
    for source, (epoch, seq) in floors.items():
        of = f"destination = {literal(source.destination)}"
        if shape.apart:
            of += f" AND source_database = {literal(source.database)}"
            of += f" AND source_table = {literal(source.table)}"
        elif (source.database, source.table) != (shape.database, shape.table):
            continue
        below = f"epoch < {epoch} OR (epoch = {epoch} AND seq < {seq})"
        batch = batch.where(f"NOT coalesce({of} AND ({below}), false)")
    return batch


def refused(
    batch: DataFrame, shape: Shape, versions: Sequence[TableVersion], *, floors: Floors
) -> DataFrame:
    """Return position and reason of each of the table's records with an image that is no row of its version."""
    batch = _above(batch, shape, floors)
    found: DataFrame | None = None
    for one, keys in _alike(versions):
        rows = _images(batch.where(_of_versions(shape, keys)), shape)
        for expressions in steps(shape, one.columns, one.present)[:-1]:
            rows = rows.selectExpr(*expressions)
        wrong = rows.where("reason IS NOT NULL").select("topic", "partition", "offset", "reason")
        found = wrong if found is None else found.unionByName(wrong)
    assert found is not None
    return found.groupBy("topic", "partition", "offset").agg(f.min("reason").alias("reason"))


def once(rows: DataFrame, shape: Shape) -> DataFrame:
    """Return rows for a log or history without repetitions: a record may come twice, and MERGE adds both."""
    return rows.dropDuplicates(list(once_by(shape)))


def folded(rows: DataFrame, shape: Shape, *, several_destinations: bool) -> DataFrame:
    """Return the last row of each key."""
    for window in fold_windows(shape, several_destinations=several_destinations):
        ranked = rows.selectExpr("*", f"row_number() OVER ({window}) AS {_NTH}")
        rows = ranked.where(f"{_NTH} = 1").drop(_NTH)
    return rows


def fold_windows(shape: Shape, *, several_destinations: bool) -> list[str]:
    """Return the windows to apply one after the other; of each, the first row is kept."""
    key = ", ".join(key_parts(shape, ""))
    last = "ORDER BY __epoch DESC, __seq DESC"
    if shape.apart or not several_destinations:
        return [f"PARTITION BY {key} {last}"]
    return [
        f"PARTITION BY {key}, __destination {last}",
        f"PARTITION BY {key} ORDER BY __ts_ms DESC, __destination DESC",
    ]


def steps(
    shape: Shape, columns: Sequence[Column], present: Present, *, marked: bool = False
) -> list[list[str]]:
    """Return the projections from (meta, image, sign) to the table's row.

    They are those of members, text, values, reason, and row; before the reason come the values that several
    statements have altered since, if there are any. `present` are the columns by their names in the table, see
    `TableVersion.present`. Nearly always, the members of an image are the columns in their order; then they are
    found by their position.
    """
    kept = [*_meta(shape), "sign"]
    names = ", ".join(literal(column.name) for column in columns)
    text = ", ".join(
        f"if(whole, texts[{place}], try_element_at(m, {literal(column.name)})) AS {quoted(column.name)}"
        for place, column in enumerate(columns)
    )
    values = ", ".join(
        f"{column.reading.sql.format(text=f'r.{quoted(column.name)}')} AS {quoted(column.name)}"
        for column in columns
    )
    altered = ", ".join(
        f"{_after(one)} AS {quoted(one.name)}"
        for _, one in present
        if isinstance(one, Column) and _is_apart(one)
    )
    since, made = ([[*kept, "m", "whole", "r", "v", f"struct({altered}) AS a"]], ["a"])
    if not altered:
        since, made = [], []
    return [
        [*kept, "image AS m", "map_values(m) AS texts", f"map_keys(m) <=> array({names}) AS whole"],
        [*kept, "m", "whole", f"struct({text}) AS r"],
        [*kept, "m", "whole", "r", f"struct({values}) AS v"],
        *since,
        [*kept, "r", "v", *made, f"{reason_sql(shape, columns, present)} AS reason"],
        [*_row(shape, present), *(_marks(shape, present) if marked else [])],
    ]


def reason_sql(shape: Shape, columns: Sequence[Column], present: Present) -> str:
    """Return the expression for why an image is no row of its version; it is NULL if the image is a row."""
    names = ", ".join(literal(name) for name in sorted(column.name for column in columns))
    keys = {
        one.name
        for name, one in present
        if isinstance(one, Column) and shape.spelling(name) in shape.key
    }
    given = "sort_array(concat(map_keys(m), coalesce(absent, CAST(array() AS ARRAY<STRING>))))"
    strange = f"NOT ({given} <=> array({names}))"
    if shape.keyed or shape.history:
        # A delete needs only its key.
        strange = (
            f"if(op = 'd', coalesce(size(array_except(map_keys(m), array({names}))), 1) <> 0, "
            f"{strange})"
        )
    # Nearly always this holds, and the names need not be compared.
    usual = "whole AND coalesce(size(absent), 0) = 0"
    whens = [f"WHEN NOT ({usual}) AND {strange} THEN 'the columns are not those of its version'"]
    for column in columns:
        own = quoted(column.name)
        if not column.reading.total and not column.reading.temporal:
            fault = literal(f"column {column.name} holds no {column.mysql_type}")
            whens.append(f"WHEN r.{own} IS NOT NULL AND v.{own} IS NULL THEN {fault}")
        if column.name in keys:
            fault = literal(f"key column {column.name} is null")
            whens.append(f"WHEN r.{own} IS NULL THEN {fault}")
    for name, one in present:
        if isinstance(one, Column) and one.altered:
            fault = literal(f"{ALTERED}{one.name} ({one.printed(beside=one)})")
            whens.append(f"WHEN {_is_lost(shape, name, one)} THEN {fault}")
    return f"CASE {' '.join(whens)} END"


def _row(shape: Shape, present: Present) -> list[str]:
    there = {shape.spelling(name): one for name, one in present}
    row = []
    for name, kind in shape.columns:
        column = there.get(name)
        value = _value(column) if column else "NULL"
        if column and shape.keyed and name not in shape.key:
            value = f"if(op = 'd', NULL, {value})"
        row.append(f"CAST({value} AS {kind}) AS {quoted(name)}")
    deleted = "op = 'd'" if shape.keyed or shape.history else "false"
    row += [
        "destination AS __destination",
        "epoch AS __epoch",
        # The check is in the one value that every later step needs.
        f"if(reason IS NULL, seq, CAST({poison_sql('reason')} AS BIGINT)) AS __seq",
        f"{deleted} AS __deleted",
        "version AS __schema",
        "ts_ms AS __ts_ms",
        f"{_unrepresentable(shape, there)} AS __unrepresentable",
    ]
    if shape.history:
        row += ["op AS __op", "absent AS __absent"]
    elif not shape.keyed:
        row.append("sign AS __delta")
    if shape.apart:
        row += [f"{name} AS __{name}" for name in _SOURCE]
    return row


def _value(one: Column | Constant) -> str:
    if isinstance(one, Column):
        return f"{_altered(one)}.value" if one.altered else f"v.{quoted(one.name)}"
    return "NULL" if one.text is None else one.reading.sql.format(text=literal(one.text))


def _is_apart(one: Column) -> bool:
    """Whether what statements have made of a column is computed in a projection of its own, for it is long."""
    return len(one.altered) > 1


def _altered(one: Column) -> str:
    """The struct of what statements have made of a column since, see `in_turn`, where rows are made."""
    return f"a.{quoted(one.name)}" if _is_apart(one) else _after(one)


def _after(one: Column) -> str:
    turns = [Turn(how=how, kind=how.kind, is_known=not how.is_zoned) for how in one.altered]
    own, aside = f"v.{quoted(one.name)}", _lost_text(one)
    return in_turn(own, one.reading.type, turns, aside=aside, zone="'UTC'")


def _lost_text(one: Column) -> str:
    """The text of a date or time that has no value."""
    if not one.reading.temporal:
        return "CAST(NULL AS STRING)"
    return f"if(v.{quoted(one.name)} IS NULL, r.{quoted(one.name)}, NULL)"


def _is_lost(shape: Shape, name: str, one: Column) -> str:
    """The condition that a statement has changed an image's value, and the new value is not known."""
    lost = f"size({_altered(one)}.lost) > 0"
    if shape.spelling(name) in shape.key:
        # Rows are found by their keys before they are converted.
        return f"{lost} OR NOT ({_value(one)} <=> v.{quoted(one.name)})"
    there = f"NOT coalesce(array_contains(absent, {literal(one.name)}), false)"
    if shape.keyed:
        there += " AND op <> 'd'"
    return f"{there} AND {lost}"


def _marks(shape: Shape, present: Present) -> list[str]:
    """The columns of `MARKS`; absent columns are named as the table spells them."""
    named = ", ".join(
        f"struct({literal(column.name)} AS k, {literal(shape.spelling(name) or name)} AS v)"
        for name, column in present
        if isinstance(column, Column)
    )
    lacking = f"filter(array({named}), x -> coalesce(array_contains(absent, x.k), false))"
    return [
        f"op AS {OP}",
        f"transform({lacking}, x -> x.v) AS {ABSENT}",
        f"moved AS {MOVED}",
        "topic",
        "partition",
        "offset",
    ]


def _unrepresentable(shape: Shape, present: dict[str | None, Column | Constant]) -> str:
    entries, any_lost = [], []
    for name, column in present.items():
        if name is None or not column.reading.temporal:
            continue
        text = (
            f"r.{quoted(column.name)}" if isinstance(column, Column) else literal(column.text or "")
        )
        held = "" if name in shape.key or not shape.keyed else "op <> 'd' AND "
        lost = f"{held}{text} IS NOT NULL AND {_value(column)} IS NULL"
        any_lost.append(f"({lost})")
        entries.append(f"struct({literal(name)} AS k, if({lost}, {text}, NULL) AS t)")
    nothing = "CAST(NULL AS MAP<STRING, STRING>)"
    if not entries:
        return nothing
    found = f"filter(array({', '.join(entries)}), x -> x.t IS NOT NULL)"
    # Spark interprets the lambda function, so it must not run for each row.
    return f"if({' OR '.join(any_lost)}, map_from_entries({found}), {nothing})"


def _images(rows: DataFrame, shape: Shape) -> DataFrame:
    meta = _meta(shape)
    if not shape.apart:
        # Versions are numbered separately for each name of a source table.
        own = (
            f"source_database = {literal(shape.database)} AND source_table = {literal(shape.table)}"
        )
        meta[meta.index("version")] = f"if({own}, version, 0) AS version"
    changed = rows.where("op <> 't'")
    if shape.keyed or shape.history:
        return changed.selectExpr(*meta, "coalesce(after, before) AS image", "1 AS sign")
    signed = (
        "inline(filter(array(struct(before AS image, -1 AS sign), struct(after AS image, 1 AS "
        "sign)), x -> x.image IS NOT NULL))"
    )
    return changed.selectExpr(*meta, signed)


def _meta(shape: Shape) -> list[str]:
    """What a row keeps of its record, besides its image."""
    return [*_META, *(_SOURCE if shape.apart else ()), "ts_ms", "absent", "moved"]


def _of_versions(shape: Shape, keys: Iterable[VersionKey]) -> str:
    """The condition that a record is of a table and of some versions.

    Both are needed: if a source table was renamed or mapped meanwhile, its rows belong to several tables.
    """
    versions = " OR ".join(
        f"(destination = {literal(key.destination)} AND version = {key.version}"
        f" AND source_database = {literal(key.database)}"
        f" AND source_table = {literal(key.table)})"
        for key in keys
    )
    return f"{of_table((shape.database, shape.table))} AND ({versions})"


def _alike(versions: Sequence[TableVersion]) -> Iterable[tuple[TableVersion, list[VersionKey]]]:
    """Groups of versions with the same columns, which are parsed together: shards of one logical table."""
    groups: dict[object, tuple[TableVersion, list[VersionKey]]] = {}
    for version in versions:
        # A column's identity does not affect how its values are read.
        columns = tuple((column.name, column.mysql_type) for column in version.columns)
        groups.setdefault((columns, version.placed), (version, []))[1].append(version.key)
    return groups.values()
