import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pymysql
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from kazoo.client import KazooClient

from devstack import DevstackError, Stack, detached
from devstack.paths import PROJECT
from devstack.processes import end
from devstack.stack import SERVICES
from tests.harness.wait import until

pytestmark = pytest.mark.stack

SETTINGS = {
    "gtid_mode": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "server_id": 1,
    "secure_file_priv": "NULL",
}


def query(stack: Stack, sql: str, *, user: str = "root", password: str = "") -> list[object]:
    connection = pymysql.connect(
        host=stack.mysql.host, port=stack.mysql.port, user=user, password=password
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] if len(row) == 1 else row for row in cursor.fetchall()]


def processes_naming(folder: Path) -> list[int]:
    """Return the processes whose command line names a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def wait_for_none(folder: Path) -> None:
    until(lambda: not processes_naming(folder), late=lambda: processes_naming(folder))


def test_mysql_writes_a_row_based_binlog_with_gtids(stack: Stack) -> None:
    found = {name: query(stack, f"SELECT @@{name}")[0] for name in SETTINGS}
    assert found == SETTINGS


def test_the_readers_account_has_the_three_rights_it_needs(stack: Stack) -> None:
    grants = query(stack, "SHOW GRANTS", user="aqueduct", password="aqueduct")
    assert grants == [
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `aqueduct`@`%`"
    ]


def test_mysqlbinlog_reads_the_servers_binlog(stack: Stack) -> None:
    assert stack.mysql.mysqlbinlog
    binlog = next(stack.mysql.data.glob("binlog.0*"))
    command = [*stack.mysql.mysqlbinlog, "--no-defaults", str(binlog)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "created" in shown.stdout


async def test_kafka_commits_a_transaction(stack: Stack) -> None:
    topic = "devstack-transaction"
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()
    async with (
        AIOKafkaProducer(bootstrap_servers=stack.kafka, transactional_id="devstack") as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait(topic, b"committed")
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=stack.kafka,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        assert (await consumer.getone()).value == b"committed"


def test_zookeeper_keeps_a_node(stack: Stack) -> None:
    client = KazooClient(hosts=stack.zookeeper)
    client.start()
    try:
        client.create("/devstack", b"here")
        assert client.get("/devstack")[0] == b"here"
    finally:
        client.stop()
        client.close()


def test_a_killed_mysql_starts_again_on_its_port_with_its_data(tmp_path: Path) -> None:
    with Stack(tmp_path / "own", services=["mysql"], mysql_options={"server_id": 7}) as own:
        query(own, "CREATE DATABASE kept")
        port = own.mysql.port
        own.mysql.kill()
        assert own.mysql.child is None
        own.mysql.start()
        assert own.mysql.port == port
        assert query(own, "SHOW DATABASES LIKE 'kept'") == ["kept"]
        assert query(own, "SELECT @@server_id") == [7]
    wait_for_none(tmp_path)


def test_a_second_mysql_runs_beside_the_first(stack: Stack) -> None:
    second = stack.second_mysql("second")
    second.start()
    try:
        assert second.port != stack.mysql.port
        assert second.child
    finally:
        second.stop()
    assert second.child is None


@pytest.mark.long("it is about the tests' own servers")
def test_leaving_the_block_leaves_no_process(tmp_path: Path) -> None:
    with Stack(tmp_path):
        assert len(processes_naming(tmp_path)) == 3
    assert not processes_naming(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.long("it is about the tests' own servers")
def test_a_parent_that_is_killed_takes_its_servers_along(
    tmp_path: Path, number: signal.Signals
) -> None:
    code = f"from devstack import Stack\nwith Stack({str(tmp_path)!r}):\n  print('up', flush=True); input()"
    with parent(code) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        assert len(processes_naming(tmp_path)) >= 3
        process.send_signal(number)
        process.wait()
    wait_for_none(tmp_path)


@pytest.mark.parametrize("seconds", [0.2, 0.8, 1.6, 2.4])
@pytest.mark.long("it is about the tests' own servers")
def test_ctrl_c_while_starting_leaves_no_process(tmp_path: Path, seconds: float) -> None:
    code = f"from devstack import Stack\nStack({str(tmp_path)!r}).start()"
    with parent(code) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        process.wait()
    assert not processes_naming(tmp_path)


@pytest.mark.parametrize(
    ("mysql_options", "kafka_options", "reason"),
    [
        ({"bind_address": "203.0.113.1"}, {}, "mysql ended with status 1 .*\n.*assign requested"),
        ({"no_such_option": 1}, {}, "mysqld --initialize-insecure failed .*\n.*no_such_option"),
        ({}, {"num.io.threads": 0}, r"kafka format failed .*\n.*num\.io\.threads"),
    ],
)
@pytest.mark.long("it is about the tests' own servers")
def test_a_server_that_ends_while_starting_is_reported_with_its_log(
    tmp_path: Path,
    mysql_options: dict[str, str | int],
    kafka_options: dict[str, str | int],
    reason: str,
) -> None:
    broken = Stack(tmp_path, mysql_options=mysql_options, kafka_options=kafka_options)
    with pytest.raises(DevstackError, match=re.compile(reason, re.DOTALL)):
        broken.start()
    assert not processes_naming(tmp_path)


@pytest.mark.long("it is about the tests' own servers")
def test_detached_servers_outlive_their_starter_until_they_are_ended(
    tmp_path: Path,
) -> None:
    call = f"from pathlib import Path; detached.up(Path({str(tmp_path)!r}))"
    with parent(f"from devstack import detached\n{call}") as process:
        process.wait()
    servers = detached.read(tmp_path)
    assert {server.name for server in servers if server.identity.alive()} == set(SERVICES)
    zookeeper = next(server for server in servers if server.name == "zookeeper")
    end(zookeeper.identity, grace=0)
    with parent(f"from devstack import detached\n{call}") as process:
        process.wait()
    again = detached.read(tmp_path)
    assert {server.address for server in again} == {server.address for server in servers}
    others = {server.identity for server in servers} - {zookeeper.identity}
    assert others < {server.identity for server in again}, "only what had died was started"
    assert len(detached.down(tmp_path)) == 3
    assert not processes_naming(tmp_path)
    assert not detached.read(tmp_path)


def test_an_unknown_server_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DevstackError, match="no such server: redis"):
        Stack(tmp_path, services=["redis"])


def parent(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
