"""The statements that bring a batch's rows into a table, safe to repeat in any mixture.

Law: within a destination only a greater (epoch, seq) wins; between destinations the later commit
time, then the destination's name. Rows of mapped tables are never compared with another source's.
"""

from __future__ import annotations

from typing import Final

from spark_sink.names import delta, literal, quoted
from spark_sink.warehouse.evolve import Shape
from spark_sink.warehouse.key_sql import below_sql, key_parts, source_parts
from spark_sink.warehouse.ledger import Floor

NEWER: Final = (
    "CASE WHEN s.__destination = t.__destination "
    "THEN s.__epoch > t.__epoch OR (s.__epoch = t.__epoch AND s.__seq > t.__seq) "
    "ELSE s.__ts_ms > t.__ts_ms OR "
    "(s.__ts_ms = t.__ts_ms AND s.__destination > t.__destination) END"
)


def merge_sql(path: str, shape: Shape, *, source: str) -> str:
    """The MERGE of the view `source`, which `compact.changes` made."""
    merge = f"MERGE INTO {delta(path)} AS t USING {quoted(source)} AS s ON {same_key(shape)}"
    # Spelled out: behind `*`, Delta trips over a name with a backtick.
    names = [quoted(name) for name, _ in shape.all_columns]
    if shape.keyed:
        assignments = ", ".join(f"t.{name} = s.{name}" for name in names)
        merge += f" WHEN MATCHED AND {NEWER} THEN UPDATE SET {assignments}"
    values = ", ".join(f"s.{name}" for name in names)
    return f"{merge} WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - the same


def truncate_sql(path: str, shape: Shape, floor: Floor) -> str:
    """What a truncate does to the rows that are already there."""
    below = below_sql(shape, floor.source, floor.place)
    if not shape.keyed:
        # The floor keeps these images out for good, so nothing has to mark them.
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


def same_key(shape: Shape) -> str:
    """Whether the rows `t` and `s` are of one key; of a log, whether they are one image."""
    if not shape.keyed:
        return "t.__destination = s.__destination AND t.__seq = s.__seq AND t.__delta = s.__delta"
    pairs = zip(key_parts(shape, "t."), key_parts(shape, "s."), strict=True)
    exact = len(key_parts(shape, "")) == len(shape.key) + len(source_parts(shape, ""))
    return " AND ".join(f"{t} {'=' if exact else '<=>'} {s}" for t, s in pairs)
