"""Tables that tools change online under load: to subscribers it is one ALTER, and no shadow is ever seen."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from demo import checks
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import connected, run
from tests.harness.topics import Change, rows, statements
from tests.harness.worker import Worker, running, settings
from tests.integration.ddl_tools.sequences import AFTER, BEGIN, SEQUENCES, TWO_STEPS, Step
from tests.integration.process.story import columns, has_read_all, row_topics
from tests.integration.process.test_quarantine import record_of, schema
from tests.integration.process.writing import FIRST_ID, Writer

OLD = {
    "id": "int unsigned",
    "customer": "varchar(40)",
    "amount": "decimal(9,2)",
    "state": "enum('new','paid')",
}
DROPPED = "pt-online-schema-change by dropping"
_ALIKE = pytest.mark.long("ddl_tools/test_online has each tool's statements without a worker")
RUNS = [
    ("gh-ost", "MINIMAL"),
    pytest.param("gh-ost in two steps", "MINIMAL", marks=_ALIKE),
    pytest.param("Spirit", "MINIMAL", marks=_ALIKE),
    ("pt-online-schema-change", "MINIMAL"),
    pytest.param(DROPPED, "MINIMAL", marks=_ALIKE),
    pytest.param("gh-ost", "FULL", marks=_ALIKE),
    (DROPPED, "FULL"),
]
_LOCKS = re.compile(r"lock\b.*\btables\b", re.IGNORECASE | re.DOTALL)
_DEADLOCK = 1213
_TIMEOUT = 60.0
_NUMBERS = itertools.count(6201)


@pytest.fixture(scope="module")
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of these tests' own."""
    with own_mysql(
        stack,
        options={"server_id": 9, "performance_schema": "ON"},
    ) as server:
        yield server


def wanted_of(stack: Stack, mysql: Mysql, folder: Path) -> dict[str, Any]:
    """Settings of a worker with a number of its own at the server."""
    filter_ = {"include": r"osc\..*"}
    return settings(stack, mysql, folder, start="latest", filter=filter_, server_id=next(_NUMBERS))


class Tool:
    """Sends a tool's statements, each through its own session, and fills the shadow as the tool would."""

    def __init__(self, mysql: Mysql, steps: tuple[Step, ...], writer: Writer) -> None:
        self._mysql = mysql
        self._writer = writer
        text = " ".join(step.sql for step in steps)
        self._ghost = "_orders_gho" if "_orders_gho" in text else "_orders_new"
        self._waiting: list[Future[Any]] = []

    def play(self, steps: tuple[Step, ...]) -> None:
        with ExitStack() as stack, ThreadPoolExecutor(max_workers=1) as beside:
            cursors = {
                name: stack.enter_context(connected(self._mysql, database="osc"))
                for name in ("tool", "lock", "app")
            }
            for step in map(distinguished, steps):
                if step.session == "app":
                    self._continues()
                    self._writer.until(5)
                cursor = cursors[step.session]
                if step.waits:
                    self._waiting.append(beside.submit(cursor.execute, step.sql))
                    self._until_it_waits("_orders_del", self._waiting[-1])
                else:
                    done(cursor, step.sql)
                    if self._waiting and step.sql.startswith("drop"):
                        self._until_it_waits("orders", self._waiting[-1])
                if _LOCKS.match(step.sql):
                    self._catches_up(cursor, cursors["tool"])
            self._continues()

    def _continues(self) -> None:
        while self._waiting:
            self._waiting.pop().result(timeout=_TIMEOUT)

    def _until_it_waits(self, table: str, statement: Future[Any]) -> None:
        """A RENAME locks its tables one by one, and may not yet be queued before the writer on the last one."""
        with connected(self._mysql) as cursor:
            while not statement.done():
                cursor.execute(
                    "SELECT 1 FROM performance_schema.metadata_locks WHERE object_name = %s"
                    " AND lock_type = 'EXCLUSIVE' AND lock_status = 'PENDING'",
                    (table,),
                )
                if cursor.fetchone():
                    return

    def _catches_up(self, locked: Any, tool: Any) -> None:
        """The writer's changes are in the shadow table before the swap, as these tools read the binlog."""
        locked.execute(
            f"SELECT id, customer, amount, state FROM orders WHERE id >= {FIRST_ID} ORDER BY id"
        )
        for row in locked.fetchall():
            tool.execute(
                f"REPLACE INTO `{self._ghost}` (id, customer, amount, state) VALUES (%s, %s, %s, %s)",
                row,
            )


