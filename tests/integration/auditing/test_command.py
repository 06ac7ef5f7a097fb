"""`python -m app audit` as an operator runs it, beside a running worker."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.recorded_topics import RecordedTopics
from tests.harness.worker import running
from tests.integration.auditing.conftest import Case
from tests.integration.auditing.story import play
from tests.made import SERVER


def run(case: Case, *words: str, program: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    given = shlex.join(case.mysql.mysqlbinlog or ()) if program is None else program
    command = ("audit", "shop", "--mysqlbinlog", given, *words)
    return run_command(case.folder / "aqueduct.yaml", *command)


def run_second(case: Case, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, with mysql-replication as its witness."""
    command = ("audit", "shop", "--witness", "mysql-replication", *words)
    return run_command(case.folder / "aqueduct.yaml", *command)


def test_the_second_witness_is_named_with_what_it_cannot_judge(case: Case) -> None:
    done = run_second(case, "--from", f"{case.plain}:4")
    assert (done.returncode, done.stderr) == (0, "")
    assert "witness: mysql-replication, which cannot check values of GEOMETRY, zero" in done.stdout
    assert "not judged: shop.kinds.da: DATE, which the witness cannot distinguish: " in done.stdout
    assert "lost=0 repeated=0 foreign=0 different=0" in done.stdout.splitlines()[-1]


def test_the_second_witness_stops_by_name_at_what_it_does_not_read(case: Case) -> None:
    done = run_second(case)
    assert done.returncode == 1
    assert "TruthUnreadable" in done.stderr
    assert "a compressed transaction (binlog_transaction_compression)" in done.stderr
    assert "Traceback" not in done.stderr
    refused = run_second(case, "--binlogs", "binlog.000001")
    assert refused.returncode == 2
    assert "mysql-replication reads the server itself" in refused.stderr


@pytest.mark.spark
@pytest.mark.long("test_planted has the topics, the units the warehouse")
def test_a_warehouse_that_is_equal_is_right_and_a_row_that_somebody_changes_is_found(
    case: Case, tmp_path: Path
) -> None:
    config, right_dump, spoiled_dump = (
        tmp_path / name for name in ("sink.yaml", "right", "spoiled")
    )
    sink = {
        "prefix": case.settings["prefix"],
        "bootstrap_servers": case.settings["kafka"]["bootstrap_servers"],
        "warehouse": str(tmp_path / "wh"),
        "metrics": {"port": 0},
        "include": r".*\.shop\.(kinds|log|gone)",
    }
    config.write_text(yaml.safe_dump(sink))
    spoil = "UPDATE {shop.log} SET note = 'spoiled' WHERE note = 'kept'"
    files = map(str, (config, right_dump, spoiled_dump))
    command = [sys.executable, "-m", "tests.integration.auditing.sunk", *files, spoil]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    right = audited(case, "--warehouse", str(right_dump))
    assert all(not found["findings"] for found in right.values())
    # The sink leaves the rows that a table had before it was dropped.
    values = {"rows from before their table was dropped or renamed": 2}
    assert {name: found["not_judged"] for name, found in right.items() if found["not_judged"]} == {
        "shop.gone": values
    }
    assert right["shop.gone"]["rows"] == 1
    assert right["shop.kinds"]["rows"] == 5
    assert right["shop.log"]["rows"] >= 7
    # All of what the sink was set to exclude is not applied.
    left_out = {f"shop.{name}" for name in ("keyed", "wide", "copied", "emptied")}
    assert {name for name, found in right.items() if found["behind"]} == left_out
    wrong = audited(case, "--warehouse", str(spoiled_dump))
    (finding,) = [finding for found in wrong.values() for finding in found["findings"]]
    assert wrong["shop.log"]["different"] == 1
    assert "note has another value" in finding
    assert "spoiled" not in finding
    # Nor is the dump of another cluster's warehouse held against these topics.
    first, _, rest = right_dump.read_text().partition("\n")
    assert json.loads(first)["cluster"]
    elsewhere = json.dumps(json.loads(first) | {"cluster": "another"})
    right_dump.write_text(f"{elsewhere}\n{rest}")
    refused = run(case, "--warehouse", str(right_dump))
    assert refused.returncode == 1
    assert "it is of a warehouse with Kafka cluster 'another'" in refused.stderr


