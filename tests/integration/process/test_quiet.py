"""A worker's log and exit while its servers are unavailable."""

from __future__ import annotations

import itertools
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_stack
from tests.harness.sql import run
from tests.harness.wait import TIMEOUT
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_worker import insert

_ONE_OF_THE_LIBRARIES = re.compile(r"aiokafka|faust|Topic .* not found|Unable connect|Updating sub")

_SERVER_IDS = itertools.count(6201)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Servers that these tests stop."""
    with own_stack(tmp_path_factory.mktemp("quiet"), ("mysql", "kafka")) as stack:
        run(stack.mysql, "CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY, x int)")
        yield stack


@pytest.fixture(autouse=True)
def all_there(own: Stack) -> None:
    """Start what an earlier test has ended."""
    for server in (own.kafka_server, own.mysql):
        if server.child is None:
            server.start()


@pytest.fixture
def mysql(own: Stack) -> Mysql:
    return own.mysql


def wanted(own: Stack, folder: Path) -> dict[str, Any]:
    """Settings with a server_id of their own: a server may still hold the connection of a worker before."""
    return settings(own, own.mysql, folder, server_id=next(_SERVER_IDS))


def lines(worker: Worker) -> list[str]:
    return [line for line in worker.log.splitlines() if line.strip()]


def error(worker: Worker) -> str | None:
    page = worker.get("/status")
    found: str | None = json.loads(page)["error"] if page else None
    return found


@pytest.mark.remedy("KafkaLost")
def test_an_idle_destination_shows_that_kafka_is_away_and_that_it_is_back(
    own: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    with running(wanted(own, tmp_path), tmp_path) as worker:
        insert(mysql, 0, 3)
        epoch = worker.wait(lambda shown: shown["rows"] == 3)["cursor"]["epoch"]
        assert [line for line in lines(worker) if _ONE_OF_THE_LIBRARIES.search(line)] == []
        assert len(lines(worker)) < 30
        assert "aqueduct_kafka_up 1.0" in worker.get("/metrics")
        own.kafka_server.kill()
        shown = worker.wait(lambda shown: shown["state"] == "RETRYING")
        assert shown["error"].startswith("KafkaLost: ")
        assert (error(worker) or "").startswith("KafkaLost: ")
        assert "aqueduct_kafka_up 0.0" in worker.get("/metrics")
        own.kafka_server.start()
        worker.wait(lambda shown: shown["state"] == "RUNNING")
        assert error(worker) is None
        insert(mysql, 10, 2)
        after = worker.wait(lambda shown: shown["rows"] == 5)
        assert after["cursor"]["epoch"] == epoch, "an absence without rows ends no run"
        # Once for the watch, once for each new state, and once for the journal if its reader noticed.
        reported = 1 + worker.log.count("status shop: RETRYING")
        assert worker.log.count("KafkaLost") == reported + worker.log.count("is not followed now")
        assert worker.log.count("Kafka answers again after") == 1
        assert worker.stop() == 0


def test_it_ends_in_order_while_kafka_and_mysql_are_away(
    own: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    with running(wanted(own, tmp_path), tmp_path) as worker:
        worker.wait(lambda shown: shown["state"] == "RUNNING")
        own.kafka_server.kill()
        mysql.kill()
        worker.wait(lambda shown: shown["state"] == "RETRYING")
        worker.process.send_signal(signal.SIGINT)
        assert worker.process.wait(TIMEOUT) == 0
        assert "Traceback" not in worker.log
        assert len(lines(worker)) < 40


@pytest.mark.long("the end without Kafka is in the test above")
def test_it_ends_before_kafka_was_ever_there(own: Stack, tmp_path: Path) -> None:
    first = wanted(own, tmp_path)
    own.kafka_server.kill()
    with running(first, tmp_path) as worker:
        worker.wait(lambda _: bool(error(worker)))
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(TIMEOUT) == 0
        assert "Traceback" not in worker.log
        assert worker.log.count("KafkaLost") == 1
