"""`python -m demo`: the demo from the first server to the verdict; `python -m demo stop` ends it.

It exits 0 only if nothing was lost, duplicated or different, and prints so in its last line.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pymysql
from aiokafka.errors import KafkaError

from demo import lifetime, load, parts, report, shop, topics, truth, verdict, warehouse
from demo.arrive import Watch
from demo.errors import DemoError, Interrupted
from demo.lifetime import Keeper, Signals
from demo.load import Load, Server
from demo.parts import DATABASE, PREFIX, Addresses, Files
from demo.report import Console
from demo.supervise import NEVER, Program, Restarting, Supervisor
from demo.topics import Layout
from demo.verdict import Evidence, Verdict
from demo.visible import Visible
from demo.warehouse import Answer, Request
from devstack import Stack
from devstack.errors import DevstackError
from devstack.ports import free_port
from tables.rules.routes.routes import Routes

PROJECT = Path(__file__).resolve().parent.parent
RUN = Path(".run/demo")
LOCK = Path(".run/demo.lock")
TABLES = ["customers", "order_items", "orders"]
LAYOUT = Layout(Routes(prefix=PREFIX, include=rf"{DATABASE}\..*"), DATABASE)

ROWS = 24_000
SECONDS = 32
LEAST = 20_000

_PATIENCE = 240.0


def main(arguments: list[str]) -> int:
    """Run the demo, or end one that was kept running; its exit code."""
    os.chdir(PROJECT)
    if arguments == ["stop"]:
        print(f"demo: {lifetime.stop(LOCK)}")
        return 0
    if arguments:
        print("usage: python -m demo [stop]", file=sys.stderr)
        return 2
    keeper = Keeper()
    if _kept() and (code := keeper.split()) is not None:
        return code
    return _run(keeper)


def _run(keeper: Keeper) -> int:
    try:
        with lifetime.only_demo(LOCK), Signals() as signals, contextlib.ExitStack() as ending:
            try:
                return _story(keeper, ending)
            finally:
                signals.ignore()
    except Interrupted:
        print("demo: all that it started has ended", file=sys.stderr)
        return 130
    except (DemoError, DevstackError) as error:
        print(f"demo: failed: {error}", file=sys.stderr)
    except (pymysql.MySQLError, KafkaError, OSError) as error:
        error_text = f"{type(error).__name__}: {error}"
        print(f"demo: failed: {error_text}\n  what to do: read the logs in {RUN}", file=sys.stderr)
    return 1


def _story(keeper: Keeper, ending: contextlib.ExitStack) -> int:
    console = Console()
    files = _fresh_folder()

    console.print_line("starting MySQL, Kafka and ZooKeeper")
    stack = ending.enter_context(Stack(RUN / "stack"))
    ending.callback(stack.mysql.kill)  # its orderly end takes long, and its data are not used again
    server = Server(host=stack.mysql.host, port=stack.mysql.port)
    load.create_schema(server, _schema())
    work = Load(server, rows=ROWS, seconds=SECONDS)
    work.execute(shop.opening())
    at = Addresses(
        mysql_host=server.host,
        mysql_port=server.port,
        kafka=stack.kafka,
        zookeeper=stack.zookeeper,
        worker_http=free_port(),
        sink_http=free_port(),
    )

    console.print_line("starting the worker and the sink")
    worker = _start(parts.worker(files, at), ending, restarting=Restarting())
    sink = _start(parts.sink(files, at), ending)
    visible = Visible(at.sink_http)
    ending.callback(visible.stop)
    visible.start()
    watch = Watch(worker, sink, at=at, destination=DATABASE, console=console)
    watch.until_running(_PATIENCE)
    _until_arrived(watch, server, at)
    # A JVM's first insert and first update are slow, and would distort the load's lag.
    work.execute(shop.correction())
    _until_arrived(watch, server, at)

    _live_load(work, watch, console)
    comparison = _start(parts.comparison(files), ending)
    console.print_line("the load has ended; reading the server's own binlog")
    source_truth = truth.read(server, DATABASE)
    _until_arrived(watch, server, at)

    console.print_line("everything has arrived; reading the topics and comparing row by row")
    wanted = [*map(LAYOUT.topic_of, TABLES), LAYOUT.ddl_topic]
    contents = asyncio.run(topics.read(at.kafka, wanted, mark=shop.ROLLED_BACK.encode()))
    compared = _compare(server, files, comparison)
    outcome = verdict.judge(
        Evidence(
            layout=LAYOUT,
            counted=work.changes,
            truth=source_truth,
            contents=contents,
            compared=compared.compared,
            applied=visible.seen,
            restarts=worker.restarts,
        ),
        at_least=LEAST,
    )
    console.print_line("done")
    return _conclude(outcome, keeper, files=files, at=at)


def _fresh_folder() -> Files:
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)
    return Files(RUN.absolute())


def _schema() -> list[str]:
    text = Path(__file__).with_name("schema.sql").read_text()
    return [statement for statement in text.split(";") if statement.strip()]


def _start(
    program: Program, ending: contextlib.ExitStack, *, restarting: Restarting = NEVER
) -> Supervisor:
    part = Supervisor(program, restarting)
    ending.callback(part.stop)
    part.start()
    return part


def _until_arrived(watch: Watch, server: Server, at: Addresses) -> None:
    watch.until_published(server, _PATIENCE)
    watch.until_applied(at.kafka, [LAYOUT.topic_of(table) for table in TABLES], _PATIENCE)


def _live_load(work: Load, watch: Watch, console: Console) -> None:
    """Run the load, and at fixed shares of it alter a table, run a bulk change, kill the worker."""
    deeds: list[tuple[float, str, Callable[[], None]]] = [
        (0.3, "ALTER TABLE orders ADD COLUMN channel, under load", work.alter),
        (0.45, "one transaction of 2,500 row changes", work.bulk),
        (0.6, "kill -9 of the worker, under load", watch.worker.kill),
    ]
    console.print_line(f"load: {ROWS:,} row changes in about {SECONDS} s")
    work.start()
    try:
        while work.running:
            watch.check()
            done = work.changes.total()
            if deeds and done >= deeds[0][0] * work.target:
                _, what, act = deeds.pop(0)
                console.print_line(what)
                act()
            if console.due:
                console.print_line(f"load {done:,} of {ROWS:,}; {watch.describe()}")
            time.sleep(0.1)
    finally:
        work.stop()


def _compare(server: Server, files: Files, comparison: Supervisor) -> Answer:
    warehouse.ask(
        Request(host=server.host, port=server.port, database=DATABASE, tables=TABLES), files.request
    )
    deadline = time.monotonic() + _PATIENCE
    while True:
        down = comparison.down  # asked before, as it may answer and end in between
        if (answer := warehouse.answer(files.answer)) is not None:
            return answer
        if down:
            comparison.check()
        if time.monotonic() > deadline:
            raise comparison.program.failed(f"gave no answer in {_PATIENCE:.0f} s")
        time.sleep(0.1)


def _conclude(outcome: Verdict, keeper: Keeper, *, files: Files, at: Addresses) -> int:
    code = 0 if outcome.good else 1
    for line in [
        *report.conclusion(outcome),
        "",
        *report.inspection_hints(files, at, kept=_kept()),
    ]:
        print(line)
    print(outcome.last_line(), flush=True)
    if _kept():
        keeper.stay(code, files.log("demo"))
    return code


def _kept() -> bool:
    return os.environ.get("KEEP", "") not in {"", "0"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
