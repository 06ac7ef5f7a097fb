"""`python -m app cursor …` beside a real worker, which is fenced and resumes from the given cursor."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.__main__ import main
from app.operator.journal_access import Journal
from app.settings.model import load
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import GTIDS_OFF, Options, own_mysql
from tests.harness.sql import connected, run
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings
from tests.integration.worker.source import end_of, facts_of

Say = Callable[..., tuple[int, str, str]]
ROWS = "ROWS OF A SKIPPED TRANSACTION"


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command; its exit code and what it printed."""
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    monkeypatch.setenv("USER", "operator-of-the-test")

    def said(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["cursor", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return said


def server(stack: Stack, options: Options) -> Iterator[Mysql]:
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, v varchar(40))",
        options={"server_id": 9, **options},
    ) as made:
        yield made


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own."""
    yield from server(stack, {})


@pytest.fixture
def without_gtids(stack: Stack) -> Iterator[Mysql]:
    """The same, whose transactions have no GTIDs."""
    yield from server(stack, GTIDS_OFF)


def insert(*ids: int, text: str = "") -> str:
    return f"INSERT INTO shop.t VALUES {', '.join(f'({n}, {text!r})' for n in ids)}"


def ids(stack: Stack, wanted: dict[str, Any]) -> list[int]:
    return [change.value["after"]["id"] for change in rows(stack, wanted["prefix"], "t")]


def reached(stack: Stack, wanted: dict[str, Any], worker: Worker, expected: list[int]) -> None:
    """Wait until just these rows are published, and all numbers without a gap."""
    # Before the first row there is no topic to read.
    worker.wait(lambda status: status["rows"] > 0)
    until(
        lambda: len(ids(stack, wanted)) >= len(expected),
        glance=0.2,
        late=lambda: f"{ids(stack, wanted)}\n{worker.log[-3000:]}",
    )
    assert ids(stack, wanted) == expected, worker.log[-3000:]


@pytest.mark.remedy("NotConfirmed", "AlreadyPast", "StatementBasedChange")
def test_one_transaction_is_skipped_before_and_after_the_worker_meets_it(
    stack: Stack, mysql: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    uuid = facts_of(mysql).server_uuid
    with running(wanted, tmp_path) as worker:
        run(mysql, insert(1))
        worker.wait(lambda status: status["rows"] == 1)
        first = worker.destination()["cursor"]["epoch"]
        # Nothing is changed before it is agreed to, and nothing that is done.
        assert "NotConfirmed" in say("skip", "shop", "--gtid", f"{uuid}:100", "--why", "x")[2]
        code, _, err = say(
            "skip", "shop", "--gtid", f"{uuid}:1", "--why", "x", "--yes-lose-changes"
        )
        assert (code, "AlreadyPast" in err) == (1, True)
        assert worker.destination()["cursor"]["epoch"] == first

        code, out, _ = say(
            "skip", "shop", "--gtid", f"{uuid}:100", "--why", "bad rows", "--yes-lose-changes"
        )
        assert (code, "will be skipped" in out) == (0, True)
        worker.wait(lambda status: status["cursor"]["epoch"] > first + 1)
        with connected(mysql) as cursor:
            cursor.execute(f"SET gtid_next = '{uuid}:100'")
            cursor.execute("BEGIN")
            cursor.execute(insert(*range(1000, 1500), text=ROWS))
            cursor.execute(insert(*range(2000, 2500), text=ROWS))
            cursor.execute("COMMIT")
            cursor.execute("SET gtid_next = 'AUTOMATIC'")
            cursor.execute(insert(2))
        reached(stack, wanted, worker, [1, 2])

        # One that nobody can carry: the worker has failed at it, and is called back.
        run(
            mysql,
            "SET binlog_format = 'STATEMENT'",
            insert(3),
            "SET binlog_format = 'ROW'",
            insert(4),
        )
        failed = worker.wait(lambda status: status["state"] == "FAILED")
        gtid = failed["error"].partition("gtid=")[2].partition(",")[0].partition("]")[0]
        assert "python -m app cursor skip shop --gtid GTID --why REASON" in failed["error"]
        assert say("skip", "shop", "--gtid", gtid, "--why", "no rows", "--yes-lose-changes")[0] == 0
        worker.wait(lambda status: status["state"] == "RUNNING")
        reached(stack, wanted, worker, [1, 2, 4])

        # Its definition is followed, though nothing of the statement is published.
        number = int(gtid.rpartition(":")[2]) + 2
        altered = f"{uuid}:{number}"
        assert say("skip", "shop", "--gtid", altered, "--why", "ddl", "--yes-lose-changes")[0] == 0
        run(
            mysql,
            "ALTER TABLE shop.t ADD COLUMN w int DEFAULT 7",
            "INSERT INTO shop.t (id) VALUES (5)",
        )
        reached(stack, wanted, worker, [1, 2, 4, 5])
        assert rows(stack, wanted["prefix"], "t")[-1].value["after"]["w"] == 7
        worker.wait(lambda _: f"transaction {altered} at" in worker.log)
        result = worker.get("/metrics")
        assert 'handling="skipped",type="QUERY"' in result
        assert ROWS not in worker.log
        assert [change.seq for change in rows(stack, wanted["prefix"], "t")][:3] == [3, 4, 5]
        found = json.loads(say("show", "shop", "--format", "json")[1])
        assert worker.stop() == 0
    assert [(one["transaction"], bool(one["done"])) for one in found["skips"]] == [
        (f"{uuid}:100", True),
        (gtid, True),
        (altered, True),
    ]
    assert [one["what"] for one in found["interventions"]] == ["skip"] * 3
    assert {one["by"] for one in found["interventions"]} == {"operator-of-the-test"}
    executed = facts_of(mysql).gtid_executed
    cursor = asyncio.run(Journal.of(load(), "shop").state()).cursor
    assert cursor is not None
    assert cursor.offset.gtid_set == executed


@pytest.mark.remedy("PositionWithin")
def test_a_cursor_is_set_back_and_forward_while_a_worker_leads(
    stack: Stack, mysql: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = settings(stack, mysql, tmp_path)
    with running(wanted, tmp_path) as worker:
        run(mysql, insert(1))
        time.sleep(0.05)
        moment = int(time.time() * 1000)
        run(mysql, insert(2), "FLUSH BINARY LOGS", insert(3))
        reached(stack, wanted, worker, [1, 2, 3])
        back = ("set", "shop", "--time", str(moment), "--why", "again")
        code, _, err = say(*back)
        assert (code, "back: 2 transaction(s) are published again" in err) == (1, True)
        assert say(*back, "--yes-lose-changes")[0] == 0
        reached(stack, wanted, worker, [1, 2, 3, 2, 3])
        again = [change.change_id for change in rows(stack, wanted["prefix"], "t")]
        assert again[1:3] == again[3:5]

        # Forward over an ALTER that nobody reads.
        exported = say("export", "shop")[1]
        (tmp_path / "shop.json").write_text(exported)
        middle = end_of(mysql)
        run(mysql, "ALTER TABLE shop.t ADD COLUMN w int DEFAULT 7")
        worker.wait(lambda status: status["cursor"]["pos"] > middle.pos)
        code, out, _ = say("set", "shop", "--earliest", "--why", "all", "--yes-lose-changes")
        assert (code, "back: " in out) == (0, True)
        reached(stack, wanted, worker, [1, 2, 3, 2, 3, 1, 2, 3])
        code, out, _ = say("set", "shop", "--latest", "--why", "new", "--yes-lose-changes")
        assert code == 0
        run(mysql, "INSERT INTO shop.t (id) VALUES (4)")
        reached(stack, wanted, worker, [1, 2, 3, 2, 3, 1, 2, 3, 4])
        assert rows(stack, wanted["prefix"], "t")[-1].value["after"]["w"] == 7
        wrong = ("set", "shop", "--file", middle.file, "--pos", str(middle.pos - 1), "--why", "x")
        within = say(*wrong)[2]
        assert "PositionWithin" in within
        # Either of its two positions is one.
        (file, _), (_, end) = re.findall(r"(?:from|to) ([\w.]+):(\d+)", within)
        right = ("set", "shop", "--file", file, "--pos", end, "--why", "x", "--yes-lose-changes")
        assert say(*right)[0] == 0
        reached(stack, wanted, worker, [1, 2, 3, 2, 3, 1, 2, 3, 4, 4])
        text = say("show", "shop")[1]
        assert "operator-of-the-test" in text
        assert worker.stop() == 0
        assert "quarantined" not in worker.log

    # Another installation takes up what the first one exported.
    other = {**wanted, "prefix": f"{wanted['prefix']}-2"}
    (tmp_path / "aqueduct.yaml").write_text(yaml.safe_dump(other))
    assert say("import", "shop", str(tmp_path / "shop.json"), "--why", "moved")[0] == 0
    with running(other, tmp_path) as worker:
        reached(stack, other, worker, [4])
        assert rows(stack, other["prefix"], "t")[0].seq > json.loads(exported)["cursor"]["seq"]
        assert worker.stop() == 0


def test_without_gtids_a_transaction_is_skipped_by_where_it_begins(
    stack: Stack, without_gtids: Mysql, tmp_path: Path, say: Say
) -> None:
    wanted = settings(stack, without_gtids, tmp_path, decoders=0)
    run(without_gtids, insert(1))
    position = end_of(without_gtids)
    run(without_gtids, insert(2, 3), insert(4))
    with running(
        {**wanted, "destinations": {"shop": {**wanted["destinations"]["shop"], "start": "latest"}}},
        tmp_path,
    ) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        back = ("set", "shop", "--earliest", "--why", "x", "--yes-lose-changes")
        skip = (
            "skip",
            "shop",
            "--file",
            position.file,
            "--why",
            "x",
            "--yes-lose-changes",
            "--pos",
        )
        assert "AlreadyPast" in say(*skip, str(position.pos))[2]
        worker.process.kill()
        worker.process.wait()
    assert say(*back)[0] == 0
    assert "PositionWithin" in say(*skip, str(position.pos + 1))[2]
    assert say(*skip, str(position.pos))[0] == 0
    with running(wanted, tmp_path) as worker:
        reached(stack, wanted, worker, [1, 4])
        assert worker.stop() == 0
