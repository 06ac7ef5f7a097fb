"""Values of partitioning columns that Delta reads back as they were.

Delta has the value of a partition as text, in the name of its folder and in its log. Of texts, an empty one
and Hive's name for NULL come back as NULL, and a long one, or one with a zero byte, is no name of a folder. Of
a BINARY, bytes that are no UTF-8 come back as others.

Invariant: no row is stored in a partition whose value is not the row's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.errors import PartitionUnfit
from spark_sink.text.names import action, literal, quoted
from spark_sink.warehouse.shape import Shape

_OF_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST: Final = 255
"""Bytes of the name of a folder, on most file systems."""
_OF_MAPPED: Final = 41
"""The bytes of a column's name where Delta maps names, with the character after it."""
_ESCAPED: Final = r"[\x01-\x1F\x7F\"#%'*/:=?\\{\[\]^]"
"""What Spark writes as three characters in the name of a folder."""
_NEVER: Final = re.compile("binary|struct<|array<|map<")
_UNFIT: Final = re.compile("aqueduct: unfit partition (.*?) of aqueduct", re.DOTALL)


def can_divide(kind: str) -> bool:
    """Whether a table can be partitioned by a column of this type."""
    return _NEVER.match(kind) is None


def unfit_sql(name: str, kind: str) -> str:
    """The condition that a value would not be read back."""
    own = quoted(name)
    if not can_divide(kind):
        return f"{own} IS NOT NULL"
    if kind != "string":
        return "false"
    segment = f"octet_length(regexp_replace({own}, {literal(_ESCAPED)}, 'xxx'))"
    room = _LONGEST - max(3 * len(name.encode()) + 1, _OF_MAPPED)
    return (
        f"({own} IN ('', {literal(_OF_NULL)}) OR instr({own}, char(0)) > 0 OR {segment} > {room})"
    )


def any_unfit(rows: DataFrame, shape: Shape, columns: Sequence[str]) -> bool:
    """Whether any row has a value that would not be read back."""
    kinds = dict(shape.columns)
    condition = " OR ".join(unfit_sql(name, kinds[name]) for name in columns)
    return not rows.where(condition).isEmpty()


def guarded(rows: DataFrame, kinds: Mapping[str, str], columns: Sequence[str]) -> DataFrame:
    """The rows, which cannot be computed if one of them has such a value; see `unfit_by_name`."""
    found = rows
    for name in columns:
        if (unfit := unfit_sql(name, kinds[name])) != "false":
            text = literal(f"aqueduct: unfit partition {name} of aqueduct")
            found = found.withColumn(
                name, f.expr(f"if({unfit}, raise_error({text}), {quoted(name)})")
            )
    return found


@contextmanager
def unfit_by_name(shape: Shape) -> Iterator[None]:
    """Raises PartitionUnfit for rows that `guarded` refuses."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as fault:
        if found := _UNFIT.search(str(fault)):
            name = shape.database, shape.table
            raise PartitionUnfit(
                f"{'.'.join(name)}: a value of {found[1]} is an empty text, {_OF_NULL}, bytes, or too long for "
                "the name of a folder",
                advice=f"{action(name)}; it is then written without partitions. To have some, choose another "
                "column for partition_by first",
            ) from fault
        raise
