"""The central store's thread writes committed history completely and once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

import pytest

from app.worker.schemas.store_mirror import CentralStore
from connectors.mysql.ddl.definition import Table
from connectors.mysql.schema_store import HISTORY, MetaStore
from devstack.mysql import Mysql
from tables.history.history import SchemaHistory
from tables.history.schema_store_rows import history_of
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.integration.central_store.conftest import store
from tests.unit.tables.history.test_schema_store_rows import same
from tests.unit.tables.made import ORDERS, applied, at, begun, between, names_of, offset, table


@pytest.fixture
def target(servers: Callable[[str], Mysql], database: str) -> MetaStore:
    return store(servers("9.7"), database)


def unread(destination: str) -> NoReturn:
    raise AssertionError(f"the journal of {destination} was read")


def read(target: MetaStore, destination: str = "shop") -> SchemaHistory:
    found = history_of(target.read(destination))
    assert found is not None
    return found


def added(history: SchemaHistory, *places: int) -> None:
    for pos in places:
        applied(history, pos, f"ALTER TABLE orders ADD COLUMN c{pos} int")


def begun_again(history: SchemaHistory) -> SchemaHistory:
    """The same as a new run has it: from its newest checkpoint on."""
    new = SchemaHistory()
    head = history.checkpoints[-1]
    later = [record for record in history.records if record.number > head.count]
    new.load(history.content(head), later)
    return new


def test_only_what_is_committed_is_written(target: MetaStore) -> None:
    central = CentralStore(target, unread)
    mirror, history = central.mirror("shop"), begun("orders")
    added(history, 200, 300, 400)
    mirror.begin(history, 1)
    assert mirror.status.to_json() == {"state": "catching up", "error": None, "lag_records": 1}
    central.follow()
    assert read(target).count == 1
    mirror.committed(3)
    assert mirror.status.lag_records == 2
    central.follow()
    assert mirror.status.to_json() == {"state": "following", "error": None, "lag_records": 0}
    assert same(read(target), history)


def test_a_checkpoint_is_written_once_its_piece_is_committed(target: MetaStore) -> None:
    central = CentralStore(target, unread)
    mirror, history = central.mirror("shop"), begun("orders")
    mirror.begin(history, 0)
    added(history, 200)
    history.checkpoint(between(290), made_ms=9)
    central.follow()
    assert len(read(target).checkpoints) == 1
    mirror.committed(1)
    central.follow()
    assert same(read(target), history)


def test_a_new_run_reads_the_journal_only_for_what_is_lacking(target: MetaStore) -> None:
    history = begun("orders")
    added(history, 200, 300)
    first = CentralStore(target, unread)
    first.mirror("shop").begin(history, 1)
    first.follow()
    history.checkpoint(between(350), made_ms=9)
    added(history, 400)
    asked: list[str] = []

    def journal(destination: str) -> SchemaHistory:
        asked.append(destination)
        return history

    for _ in range(2):
        again = CentralStore(target, journal)
        again.mirror("shop").begin(begun_again(history), 3)
        again.follow()
        assert same(read(target), history)
    assert asked == ["shop"]


def test_a_store_that_is_new_gets_all_that_the_journal_has(target: MetaStore) -> None:
    history = begun("orders")
    added(history, 200)
    history.checkpoint(between(290), made_ms=9)
    added(history, 300)
    history.checkpoint(between(390), made_ms=9)
    added(history, 400)
    central = CentralStore(target, lambda _: history)
    central.mirror("shop").begin(begun_again(history), 3)
    central.follow()
    assert same(read(target), history)


def rows_of(servers: Callable[[str], Mysql], database: str) -> list[tuple[object, ...]]:
    found = ask(
        servers("9.7"),
        f"SELECT id, sql_text FROM {database}.{HISTORY} ORDER BY binlog_offest",
    )
    return list(found)


def test_statements_that_a_destination_rewound_past_count_again_when_repeated(
    target: MetaStore, servers: Callable[[str], Mysql], database: str
) -> None:
    central = CentralStore(target, unread)
    mirror, history = central.mirror("shop"), begun("orders")
    added(history, 200, 300, 400)
    history.checkpoint(between(490), made_ms=9)
    mirror.begin(history, 3)
    central.follow()
    before = rows_of(servers, database)
    history.rollback(offset(250))
    mirror.begin(history, 1)
    central.follow()
    assert same(read(target), history)
    added(history, 300, 400)
    mirror.committed(3)
    central.follow()
    assert same(read(target), history)
    assert rows_of(servers, database) == before


def test_records_that_get_other_numbers_take_their_old_rows(target: MetaStore) -> None:
    central = CentralStore(target, unread)
    mirror, history = central.mirror("shop"), begun("orders")
    added(history, 200)
    applied(history, 300, "ALTER TABLE orders FROBNICATE")
    added(history, 400)
    given: Table = table("given")
    history.resolve(ORDERS, given, at(300))
    mirror.begin(history, history.count)
    central.follow()
    assert same(read(target), history)
    history.rollback(offset(310))
    mirror.begin(history, history.count)
    central.follow()
    added(history, 400, 500)
    mirror.committed(history.count)
    central.follow()
    assert same(read(target), history)
    assert names_of(read(target).find(*ORDERS)) == ["id", "given", "c400", "c500"]


def test_destinations_do_not_touch_each_others_rows(target: MetaStore) -> None:
    central = CentralStore(target, unread)
    histories = {name: begun("orders") for name in ("shop", "shop-2")}
    for name, history in histories.items():
        history.init(name)
        history.baseline({ORDERS: table(name)}, {}, between(100), begun().checkpoints[0].server)
        added(history, 200)
        central.mirror(name).begin(history, 1)
    central.follow()
    for name, history in histories.items():
        assert read(target, name).records == history.records
        assert read(target, name).now().tables() == history.now().tables()


@pytest.fixture
def running(target: MetaStore) -> Iterator[CentralStore]:
    central = CentralStore(target, unread)
    yield central
    central.stop()


def test_an_error_is_logged_once_and_shown_until_it_is_over(
    running: CentralStore,
    target: MetaStore,
    servers: Callable[[str], Mysql],
    database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mirror, history = running.mirror("shop"), begun("orders")
    added(history, 200, 300)
    wrong = replace(target.address, port=1)
    right, target.address = target.address, wrong
    with caplog.at_level(logging.INFO):
        running.start()
        mirror.begin(history, 1)
        until(lambda: mirror.status.state == "retrying")
        mirror.committed(2)
        time.sleep(2)
        assert "StoreLost" in (mirror.status.error or "")
        assert mirror.status.lag_records == 2
        target.address = right
        until(lambda: mirror.status.state == "following")
        assert mirror.status.error is None
        until(lambda: "written again" in caplog.text)
    assert caplog.text.count("StoreLost") == 1
    assert same(read(target), history)
    ask(servers("9.7"), f"DROP DATABASE {database}")
    added(history, 400)
    mirror.committed(3)
    until(lambda: mirror.status.lag_records == 0)
    assert same(read(target), history)


def test_what_was_committed_last_is_written_before_the_end(target: MetaStore) -> None:
    central = CentralStore(target, unread)
    mirror, history = central.mirror("shop"), begun("orders")
    central.start()
    for pos in range(200, 5200, 100):
        added(history, pos)
        mirror.begin(history, 1) if pos == 200 else mirror.committed(history.count)
    central.stop()
    assert same(read(target), history)


def test_it_can_be_stopped_before_it_was_started(target: MetaStore) -> None:
    CentralStore(target, unread).stop()