def distinguished(step: Step) -> Step:
    """The application's rows have the ids that the tool's statements name, with anything in between."""
    sql = step.sql
    for begin, id_ in (("(customer, amount, state) VALUES (", 4), ("(customer, note) VALUES (", 5)):
        sql = sql.replace(f"INTO orders {begin}", f"INTO orders (id, {begin[1:]}{id_}, ")
    return replace(step, sql=sql)


def done(cursor: Any, sql: str) -> None:
    """Tools try again where the application's statements and theirs wait for each other."""
    while True:
        try:
            cursor.execute(sql)
        except pymysql.MySQLError as error:
            if error.args[0] != _DEADLOCK:
                raise
        else:
            return


def begun(mysql: Mysql, metadata: str) -> None:
    run(mysql, "DROP DATABASE IF EXISTS osc", f"SET GLOBAL binlog_row_metadata = '{metadata}'")


def expect_one_alter(stack: Stack, prefix: str, tool: str) -> Change:
    """The record of the cut-over, the only one about the tool's tables."""
    result = [
        change
        for change in statements(stack, prefix)
        if "TRIGGER" not in change.value["ddl"].upper()
    ]
    between = ["DROP TABLE" if tool == DROPPED else "ALTER TABLE"] if tool in TWO_STEPS else []
    swap = "ALTER TABLE" if tool == "gh-ost in two steps" else "RENAME TABLE"
    types = [change.value["statement_type"] for change in result]
    assert types == ["CREATE DATABASE", "CREATE TABLE", *between, swap]
    assert all("online" not in change.value for change in result[:-1])
    value = result[-1].value
    (online,) = value["online"]
    assert (online["database"], online["table"]) == ("osc", "orders")
    assert tool.split()[0] in online["tool"]
    (altered,) = value["tables"]
    assert (altered["database"], altered["table"]) == ("osc", "orders")
    assert (altered["change"], value["outcome"]) == ("altered", "resolved")
    assert columns(altered["old"]) == [f"{name} {kind}" for name, kind in OLD.items()]
    assert columns(altered["new"]) == [f"{name} {kind}" for name, kind in AFTER.items()]
    effects = {(one["kind"], one["column"], one["topic"]) for one in value["effects"]}
    assert ("column added", "note", f"{prefix}.osc.orders") in effects
    return result[-1]


def expect_rows(stack: Stack, prefix: str, swap: Change, writer: Writer) -> list[Change]:
    """Each row by the columns that its table had, each once, in the order in which they were written."""
    found = rows(stack, prefix, "orders", database="osc")
    for change in found:
        expected = [*OLD] if change.seq < swap.seq else [*AFTER]
        images = [change.value["before"], change.value["after"]]
        assert [[*image] for image in images if image] == [expected] * sum(map(bool, images))
    assert {change.seq < swap.seq for change in found} == {True, False}
    assert [
        (op, id_, amount) for op, id_, amount in map(written, found) if id_ >= FIRST_ID
    ] == writer.written
    everything = [*found, *statements(stack, prefix)]
    records = [record_of(change) for change in everything]
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}
    return found


def written(change: Change) -> tuple[str, int, str | None]:
    value = change.value
    image = value["after"] or value["before"]
    return value["op"], image["id"], value["after"] and value["after"]["amount"]


