"""`python -m spark_sink`, and the script that `spark-submit` is given.

Law: exit 0 for a stop that was asked for, 1 for a named error told in one line, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from tempfile import TemporaryFile

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_sink import __version__, session
from spark_sink.dump import dump, written
from spark_sink.errors import BadSettings, SinkError
from spark_sink.log import configure
from spark_sink.metrics import Metrics
from spark_sink.settings import Settings, read
from spark_sink.stream import Sink, named
from spark_sink.warehouse import current

_log = logging.getLogger("spark_sink")


def main(arguments: list[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    options = _parser().parse_args(arguments)
    stop = _stop_on_signals(threading.Event())
    try:
        overrides = {"mode": options.mode} if options.mode else {}
        settings = read(options.config, **overrides)
        configure(settings.log)
        if options.command == "dump":
            _refuse_unwritable(options.file)
        spark = session.start(settings)
        # Spark's own handler for SIGINT came with the session; ours goes on top.
        _stop_on_signals(stop)
        try:
            _act(options, spark, settings, stop)
        finally:
            session.close(spark)
    except SinkError as fault:
        return _failed(fault)
    except (PySparkException, Py4JError, OSError) as fault:
        return _failed(named(fault))
    return 0


def _refuse_unwritable(file: Path) -> None:
    """Say so before Spark has started and all has been read."""
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if file.is_file() or not file.exists():
            # A file is made beside it first.
            TemporaryFile(dir=file.resolve().parent).close()
    except OSError as fault:
        advice = "Name a file in a folder that is there and may be written to"
        raise BadSettings(f"dump {file}: {fault.strerror or fault}", advice=advice) from fault


def _act(
    options: argparse.Namespace, spark: SparkSession, settings: Settings, stop: threading.Event
) -> None:
    if options.command == "show":
        database, _, table = options.table.partition(".")
        rows = current(spark, settings.warehouse, database, table)
        rows.show(options.limit, truncate=False)
        return
    if options.command == "dump":
        with written(options.file) as file:
            number = dump(spark, settings.warehouse, file)
        _log.info("warehouse dumped rows=%d", number)
        return
    metrics = Metrics()
    if settings.metrics.port:
        metrics.serve(settings.metrics.bind, settings.metrics.port)
    try:
        Sink(spark, settings, metrics).run(stop)
    except SinkError as fault:
        metrics.failed(type(fault).__name__)
        raise
    _log.info("sink stopped")


def _failed(fault: SinkError) -> int:
    _log.debug("details", exc_info=fault)
    if not logging.getLogger().handlers:
        print(fault, file=sys.stderr)  # noqa: T201 - the settings, so the log too, are not read
    else:
        _log.error("%s", fault)
    return 2 if isinstance(fault, BadSettings) else 1


def _stop_on_signals(stop: threading.Event) -> threading.Event:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark_sink", description="Keep warehouse tables equal to the MySQL source."
    )
    parser.add_argument("--version", action="version", version=f"Aqueduct sink {__version__}")
    parser.add_argument("--config", type=Path, help="YAML file; docs/sink.md has its keys")
    parser.add_argument("--mode", choices=["continuous", "available-now"])
    commands = parser.add_subparsers(dest="command")
    show = commands.add_parser("show", help="print what a table holds now")
    show.add_argument("table", metavar="DATABASE.TABLE")
    show.add_argument("--limit", type=int, default=20)
    written = commands.add_parser("dump", help="write all that the warehouse holds, for an audit")
    written.add_argument("file", metavar="FILE", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
