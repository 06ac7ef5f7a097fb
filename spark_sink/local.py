"""A batch's rows for one table, held by the driver where they are few.

Law: the rows are what they were, value for value; only the plan behind them becomes shorter.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame

_ROWS: Final = 20_000
_BYTES: Final = 16 * 1024 * 1024


def few(*, rows: int, size: int) -> bool:
    """Whether the driver can well hold that many rows, whose JSON images have `size` bytes."""
    return rows <= _ROWS and size <= _BYTES


def local(rows: DataFrame) -> DataFrame:
    """The same rows as a plan without a job, which a MERGE would else run again and again.

    They stay in the JVM. Exact only with `spark.sql.datetime.java8API.enabled`: the older Java
    classes of dates are of another calendar.
    """
    session: Any = rows.sparkSession
    held = rows._jdf.collectAsList()
    return DataFrame(session._jsparkSession.createDataFrame(held, rows._jdf.schema()), session)
