"""The Spark session: quiet, small, with Delta and Kafka from local jars; and its orderly end.

Law: what `spark-submit` was given is never overruled, and no JVM outlives the sink.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_sink.always import ALWAYS
from spark_sink.errors import BadSettings
from spark_sink.settings import Settings

_LOG4J: Final = Path(__file__).parent / "log4j2.properties"
_SECONDS_TO_END: Final = 10

# Only where nobody said otherwise.
_DEFAULTS: Final = {
    "spark.databricks.delta.snapshotPartitions": "2",
    # The batch is cached and Kafka's offsets are fixed, so its rows are the same on each reading.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.adaptive.enabled": "false",
    # One MERGE compiles some hundred small programs; Spark keeps 100, and so compiles them each time.
    "spark.sql.codegen.cache.maxEntries": "3000",
}
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    # Tables are merged side by side, so a partition more is only more tasks.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # To generate and compile programs costs a small batch more than all its rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def submitted() -> bool:
    """Whether spark-submit started this process, and so chose master, memory and jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start(settings: Settings) -> SparkSession:
    """The session for the sink."""
    own = {} if submitted() else _own_jvm(settings)
    given = SparkConf()
    asked = {k: v for k, v in settings.spark_options.items() if not given.contains(k)}
    defaults = {k: v for k, v in _DEFAULTS.items() if not given.contains(k)}
    wanted = {**defaults, **own, **asked, **ALWAYS}
    builder = SparkSession.builder.appName(f"aqueduct-sink {settings.prefix}")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def close(spark: SparkSession) -> None:
    """Ends the session, and the JVM if it is ours."""
    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    spark.stop()
    if process is None:
        return
    gateway.shutdown()
    if process.stdin is not None:
        # The JVM ends when its standard input does.
        process.stdin.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _own_jvm(settings: Settings) -> dict[str, str]:
    """What `python -m spark_sink` has to say where spark-submit would."""
    jars = sorted(settings.jars.glob("*.jar")) if settings.jars.is_dir() else []
    if not jars:
        raise BadSettings(
            f"jars: no jar in {settings.jars}", advice="Fill it with: python -m devstack jars"
        )
    options = [
        f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=256m",
        # Else the first batch collects garbage each time the heap or the classes outgrow their place.
        f"-Xms{settings.driver_memory}",
        "-XX:MetaspaceSize=256m",
    ]
    if settings.log.file:
        options.append(f"-Daqueduct.spark.log={settings.log.file.absolute()}.spark")
    local = _LOCAL if settings.master.startswith("local") else {}
    return {
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": " ".join(options),
        **local,
    }
