"""`python -m spark_sink load` and `validate`: tables filled from their source by a plan, or compared with it.

Invariant: a table is loaded once the sink has put it in place; until then a repeated command continues.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import BadSettings, ComparisonIncomplete, LoadRefused, TablesDiffer
from spark_sink.load.cursor import Cursors
from spark_sink.load.loader import Loader
from spark_sink.load.origin import Origin
from spark_sink.load.plan import LoadPlan, read_plans
from spark_sink.load.server import SourceServer
from spark_sink.load.state import Loads, LoadState
from spark_sink.load.validation import Validator
from spark_sink.settings import Settings
from spark_sink.source.kafka import KafkaTopics, read_schemas
from spark_sink.source.schemas import SchemaBook
from spark_sink.table_rules import TableRules
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.reload_request import request_reload
from spark_sink.warehouse.waiting_tables import Request, Waits


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
    """Loads tables of plans, all of them without a name; returns what to print.

    Those that have a history are refused, unless it is to be `without_history`.
    Raises BadSettings, LoadRefused, LoadStale, SourceUnreachable, ReloadRefused.
    """
    found = read_plans(plans, settings.prefix)
    wanted = found.only(names)
    if not without_history:
        check_no_history(wanted, TableRules(settings.tables))
    with loader(spark, settings, warehouse, found, timeout=timeout, stop=stop) as own:
        for name, sources in wanted.items():
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
    timeout: float,
    stop: threading.Event,
) -> Iterator[str]:
    """Compares tables of plans with their source, all of them without a name; returns what to print.

    Raises TablesDiffer and ComparisonIncomplete after the last line, and what a load raises.
    """
    found = read_plans(plans, settings.prefix)
    differ = in_flight = 0
    with loader(spark, settings, warehouse, found, timeout=timeout, stop=stop) as own:
        validator = Validator(loader=own, waits=Waits(warehouse.waits, time.time))
        for name, sources in found.only(names).items():
            one = validator.compare(name, sources)
            yield from one.lines(most)
            differ += one.count
            in_flight += one.in_flight
    if differ:
        raise TablesDiffer(f"{differ} rows", advice="See docs/bulk-load.md#validation")
    if in_flight:
        raise ComparisonIncomplete(f"{in_flight} rows", advice="Run the command again")


def check_no_history(names: Iterable[Name], rules: TableRules) -> None:
    """Raises LoadRefused for tables with a history: it would lack the rows of a load."""
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
) -> Iterator[Loader]:
    """What loads the tables of a plan. Raises BadSettings, JarMissing."""
    servers = {one: settings.load.of(one) for one in plan.destinations}
    if lacking := [one for one, own in servers.items() if not own.server]:
        raise BadSettings(
            f"load.server is not set, nor load.destinations.{lacking[0]}.server",
            advice="Set it, see docs/bulk-load.md",
        )
    topics = KafkaTopics(spark, settings)
    origins = {
        one: Origin(
            server=SourceServer(spark, own),
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
            book=SchemaBook(lambda: read_schemas(spark, settings)),
            loads=Loads(spark, settings.warehouse, warehouse.notes),
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
    """Has the sink put a table in place; returns whether it has. Raises ReloadRefused."""
    request = Request(
        number=uuid.uuid4().hex,
        database=state.name[0],
        table=state.name[1],
        topics=tuple(sorted({source.topic for source in state.sources})),
        sink=sink,
        load=state.number,
    )
    waits = Waits(warehouse.waits, time.time)
    return request_reload(waits, request, timeout=timeout, stopped=stop.wait)
