"""MySQL's errors in a read of a table over JDBC: those of the table alone, and those of server or connection.

Invariant: an error is one of a table exactly if it is one for `python -m app validate`
(`connectors/mysql/select/table_errors.py`, which this package does not import; a test compares all numbers).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.errors import TableUnreadable
from spark_sink.jobs.load.mysql_sql import whole_name

_CLIENT: Final = range(2000, 3000)
_OF_SERVER: Final = {
    # Full disk, memory, limits of connections, users and statements.
    1021, 1037, 1040, 1041, 1129, 1203, 1226, 1461,
    # Accounts and hosts that may not connect, privileges that are not of a table, an expired password.
    1042, 1043, 1045, 1130, 1227, 1820,
    # Statements and variables that this server does not have.
    1064, 1193, 1231, 1290,
    # Of Galera: the node is not ready.
    1047,
    # Its end, and that of the connection.
    1053, 1077, 1079, 1152, *range(1154, 1162), 1184, 1927, 3169, 4031,
    # It is offline, or unavailable.
    3032, 3168,
}  # fmt: skip
_LOCKED: Final = {1205, 3572}
_INTERRUPTED: Final = {1028, 1317, 1969, 3024}
_DENIED: Final = {1044, 1142, 1143}
_DAMAGED: Final = {
    1016, 1017, 1030, 1033, 1034, 1035, 1194, 1195, 1712, 1812, 1814, 1877, 1932, *range(120, 200),
}  # fmt: skip
NO_COLUMN: Final = 1054
_GONE: Final = {1049, 1051, NO_COLUMN, 1146}
"""No such database, table or column."""

_UNLOCK: Final = (
    "End the session that holds the lock (SHOW PROCESSLIST and sys.schema_table_lock_waits show it), or wait "
    "until its transaction, ALTER TABLE or LOCK TABLES has ended"
)
_KILLED: Final = "Find out what kills statements, or raise max_execution_time"
_CHECK: Final = "Run CHECK TABLE on it; repair or restore it as the server's error log advises"
_OTHER: Final = (
    "Run a SELECT of all its columns as the account of load.user, and remove what makes it fail"
)
_PLAN: Final = "It was dropped, renamed or altered: make a new plan"
_CAUSES: Final = 20
_CONNECTION: Final = re.compile(r"^\(conn=\d+\) ")


def concerns_table(code: int) -> bool:
    """Whether an error of a statement that reads a table is one of the table alone."""
    return code > 0 and code not in _CLIENT and code not in _OF_SERVER


def sql_error(spark: SparkSession, fault: Exception) -> tuple[int, str] | None:
    """MySQL's number and text in a failure of the driver or of a task; None if no error of JDBC caused it.

    The number of an error of the connection is 0.
    """
    gateway = spark.sparkContext._gateway
    for one in _causes(fault):
        if is_instance_of(gateway, one, "java.sql.SQLException"):
            text = " ".join(str(one.getMessage()).split())
            return int(one.getErrorCode()), _CONNECTION.sub("", text)
    return None


def unreadable(code: int, text: str, name: tuple[str, str]) -> TableUnreadable:
    """The error for one of MySQL's that concerns a table at the source."""
    found = TableUnreadable(
        f"{'.'.join(name)}: {text} (error {code})", advice=_remedy(code, whole_name(name))
    )
    found.code = code
    return found


def _causes(fault: Exception) -> Iterator[Any]:
    found: Any = None
    if isinstance(fault, Py4JJavaError):
        found = fault.java_exception
    elif isinstance(fault, PySparkException):
        found = getattr(fault, "_origin", None)
    for _ in range(_CAUSES):
        if found is None:
            return
        yield found
        found = found.getCause()


def _remedy(code: int, name: str) -> str:
    if code in _LOCKED:
        return _UNLOCK
    if code in _INTERRUPTED:
        return _KILLED
    if code in _DENIED:
        return f"Run GRANT SELECT ON {name} TO the account of load.user"
    if code in _GONE:
        return _PLAN
    return _CHECK if code in _DAMAGED else _OTHER
