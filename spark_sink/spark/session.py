"""The Spark session: quiet, small, with Delta and Kafka from local jars; and its orderly end.

Invariant: options given to `spark-submit` are never overruled. A JVM of the sink's own ends with the sink, and
only through it: it ignores a signal that is sent to the whole process group or control group.

A start maps an archive of the classes that Spark's JVM loads into memory (JEP 350), if there is one: for the
jars in ``<folder>/spark`` it is ``<folder>/spark-*.jsa``. Invariant: an archive saves time and changes nothing
else; a JVM that cannot use it starts without it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_sink.errors import BadSettings, JavaMissing
from spark_sink.settings.model import Settings
from spark_sink.settings.required_conf import required
from spark_sink.spark.jobs import FEW_ROWS, Pace
from spark_sink.text.secrets import HIDDEN_KEYS, hidden, is_kept, is_secret

_LOG4J: Final = Path(__file__).parent.parent / "log4j2.properties"
_SECONDS_TO_END: Final = 10
EXIT_WITHOUT_MEMORY: Final = 3
"""The exit code of a JVM that -XX:+ExitOnOutOfMemoryError ends."""
_STDERR: Final = 2
"""Takes the JVM's standard output: Delta prints there what VACUUM has deleted, amid the lines of a command."""

_AT_START: Final = re.compile(
    r"spark\.driver\.(memory|extraJavaOptions|defaultJavaOptions|extraClassPath|extraLibraryPath)|spark\.jars(\..*)?"
)
"""The options that have no effect unless the JVM's command line has them."""

# Used only where no other value is given.
_DEFAULTS: Final = {
    # What Spark hides on its own pages.
    "spark.redaction.regex": HIDDEN_KEYS,
    "spark.databricks.delta.snapshotPartitions": "2",
    # A small job does not wait for all tasks of a large one.
    "spark.scheduler.mode": "FAIR",
    # The batch is cached and Kafka's offsets are fixed, so its rows are the same on each reading.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.sql.adaptive.enabled": "false",
    # Spark's default is 64 consumers; with more partitions it creates one for each of them in each batch.
    "spark.kafka.consumer.cache.capacity": "2000",
    # One MERGE compiles some hundred small programs. Spark's default keeps 100, so all are compiled each time.
    "spark.sql.codegen.cache.maxEntries": "3000",
    # Otherwise each compaction rewrites the last gigabyte of a table, as it joins all smaller files.
    "spark.databricks.delta.optimize.maxFileSize": str(256 * 1024 * 1024),
    "spark.databricks.delta.optimize.minFileSize": str(128 * 1024 * 1024),
    # What one commit joins, or writes again without the marked rows: a conflict loses only the last commit.
    "spark.databricks.delta.optimize.batchSize": str(256 * 1024 * 1024),
    # Otherwise VACUUM lists a table's few folders in 10,000 tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    # `Pace` sets what suits the size of a batch. Tables are merged in parallel, so few rows need one partition.
    **FEW_ROWS,
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Otherwise changes are sorted once more, so that cores exchange only the last change of each key.
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
    # Inferring constraints from a plan with hundreds of expressions takes a fifth of a small batch's time.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


# Planning runs often but never long; only code that runs for each row is worth the second compiler. With its
# usual thresholds, this compiler takes half of all processor time until five large batches are merged. With
# shorter chains of inlined methods, a backlog takes a seventh fewer CPU seconds, and later batches are no
# slower; a lower FreqInlineSize would make later batches a third slower.
_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=10000",
    "-XX:Tier4CompileThreshold=40000",
    "-XX:Tier4BackEdgeThreshold=200000",
    "-XX:InlineSmallCode=500",
    "-XX:MaxInlineLevel=9",
    # While the second compiler lags, methods are compiled without counters, and so run faster.
    "-XX:Tier3DelayOn=0",
)


def submitted() -> bool:
    """Whether spark-submit started this process, and so chose master, memory and jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start(settings: Settings, jvm_options: Sequence[str] | None = None) -> SparkSession:
    """Start the sink's session; `jvm_options` replace the options for the archive of classes."""
    own = {} if submitted() else _own_jvm(settings, jvm_options)
    if submitted():
        # Until PySpark knows the JVM, a SparkConf has none of the options given to spark-submit.
        SparkContext._ensure_initialized()
    given, needed = SparkConf(), required(settings.format)
    refuse_others(given, needed)
    asked = {k: v for k, v in settings.spark_options.items() if not given.contains(k)}
    if not submitted():
        _refuse_hidden(asked)
    defaults = {k: v for k, v in _DEFAULTS.items() if not given.contains(k)}
    wanted = {**defaults, **own, **asked, **needed}
    if not submitted() and SparkContext._gateway is None:
        _launch(wanted)
        # PYSPARK_SUBMIT_ARGS follow the options with which the JVM is started.
        refuse_others(SparkConf(), needed)
    builder = SparkSession.builder.appName(f"aqueduct-sink {settings.prefix}")
    for key, value in wanted.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class _PopenOptions(dict[str, Any]):
    """Options of the JVM's process. PySpark adds a `preexec_fn` that ignores only SIGINT; here, SIGTERM too."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _also_no_term(value) if name == "preexec_fn" else value)


def _also_no_term(before: Callable[[], None]) -> Callable[[], None]:
    def ignore() -> None:
        before()
        # The JVM keeps ignoring SIGTERM: it handles only signals that were not ignored when it started.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return ignore


def _launch(wanted: dict[str, str]) -> None:
    """Start the JVM; raise JavaMissing."""
    launch: Any = launch_gateway
    # All users of the machine can read a command line; the builder gives the session its secrets afterwards.
    shown = [(key, value) for key, value in wanted.items() if not _holds_secret(key, value)]
    try:
        gateway = launch(SparkConf().setAll(shown), _PopenOptions(stdout=_STDERR))
    except (PySparkException, OSError, Py4JError) as fault:
        home = os.environ.get("JAVA_HOME")
        tried = f"JAVA_HOME is {home}" if home else "java on PATH, as JAVA_HOME is not set"
        raise JavaMissing(
            f"{tried}: {' '.join(str(fault).split())[:200]}",
            advice="Install Java 17 or 21, or set JAVA_HOME to an installed one",
        ) from fault
    SparkContext._ensure_initialized(gateway=gateway)


def _holds_secret(key: str, value: str) -> bool:
    """Whether an option's value is a secret, or has one in it; never for what the JVM needs for its start."""
    if _AT_START.fullmatch(key):
        return False
    return is_secret(key) or is_kept(value) or hidden(value) != value


