"""The rows of the warehouse: as Spark reads them, and as the expected changes make them.

``python -m demo.platform.warehouse SINK_CONFIG ANSWER`` writes what Spark reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from demo.platform.expected import Change, Image
from demo.platform.shards import LOGICAL

Rows = dict[tuple[str, ...], Image]
"""By logical table, destination, real database, real table and id; only columns with a value."""


def main(config: Path, answer: Path) -> None:
    """Read all logical tables."""
    from spark_sink.settings import model as settings
    from spark_sink.spark import session
    from spark_sink.views.recent.reading import fresh_tables

    sink = settings.read(config)
    spark = session.start(sink)
    try:
        found = []
        names = [(one.partition(".")[0], one.partition(".")[2]) for one in LOGICAL]
        tables = fresh_tables(spark, sink.warehouse, names, bookkeeping=True)
        for name, rows in tables.items():
            found += [
                [".".join(name), {k: _text(v) for k, v in row.asDict().items()}]
                for row in rows.collect()
            ]
        unfinished = answer.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(found))
        unfinished.rename(answer)
    finally:
        session.close(spark)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def rows_of(answer: Path) -> tuple[Rows, int]:
    """Return the rows that were read, and how many of them have the identity of another one."""
    found, repeated = Rows(), 0
    for name, row in json.loads(answer.read_text()):
        source = row["__destination"], row["__source_database"], row["__source_table"]
        key = (name, *source, row["id"])
        repeated += key in found
        found[key] = _stated(row)
    return found, repeated


def replayed(changes: Iterable[Change]) -> Rows:
    """Return the rows after all changes, those of a row in their order."""
    found = Rows()
    for one in changes:
        key = (one.logical, *one.key)
        if one.op == "t":
            found = {k: row for k, row in found.items() if k[: len(key)] != key}
        elif one.op == "d":
            found.pop(key, None)
        else:
            found[key] = _stated(one.image)
    return found


def _stated(row: Image) -> Image:
    """A row without bookkeeping, and without NULL, which a column has in rows that are older than it."""
    return {k: v for k, v in row.items() if v is not None and not k.startswith("__")}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