def left_over(found: list[Change]) -> dict[int, tuple[object, ...]]:
    """The table as who reads the topic has it."""
    held: dict[int, tuple[object, ...]] = {}
    for change in found:
        before, after = change.value["before"], change.value["after"]
        if before:
            del held[before["id"]]
        if after:
            held[after["id"]] = (after["customer"], after["amount"], after["state"])
    return held


def at_the_server(mysql: Mysql) -> dict[int, tuple[object, ...]]:
    with connected(mysql) as cursor:
        cursor.execute("SELECT id, customer, CAST(amount AS CHAR), state FROM osc.orders")
        return {row[0]: tuple(row[1:]) for row in cursor.fetchall()}


def changed(
    stack: Stack, mysql: Mysql, folder: Path, *, play: Callable[[Worker, Writer], None]
) -> tuple[str, Writer]:
    """Run a worker and a writer beside what is played."""
    wanted = wanted_of(stack, mysql, folder)
    with running(wanted, folder) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, *BEGIN)
        with Writer(mysql) as writer:
            play(worker, writer)
            writer.until(20)
        has_read_all(worker, mysql)
        assert worker.destination()["set_aside"] == []
        assert "Traceback" not in worker.log
        same = schema(folder, "check", "shop")
        assert same.returncode == 0, same.stdout + same.stderr
    return wanted["prefix"], writer


@pytest.mark.parametrize(("tool", "metadata"), RUNS)
def test_a_table_that_is_changed_online_under_load_is_altered_once_and_loses_nothing(
    stack: Stack, mysql: Mysql, tmp_path: Path, tool: str, metadata: str
) -> None:
    steps = SEQUENCES[tool]
    begun(mysql, metadata)
    prefix, writer = changed(
        stack,
        mysql,
        tmp_path,
        play=lambda _, writer: Tool(mysql, steps, writer).play(steps),
    )
    assert row_topics(stack, prefix, "osc") == {f"{prefix}.osc.orders"}
    swap = expect_one_alter(stack, prefix, tool)
    found = expect_rows(stack, prefix, swap, writer)
    assert left_over(found) == at_the_server(mysql)


def test_a_worker_that_ends_between_two_steps_publishes_one_alter_all_the_same(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    steps = SEQUENCES[DROPPED]
    after = next(n for n, step in enumerate(steps) if "DROP TABLE" in step.sql) + 1
    begun(mysql, "MINIMAL")
    wanted = wanted_of(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, *BEGIN)
        with Writer(mysql) as writer:
            tool = Tool(mysql, steps, writer)
            tool.play(steps[:after])
            has_read_all(worker, mysql)
            assert worker.stop() == 0
            tool.play(steps[after:])
    with running(wanted, tmp_path) as worker:
        has_read_all(worker, mysql)
        assert worker.destination()["set_aside"] == []
    swap = expect_one_alter(stack, wanted["prefix"], DROPPED)
    expect_rows(stack, wanted["prefix"], swap, writer)


def test_no_shadow_is_seen_of_a_table_that_was_made_before_the_binlog_begins(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    """Each row event names its columns, so the table can be decoded without history."""
    steps = SEQUENCES["gh-ost"]
    begun(mysql, "FULL")
    run(mysql, *BEGIN, "FLUSH BINARY LOGS")
    with connected(mysql) as cursor:
        cursor.execute("SHOW BINARY LOG STATUS")
        run(mysql, f"PURGE BINARY LOGS TO '{cursor.fetchone()[0]}'")
    wanted = wanted_of(stack, mysql, tmp_path)
    wanted["destinations"]["shop"]["start"] = "earliest"
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        with Writer(mysql) as writer:
            Tool(mysql, steps, writer).play(steps)
            writer.until(20)
        has_read_all(worker, mysql)
        assert worker.destination()["set_aside"] == []
    prefix = wanted["prefix"]
    assert row_topics(stack, prefix, "osc") == {f"{prefix}.osc.orders"}
    result = [change.value for change in statements(stack, prefix)]
    assert [value.get("online", [{}])[0].get("table") for value in result] == ["orders"]
