"""The MySQL server from which rows are loaded, over JDBC: the driver asks, the executors read rows.

Invariant: nothing is written and nothing is locked. A session's defaults do not matter: the variables on which
a value or a comparison depends are set first. No name or value of a source ends its quotes.

MySQL's errors in a read of a table concern either this table alone, or the server or connection. Invariant: an
error concerns a table exactly if it does for `python -m app validate`
(`connectors/mysql/select/table_checks.py`, which this package does not import; a test compares all numbers).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.errors import (
    JarMissing,
    LoadRefused,
    SinkError,
    SourceUnreachable,
    TableUnreadable,
)
from spark_sink.settings.model import LoadServer
from spark_sink.spark.java import java_class


def identifier(name: str) -> str:
    """Return a name in quotes."""
    return "`" + name.replace("`", "``") + "`"


def whole_name(table: tuple[str, str]) -> str:
    """Return a table's name with its database, in quotes."""
    return ".".join(map(identifier, table))


def literals(values: Sequence[str]) -> str:
    """Return text values as a list for IN."""
    return ", ".join("'" + one.replace("\\", "\\\\").replace("'", "''") + "'" for one in values)


DRIVER: Final = "org.mariadb.jdbc.Driver"
_REGISTRY: Final = "org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry"
_VARIABLES: Final[Mapping[str, int | str]] = {
    # Each SELECT sees what is committed when it begins.
    "autocommit": 1,
    "completion_type": "NO_CHAIN",
    "sql_mode": "",
    "time_zone": "+00:00",
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    # Without these, a result may end early, or a SELECT may be refused for its size or its duration.
    "sql_select_limit": 2**64 - 1,
    "max_join_size": 2**64 - 1,
    "sql_big_selects": 1,
    "group_concat_max_len": 1 << 20,
    # Without this, long keys with the same beginning would be in no order.
    "max_sort_length": 1 << 15,
    "sort_buffer_size": 1 << 21,
    "sql_auto_is_null": 0,
    "div_precision_increment": 4,
    "lock_wait_timeout": 31_536_000,
    # An executor that writes files meanwhile may be slow to take rows.
    "wait_timeout": 28_800,
    "interactive_timeout": 28_800,
    "net_write_timeout": 3600,
    "net_read_timeout": 3600,
}
"""The variables on which an answer depends, set whatever the server's defaults and its init_connect are."""
_SINCE: Final = (((5, 7, 8), "max_execution_time"), ((8, 0, 3), "information_schema_stats_expiry"))
"""Variables that are set to 0, each with the version of MySQL that has it first."""
_NEW_NAME: Final = (5, 7, 20)
"""The first MySQL that has the isolation variable under its new name; MariaDB knows the old name too."""
_NO_VIEW: Final = "ROLLBACK"
"""Ends a transaction that an init_connect began; else every SELECT would have that transaction's view."""
_FETCH_ROWS: Final = 5_000
"""With a fetch size the driver streams the rows; without one it holds all of them."""
_ADVICE: Final = {
    1184: "The server's init_connect fails for load.user: correct it",
    1203: "Raise max_user_connections, or lower load.connections",
    1226: "Raise the account's MAX_USER_CONNECTIONS, or lower load.connections",
    3159: "The server demands TLS (require_secure_transport): set load.options.sslMode, as to verify-full",
}
"""The advice after single errors of the connection, by their numbers."""
_CONNECT_MS: Final = 10_000
_SECONDS: Final = 1.0
_OWNED: Final = "SELECT @@GLOBAL.gtid_owned"
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWNED_SECONDS: Final = 10.0
"""Seconds to wait for the end of a transaction whose GTID is owned; after that it counts as seen."""
_GLANCE_SECONDS: Final = 0.05

Row = tuple[str | None, ...]
Table = tuple[str, str]


