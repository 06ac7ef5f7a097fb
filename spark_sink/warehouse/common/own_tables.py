"""The sink's own tables as rows of any format: dead letters and recent changes.

Dead letters only grow: removing rows is up to an operator. Recent changes are records, versions, markers,
statements, and cuts. Each commit has one cut, which covers everything that is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_sink.source.envelope import FIELDS, IMAGE, LONGEST_TEXT, of_table
from spark_sink.source.positions import At, Offsets, within_sql
from spark_sink.spark.jobs import temporary_view
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.common.conflicts import gone_by_name
from spark_sink.warehouse.coverage import Cut, Marker
from spark_sink.warehouse.protocol import LETTER_COLUMNS, Letter, Name, Recent

_COLUMNS: Final = ", ".join(f"{quoted(name)} {kind}" for name, kind in LETTER_COLUMNS)
_SAME: Final = " AND ".join(f"t.{name} = s.{name}" for name in ("topic", "partition", "offset"))
SEARCHED: Final = ("topic", "partition", "offset", "at")
"""The columns to keep statistics of; keys and values may be large."""


class LettersTable(Protocol):
    """The table of a format that has the dead letters."""

    @property
    def name(self) -> str:
        """Its name in Spark SQL."""

    @property
    def of_held(self) -> str:
        """A further clause of a MERGE, for letters that the table already has."""

    def create(self, session: SparkSession, columns: str) -> None:
        """Make the table with these columns if it does not exist."""

    def again(self, act: Callable[[], object]) -> None:
        """Retry a commit if another writer committed first."""

    def read(self) -> DataFrame | None:
        """The rows; None if there is no table."""

    def is_long(self, commits: int) -> bool:
        """Whether the table lists more than that many commits."""

    def compact(self) -> None:
        """Compact many small files into few, then remove unused files and log entries."""


class TableLetters:
    """See protocol.DeadLetters. Compacts the table after every `every` commits of this process."""

    def __init__(self, table: LettersTable, *, every: int) -> None:
        self.table = table
        self._every = every
        self._commits = 0

    def add(self, rows: DataFrame) -> None:
        session = rows.sparkSession
        self.table.create(session, _COLUMNS)
        names = ", ".join(quoted(name) for name, _ in LETTER_COLUMNS)
        values = ", ".join(f"s.{quoted(name)}" for name, _ in LETTER_COLUMNS)
        with temporary_view(rows) as view:
            statement = (
                f"MERGE INTO {self.table.name} AS t USING {quoted(view)} AS s ON {_SAME}{self.table.of_held} "  # noqa: S608 - the names are ours
                f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
            )
            self.table.again(lambda: session.sql(statement))
        self._commits += 1
        # Earlier processes may each have ended before it was due.
        is_first = self._commits == 1
        if self.table.is_long(self._every) if is_first else self._commits % self._every == 0:
            self.table.compact()

    def within(self, start: Offsets, until: Offsets) -> set[At]:
        letters = self.table.read() if until else None
        if letters is None:
            return set()
        found = letters.where(within_sql(start, until)).select("topic", "partition", "offset")
        return {(row.topic, row.partition, row.offset) for row in found.collect()}

    def since(self, at_ms: int) -> int:
        letters = self.table.read()
        return 0 if letters is None else letters.where(f"at >= timestamp_millis({at_ms})").count()

    def newest(self, most: int, name: Name | None = None) -> list[Letter]:
        letters = self.table.read()
        if letters is None:
            return []
        if name is not None:
            letters = letters.where(of_table(name))
        order = (f.desc(column) for column in ("at", "topic", "partition", "offset"))
        shown = [column for column in Letter.__dataclass_fields__ if column != "at_ms"]
        rows = (
            letters.orderBy(*order).limit(most).select(*shown, f.expr("unix_millis(at) AS at_ms"))
        )
        return [Letter(**row.asDict()) for row in rows.collect()]


_PLACE: Final = ("topic", "partition", "offset")
_FIRST: Final = ("kind", "database", "table", "text")
_SOURCE: Final = "database STRING, `table` STRING"
"""The members of a version's text that name its source table."""


def ordered(rows: DataFrame) -> DataFrame:
    """The rows, with the columns by which readers skip files first."""
    return rows.select(*_FIRST, *(name for name in rows.columns if name not in _FIRST))


def with_cut(rows: DataFrame, cut: Cut) -> DataFrame:
    """The rows of one commit, in one file."""
    return joined(rows, texts(rows, "cut", [cut.text()])).coalesce(1)


def joined(rows: DataFrame, more: DataFrame) -> DataFrame:
    """Rows of different kinds together."""
    return rows.unionByName(more, allowMissingColumns=True)


def texts(rows: DataFrame, kind: str, of: Iterable[str]) -> DataFrame:
    """Rows of texts, in the session of `rows`; each text is a literal of the plan, so there must be few."""
    array = f.array(*(f.lit(text) for text in of)).cast("array<string>")
    one = rows.sparkSession.range(1, numPartitions=1)
    return one.select(f.lit(kind).alias("kind"), f.explode(array).alias("text"))


def read_recent(held: DataFrame, *, place: str, gone: Collection[str]) -> Recent[DataFrame] | None:
    """The recent changes in the stored rows of one commit; None without a cut. Raise VersionGone."""
    few = held.where("kind NOT IN ('record', 'version')")
    with gone_by_name(place, gone):
        found = few.select("kind", "text", *_PLACE).collect()
    cuts = [Cut.of(row.text) for row in found if row.kind == "cut"]
    if not cuts:
        return None
    return Recent(
        cut=max(cuts, key=lambda cut: cut.at_ms),
        records=records_of(held.where("kind = 'record'")),
        versions=gone_by_name(place, gone)(partial(_versions, held)),
        markers=[Marker(*row[1:]) for row in found if row.kind == "marker"],
        statements=[row.text for row in found if row.kind == "statement"],
    )


def _versions(held: DataFrame, names: Collection[Name]) -> list[str]:
    """See protocol.VersionsOf. The driver does not get the versions of other tables, which may be very many."""
    if not names:
        return []
    wanted = ", ".join(f"({literal(name[0])}, {literal(name[1])})" for name in sorted(names))
    # From the version's text, as the columns stored beside it do not have its source table.
    source = f"from_json(text, '{_SOURCE}', map('maxStringLen', '{LONGEST_TEXT}'))"
    found = held.where("kind = 'version'").selectExpr("text", f"{source} AS of")
    found = found.where(f"(of.database, of.`table`) IN ({wanted})").select("text")
    return [row.text for row in found.collect()]


def records_of(held: DataFrame) -> DataFrame:
    """The stored records in the columns of `FIELDS`.

    A sink of an earlier version stored fewer columns, and images as JSON.
    """
    types = dict(held.dtypes)
    columns = {name: quoted(name) if name in types else "NULL" for name in FIELDS}
    for name in ("before", "after"):
        if types[name] == "string":
            columns[name] = f"from_json({name}, '{IMAGE}', map('maxStringLen', '{LONGEST_TEXT}'))"
    if "size" not in types:
        columns["size"] = "CAST(0 AS BIGINT)"
    return held.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in columns.items()))
