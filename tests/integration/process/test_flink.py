"""Apache Flink as a reader of our topics, in each of its formats, across a TRUNCATE."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from aiokafka import AIOKafkaProducer
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from devstack import Stack, flink
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.worker import running, settings
from tests.integration.process.test_truncates import caught_up

PARTITIONS = 4
FORMATS = ("debezium", "canal", "maxwell")
NAMES = [f"{how}_{name}" for how in ("record", "omit", "deletes") for name in FORMATS]
UNKNOWN = {
    "debezium": '"op" value "t"',
    "canal": '"type" value "TRUNCATE"',
    "maxwell": '"type" value "table-truncate"',
}
_FILLED = (
    "INSERT INTO shop.{} WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < 60)"
    " SELECT id, CONCAT('row ', id), id / 4 FROM n"
)
_OPENED = ("java.base/java.lang", "java.base/java.util")
Rows = Counter[tuple[Any, ...]]


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    tables = (
        f"CREATE TABLE shop.{name} (id bigint PRIMARY KEY, note varchar(99), price decimal(12,2))"
        for name in NAMES
    )
    with own_mysql(stack, "CREATE DATABASE shop", *tables) as server:
        yield server


@pytest.fixture
def jobs(stack: Stack) -> Iterator[Jobs]:
    """Flink in a process of its own."""
    owner = Children()
    folder = Path(pyspark.__file__).parent / "jars"
    (own,) = folder.glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(own),
        classpath=":".join(map(str, flink.find_or_fetch(owner))),
        javaopts=[
            "-Xmx1g",
            "-XX:+UseSerialGC",
            *(f"--add-opens={one}=ALL-UNNAMED" for one in _OPENED),
        ],
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield Jobs(gateway, stack.kafka)
    finally:
        gateway.shutdown()
        owner.kill()


class Jobs:
    """Queries that end at the present end of their topics."""

    def __init__(self, gateway: JavaGateway, brokers: str) -> None:
        api = gateway.jvm.org.apache.flink.table.api
        built = api.EnvironmentSettings.newInstance().inStreamingMode().build()
        self._env = api.TableEnvironment.create(built)
        self._env.getConfig().set("parallelism.default", "1")
        self._brokers = brokers

    def table(self, name: str, topic: str, form: str) -> None:
        """Declare a table as Flink's documentation does; nothing prepares it for repeated changes."""
        options = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": self._brokers,
            "properties.isolation.level": "read_committed",
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            "format": f"{form}-json",
        }
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        self._env.executeSql(
            f"CREATE TABLE {name} (id BIGINT, note STRING, price DECIMAL(12,2)) WITH ({shown})"
        )

    def result(self, query: str) -> Rows:
        """Return the rows of a query, made of its changes; raise Py4JJavaError if its job fails."""
        rows, changes = Rows(), self._env.executeSql(query).collect()
        while changes.hasNext():
            change = changes.next()
            row = tuple(_plain(change.getField(at)) for at in range(change.getArity()))
            if change.getKind().shortString() in ("+I", "+U"):
                rows[row] += 1
            else:
                assert rows[row], f"a row is taken back that there is not: {row}"
                rows[row] -= 1
        return +rows


def _plain(value: Any) -> Any:
    """A value as Python has it; a decimal of Java's is an object."""
    return value if value is None or isinstance(value, int | str) else str(value)


@pytest.mark.long("test_truncates.py reads each format by the kinds of change that Flink knows")
def test_flink_ends_at_a_truncate_and_continues_with_omit_and_deletes(
    stack: Stack, mysql: Mysql, jobs: Jobs, tmp_path: Path
) -> None:
    rules = "".join(
        f"  shop.{name}: {{truncates: {how}, format: {form}}}\n"
        for name in NAMES
        for how, form in [name.split("_")]
    )
    (tmp_path / "mapping.yaml").write_text(f"tables:\n{rules}")
    wanted = settings(stack, mysql, tmp_path)
    wanted["topics"]["partitions"] = PARTITIONS
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml")}
    before, after = dict[str, Rows](), dict[str, Rows]()
    with running(wanted, tmp_path) as worker:
        for name in NAMES:
            run(
                mysql,
                _FILLED.format(name),
                f"UPDATE shop.{name} SET price = price + 1 WHERE id % 3 = 0",
                f"DELETE FROM shop.{name} WHERE id % 5 = 0",
            )
            before[name] = present(mysql, name)
            again = "" if name.startswith("omit") else ", (1, 'again', NULL), (2, NULL, 2)"
            run(
                mysql,
                f"TRUNCATE shop.{name}",
                f"INSERT INTO shop.{name} VALUES (1000, 'new', 7.25){again}",
            )
            after[name] = present(mysql, name)
        caught_up(worker, mysql)
        assert worker.stop() == 0
    asyncio.run(ended(stack, [f"{wanted['prefix']}.shop.{name}" for name in NAMES]))
    for name in NAMES:
        how, form = name.split("_")
        jobs.table(name, f"{wanted['prefix']}.shop.{name}", form)
        if how == "record":
            with pytest.raises(Py4JJavaError) as failed:
                jobs.result(f"SELECT * FROM {name}")
            assert f"Unknown {UNKNOWN[form]}" in str(failed.value)
            continue
        rows = after[name] if how == "deletes" else before[name] + after[name]
        assert jobs.result(f"SELECT * FROM {name}") == rows
        # Without a copy of the rows: each delete takes back the values that its row had.
        sums = f"SELECT COUNT(*), SUM(id), SUM(price) FROM {name}"
        prices = [float(price) for *_, price in rows if price is not None]
        assert {(count, total, float(price)) for count, total, price in jobs.result(sums)} == {
            (rows.total(), sum(one for one, *_ in rows), sum(prices))
        }


async def ended(stack: Stack, topics: list[str]) -> None:
    """Have a tombstone at each end: at a transaction's marker, Flink's reader waits forever."""
    async with AIOKafkaProducer(bootstrap_servers=stack.kafka) as producer:
        for topic in topics:
            for number in range(PARTITIONS):
                await producer.send_and_wait(topic, None, key=b"{}", partition=number)


def present(mysql: Mysql, name: str) -> Rows:
    """The rows of a table now."""
    return Rows(tuple(map(_plain, row)) for row in ask(mysql, f"SELECT * FROM shop.{name}"))