class SourceServer:
    """One connection of the driver, and what the executors need for their connections."""

    def __init__(
        self, spark: SparkSession, settings: LoadServer, *, lock_seconds: int | None = None
    ) -> None:
        """`lock_seconds`: how long a statement waits for a lock; None: as long as it takes.

        Raise JarMissing.
        """
        self._spark, self._settings = spark, settings
        self._jvm: Any = spark._jvm
        try:
            java_class(self._jvm, _REGISTRY).register(DRIVER)
        except Py4JJavaError as fault:
            raise JarMissing(
                f"{DRIVER}, MariaDB Connector/J",
                advice="Put its jar into the folder of jdbc_jars: python -m devstack jars",
            ) from fault
        self._connection: Any = None
        self._variables = dict(_VARIABLES)
        if lock_seconds is not None:
            self._variables["lock_wait_timeout"] = lock_seconds

    @property
    def where(self) -> str:
        """The server, as errors name it."""
        return self._settings.server

    def reader_options(self) -> dict[str, str]:
        """Return the options of Spark's JDBC source."""
        return {
            "url": self._url(),
            "driver": DRIVER,
            "user": self._settings.user,
            "password": self._settings.secret,
            "fetchsize": str(_FETCH_ROWS),
            # Without this, the rows of one SELECT would be in a transaction that holds its snapshot for hours.
            "isolationLevel": "READ_COMMITTED",
            "sessionInitStatement": _NO_VIEW,
        }

    def ask(self, sql: str, *, table: Table | None = None) -> list[Row]:
        """Return the rows of a statement, as text. `table` is a table that it reads.

        Raise SourceUnreachable, and TableUnreadable for an error of that table alone.
        """
        try:
            if self._connection is None:
                self._connect()
            return self._rows(sql)
        except Py4JJavaError as fault:
            self.close()
            text = " ".join(str(fault.java_exception.getMessage()).split())
            error = sql_error(self._spark, fault) or (0, text)
            raise self._of_sql(*error, table) from fault

    def check_readable(self, table: Table, columns: Sequence[str] = ()) -> None:
        """Raise TableUnreadable if a table, or a column that it has, may not be read."""
        for name in map(identifier, columns) if columns else ("1",):
            try:
                self.ask(f"SELECT {name} FROM {whole_name(table)} LIMIT 0", table=table)  # noqa: S608
            except TableUnreadable as error:
                if error.code != NO_COLUMN:
                    raise

    def error_of_read(self, fault: Exception, table: Table) -> SinkError | None:
        """Return the error for a failure of executors that read a table; None if MySQL did not cause it."""
        found = sql_error(self._spark, fault)
        return self._of_sql(*found, table) if found is not None else None

    def one(self, sql: str) -> str | None:
        """Return the first value of a statement's first row; None without a row."""
        rows = self.ask(sql)
        return rows[0][0] if rows else None

    def check(self) -> str:
        """Return the server's UUID. Raise SourceUnreachable; LoadRefused if rows cannot be loaded exactly."""
        if "mariadb" in (self.one("SELECT VERSION()") or "").lower():
            raise LoadRefused(
                f"{self.where} is MariaDB, which has other GTIDs",
                advice="Let the worker read the existing rows: python -m app snapshot start",
            )
        server, mode = self.ask("SELECT @@server_uuid, @@gtid_mode")[0]
        if mode != "ON":
            raise LoadRefused(
                f"{self.where} has gtid_mode={mode}", advice="Set gtid_mode to ON at the source"
            )
        if self.one("SELECT @@binlog_order_commits") != "1":
            raise LoadRefused(
                f"{self.where} has binlog_order_commits=OFF, so a transaction may be visible before one that "
                "precedes it in the binlog",
                advice="Set binlog_order_commits to ON",
            )
        assert server is not None
        return server

    def executed(self) -> str:
        """Return the GTIDs of transactions that are visible now, except those that have just become visible."""
        return (self.one("SELECT @@GLOBAL.gtid_executed") or "").replace("\n", "")

    def seen(self, *, stopped: Callable[[float], bool]) -> str:
        """Return the GTIDs of all transactions that an earlier SELECT can have seen, and perhaps of some more.

        A group of transactions is visible before gtid_executed has the first of them; until it has, their
        sessions own the GTIDs. The GTID of a transaction that is rolled back is no longer owned, and never
        executed.
        """
        deadline = time.monotonic() + _OWNED_SECONDS
        owned = left = owned_gtids(self.one(_OWNED))
        while left and time.monotonic() < deadline and not stopped(_GLANCE_SECONDS):
            left = owned & owned_gtids(self.one(_OWNED))
        return ",".join(filter(None, (self.executed(), *sorted(left))))

    def contains(self, larger: str, smaller: str) -> bool:
        """Whether one set of GTIDs has all GTIDs of another."""
        return self.one(f"SELECT GTID_SUBSET('{smaller}', '{larger}')") == "1"

    def threads_running(self) -> int:
        """Return the number of sessions that execute statements now, this session included."""
        rows = self.ask("SHOW GLOBAL STATUS LIKE 'Threads_running'")
        return int(rows[0][1] or 0)

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Py4JError:
                return

    def _connect(self) -> None:
        """Open the connection, and check that its session's variables are as they were set."""
        properties = java_class(self._jvm, "java.util.Properties")()
        properties.setProperty("user", self._settings.user)
        properties.setProperty("password", self._settings.secret)
        manager = java_class(self._jvm, "java.sql.DriverManager")
        self._connection = manager.getConnection(self._url(), properties)
        later = _later(str(self._connection.getMetaData().getDatabaseProductVersion()))
        self._rows(f"SET SESSION {_assignments(later)}")
        self._rows(_NO_VIEW)
        self._variables |= later
        names = ", ".join(f"@@SESSION.{name}" for name in self._variables)
        (found,) = self._rows(f"SELECT {names}")
        wrong = [
            f"{name} is {value} in place of {wanted}"
            for (name, wanted), value in zip(self._variables.items(), found, strict=True)
            if value != str(wanted)
        ]
        if wrong:
            self.close()
            raise LoadRefused(
                f"a session at {self.where} does not keep what it is set to: {'; '.join(wrong)}",
                advice="Set these as global variables, and look for a proxy between that replaces them",
            )

    def _rows(self, sql: str) -> list[Row]:
        statement = self._connection.createStatement()
        try:
            if not statement.execute(sql):
                return []
            found = statement.getResultSet()
            columns = range(1, int(found.getMetaData().getColumnCount()) + 1)
            rows = []
            while found.next():
                rows.append(tuple(found.getString(number) for number in columns))
            return rows
        finally:
            statement.close()

    def _url(self) -> str:
        options: Mapping[str, str] = {
            "connectTimeout": str(_CONNECT_MS),
            # As the worker's client does. With sslMode no key is retrieved.
            "allowPublicKeyRetrieval": "true",
            **self._settings.options,
            # Spark has a dialect for the scheme of MySQL only.
            "permitMysqlScheme": "true",
            "sessionVariables": _assignments(self._variables),
            "allowLocalInfile": "false",
        }
        parts = "&".join(f"{name}={value}" for name, value in options.items())
        return f"jdbc:mysql://{self._settings.server}/?{parts}"

    def _of_sql(self, code: int, text: str, table: Table | None) -> SinkError:
        if table is not None and concerns_table(code):
            return unreadable(code, text, table)
        return SourceUnreachable(
            f"{self.where}: {text}",
            advice=_ADVICE.get(code)
            or "Check that it runs, load.server, load.user, its password, and its SELECT on the tables",
        )


