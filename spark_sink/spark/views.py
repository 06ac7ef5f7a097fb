"""Temporary views by which SQL statements name rows that a plan computes.

Several tables are merged at a time in one Spark session, those of different folders too, and in a session a
view of the same name replaces the other.

Invariant: no two views of this process have the same name, and no other code names a temporary view that a
reader has not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from pyspark.sql import DataFrame

_NUMBERS: Final = count()


@contextmanager
def temporary_view(rows: DataFrame) -> Iterator[str]:
    """The name of a view of rows, which is in their session and nowhere else."""
    view, session = f"aqueduct_rows_{next(_NUMBERS)}", rows.sparkSession
    rows.createOrReplaceTempView(view)
    try:
        yield view
    finally:
        session.catalog.dropTempView(view)
