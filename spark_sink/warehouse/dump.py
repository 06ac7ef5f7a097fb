"""A dump of the warehouse as lines of JSON, for comparison with the source.

Invariant: read-only. The applied offsets are read before the tables, and the truncates after them. A table may
therefore have changes past the offsets but never lacks one before them, and no truncate that emptied a table
is missing. A file is complete or absent: it is renamed last, and its last line has the counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from pyspark.sql import DataFrame

from spark_sink.text.quoting import ORIGIN, quoted
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.moves import pieces
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.shape import Shape

FORMAT: Final = 2
_BOOKKEEPING: Final = {
    "destination": "__destination",
    "epoch": "__epoch",
    "seq": "__seq",
    "deleted": "__deleted",
    "version": "__schema",
    "unrepresentable": "__unrepresentable",
}


@contextmanager
def written(file: Path) -> Iterator[TextIO]:
    """Open a file that replaces ``file`` if the block succeeds; a pipe or device is written directly."""
    if file.exists() and not file.is_file():
        with file.open("w", encoding="utf-8", newline="\n") as to:
            yield to
        return
    file = file.resolve()
    part = file.with_name(f".{file.name[:200]}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as to:
            yield to
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def dump(warehouse: Warehouse[DataFrame], root: str, to: TextIO) -> int:
    """Write the dump and return the number of rows.

    The lines are a header, for each table its description and then its rows, and a trailer with counts.
    """
    log, store = warehouse.log, warehouse.tables
    applied = [[topic, partition, until] for (topic, partition), until in log.applied().items()]
    head: dict[str, object] = {
        "format": FORMAT,
        **_origin(warehouse, root),
        "applied": applied,
    }
    # Where the rows of renamed and dropped tables are: for each source table, up to each position.
    moved = [
        [destination, *name, [[*below, to] for below, to in own if below is not None]]
        for (destination, name), own in sorted(pieces(warehouse.log.ddl().settled()).items())
    ]
    if moved:
        head["moved"] = moved
    _write(to, head)
    tables = rows = 0
    for database, table in store.names():
        shape = store.shape(database, table)
        if shape is None:
            continue
        tables += 1
        _write(to, _told(shape))
        for row in store.rows(shape).selectExpr(line_sql(shape)).toLocalIterator():
            to.write(row[0] + "\n")
            rows += 1
    floors = [[*of, *place] for of, place in sorted(_highest(warehouse.log.floors()).items())]
    _write(to, {"end": True, "tables": tables, "rows": rows, "floors": floors})
    return rows


def _highest(floors: Iterable[Floor]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """The last truncate of each table and destination, over all source tables of that destination."""
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for one in floors:
        of = (one.database, one.table, one.source.destination)
        found[of] = max(one.place, found.get(of, one.place))
    return found


def _origin(warehouse: Warehouse[DataFrame], root: str) -> dict[str, str | None]:
    """The origin that the sink recorded in the warehouse; None members before any sink has filled it."""
    mark = json.loads(warehouse.notes.read(ORIGIN) or "{}")
    return {
        "warehouse": root,
        "prefix": mark.get("prefix"),
        "cluster": mark.get("cluster"),
    }


def _told(shape: Shape) -> dict[str, Any]:
    return {
        "database": shape.database,
        "table": shape.table,
        "columns": [name for name, _ in shape.columns],
        "types": [kind for _, kind in shape.columns],
        "key": shape.key,
        "followed": shape.followed,
        "apart": shape.apart,
    }


def line_sql(shape: Shape) -> str:
    """SQL for a row as JSON: bookkeeping by name, values by the columns' order."""
    fields = [f"{quoted(own)} AS {name}" for name, own in _BOOKKEEPING.items()]
    fields.append(f"{'0' if shape.keyed else '__delta'} AS delta")
    values = ", ".join(
        f"{_plain(quoted(name), kind)} AS c{at}" for at, (name, kind) in enumerate(shape.columns)
    )
    fields.append(f"struct({values}) AS `values`")
    return f"to_json(struct({', '.join(fields)}), map('ignoreNullFields', 'false'))"


def _plain(column: str, kind: str) -> str:
    """SQL for a value in a form that JSON holds without loss."""
    if kind.startswith("decimal") or kind in ("date", "timestamp", "timestamp_ntz"):
        return f"CAST({column} AS STRING)"
    if kind == "binary":
        return f"replace(base64({column}), '\\r\\n', '')"
    if kind.startswith("struct<srid"):
        wkb = f"replace(base64({column}.wkb), '\\r\\n', '')"
        named = f"named_struct('srid', {column}.srid, 'wkb', {wkb})"
        return f"if({column} IS NULL, NULL, {named})"
    return column


def _write(to: TextIO, fields: dict[str, Any]) -> None:
    to.write(json.dumps(fields) + "\n")
