"""Temporary views of the tables of one cut, for plain SQL.

Invariant: the views of one call show one cut, and keep showing it until they are made again.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping

from pyspark.sql import SparkSession

from spark_sink.errors import TableNotInCut, UnknownTable
from spark_sink.text.quoting import quoted
from spark_sink.views.cuts.cut_tables import ConsistentCut, as_of
from spark_sink.warehouse.protocol import Name

_log = logging.getLogger(__name__)


def views(
    spark: SparkSession,
    warehouse: str,
    *,
    database: str | None = None,
    at: str | datetime.datetime | tuple[str, int] | None = None,
    claim_checks: str = "",
    catalog: Mapping[str, str] | None = None,
) -> ConsistentCut:
    """Make a temporary view of each table in a cut, in this session, and return the cut.

    With `database`, only its tables get views, which have the tables' names. Otherwise all tables get views,
    each named `database.table` in one pair of backticks, as temporary views have no database. A table that is
    not in the cut gets no view, and a warning names it. See `as_of`.
    """
    cut = as_of(spark, warehouse, at, claim_checks=claim_checks, catalog=catalog)
    wanted = [name for name in cut.known() if database in (None, name[0])]
    if not wanted and database is not None:
        raise UnknownTable(f"database {database}")
    for name in cut.gone():
        if database in (None, name[0]):
            spark.catalog.dropTempView(_view(name, database))
    for name in wanted:
        view = _view(name, database)
        try:
            cut.table(*name).createOrReplaceTempView(view)
        except TableNotInCut as fault:
            # A view of an earlier cut must not be taken for a view of this one.
            spark.catalog.dropTempView(view)
            _log.warning("no view: %s", fault)
    return cut


def _view(name: Name, database: str | None) -> str:
    return quoted(name[1] if database is not None else ".".join(name))
