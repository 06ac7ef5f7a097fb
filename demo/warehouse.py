"""Comparison of MySQL with the warehouse row by row, in a process and a Spark session of its own.

`python -m demo.warehouse REQUEST ANSWER` starts Spark at once, waits for the request to appear, and
writes its answer; so the demo does not wait for Spark's start.
"""

import itertools
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demo.canonical import Key, Row, differences, row
from demo.load import Server
from demo.verdict import Compared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 10
_COLUMNS = (
    "SELECT column_name, data_type FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
_KEY = (
    "SELECT column_name FROM information_schema.statistics"
    " WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The comparison's parameters: the tables of a database, at rest on both sides."""

    host: str
    port: int
    database: str
    tables: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """By table the result of the comparison."""

    compared: Mapping[str, Compared]


def ask(request: Request, path: Path) -> None:
    """Pass a request to the process that waits for it."""
    _write(path, asdict(request))


def answer(path: Path) -> Answer | None:
    """The answer; None while there is none yet."""
    if not path.exists():
        return None
    dump = json.loads(path.read_text())
    compared = {table: Compared(**result) for table, result in dump["compared"].items()}
    return Answer(compared=compared)


def main(request_path: Path, answer_path: Path, sink_config: Path) -> None:
    """Start Spark, wait for the request, answer it."""
    from spark_sink.settings import model as settings
    from spark_sink.spark import session

    sink = settings.read(sink_config)
    spark = session.start(sink)
    try:
        spark.range(1).count()  # the first job loads most of Spark's classes
        request = Request(**json.loads(_awaited(request_path)))
        compared = {t: asdict(_compare(spark, request, sink.warehouse, t)) for t in request.tables}
        _write(answer_path, {"compared": compared})
    finally:
        session.close(spark)


def _awaited(path: Path) -> str:
    while not path.exists():
        time.sleep(0.1)
    return path.read_text()


def _write(path: Path, document: object) -> None:
    """Write a file atomically: a reader sees all of it or nothing."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(document, ensure_ascii=False))
    unfinished.rename(path)


def _compare(spark: "SparkSession", request: Request, warehouse: str, table: str) -> Compared:
    from spark_sink.errors import UnknownTable
    from spark_sink.views.recent.reading import fresh

    types, key, source = _source(request, table)
    try:
        held = fresh(spark, warehouse, request.database, table).collect()
    except UnknownTable:
        held = []
    theirs = keyed((found.asDict() for found in held), types, key)
    found = differences(table, source, theirs)
    shown = [str(difference) for difference in itertools.islice(found, _SHOWN)]
    return Compared(
        mysql_rows=len(source),
        warehouse_rows=len(held),
        different=len(shown) + sum(1 for _ in found) + len(held) - len(theirs),
        shown=shown,
    )


def _source(request: Request, table: str) -> tuple[dict[str, str], list[str], dict[Key, Row]]:
    server = Server(host=request.host, port=request.port)
    with server.connect(request.database) as connection, connection.cursor() as cursor:
        cursor.execute(_COLUMNS, (request.database, table))
        types = dict(cursor.fetchall())
        cursor.execute(_KEY, (request.database, table))
        key = [column for (column,) in cursor.fetchall()]
        quoted = ", ".join(f"`{column}`" for column in types)
        cursor.execute(f"SELECT {quoted} FROM `{table}`")
        rows = (dict(zip(types, values, strict=True)) for values in cursor.fetchall())
        return types, key, keyed(rows, types, key)


def keyed(
    rows: Iterable[Mapping[str, object]], types: Mapping[str, str], key: list[str]
) -> dict[Key, Row]:
    """Rows as text by their key."""
    found: Iterator[dict[str, str | None]] = (row(values, types) for values in rows)
    return {tuple(values[column] for column in key): values for values in found}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
