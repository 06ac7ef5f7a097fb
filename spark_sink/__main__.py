"""`python -m spark_sink`, also the script to give to `spark-submit`.

Invariant: the exit code is 0 after success or a requested stop, 1 after a named error (printed in one line), 2
after bad usage or bad settings, and 3 after a comparison that found no difference but could not judge all rows.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import sys
import time
import zoneinfo
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_sink import __version__
from spark_sink.errors import (
    BadSettings,
    DataLost,
    MetastoreIncomplete,
    SinkError,
)
from spark_sink.jobs.lag import lag
from spark_sink.jobs.load.command import load, validate
from spark_sink.jobs.maintain import ask, check, outcome_lines
from spark_sink.jobs.metastore import metastore_lines, metastore_status, registrar
from spark_sink.jobs.presence import has_ended, is_running
from spark_sink.jobs.reload_command import request_reloads, requests_of
from spark_sink.jobs.stream import Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings, read
from spark_sink.spark import session
from spark_sink.spark.error_mapping import named
from spark_sink.spark.files import Files
from spark_sink.spark.log import configure
from spark_sink.views.cuts.cut_tables import ConsistentCut, as_of, cut_lines
from spark_sink.views.export import SnapshotWriter, root_of, snapshot_lines
from spark_sink.views.recent.reading import fresh
from spark_sink.warehouse.dump import dump, written
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import Warehouse
from spark_sink.warehouse.table_status import (
    letter_lines,
    listed_tables,
    shown,
    status_lines,
    table_lines,
)
from spark_sink.warehouse.waiting_tables import Waits
from wire.text import printed

_log = logging.getLogger("spark_sink")
_AGAIN = "_AQUEDUCT_SINK_AGAIN"
"""The environment variable that marks a process as started again, because unread records were gone."""


class _StartsAgain(Exception):
    """The sink is to start again: on its start, the tables whose records are gone begin to wait."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    stop = _stop_on_signals(Event())
    try:
        overrides = {"mode": options.mode} if options.mode else {}
        settings = read(options.config, **overrides)
        configure(settings.log)
        if options.command == "dump":
            _refuse_unwritable(options.file)
        spark = _started(settings, is_sink=options.command is None)
        # The session installed Spark's own handler for SIGINT; ours replaces it.
        _stop_on_signals(stop)
        try:
            _act(options, spark, settings, stop)
        finally:
            session.close(spark)
    except _StartsAgain:
        # A new process has no threads and no JVM that still work on the run that has ended.
        environment = os.environ | {_AGAIN: "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - itself
    except SinkError as fault:
        return _failed(fault)
    except (PySparkException, Py4JError, OSError) as fault:
        return _failed(named(fault))
    return 0


def _started(settings: Settings, *, is_sink: bool) -> SparkSession:
    """Start the session. For the sink itself, log a line before and after the start, as it takes long."""
    if not is_sink:
        return session.start(settings)
    _log.info(
        "sink starting version=%s prefix=%s warehouse=%s",
        __version__,
        settings.prefix,
        settings.warehouse,
    )
    began = time.monotonic()
    spark = session.start(settings)
    _log.info("Spark started seconds=%.1f", time.monotonic() - began)
    return spark


def _refuse_unwritable(file: Path) -> None:
    """Raise BadSettings if the file cannot be written, before Spark starts and reads everything."""
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if file.is_file() or not file.exists():
            # The dump is first written to another file in the same folder.
            TemporaryFile(dir=file.resolve().parent).close()
    except OSError as fault:
        advice = "Name a file in an existing folder that is writable"
        raise BadSettings(f"dump {file}: {fault.strerror or fault}", advice=advice) from fault


def _act(options: Namespace, spark: SparkSession, settings: Settings, stop: Event) -> None:
    if options.command is not None:
        _COMMANDS[options.command].run(options, spark, settings, stop)
        return
    metrics = Metrics(tables=settings.metrics.tables)
    if settings.metrics.port:
        metrics.serve(settings.metrics.bind, settings.metrics.port)
    sink = Sink(spark, settings, metrics)
    try:
        sink.run(stop)
    except SinkError as fault:
        metrics.failed(type(fault).__name__)
        # If the process that was started again finds the same, an operator has to look at it.
        is_first = sink.lost or _AGAIN not in os.environ
        if isinstance(fault, DataLost) and is_first and not session.submitted():
            _log.error("%s. The sink starts again", fault)
            raise _StartsAgain from fault
        raise
    _log.info("sink stopped")


def _warehouse(spark: SparkSession, settings: Settings) -> Warehouse[DataFrame]:
    return open_warehouse(
        spark, settings.warehouse, table_format=settings.format, catalog=settings.catalog
    )


def _cut(options: Namespace, spark: SparkSession, settings: Settings) -> ConsistentCut:
    return as_of(
        spark,
        settings.warehouse,
        options.at,
        claim_checks=settings.claim_checks,
        catalog=settings.catalog,
        table_format=settings.format,
    )


def _configure_show(parser: ArgumentParser) -> None:
    parser.add_argument("table", metavar="DATABASE.TABLE", type=_table)
    parser.add_argument("--limit", type=int, default=20)


def _run_show(options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    rows = fresh(
        spark,
        settings.warehouse,
        *options.table,
        claim_checks=settings.claim_checks,
        catalog=settings.catalog,
        table_format=settings.format,
    )
    _print(*shown(rows, options.limit))


def _run_status(_options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    held = _warehouse(spark, settings)
    _print(*status_lines(held, settings.name), *metastore_status(held.notes))


def _configure_tables(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    parser.add_argument(
        "--count",
        action="store_true",
        help="count rows and markers of deleted rows, which reads the tables",
    )


def _run_tables(options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    found = listed_tables(_warehouse(spark, settings), count=options.count)
    _print(*((json.dumps(found),) if options.json else table_lines(found)))


def _configure_letters(parser: ArgumentParser) -> None:
    parser.add_argument("--table", metavar="DATABASE.TABLE", type=_table)
    parser.add_argument("--limit", type=int, default=20)


def _run_letters(options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    _print(*letter_lines(_warehouse(spark, settings), options.limit, options.table))


def _run_lag(_options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    _print(*lag(spark, settings, _warehouse(spark, settings)))


def _configure_cut(parser: ArgumentParser) -> None:
    _add_tables(parser, "only these")
    _add_at(parser)


def _run_cut(options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    _print(*cut_lines(_cut(options, spark, settings), options.tables))


def _configure_snapshot(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="of snapshots: a path or URI")
    _add_tables(parser, "only these")
    parser.add_argument(
        "--keep", type=_count, default=0, help="complete snapshots that are left; 0: all (0)"
    )
    _add_at(parser)


def _run_snapshot(options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    cut = _cut(options, spark, settings)
    writer = SnapshotWriter(spark=spark, files=Files(spark), root=root_of(options.folder))
    _print(*snapshot_lines(writer.write(cut, options.tables, keep=options.keep)))


def _configure_reload(parser: ArgumentParser) -> None:
    """Add the options of `reload`; an option that is a field of Request has the field's name."""
    parser.add_argument("tables", metavar="DATABASE.TABLE", type=_table, nargs="+")
    parser.add_argument(
        "--from-beginning", action="store_true", help="read its topics again from their beginning"
    )
    parser.add_argument(
        "--only-new",
        action="store_true",
        help="keep only rows written since the table began to wait",
    )
    parser.add_argument(
        "--skip-unusable",
        action="store_true",
        help="skip records that cannot be applied, and changes whose topic is excluded",
    )
    parser.add_argument(
        "--unknown-as-null",
        action="store_true",
        help="of a table that no source has any more: values that only the source had become NULL",
    )
    parser.add_argument(
        "--discard",
        action="store_true",
        help="remove a table that the source has dropped, with the rows that it was renamed for",
    )
    parser.add_argument(
        "--source",
        metavar="DESTINATION:DATABASE.TABLE",
        type=_source,
        help="with --discard: of a table that several source tables fill, remove the rows of this one, which "
        "the source has dropped or renamed",
    )
    parser.add_argument(
        "--yes-lose-rows",
        dest="lose_rows",
        action="store_true",
        help="with --discard --source: all of its rows, though it may still publish",
    )
    parser.add_argument(
        "--time-zone", type=_time_zone, help="time zone of the session that altered the table"
    )
    _add_topics(parser, "only with --from-beginning")
    _add_timeout(parser)


def _configure_rebuild(parser: ArgumentParser) -> None:
    parser.add_argument("tables", metavar="DATABASE.TABLE", type=_table, nargs="+")
    _add_topics(parser, "only of these topics")
    _add_timeout(parser)
    parser.set_defaults(from_beginning=True)


def _run_reload(options: Namespace, spark: SparkSession, settings: Settings, stop: Event) -> None:
    """Request reloads from the running sink, or from the next one to run, and wait for its answers."""
    requests = requests_of(options, settings)
    waits = Waits(_warehouse(spark, settings).log, time.time)
    request_reloads(waits, requests, timeout=options.timeout, stopped=stop.wait)


def _configure_load(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--again",
        action="store_true",
        help="begin again, though a load of the table is not finished",
    )
    parser.add_argument(
        "--without-history",
        action="store_true",
        help="load tables that have a history too, which gets none of the rows",
    )
    _add_plans(parser)


def _run_load(options: Namespace, spark: SparkSession, settings: Settings, stop: Event) -> None:
    _print_all(
        load(
            spark,
            settings,
            _warehouse(spark, settings),
            [options.plan, *options.more],
            options.tables,
            again=options.again,
            without_history=options.without_history,
            timeout=options.timeout,
            stop=stop,
        )
    )


def _configure_validate(parser: ArgumentParser) -> None:
    parser.epilog = (
        "Exit code 0: all rows are equal; 1: some differ, or an error; 3: none differs among those that "
        "could be judged."
    )
    parser.add_argument(
        "--limit", type=_count, default=20, help="keys of each kind that are listed (20)"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (text)"
    )
    _add_plans(parser)


def _run_validate(options: Namespace, spark: SparkSession, settings: Settings, stop: Event) -> None:
    _print_all(
        validate(
            spark,
            settings,
            _warehouse(spark, settings),
            [options.plan, *options.more],
            options.tables,
            most=options.limit,
            as_json=options.format == "json",
            timeout=options.timeout,
            stop=stop,
        )
    )


def _run_metastore(_options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    _register(spark, settings)


def _register(spark: SparkSession, settings: Settings) -> None:
    """Bring the metastore up to date now; this is safe beside a running sink."""
    if not settings.metastore.uri:
        raise BadSettings("metastore.uri is not set", advice="Set it, see docs/sink/settings.md")
    warehouse = _warehouse(spark, settings)
    found = registrar(spark, settings, warehouse).bring_up()
    _print(*metastore_lines(found))
    if found.error or found.faults:
        raise MetastoreIncomplete(
            found.error or f"{len(found.faults)} tables are not registered",
            advice=""
            if found.error
            else "Remove what the lines above name, and run the command again",
        )


def _configure_maintain(parser: ArgumentParser) -> None:
    _add_tables(parser, "all if none is named")
    _add_timeout(parser)


def _run_maintain(options: Namespace, spark: SparkSession, settings: Settings, stop: Event) -> None:
    """Maintain tables through the running sink, or in this process if no sink runs."""
    warehouse = _warehouse(spark, settings)
    if is_running(warehouse.notes, settings.name):
        waits = Waits(warehouse.log, time.time)
        found = ask(
            waits,
            options.tables,
            sink=settings.name,
            timeout=options.timeout,
            stopped=stop.wait,
            ended=partial(has_ended, warehouse.notes, settings.name),
        )
    else:
        _log.info("no sink runs; maintaining the tables here")
        found = Sink(spark, settings, Metrics()).maintain(options.tables)
    _print(*outcome_lines(found))
    check(found)


def _configure_dump(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path)


def _run_dump(options: Namespace, spark: SparkSession, settings: Settings, _: Event) -> None:
    with written(options.file) as file:
        number = dump(_warehouse(spark, settings), settings.warehouse, file)
    _log.info("warehouse dumped rows=%d", number)


def _add_tables(parser: ArgumentParser, which: str) -> None:
    parser.add_argument("tables", metavar="DATABASE.TABLE", type=_table, nargs="*", help=which)


def _add_at(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        metavar="GTID|TIME|DESTINATION@SEQ",
        help="a transaction, a time of commit such as 2026-11-22T15:02:11Z, or a change",
    )


def _add_topics(parser: ArgumentParser, which: str) -> None:
    parser.add_argument(
        "--topic", dest="topics", metavar="TOPIC", action="append", default=[], help=which
    )


def _add_timeout(parser: ArgumentParser, what: str = "seconds to wait") -> None:
    parser.add_argument("--timeout", type=int, default=3600, help=f"{what} (3600)")


def _add_plans(parser: ArgumentParser) -> None:
    parser.add_argument(
        "plan", metavar="PLAN", type=Path, help="a file: python -m app snapshot plan DEST TABLE"
    )
    _add_tables(parser, "only these")
    parser.add_argument(
        "--with",
        dest="more",
        metavar="PLAN",
        type=Path,
        action="append",
        default=[],
        help="the plan of another destination of these tables; can be repeated",
    )
    _add_timeout(parser, "seconds of each wait")


def _print(*lines: str) -> None:
    _print_all(lines)


def _print_all(lines: Iterable[str]) -> None:
    for line in lines:
        # Each line is printed at once: the next may take hours.
        print(printed(line), flush=True)  # noqa: T201 - what was asked for


def _table(text: str) -> tuple[str, str]:
    """Parse a table's name; both its parts are in backticks if either contains a dot."""
    if quoted := re.fullmatch(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`", text):
        return quoted[1].replace("``", "`"), quoted[2].replace("``", "`")
    database, _, table = text.partition(".")
    if not (database and table):
        raise ArgumentTypeError(
            f"{text!r} is not a table name: write database.table, or `database`.`table` where a name has a dot"
        )
    return database, table


def _source(text: str) -> tuple[str, str, str]:
    """Parse a source table's name, after the name of its destination."""
    destination, colon, name = text.partition(":")
    if not (destination and colon):
        raise ArgumentTypeError(f"{text!r} names no destination: write destination:database.table")
    return destination, *_table(name)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def _time_zone(text: str) -> str:
    """A time zone, as MySQL writes it; SYSTEM is refused, as it means nothing here."""
    if not re.fullmatch(r"[+-]\d{2}:\d{2}", text) and text not in zoneinfo.available_timezones():
        raise ArgumentTypeError(f"{text!r} is neither like +02:00 nor like Europe/Berlin")
    return text


def _failed(fault: SinkError) -> int:
    _log.debug("details", exc_info=fault)
    if not logging.getLogger().handlers:
        print(fault, file=sys.stderr)  # noqa: T201 - the settings, so the log too, are not read
    else:
        _log.error("%s", fault)
    return fault.exit_code


def _stop_on_signals(stop: Event) -> Event:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


class _Command(NamedTuple):
    """A command; without a command, the sink itself runs."""

    help: str
    run: Callable[[Namespace, SparkSession, Settings, Event], None]
    configure: Callable[[ArgumentParser], object] = lambda _: None
    """Adds the command's arguments to its parser."""


_COMMANDS: Final[Mapping[str, _Command]] = {
    "show": _Command("print a table's current rows", _run_show, _configure_show),
    "status": _Command(
        "list the tables, with the reason and remedy of each that waits", _run_status
    ),
    "tables": _Command(
        "list the tables with their state, size and age, from the warehouse's logs",
        _run_tables,
        _configure_tables,
    ),
    "letters": _Command(
        "list the newest dead letters: records that cannot be used",
        _run_letters,
        _configure_letters,
    ),
    "lag": _Command("print what Kafka has and the warehouse has not, per partition", _run_lag),
    "cut": _Command(
        "print the newest consistent cut of all tables, or the one at a transaction or time",
        _run_cut,
        _configure_cut,
    ),
    "snapshot": _Command(
        "write all tables of one consistent cut as plain Parquet",
        _run_snapshot,
        _configure_snapshot,
    ),
    "reload": _Command("reload tables that wait, or rebuild some", _run_reload, _configure_reload),
    "rebuild": _Command(
        "rebuild damaged tables: the same as reload --from-beginning",
        _run_reload,
        _configure_rebuild,
    ),
    "load": _Command(
        "fill tables with the rows that their source has, read by Spark in parallel",
        _run_load,
        _configure_load,
    ),
    "validate": _Command(
        "compare tables with the rows that their source has now", _run_validate, _configure_validate
    ),
    "metastore": _Command("register the tables in the metastore now", _run_metastore),
    "maintain": _Command(
        "purge markers, compact files and remove unused ones now",
        _run_maintain,
        _configure_maintain,
    ),
    "dump": _Command("write the whole warehouse, for an audit", _run_dump, _configure_dump),
}


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="spark_sink", description="Keep warehouse tables equal to the MySQL source."
    )
    parser.add_argument("--version", action="version", version=f"Aqueduct sink {__version__}")
    parser.add_argument("--config", type=Path, help="YAML file; docs/sink/settings.md has its keys")
    parser.add_argument("--mode", choices=["continuous", "available-now"])
    commands = parser.add_subparsers(dest="command")
    for name, command in _COMMANDS.items():
        command.configure(commands.add_parser(name, help=command.help))
    return parser


if __name__ == "__main__":
    sys.exit(main())
