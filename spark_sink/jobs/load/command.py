"""`python -m spark_sink load` and `validate`: tables filled from their source by a plan, or compared with it.

Invariant: a table is loaded once the sink has put it in place; until then a repeated command continues.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import BadSettings, ComparisonIncomplete, LoadRefused, TablesDiffer
from spark_sink.jobs.load.cursor import Cursors
from spark_sink.jobs.load.loader import Loader
from spark_sink.jobs.load.origin import Origin
from spark_sink.jobs.load.plan import LoadPlan, read_plans
from spark_sink.jobs.load.server import SourceServer
from spark_sink.jobs.load.state import Loads, LoadState
from spark_sink.jobs.load.validation import TableResult, Validation, Validator, check_warehouse
from spark_sink.jobs.reload_command import request_reloads
from spark_sink.settings.model import Settings
from spark_sink.source.installation import schemas_state
from spark_sink.source.kafka import KafkaTopics, read_schemas
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.table_rules import TableRules
from spark_sink.warehouse.waiting_tables import Request, Waits

_LOCK_SECONDS: Final = 60
"""Seconds that a comparison waits for a table locked by another session, as `python -m app validate` does."""


def load(
    spark: SparkSession,
    settings: Settings,
    warehouse: Warehouse[DataFrame],
    plans: Sequence[Path],
    names: Collection[Name],
    *,
    again: bool,
    without_history: bool,
    timeout: float,
    stop: threading.Event,
) -> Iterator[str]:
    """Load tables of plans, all of them if none is named; yield what to print.

    Tables that have a history are refused, unless `without_history`.
    Raise BadSettings, LoadRefused, LoadStale, TableUnreadable, SourceUnreachable, ReloadRefused.
    """
    found = read_plans(plans, settings.prefix)
    wanted = found.only(names)
    wanted.check_none_refused()
    if not without_history:
        check_no_history(wanted.tables, TableRules(settings.tables))
    with loader(spark, settings, warehouse, found, timeout=timeout, stop=stop) as own:
        for name, sources in wanted.tables.items():
            state = own.read(name, sources, again=again)
            if put_in_place(warehouse, state, settings.name, timeout=timeout, stop=stop):
                own.finished(state)
                yield f"{'.'.join(name)}: loaded from {len(sources)} source table(s)"


def validate(
    spark: SparkSession,
    settings: Settings,
    warehouse: Warehouse[DataFrame],
    plans: Sequence[Path],
    names: Collection[Name],
    *,
    most: int,
    as_json: bool,
    timeout: float,
    stop: threading.Event,
) -> Iterator[str]:
    """Compare tables of plans with their source, all of them if none is named; yield what to print.

    A table that cannot be compared has a line that states why; an error that would prevent the comparison of
    any table is raised. Raise TablesDiffer or ComparisonIncomplete after the last line.
    """
    wanted = read_plans(plans, settings.prefix).only(names)
    results = []
    with loader(
        spark, settings, warehouse, wanted, timeout=timeout, stop=stop, lock_seconds=_LOCK_SECONDS
    ) as own:
        check_warehouse(own)
        validator = Validator(loader=own, waits=Waits(warehouse.log, time.time), most_listed=most)
        for name in sorted(wanted.refused | wanted.tables):
            one = TableResult(name=name, not_compared=wanted.refused.get(name))
            if one.not_compared is None:
                one = validator.compare(name, wanted.tables[name])
            results.append(one)
            if not as_json:
                yield from one.lines()
    found = Validation(destinations=wanted.destinations, tables=results)
    yield from json.dumps(found.to_json(), indent=2).splitlines() if as_json else [found.line()]
    check_equal(found)


def check_equal(found: Validation) -> None:
    """Raise TablesDiffer if rows differ; else raise ComparisonIncomplete if not all rows were judged."""
    if found.differences:
        raise TablesDiffer(
            f"{found.differences} rows",
            advice="Replace the rows of these tables: python -m spark_sink load, with the plan; or python -m "
            "app snapshot start, with --replace. See docs/sink/bulk-load.md#validation",
        )
    if found.is_complete:
        return
    parts = []
    if found.not_compared:
        parts.append(f"{found.not_compared} of {len(found.tables)} tables not compared")
    if found.in_flight:
        parts.append(f"{found.in_flight} rows that were still written")
    advice = "Remove what the lines of those tables name" if found.not_compared else ""
    again = "run the command again" if advice else "Run the command again"
    raise ComparisonIncomplete(
        ", ".join(parts), advice=", and ".join(filter(None, (advice, again)))
    )


def check_no_history(names: Iterable[Name], rules: TableRules) -> None:
    """Raise LoadRefused for tables with a history: it would lack the rows of a load."""
    if kept := [".".join(name) for name in names if rules.has_history(name)]:
        raise LoadRefused(
            f"{', '.join(kept)}: the table has a history, which gets no rows of a load, only the changes",
            advice="Add --without-history to load it nevertheless; or let the worker read the existing rows, "
            "which are then in the history: see docs/snapshots.md",
        )


@contextmanager
def loader(
    spark: SparkSession,
    settings: Settings,
    warehouse: Warehouse[DataFrame],
    plan: LoadPlan,
    *,
    timeout: float,
    stop: threading.Event,
    lock_seconds: int | None = None,
) -> Iterator[Loader]:
    """Yield the loader of a plan's tables. `lock_seconds`: see SourceServer. Raise BadSettings, JarMissing."""
    read = sorted({one.destination for own in plan.tables.values() for one in own})
    servers = {one: settings.load.of(one) for one in read}
    if lacking := [one for one, own in servers.items() if not own.server]:
        raise BadSettings(
            f"load.server is not set, nor load.destinations.{lacking[0]}.server",
            advice="Set it, see docs/sink/bulk-load.md",
        )
    topics = KafkaTopics(spark, settings)
    origins = {
        one: Origin(
            server=SourceServer(spark, own, lock_seconds=lock_seconds),
            cursors=Cursors(topics=topics, prefix=settings.prefix, destination=one),
            stopped=stop.wait,
            timeout=timeout,
        )
        for one, own in servers.items()
    }
    try:
        yield Loader(
            spark=spark,
            settings=settings.load,
            origins=origins,
            warehouse=warehouse,
            topics=topics,
            book=SchemaBook(
                lambda: read_schemas(spark, settings),
                state=partial(schemas_state, topics, settings.prefix),
            ),
            loads=Loads(spark, settings.warehouse, warehouse.log),
            stopped=stop.wait,
            timeout=timeout,
        )
    finally:
        for origin in origins.values():
            origin.server.close()
        topics.close()


def put_in_place(
    warehouse: Warehouse[DataFrame],
    state: LoadState,
    sink: str,
    *,
    timeout: float,
    stop: threading.Event,
) -> bool:
    """Make the sink put a table in place; return whether it has. Raise ReloadRefused."""
    request = Request(
        number=uuid.uuid4().hex,
        database=state.name[0],
        table=state.name[1],
        topics=tuple(sorted({source.topic for source in state.sources})),
        sink=sink,
        load=state.number,
    )
    waits = Waits(warehouse.log, time.time)
    return request_reloads(waits, [request], timeout=timeout, stopped=stop.wait)
