"""Temporary views by which SQL statements name rows that a plan computes.

Several tables, also of different folders, are merged at a time in one Spark session, where a new view replaces
one of the same name.

Invariant: no two views made here have the same name in a process, and other code makes a temporary view only
if a reader has asked for it.
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
    """Make a view of rows, in their session only; yield its name, and drop the view afterwards."""
    view, session = f"aqueduct_rows_{next(_NUMBERS)}", rows.sparkSession
    rows.createOrReplaceTempView(view)
    try:
        yield view
    finally:
        session.catalog.dropTempView(view)
