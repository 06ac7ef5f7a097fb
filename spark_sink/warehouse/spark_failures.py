"""The distinction of failures of one table from failures that concern all tables.

A missing data file, an incomplete log, a property or a constraint because of which Delta or Iceberg refuses to
write: these concern one table, which waits while all others continue.

Invariant: a failure counts as one table's only if it is not known as a failure of the machine, the network,
Kafka or a stop, if it occurs twice, and if the warehouse can be written to after that.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from spark_sink.errors import (
    KafkaUnreachable,
    SinkError,
    TableError,
    TableFailed,
    WarehouseUnusable,
)
from spark_sink.spark.error_mapping import cause, named
from spark_sink.spark.jobs import is_loss
from spark_sink.text.quoting import argument
from spark_sink.warehouse.protocol import Name, Warehouse

_log = logging.getLogger(__name__)
FAILURES: Final = (PySparkException, Py4JJavaError)
"""What Spark, Delta and Iceberg raise."""
_SECONDS: Final = 1.0
"""The pause before the second attempt."""
_SHARED: Final = re.compile(
    # Memory, disks and limits of the machine.
    r"OutOfMemory|Java heap space|GC overhead limit|Total size of serialized results|UNABLE_TO_ACQUIRE_MEMORY"
    r"|No space left on device|Disk quota exceeded|Too many open files|Read-only file system"
    # A stop, and the end of Spark.
    r"|SparkContext (was|has been) (shut ?down|stopped)|stopped SparkContext|InterruptedException"
    r"|Cannot invoke \"org\.apache\.spark\.sql\.\S*SparkSession\.\w+\(\)\" because"
    r"|ClosedByInterruptException|SPARK_JOB_CANCELLED|OPERATION_CANCELED|RejectedExecutionException"
    r"|(Job \d+|[Ss]tage) cancelled\b|cancelled (because|(as )?part of) "
    # A store or a catalog that does not answer, or not now.
    r"|UnknownHostException|ConnectException|ConnectTimeout|NoHttpResponse|SocketException|SocketTimeout"
    r"|NoRouteToHost|SSLException|Connection (refused|reset)|Broken pipe|Unable to execute HTTP request"
    r"|AWSClientIOException|Status Code: 5\d\d|StandbyException|SafeModeException"
    # Credentials, which belong to the sink and not to a table.
    r"|ExpiredTokenException|NoAuthWithAWS|NoAwsCredentials"
    # Codes of stores; the same words in a path, a name or an expression are no codes.
    r"|(?<![\w/.=`'\"])(SlowDown|ExpiredToken|TokenExpired|InvalidAccessKeyId|SignatureDoesNotMatch)(?![\w/`'\"])"
)
_MISSING: Final = re.compile(
    r"FileNotFoundException|NoSuchFileException|FAILED_READ_FILE|not a Parquet file|No such file or directory"
)
"""A file of the table is gone or damaged, so that only its topics or the source have its rows."""
Result = TypeVar("Result")


def is_shared(failure: Exception) -> bool:
    """Whether a failure is known to prevent work on all tables."""
    if is_loss(failure) or _SHARED.search(str(failure)):
        return True
    return isinstance(named(failure), KafkaUnreachable | WarehouseUnusable)


def table_failed(name: Name, failure: Exception, warehouse: Warehouse[Any]) -> TableError:
    """The table's error for a failure of Spark; raise the failure itself if it may concern all tables."""
    if is_shared(failure):
        raise failure
    if isinstance(found := named(failure), TableError):
        return found
    warehouse.notes.make()
    warehouse.log.applied()
    _log.debug("details", exc_info=failure)
    why, again = reason(failure), f"python -m spark_sink reload {argument(name)}"
    advice = (
        f"Remove what prevents it, then run: {again}; or, if files of it are missing or damaged, run: {again} "
        "--from-beginning; or load it (docs/sink/bulk-load.md)"
    )
    if _MISSING.search(why):
        advice = (
            f"Run: {again} --from-beginning; or load it (docs/sink/bulk-load.md), if Kafka no longer has all "
            f"its changes. If you put the file back, reload {argument(name)} is enough"
        )
    return TableFailed(f"{'.'.join(name)}: {why}", advice=advice)


def reason(failure: Exception) -> str:
    """The message of Spark, Delta or Iceberg for a failure."""
    return failure.where if isinstance(failure, SinkError) else _innermost(str(failure))


def twice(
    act: Callable[[], Result],
    name: Name,
    warehouse: Warehouse[Any],
    *,
    between: Callable[[], object] = lambda: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Result:
    """Call `act`, which is safe to repeat, and again if it fails by Spark; then raise TableFailed.

    Raise the failure itself if it may concern all tables, or after a stop. `between` is called before the
    second attempt.
    """
    try:
        return act()
    except FAILURES as failure:
        if stopped() or is_shared(failure):
            raise
        _log.warning("table tried again table=%s.%s: %s", *name, reason(failure))
    time.sleep(_SECONDS)
    between()
    try:
        return act()
    except FAILURES as failure:
        if stopped():
            raise
        raise table_failed(name, failure, warehouse) from failure


def _innermost(text: str) -> str:
    """The last of the causes, which says what is wrong with which file."""
    found = re.findall(r"^Caused by: (.+)$", text, re.MULTILINE)
    return (found[-1] if found else cause(text))[:500]