def test_a_sink_that_cannot_read_its_warehouse_is_reported(case: Case, tmp_path: Path) -> None:
    config = tmp_path / "sink.yaml"
    config.write_text("colour: red\n")
    done = run(case, "--sink", str(config))
    assert done.returncode == 1
    assert "The sink could not list the contents of the warehouse" in done.stderr
    assert "colour" in done.stderr


def audited(case: Case, *words: str) -> dict[str, Any]:
    """An audit's report of each table."""
    done = run(case, "--format", "json", *words)
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    tables = {table["table"]: table for table in result["warehouse"]}
    wrong = [name for name, table in tables.items() if table["findings"]]
    assert result["clean"] is not bool(wrong or any(result["counts"].values()))
    assert done.returncode == (0 if result["clean"] else 1)
    return tables


def test_it_is_right_while_a_worker_continues(case: Case) -> None:
    with running(case.settings, case.folder) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        stop = threading.Event()
        load = threading.Thread(target=insert_until, args=(stop, case.mysql))
        load.start()
        try:
            worker.wait(lambda status: status["rows"] > 20)
            done = run(case)
            before = worker.destination()["rows"]
            worker.wait(lambda status: status["rows"] > before)
        finally:
            stop.set()
            load.join()
    assert done.stderr == ""
    assert done.returncode == 0, done.stdout
    assert "lost=0 repeated=0 foreign=0 different=0" in done.stdout.splitlines()[-1]


def insert_until(stop: threading.Event, mysql: Mysql) -> None:
    """Insert some rows each moment, in transactions of their own."""
    while not stop.wait(0.05):
        play(mysql, [f"INSERT INTO shop.log VALUES ({n}, 'under load')" for n in range(10)])


def test_a_record_that_somebody_adds_is_found_and_the_exit_code_says_so(case: Case) -> None:
    topics = case.scope.published
    assert isinstance(topics, RecordedTopics)
    topic = f"{case.scope.prefix}.shop.emptied"
    record = next(one for one in topics.records[topic, 1] + topics.records[topic, 0] if one.value)

    async def add() -> None:
        async with AIOKafkaProducer(
            **case.settings["kafka"],
        ) as producer:
            await producer.send_and_wait(
                topic, key=record.key or None, value=record.value, headers=list(record.headers)
            )

    asyncio.run(add())
    done = run(case, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["counts"]["repeated"] == 1
    assert not result["clean"]
    kinds = {finding["kind"]: finding for finding in result["findings"]}
    assert kinds["repeated"]["topic"] == topic
    assert kinds["repeated"]["change_id"] == dict(record.headers)["change_id"].decode()


@pytest.mark.parametrize(
    ("words", "program", "says"),
    [
        ((), "no-such-program", "ProgramMissing"),
        (("--binlogs", "no-such-file"), None, "--binlogs needs --server UUID"),
        (("--binlogs", "no-such-file", "--server", SERVER), None, "no-such-file is not a file"),
        ((), "false", "mysqlbinlog exited with code 1"),
    ],
)
def test_why_there_is_no_audit_is_reported_in_one_message(
    case: Case, words: tuple[str, ...], program: str | None, says: str
) -> None:
    done = run(case, *words, program=program)
    assert done.returncode in (1, 2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_files_of_a_server_that_is_gone_can_be_audited(case: Case) -> None:
    names = sorted(str(path) for path in Path(case.mysql.data).glob("binlog.0*"))
    uuid = case.scope.binlog.server_uuid
    done = run(case, "--binlogs", *names, "--server", uuid, "--from", f"{uuid}:5")
    assert "lost=0" in done.stdout.splitlines()[-1], done.stderr
