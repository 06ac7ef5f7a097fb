"""Rows of recent changes as a format stores them: records, versions, markers, statements, and cuts.

Each commit has one cut, which covers everything that is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.source.envelope import FIELDS, IMAGE, LONGEST_TEXT
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.common.versions import gone_by_name
from spark_sink.warehouse.coverage import Cut, Marker
from spark_sink.warehouse.protocol import Name, Recent

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
