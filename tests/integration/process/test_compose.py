"""compose.yaml without a container engine: its services' settings with servers of the tests."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml

from devstack import Stack, mysql_software
from devstack.mysql import MYSQL, Mysql
from devstack.paths import PROJECT
from devstack.ports import HOST, free_port
from devstack.programs import WORKER
from tests.harness.servers import own_stack
from tests.harness.sql import run
from tests.harness.worker import Worker, started

# The image's entry point makes this account; all else is the init file's.
_ROOT = f"""\
SET SESSION sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'{HOST}';
GRANT ALL ON *.* TO 'root'@'{HOST}' WITH GRANT OPTION;
"""
# What has to differ where three servers share a loopback interface.
_OF_THE_MACHINE = (
    "bind_address",
    "innodb_buffer_pool_size",
    "innodb_redo_log_capacity",
    "mysqlx",
    "secure_file_priv",
    "skip_name_resolve",
)
_ADDRESSES = re.compile(r"listener|voters|log\.dirs|process\.roles|node\.id")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())["services"]
    return found


@pytest.fixture(scope="module")
def composed(
    services: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Stack, Mysql]]:
    folder = tmp_path_factory.mktemp("compose")
    names = services["kafka"]["environment"]
    options = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in names.items()
    }
    own = {name: value for name, value in options.items() if not _ADDRESSES.search(name)}
    with own_stack(folder, ("kafka", "zookeeper"), kafka_options=own) as stack:
        mysql = mysql_of(services["mysql"], stack, folder)
        mysql.start()
        initialize(services["mysql"], mysql)
        yield stack, mysql


def mysql_of(service: dict[str, Any], stack: Stack, folder: Path) -> Mysql:
    """A server with the command line of the service."""
    kept = {name: MYSQL.defaults[name] for name in _OF_THE_MACHINE}
    flavour = dataclasses.replace(MYSQL, defaults=kept, accounts=_ROOT)
    given = (option.removeprefix("--").split("=", 1) for option in service["command"])
    return Mysql(
        folder / "mysql",
        mysql_software.find_or_fetch(stack.children),
        owner=stack.children,
        options={name.replace("-", "_"): value for name, value in given},
        flavour=flavour,
    )


def initialize(service: dict[str, Any], mysql: Mysql) -> None:
    """The image's entry point on an empty data directory: creates the database, then runs the given files."""
    files = [Path(volume.split(":")[0]) for volume in service["volumes"] if "initdb.d" in volume]
    database = service["environment"]["MYSQL_DATABASE"]
    execute(mysql, f"CREATE DATABASE `{database}`")
    for file in files:
        execute(mysql, (PROJECT / file).read_text(), database=database)


def execute(mysql: Mysql, sql: str, *, database: str | None = None) -> None:
    statements = [line for line in re.sub(r"(?m)^--.*$", "", sql).split(";") if line.strip()]
    run(mysql, *statements, database=database)


@contextlib.contextmanager
def worker_of(
    service: dict[str, Any], stack: Stack, mysql: Mysql, folder: Path
) -> Iterator[Worker]:
    """The service's environment, with the tests' servers in place of its network names."""
    port = free_port()
    ours = {
        "mysql": mysql.host,
        "kafka:19092": stack.kafka,
        "zookeeper:2181": stack.zookeeper,
        "0.0.0.0": HOST,
    }
    given = {name: ours.get(value, value) for name, value in service["environment"].items()}
    ports = {
        "AQUEDUCT_HTTP__PORT": str(port),
        "AQUEDUCT_DESTINATIONS__SHOP__SOURCE__PORT": str(mysql.port),
        "AQUEDUCT_DATA_DIR": str(folder / "data"),
    }
    log_file = folder / "worker.log"
    process = started(log_file, command=WORKER, cwd=folder, **given, **ports)
    try:
        yield Worker(process, port, log_file)
    finally:
        process.kill()
        process.wait()


def test_the_worker_of_compose_leads_by_its_zookeeper_and_reads_with_its_grants(
    services: dict[str, Any], composed: tuple[Stack, Mysql], tmp_path: Path
) -> None:
    stack, mysql = composed
    execute(mysql, "INSERT INTO shop.customers (name) VALUES ('Ada'), ('Grace')")
    with worker_of(services["worker"], stack, mysql, tmp_path) as worker:
        name = services["worker"]["environment"]["AQUEDUCT_WORKER__ID"]
        status = worker.wait(lambda shown: shown["rows"] == 2 and shown["leader"]["worker"] == name)
        assert (status["state"], status["error"], status["set_aside"]) == ("RUNNING", None, [])
        assert json.loads(worker.get("/status"))["coordination"]["state"] == "connected"
        assert worker.stop() == 0
    environment = services["worker"]["environment"]
    account = pymysql.connect(
        host=mysql.host,
        port=mysql.port,
        user=environment["AQUEDUCT_DESTINATIONS__SHOP__SOURCE__USER"],
        password=environment["AQUEDUCT_DESTINATIONS__SHOP__SOURCE__PASSWORD"],
    )
    with contextlib.closing(account), account.cursor() as cursor:
        assert cursor.execute("SHOW CREATE TABLE shop.customers") == 1


def test_every_service_that_the_worker_asks_is_waited_for(services: dict[str, Any]) -> None:
    worker = services["worker"]
    asked = {value.split(":")[0] for value in worker["environment"].values()} & services.keys()
    assert asked == {"mysql", "kafka", "zookeeper", "worker"}
    assert worker["depends_on"].keys() == asked - {"worker"}
