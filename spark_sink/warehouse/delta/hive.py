"""A Hive metastore of Delta tables, through a session of Spark's own beside the sink's.

The sink's own session must not have the metastore as its catalog: Spark would ask the metastore even for a
table that is named by path, so batches would fail whenever it fails. Both sessions share one SparkContext.

Invariant: tables are external, so removing one never removes files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink.errors import MetastoreUnreachable
from spark_sink.settings.model import Metastore
from spark_sink.settings.required_conf import required
from spark_sink.spark.error_mapping import cause
from spark_sink.spark.java import java_class, texts
from spark_sink.text.quoting import full, literal, quoted
from spark_sink.warehouse.protocol import Name

T = TypeVar("T")
_LOCATION: Final = "aqueduct.location"
"""The property of a view with the location of its table."""
_DEFAULTS: Final = {
    # Hive's own 600 s would keep an operator waiting for the reason.
    "hive.metastore.client.socket.timeout": "20s",
    "hive.metastore.client.connect.retry.delay": "1s",
    "hive.metastore.connect.retries": "1",
    # Without a retry, Hive's client never connects again after a failure.
    "hive.metastore.failure.retries": "1",
}
_UNREACHABLE: Final = re.compile(
    r"TTransportException|Could not connect to meta store|SessionHiveMetaStoreClient|Connection refused"
    r"|SocketTimeoutException|UnknownHostException|Broken pipe"
)


class HiveMetastore:
    """See registration.Metastore."""

    def __init__(self, spark: SparkSession, settings: Metastore) -> None:
        self._spark = spark
        self._settings = settings
        self._session: SparkSession | None = None

    def names(self, database: str) -> set[str]:
        return self._asked(lambda: self._names(database))

    def is_at(self, name: Name, location: str) -> bool | None:
        return self._asked(lambda: self._is_at(name, location))

    def register(self, name: Name, location: str) -> None:
        self._sql(f"CREATE DATABASE IF NOT EXISTS {quoted(name[0])}")
        # Without columns, Delta takes them from the table.
        self._sql(
            f"CREATE TABLE IF NOT EXISTS {full(name)} USING delta LOCATION {literal(location)}"
        )

    def put_view(self, name: Name, sql: str, location: str) -> None:
        self._sql(f"CREATE DATABASE IF NOT EXISTS {quoted(name[0])}")
        properties = f"TBLPROPERTIES ({literal(_LOCATION)} = {literal(location)})"
        self._sql(f"CREATE OR REPLACE VIEW {full(name)} {properties} AS {sql}")

    def remove(self, name: Name) -> None:
        self._asked(lambda: self._catalog().dropTable(*name, True, False))

    def _names(self, database: str) -> set[str]:
        catalog = self._catalog()
        if not catalog.databaseExists(database):
            return set()
        lists = java_class(self._jvm, "scala.jdk.javaapi.CollectionConverters")
        return set(texts(self._jvm, lists.asJava(catalog.listTables(database))))

    def _is_at(self, name: Name, location: str) -> bool | None:
        catalog = self._catalog()
        if not catalog.databaseExists(name[0]) or not catalog.tableExists(*name):
            return None
        held = catalog.getTable(*name)
        if held.tableType().name() == "VIEW":
            place = held.properties().get(_LOCATION)
            return bool(place.isDefined()) and str(place.get()) == location
        place = held.storage().locationUri()
        return bool(place.isDefined()) and self._full(place.get()) == self._full(location)

    def _full(self, place: Any) -> str:
        """A path with its scheme and host, as Spark has stored it."""
        path = java_class(self._jvm, "org.apache.hadoop.fs.Path")(place)
        return str(path.getFileSystem(self._spark._jsc.hadoopConfiguration()).makeQualified(path))

    def _sql(self, statement: str) -> None:
        self._asked(lambda: self._own().sql(statement))

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (PySparkException, Py4JError) as fault:
            text = str(fault)
            if _UNREACHABLE.search(text):
                last = [*re.findall(r"Caused by: (.+)", text)[-1:], cause(text)][0][:200]
                raise MetastoreUnreachable(
                    f"{self._settings.uri}: {last}",
                    advice="Check metastore.uri in the settings, and that the metastore runs",
                ) from fault
            raise

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _catalog(self) -> Any:
        return self._own()._jsparkSession.sharedState().externalCatalog().unwrapped()

    def _own(self) -> SparkSession:
        """The session whose catalog is the metastore, made once."""
        if self._session is None:
            options = java_class(self._jvm, "java.util.HashMap")()
            for key, value in session_options(self._settings).items():
                options.put(key, value)
            context: Any = self._spark.sparkContext._jsc.sc()
            own = java_class(self._jvm, "org.apache.spark.sql.classic.SparkSession")(
                context, options
            )
            self._session = SparkSession(self._spark.sparkContext, own)
        return self._session


def session_options(settings: Metastore) -> Mapping[str, str]:
    """The options of the session whose catalog is the metastore."""
    own = {"hive.metastore.uris": settings.uri, **_DEFAULTS}
    given = {
        name: value
        for name, value in settings.options.items()
        if name.startswith(("spark.", "hive."))
    }
    return {**required("delta"), "spark.sql.catalogImplementation": "hive", **own, **given}