def _refuse_hidden(asked: Mapping[str, str]) -> None:
    """Raise BadSettings if an option that the command line must have is from a file."""
    from_files = [
        key for key, value in asked.items() if _AT_START.fullmatch(key) and is_kept(value)
    ]
    if from_files:
        raise BadSettings(
            f"{', '.join(sorted(from_files))} is from a file, and would be on the JVM's command line",
            advice="Give its value itself, without a secret",
        )


def pace(settings: Settings) -> Pace | None:
    """How batches are executed; None on a cluster, where the operator decides."""
    return (
        Pace(given=settings.spark_options)
        if settings.master.startswith("local") and not submitted()
        else None
    )


def refuse_others(given: SparkConf, needed: Mapping[str, str]) -> None:
    """Raise BadSettings if options or defaults of `spark-submit` contradict settings that the sink needs."""
    other = [
        f"{key} is {value}, and must be {needed[key]}"
        for key, value in sorted(given.getAll())
        if key in needed and value != needed[key]
    ]
    if other:
        raise BadSettings(
            "; ".join(other),
            advice="Remove them from --conf and spark-defaults.conf: the sink sets them itself",
        )


def exit_code(*, seconds: float) -> int | None:
    """The exit code of the sink's own JVM, negative if a signal ended it; None if it runs, or has no such JVM.

    A JVM that no longer answers may need some seconds to end.
    """
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds) if process is not None else None
    return None


def close(spark: SparkSession, *, seconds: float = _SECONDS_TO_END) -> None:
    """End the session and, if it is the sink's own, the JVM; after `seconds`, kill the JVM."""
    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    # Under spark-submit the JVM may have ended already: the signal that stopped the sink was sent to both.
    with suppress(Py4JError, OSError):
        spark.stop()
    if process is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if process.stdin is not None:
        # The JVM ends when its standard input does.
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _own_jvm(settings: Settings, more: Sequence[str] | None) -> dict[str, str]:
    """The settings for `python -m spark_sink` in place of those that spark-submit would give."""
    jars = _jars("jars", settings.jars)
    if settings.format == "iceberg":
        jars += _jars("iceberg_jars", settings.iceberg_jars)
    if settings.uses_buckets and settings.s3_jars.is_dir():
        jars += sorted(settings.s3_jars.glob("*.jar"))
    if settings.load.is_set:
        jars += sorted(settings.jdbc_jars.glob("*.jar"))
    options = [
        f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
        "-XX:+UseSerialGC",
        # Otherwise the JVM's threads end one by one, and other threads wait for them or report another error.
        "-XX:+ExitOnOutOfMemoryError",
        *_COMPILER,
        "-XX:ReservedCodeCacheSize=256m",
        # Otherwise the first batch collects garbage each time that the heap or the space for classes is full.
        f"-Xms{settings.driver_memory}",
        "-XX:MetaspaceSize=256m",
        *(archive_options(settings.jars) if more is None else more),
    ]
    if settings.log.file:
        options.append(f"-Daqueduct.spark.log={settings.log.file.absolute()}.spark")
    local = dict(_LOCAL) if settings.master.startswith("local") else {}
    if settings.ui_port:
        # Spark's user interface has no other setting of its address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        local |= {"spark.ui.enabled": "true", "spark.ui.port": str(settings.ui_port)}
    return {
        "spark.master": settings.master,
        "spark.driver.memory": settings.driver_memory,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": " ".join(options),
        **local,
    }


def _jars(name: str, folder: Path) -> list[Path]:
    """The jars in the folder of a setting."""
    found = sorted(folder.glob("*.jar")) if folder.is_dir() else []
    if not found:
        raise BadSettings(f"{name}: no jar in {folder}", advice="Run: python -m devstack jars")
    return found


_SILENT: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive_options(jars: Path) -> list[str]:
    """The JVM options for the archive of the classes in these jars; empty if there is no archive."""
    found = sorted(jars.absolute().parent.glob(f"{jars.name}-*.jsa"))
    return [f"-XX:SharedArchiveFile={found[-1]}", *_SILENT] if found else []