def _later(text: str) -> dict[str, int | str]:
    """Variables that only some versions of the server have; a MariaDB is refused anyway."""
    version = () if "mariadb" in text.lower() else tuple(map(int, re.findall(r"\d+", text)[:3]))
    isolation = "transaction_isolation" if version >= _NEW_NAME else "tx_isolation"
    return {isolation: "READ-COMMITTED", **{name: 0 for since, name in _SINCE if version >= since}}


def _assignments(variables: Mapping[str, int | str]) -> str:
    return ",".join(
        f"{name}={value}" if isinstance(value, int) else f"{name}='{value}'"
        for name, value in variables.items()
    )


def owned_gtids(text: str | None) -> set[str]:
    """Return the GTIDs in gtid_owned: for each UUID tags and numbers, each number with its owning session.

    No separator divides a session's number from the next UUID.
    """
    found, marks = set(), list(_UUID.finditer(text or ""))
    ends = [*(mark.start() for mark in marks[1:]), None]
    for mark, end in zip(marks, ends, strict=False):
        source = mark[0]
        for part in (text or "")[mark.end() : end].strip(":,\n ").split(":"):
            number, owner, _ = part.partition("#")
            if owner:
                found.add(f"{source}:{number}")
            else:
                source = f"{mark[0]}:{part}"
    return found


def wait_for(server: SourceServer, gtids: str, *, seconds: float, stopped: Any) -> None:
    """Wait until the server shows all transactions of a set. Raise LoadRefused if it does not in time."""
    deadline = time.monotonic() + seconds
    while not server.contains(server.executed(), gtids):
        if time.monotonic() >= deadline:
            raise LoadRefused(
                f"{server.where} lacks transactions that the worker has published",
                advice="Name the worker's source in load.server, or a replica of it that replicates",
            )
        if stopped(_SECONDS):
            raise LoadRefused("it was stopped", advice="Run the command again: it continues")


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
    # The end of the server, or of the connection.
    1053, 1077, 1079, 1152, *range(1154, 1162), 1184, 1927, 3169, 4031,
    # The server is offline, or unavailable.
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
    """Whether an error of a statement that reads a table concerns the table alone."""
    return code > 0 and code not in _CLIENT and code not in _OF_SERVER


def sql_error(spark: SparkSession, fault: Exception) -> tuple[int, str] | None:
    """Return MySQL's number and text in a failure of the driver or of a task; None if JDBC did not cause it.

    The number of an error of the connection is 0.
    """
    gateway = spark.sparkContext._gateway
    for one in _causes(fault):
        if is_instance_of(gateway, one, "java.sql.SQLException"):
            text = " ".join(str(one.getMessage()).split())
            return int(one.getErrorCode()), _CONNECTION.sub("", text)
    return None


def unreadable(code: int, text: str, name: tuple[str, str]) -> TableUnreadable:
    """Return the error for an error of MySQL that concerns a table at the source."""
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
