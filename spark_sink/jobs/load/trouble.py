"""Errors that prevent the comparison of one table, and errors that prevent the comparison of all.

Invariant: a failure counts as one table's only if its error is of one table, or if source, Kafka and warehouse
answer after it. An error that would prevent the comparison of any table is never attributed to one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_sink.errors import (
    KafkaUnreachable,
    LoadStale,
    NotComparable,
    SinkError,
    WarehouseUnusable,
)
from spark_sink.jobs.load.loader import Loader
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.table_result import TableResult
from spark_sink.spark.bucket_advice import unusable
from spark_sink.spark.error_mapping import cause, named
from spark_sink.text.quoting import argument
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape

_log = logging.getLogger(__name__)
_PLAN: Final = "Make a new plan: python -m app snapshot plan"
_ERRORS: Final = "docs/sink/errors.md has the errors"


@contextmanager
def table_trouble(result: TableResult, check: Callable[[], None]) -> Iterator[None]:
    """State in the result what prevents the comparison of its table alone; raise what also prevents others.

    `check` raises the error that prevents all comparisons, if there is one.
    """
    try:
        yield
    except LoadStale as fault:
        result.not_compared = _reason(NotComparable(fault.where, advice=_PLAN))
    except SinkError as fault:
        if not fault.of_one_table:
            raise
        result.not_compared = _reason(fault)
    except (PySparkException, Py4JError) as fault:
        _log.debug("details", exc_info=fault)
        if isinstance(error := named(fault), KafkaUnreachable):
            raise error from fault
        check()
        result.not_compared = _reason(failed(result.name, fault))


def failed(name: Name, fault: Exception) -> NotComparable:
    """Return the error for a failure of Spark that concerns one table."""
    return NotComparable(
        f"{'.'.join(name)}: {cause(str(fault))}",
        advice=f"log.file in the settings gives the details. If a file of the table is damaged, run: "
        f"python -m spark_sink rebuild {argument(name)}",
    )


def _reason(fault: SinkError) -> str:
    return str(fault) if fault.advice else f"{fault}. {_ERRORS}"


def check_key(held: Shape, wanted: Shape) -> None:
    """Raise NotComparable if the rows of the source have another key than the table."""
    names = [held.spelling(name) or name for name in wanted.key]
    if sorted(held.key) != sorted(names) or (held.apart and not wanted.apart):
        raise NotComparable(
            f"rows of {held.database}.{held.table} are identified by {_identity(held)} in the warehouse, and "
            f"by {_identity(wanted)} at the source",
            advice=f"{_PLAN}; if it is the same, run: python -m spark_sink reload "
            f"{argument((held.database, held.table))}",
        )


def _identity(shape: Shape) -> str:
    return ", ".join((*shape.key, *(("their source table",) if shape.apart else ())))


def check_all(loader: Loader, sources: Sequence[SourceTable]) -> None:
    """Raise the error of a source, of Kafka or of the warehouse, if one of them does not answer."""
    for destination in {one.destination for one in sources}:
        loader.origins[destination].server.one("SELECT 1")
    loader.topics.ranges({one.topic for one in sources})
    check_warehouse(loader)


def check_warehouse(loader: Loader) -> None:
    """Raise WarehouseUnusable if no sink has written to it, or its own tables cannot be read."""
    warehouse, root = loader.warehouse, loader.loads.root
    try:
        is_used = bool(warehouse.log.applied())
        if warehouse.log.state():
            warehouse.log.rows()
        if is_used:
            loader.loads.make()
    except (PySparkException, Py4JError) as fault:
        raise unusable(root, fault) from fault
    if not is_used:
        raise WarehouseUnusable(
            f"{root}: no sink has applied a change there",
            advice="Check warehouse in the settings, and start the sink",
        )
