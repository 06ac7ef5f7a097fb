"""`snapshot.mode: recovery`: a wrong or damaged history begins again, and each change is published once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.operator.journal_access import Journal
from app.settings.model import load
from connectors.kafka.reading import StoredRecord, read_to_end
from connectors.mysql.position import SourceOffset
from demo import checks
from devstack import Stack
from devstack.mysql import Mysql
from tables.journal_format import Entry, tombstone
from tables.state.journal.state import cursor_key, encoded
from tests.harness.servers import WITHOUT_GTIDS, own_server
from tests.harness.sql import run
from tests.harness.topics import rows, statements
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_quarantine import images, record_of, schema

TABLES = ("calm", "moved", "swapped", "torn")
NEWEST, MARIADB = "9.7", "mariadb-11.8"
_FULL = pytest.mark.long(
    "rows that name no columns are read by the history alone: MINIMAL asks more"
)
_OTHER = pytest.mark.long("the newest MySQL, with GTIDs")
MADE = (
    "CREATE DATABASE shop",
    *(f"CREATE TABLE shop.{name} (id int PRIMARY KEY, a int, b int)" for name in TABLES),
)
EXCHANGE = "RENAME COLUMN a TO b, RENAME COLUMN b TO a"
RECOVERY = {"mode": "recovery"}
NEVER = {"mode": "never"}


@pytest.fixture(
    params=[
        (NEWEST, "MINIMAL"),
        pytest.param((NEWEST, "FULL"), marks=_FULL),
        pytest.param((f"{NEWEST}{WITHOUT_GTIDS}", "MINIMAL"), marks=_OTHER),
        pytest.param((MARIADB, "NO_LOG"), marks=_OTHER),
        pytest.param((MARIADB, "FULL"), marks=_OTHER),
    ],
    ids=" ".join,
)
def server(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The server's name, and what it writes of columns."""
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def metadata(server: tuple[str, str]) -> str:
    return server[1]


@pytest.fixture
def mysql(server: tuple[str, str], tmp_path: Path) -> Iterator[Mysql]:
    """A server of the test's own."""
    name, metadata = server
    options: dict[str, str | int] = {"server_id": 9, "binlog_row_metadata": metadata}
    with own_server(name, tmp_path / "server", *MADE, options=options) as made:
        yield made


def insert(mysql: Mysql, number: int, *tables: str) -> None:
    for name in tables:
        values = f"({number}, {number}0, {number}00)"
        run(mysql, f"INSERT INTO shop.{name} (id, a, b) VALUES {values}")


def unlogged(mysql: Mysql, statement: str) -> None:
    run(mysql, "SET sql_log_bin = 0", statement)


def of_history(journal: Journal, *kinds: str) -> dict[str, StoredRecord]:
    """The last record of each key of the schema history."""
    found = asyncio.run(read_to_end(journal.options, journal.topic, journal.partition))
    records = {record.key.decode(): record for record in found}
    return {key: one for key, one in records.items() if key.split("/")[0] in kinds}


def beginnings(journal: Journal) -> int:
    """How often the history has begun."""
    heads = [
        json.loads(one.value)
        for key, one in of_history(journal, "checkpoint").items()
        if key.endswith("/head")
    ]
    return sum(head.get("begins", False) for head in heads)


def write(journal: Journal, notes: Iterable[Entry]) -> None:
    asyncio.run(journal.write_all(notes))


def fails(wanted: dict[str, Any], folder: Path, *texts: str) -> None:
    """Start a worker without recovery, and see what it advises."""
    wanted["destinations"]["shop"]["snapshot"] = NEVER
    with running(wanted, folder) as worker:
        error = worker.wait(lambda status: status["state"] == "FAILED")["error"]
        for text in (*texts, "snapshot.mode to recovery"):
            assert text in error
    wanted["destinations"]["shop"]["snapshot"] = RECOVERY


def resolve(worker: Worker, folder: Path, table: str, columns: str) -> None:
    """Give a definition, by which all that waits is published."""
    file = folder / f"{table}.sql"
    file.write_text(f"CREATE TABLE {table} ({columns})")
    given = schema(folder, "resolve", "shop", f"shop.{table}", "--definition", str(file))
    assert given.returncode == 0, given.stdout + given.stderr + worker.log[-3000:]


