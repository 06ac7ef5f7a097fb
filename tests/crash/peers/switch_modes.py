"""Records of a real Debezium connector in each mode and with each transform, beside ours after its import.

``make crash SUITE=switch`` runs it. Both read the same binlog, each to topics of its own; the records are
compared whole, but for times, versions, the ordinal of a row, and headers.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.kafka.reading import read_to_end
from devstack import Stack
from devstack.mysql import Mysql
from devstack.ports import free_port
from tests.crash.peers import debezium
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.topics import on_kafka
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings

JSON = "org.apache.kafka.connect.json.JsonConverter"
UNWRAP = {"transforms": "u", "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState"}
ROUTE = {
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": r"(.*)\.inv_shop\.(.*)",
    "transforms.r.replacement": "$1-routed-$2",
}
LOGICAL = {
    "transforms": "l",
    "transforms.l.type": "io.debezium.transforms.ByLogicalTableRouter",
    "transforms.l.topic.regex": r"(.*)\.t_\d",
    "transforms.l.topic.replacement": "$1.t_all",
    "transforms.l.key.enforce.uniqueness": "false",
}
PLAIN = {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}
CONFIGS: list[dict[str, str]] = [
    {**PLAIN},
    {
        **PLAIN, "decimal.handling.mode": "string", "time.precision.mode": "connect",
        "binary.handling.mode": "hex", "bigint.unsigned.handling.mode": "precise", "topic.delimiter": "-",
    },
    {
        **PLAIN, **ROUTE, "decimal.handling.mode": "double", "time.precision.mode": "isostring",
        "binary.handling.mode": "base64-url-safe", "tombstones.on.delete": "false",
    },
    {
        **PLAIN, **UNWRAP, "time.precision.mode": "nanoseconds", "value.converter.decimal.format": "NUMERIC",
        "binary.handling.mode": "base64",
    },
    {**LOGICAL, "time.precision.mode": "microseconds"},
    {"enable.time.adjuster": "false", "bigint.unsigned.handling.mode": "precise"},
    {**UNWRAP, "decimal.handling.mode": "string"},
]  # fmt: skip
"""The last three have schemas, as Kafka Connect's converter has them by default."""
COLUMNS = (
    "ti TINYINT, tu TINYINT UNSIGNED, yes BOOL, sm SMALLINT UNSIGNED, me MEDIUMINT UNSIGNED, iu INT UNSIGNED, "
    "bi BIGINT, bu BIGINT UNSIGNED, de DECIMAL(10,2), big DECIMAL(65,30), f FLOAT, dbl DOUBLE, b1 BIT(1), "
    "b12 BIT(12), c CHAR(5), vc VARCHAR(20), tx TEXT, bin BINARY(4), vb VARBINARY(10), bl BLOB, "
    "d DATE, dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), ts TIMESTAMP NULL, "
    "ts2 TIMESTAMP(2) NULL, t TIME, t3 TIME(3), t6 TIME(6), y YEAR, "
    "e ENUM('a','b,c'), s SET('x','y'), j JSON, p POINT, g GEOMETRY SRID 4326, dn DATE NOT NULL, "
    "dtn DATETIME(6) NOT NULL, tsn TIMESTAMP NOT NULL, v VECTOR(2)"
)
VALUES = (
    "-5, 200, 1, 65000, 16000000, 4000000000, -9, 18446744073709551615, 14.00, "
    "-12345678901234567890123456789012345.678901234567890123456789012345, 0.1, 1e22, 1, 0x0A05, 'ab', 'zoë', "
    "'t\\n\"x', 0x0102, 0x0100, 0xfffe, '2026-11-21', '2026-11-21 10:15:00', '2026-11-21 10:15:00.120', "
    "'2026-11-21 10:15:00.123456', '2026-11-21 10:15:00', '2026-11-21 10:15:00.10', '10:15:00', "
    "'10:15:00.250', '100:00:00.5', 2026, 'b,c', 'x,y', '{\"a\": null, \"b\": [1, 2.5, \"a, b: c\"]}', "
    "ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('LINESTRING(1 2,3 4)', 4326), "
    "'2026-01-01', '1969-12-31 23:59:59.5', '2026-01-01', TO_VECTOR('[1,0.5]')"
)
ODD = (
    "NULL, 0, 0, 0, 0, 0, 0, 9223372036854775808, -0.05, 0, -0.5, -1e-300, 0, 1, '', 'ключ', '', 0x01020304, "
    "'', '', '0050-02-03', '0000-00-00 00:00:00', '0069-12-31 23:59:59.999', '1000-01-01 00:00:00.000001', "
    "'0000-00-00 00:00:00', NULL, '-12:00:01', '00:00:00.001', '-838:59:59', 0, 'a', '', '[]', NULL, NULL, "
    "'0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', NULL"
)
TABLES = (
    f"CREATE TABLE inv_shop.t_1 (id INT PRIMARY KEY, {COLUMNS})",
    (
        "CREATE TABLE inv_shop.t_2 (a DECIMAL(6,2), b DATE, c TIMESTAMP, d VARCHAR(9), f BIGINT UNSIGNED, "
        "g DATETIME(3), PRIMARY KEY (d, a, b, c, f, g))"
    ),
    "CREATE TABLE inv_shop.`my t$` (`a b` INT PRIMARY KEY, `1x` INT)",
)
CHANGES = (
    f"INSERT INTO inv_shop.t_1 VALUES (1, {VALUES}), (2, {ODD})",
    "UPDATE inv_shop.t_1 SET ti = 6, de = 0.99 WHERE id = 2",
    "UPDATE inv_shop.t_1 SET id = 3 WHERE id = 2",
    "DELETE FROM inv_shop.t_1 WHERE id = 3",
    (
        "INSERT INTO inv_shop.t_2 VALUES (5.25, '2026-11-21', '2026-11-21 10:15:00', 'ключ\\n\"', "
        "18446744073709551615, '2026-11-21 10:15:00.5')"
    ),
    "UPDATE inv_shop.t_2 SET a = -1",
    "DELETE FROM inv_shop.t_2",
    "INSERT INTO inv_shop.`my t$` VALUES (1, 2)",
)
_OF_SOURCE = (
    "name",
    "db",
    "table",
    "gtid",
    "file",
    "pos",
    "server_id",
    "snapshot",
    "sequence",
    "query",
)


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, which takes zero dates."""
    options: dict[str, str | int] = {"server_id": 33, "sql_mode": "", "default_time_zone": "+00:00"}
    with own_mysql(stack, options=options) as server:
        yield server


def test_each_mode_and_transform_makes_the_same_records(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    run(mysql, "CREATE DATABASE inv_shop", *TABLES, "CREATE TABLE inv_shop.ready (id INT)")
    port = free_port()
    links = debezium.Links(
        mysql=mysql.port, kafka=int(stack.kafka.rpartition(":")[2]), tls="preferred"
    )
    properties = tmp_path / "worker.properties"
    properties.write_text(
        debezium.properties(
            debezium.worker(debezium.AT_LEAST_ONCE, links, group=tmp_path.name, port=port)
        )
    )
    configs = [
        debezium.connector(debezium.AT_LEAST_ONCE, links, prefix=f"m{number}")
        | {f"{side}.converter": JSON for side in ("key", "value")}
        | {
            "database.include.list": "inv_shop", "include.schema.changes": "false",
            "database.server.id": str(6400 + number),
        }
        | config
        for number, config in enumerate(CONFIGS)
    ]  # fmt: skip
    log = (tmp_path / "connect.log").open("wb")
    connect = subprocess.Popen(
        debezium.command(tmp_path, properties), stdout=log, stderr=subprocess.STDOUT
    )
    try:
        until(lambda: debezium.ask(port, "connectors") is not None)
        for number, config in enumerate(configs):
            debezium.ask(port, f"connectors/m{number}/config", method="PUT", body=config)
        until(lambda: _all_stream(stack, mysql), glance=0.5)
        ((gtids,),) = ask(mysql, "SELECT @@gtid_executed")
        run(mysql, "DROP TABLE inv_shop.ready", *CHANGES)
        theirs = [_records(stack, f"m{number}") for number in range(len(configs))]
    finally:
        connect.terminate()
        connect.wait(60)
        log.close()
    wanted = settings(stack, mysql, tmp_path)
    wanted["topics"] |= {"existing": "keep", "partitions": 3}
    wanted["destinations"] = {
        f"m{number}": _imported(tmp_path, number, config, mysql, str(gtids).replace("\n", ""))
        for number, config in enumerate(configs)
    }
    with running(wanted, tmp_path) as worker:
        ours = [_records(stack, f"ours{number}", worker) for number in range(len(configs))]
    found = list(_differences("", theirs, ours))
    print(f"modes: connectors={len(configs)} differences={len(found)}", *found, sep="\n")  # noqa: T201
    assert found == []


def _differences(place: str, their: Any, our: Any) -> Iterator[str]:
    """Where two values differ, each with both."""
    if isinstance(their, dict) and isinstance(our, dict) and their.keys() == our.keys():
        for name, value in their.items():
            yield from _differences(f"{place}/{name}", value, our[name])
    elif isinstance(their, list | tuple) and type(our) is type(their) and len(our) == len(their):
        for number, value in enumerate(their):
            yield from _differences(f"{place}/{number}", value, our[number])
    elif their != our:
        yield f"{place}: {their} and {our}"


def _all_stream(stack: Stack, mysql: Mysql) -> bool:
    run(mysql, "INSERT INTO inv_shop.ready VALUES (1)")
    names = on_kafka(stack, lambda admin: admin.list_topics())
    return all(
        any(name.startswith(f"m{number}") and name.endswith("ready") for name in names)
        for number in range(len(CONFIGS))
    )


def _imported(
    folder: Path, number: int, config: dict[str, str], mysql: Mysql, gtids: str
) -> dict[str, Any]:
    """The destination of an imported connector, which writes to topics of its own."""
    file, out = folder / f"m{number}.json", folder / f"out{number}"
    file.write_text(json.dumps({"name": f"m{number}", "config": config}))
    done = run_command(folder / "none.yaml", "import-debezium", str(file), "--output", str(out))
    assert done.returncode == 0, done.stdout
    (destination,) = yaml.safe_load((out / "aqueduct.yaml").read_text())["destinations"].values()
    rules = json.dumps(destination["row_topics"])
    return {
        **destination,
        "row_topics": json.loads(rules.replace(f"m{number}", f"ours{number}")),
        "source": {"host": mysql.host, "port": mysql.port, "user": "aqueduct", "password": "aqueduct"},
        "start": {"gtid_set": gtids},
        "snapshot": {},
    }  # fmt: skip


Records = dict[tuple[str, bytes], list[Any]]


def _records(stack: Stack, prefix: str, worker: Worker | None = None) -> Records:
    """The records, once the last change is there."""
    return until(
        lambda: _whole(stack, prefix),
        glance=1,
        late=lambda: worker.log[-3000:] if worker else prefix,
    )


def _whole(stack: Stack, prefix: str) -> Records | None:
    """The records of each key by topic, once the last change is there."""
    options = {"bootstrap_servers": stack.kafka}
    names = on_kafka(stack, lambda admin: admin.list_topics())
    topics = [
        name for name in names
        if name.startswith(prefix) and not name.endswith(("ready", "-history"))
    ]  # fmt: skip
    found: Records = defaultdict(list)

    async def read() -> None:
        for topic in topics:
            for partition in range(3):
                for record in await read_to_end(options, topic, partition):
                    plain = topic.replace(prefix, "m", 1)
                    key = (record.key or b"").replace(prefix.encode(), b"m")
                    value = (record.value or b"").replace(prefix.encode(), b"m")
                    if not prefix.startswith("m"):
                        value = value.replace(b'"name":"m%b"' % prefix[4:].encode(), b'"name":"m"')
                    found[plain, key].append(_compared(value))

    asyncio.run(read())
    return found if any("my_t_" in topic for topic, _ in found) else None


def _compared(value: bytes) -> Any:
    """What is compared of a value."""
    if not value:
        return None
    content = json.loads(value, parse_float=Decimal)
    payload = content.get("payload", content) if isinstance(content, dict) else content
    if isinstance(payload, dict) and "source" in payload:
        payload["source"] = {name: payload["source"][name] for name in _OF_SOURCE}
        for name in ("ts_ms", "ts_us", "ts_ns"):
            del payload[name]
    return content