def check_each_once(stack: Stack, prefix: str, expected: dict[str, list[dict[str, int]]]) -> None:
    """Check that subscribers have these rows, and no number is missing or there twice."""
    found = {name: rows(stack, prefix, name) for name in expected}
    assert {name: images(changes) for name, changes in found.items()} == expected
    everything = [one for changes in found.values() for one in changes]
    assert {one.value["op"] for one in everything} == {"c"}
    records = [record_of(one) for one in (*everything, *statements(stack, prefix))]
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}


def test_a_damaged_and_wrong_history_begins_again_once_and_nothing_is_lost_or_repeated(
    stack: Stack, mysql: Mysql, metadata: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        insert(mysql, 1, *TABLES)
        run(mysql, "ALTER TABLE shop.calm ADD c int NOT NULL DEFAULT 5")
        unlogged(mysql, "ALTER TABLE shop.torn MODIFY b bigint FIRST")
        insert(mysql, 2, "torn")
        worker.wait(lambda status: [one["table"] for one in status["set_aside"]] == ["shop.torn"])
        before = worker.wait(lambda status: status["rows"] >= 4)["cursor"]
        assert worker.stop() == 0
    journal = Journal.of(load(), "shop")
    (key,) = of_history(journal, "history")
    write(journal, [(key.encode(), b"not json"), (b"checkpoint/shop/one/head", b"{}")])
    # It is wrong too, and nothing shows it without FULL.
    unlogged(mysql, f"ALTER TABLE shop.swapped {EXCHANGE}")
    insert(mysql, 3, *TABLES)
    # By the server's present definition the last row would have the values of a in b.
    run(mysql, f"ALTER TABLE shop.moved {EXCHANGE}")
    insert(mysql, 4, *TABLES)

    wanted["destinations"]["shop"]["snapshot"] = RECOVERY
    with running(wanted, tmp_path) as worker:
        status = worker.wait(lambda status: status["state"] == "RUNNING")
        assert status["cursor"]["epoch"] > before["epoch"]
        assert any("snapshot.mode is recovery" in one for one in status["warnings"])
        waits = ["shop.torn"] if metadata == "FULL" else ["shop.moved", "shop.torn"]
        worker.wait(lambda status: sorted(one["table"] for one in status["set_aside"]) == waits)
        if metadata != "FULL":
            assert (
                "or `python -m app schema resolve` gives their definition: shop.moved" in worker.log
            )
            resolve(worker, tmp_path, "moved", "id int PRIMARY KEY, a int, b int")
        resolve(worker, tmp_path, "torn", "b bigint, id int PRIMARY KEY, a int")
        insert(mysql, 5, *TABLES)
        worker.wait(lambda status: status["rows"] == 3 * 4 + 1)
        assert "as it could not be used: JournalUnreadable" in worker.log
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    assert beginnings(journal) == 2
    assert of_history(journal, "history")[key].value == tombstone(b"")[1]

    # The mode is still set: the history is the one that began then.
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        assert "which is done once" in worker.log
        insert(mysql, 6, *TABLES)
        worker.wait(lambda status: status["rows"] == 4)
        same = schema(tmp_path, "check", "shop")
        assert same.returncode == 0, same.stdout + same.stderr
        assert worker.stop() == 0
    assert beginnings(journal) == 2
    plain = [{"id": n, "a": 10 * n, "b": 100 * n} for n in range(1, 7)]
    check_each_once(
        stack,
        wanted["prefix"],
        {
            "calm": [row | {"c": 5} if row["id"] > 1 else row for row in _without(plain, 2)],
            "moved": _without(plain, 2),
            "swapped": _without(plain, 2),
            "torn": plain,
        },
    )


def _without(found: list[dict[str, int]], number: int) -> list[dict[str, int]]:
    return [row for row in found if row["id"] != number]


def missing(journal: Journal) -> list[Entry]:
    """All of the history is removed."""
    kinds = ("history", "baseline", "checkpoint", "resolved")
    return [tombstone(key.encode()) for key in of_history(journal, *kinds)]


def content(journal: Journal) -> list[Entry]:
    """The definitions of a checkpoint are no JSON."""
    parts = [key for key in of_history(journal, "checkpoint") if not key.endswith("/head")]
    return [(key.encode(), b"no json " * 20) for key in parts]


def too_short(journal: Journal, earlier: SourceOffset) -> list[Entry]:
    """The cursor is before the history's beginning."""
    end = asyncio.run(journal.latest_state()).cursor
    assert end is not None
    back = replace(end, offset=earlier, proof=type(end.proof)())
    return [(cursor_key("shop"), encoded(back.to_json()))]


@pytest.mark.remedy("HistoryTooShort", "JournalDamaged")
@pytest.mark.long("one kind of damage, after which all is the same")
def test_any_damage_of_the_history_is_recovered_from_while_the_mode_is_set(
    stack: Stack, mysql: Mysql, metadata: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(stack, mysql, tmp_path, start="latest")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        insert(mysql, 1, "calm", "moved")
        worker.wait(lambda status: status["rows"] == 2)
        assert worker.stop() == 0
    journal = Journal.of(load(), "shop")
    first = asyncio.run(journal.state()).cursor
    assert first is not None
    damage: list[tuple[Callable[[], list[Entry]], str]] = [
        (lambda: missing(journal), "JournalDamaged"),
        (lambda: content(journal), "JournalUnreadable"),
    ]
    for number, (made, error) in enumerate(damage, start=2):
        write(journal, made())
        insert(mysql, number, "calm", "moved")
        fails(wanted, tmp_path, error)
        assert len(rows(stack, wanted["prefix"], "calm")) == number - 1, "nothing is published"
        with running(wanted, tmp_path) as worker:
            worker.wait(lambda status: status["rows"] == 2)
            assert f"as it could not be used: {error}" in worker.log
            assert worker.stop() == 0
            assert "Traceback" not in worker.log
    plain = [{"id": n, "a": 10 * n, "b": 100 * n} for n in range(1, 4)]
    check_each_once(stack, wanted["prefix"], {"calm": plain, "moved": plain})

    # Set back by hand to before the last beginning, changes are published again, and under new numbers.
    write(journal, too_short(journal, first.offset))
    fails(wanted, tmp_path, "HistoryTooShort")
    run(mysql, "ALTER TABLE shop.moved ADD c int NOT NULL DEFAULT 7")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == (4 if metadata == "FULL" else 2))
        assert "as it could not be used: HistoryTooShort" in worker.log
        if metadata != "FULL":
            resolve(worker, tmp_path, "moved", "id int PRIMARY KEY, a int, b int")
            worker.wait(lambda status: status["rows"] == 4)
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    for name in ("calm", "moved"):
        found = rows(stack, wanted["prefix"], name)
        assert images(found) == plain + plain[1:]
        assert [one.change_id for one in found][3:] == [one.change_id for one in found][1:3]
    assert asyncio.run(journal.state()).is_whole()


@pytest.mark.long(
    "the process's other parts do not change; this asks for one that must not be given up"
)
def test_existing_rows_under_way_wait_for_a_definition_that_recovery_does_not_know(
    stack: Stack, mysql: Mysql, metadata: str, tmp_path: Path
) -> None:
    values = ", ".join(f"({n}, {n}, {n})" for n in range(1, 20_001))
    run(mysql, f"INSERT INTO shop.moved VALUES {values}")
    slow = {"mode": "initial", "rows_per_second": 2_000}
    wanted = settings(stack, mysql, tmp_path, start="latest", snapshot=slow)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: bool(status["snapshot"].get("shop.moved", {}).get("rows")))
        worker.process.kill()
        worker.process.wait()
    run(mysql, "ALTER TABLE shop.moved ADD c int NOT NULL DEFAULT 7")
    wanted["destinations"]["shop"]["snapshot"] = RECOVERY
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        insert(mysql, 20_001, "moved")
        if metadata != "FULL":
            worker.wait(
                lambda status: [one["table"] for one in status["set_aside"]] == ["shop.moved"]
            )
            assert worker.destination()["snapshot"]["shop.moved"]["state"] in ("waiting", "reading")
            resolve(worker, tmp_path, "moved", "id int PRIMARY KEY, a int, b int, c int NOT NULL")
        worker.wait(lambda status: status["snapshot"]["shop.moved"]["state"] == "done")
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    found = {change.value["after"]["id"] for change in rows(stack, wanted["prefix"], "moved")}
    assert found == set(range(1, 20_002))
