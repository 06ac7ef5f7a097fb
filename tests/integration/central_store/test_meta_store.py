"""The central schema store on real servers: Canal's two tables, and rows that come again change nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from connectors.errors import StoreLost, StoreRefused, StoreUnfit
from connectors.mysql.schema_store import (
    HISTORY,
    SNAPSHOT,
    HistoryRow,
    MetaStore,
    SnapshotRow,
    creation,
)
from devstack.mysql import Mysql
from tables.history.history import SchemaHistory
from tables.history.schema_store_rows import (
    history_of,
    key_of,
    record_rows,
    snapshot_key,
    snapshot_rows,
)
from tests.harness.sql import ask
from tests.integration.central_store.conftest import store
from tests.unit.tables.history.test_schema_store_rows import mixed, same
from tests.unit.tables.made import applied, begun, between

CANAL_COLUMNS = {
    HISTORY: "id gmt_create gmt_modified destination binlog_file binlog_offest binlog_master_id "
    "binlog_timestamp use_schema sql_schema sql_table sql_text sql_type extra",
    SNAPSHOT: "id gmt_create gmt_modified destination binlog_file binlog_offest binlog_master_id "
    "binlog_timestamp data extra",
}


def write(target: MetaStore, rows: Sequence[HistoryRow] | Sequence[SnapshotRow]) -> None:
    with target.session() as session:
        session.write(rows)


def written(target: MetaStore, history: SchemaHistory) -> None:
    for record in history.records:
        write(target, record_rows(record))
    for head in history.checkpoints:
        write(target, snapshot_rows(history.content(head)))


def table(server: Mysql, database: str, name: str = HISTORY) -> list[tuple[object, ...]]:
    return list(ask(server, f"SELECT * FROM {database}.{name} ORDER BY id"))


def row(extra: str = '{"format": 1}', *, text: str = "", offset: int = 4) -> HistoryRow:
    return HistoryRow(
        destination="shop", file="b.1", offset=offset, master_id="u", ts_ms=1, sql_text=text, extra=extra
    )  # fmt: skip


def test_the_tables_are_canals(server: Mysql, database: str) -> None:
    with store(server, database).session():
        pass
    for name, columns in CANAL_COLUMNS.items():
        found = ask(
            server,
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = "
            f"'{database}' AND table_name = '{name}' ORDER BY ordinal_position",
        )
        assert [one for one, _ in found] == columns.split()
        keys = ask(
            server,
            "SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index), MIN(non_unique) FROM "
            f"information_schema.statistics WHERE table_schema = '{database}' AND table_name = '{name}' "
            "GROUP BY index_name ORDER BY index_name",
        )
        assert {(str(key).lower(), of, int(str(many))) for key, of, many in keys} == {
            ("primary", "id", 0),
            ("binlog_file_offest", "destination,binlog_master_id,binlog_file,binlog_offest", 0),
            ("destination", "destination", 1),
            ("destination_timestamp", "destination,binlog_timestamp", 1),
            ("gmt_modified", "gmt_modified", 1),
        }


def test_the_history_read_back_is_the_one_written(server: Mysql, database: str) -> None:
    history, target = mixed(), store(server, database)
    other = begun("elsewhere")
    written(target, history)
    with target.session() as session:
        rows = [row for head in other.checkpoints for row in snapshot_rows(other.content(head))]
        session.write([replace(one, destination="other") for one in rows])
    assert same(history_of(target.read("shop")), history)


def test_what_comes_again_changes_nothing(server: Mysql, database: str) -> None:
    moments = iter(datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in range(24))
    target = MetaStore(store(server, database).address, database, now=lambda: next(moments))
    history = mixed()
    written(target, history)
    before = [table(server, database, name) for name in (HISTORY, SNAPSHOT)]
    again = iter(datetime(2027, 1, 1, tzinfo=UTC) for _ in range(24))
    written(MetaStore(target.address, database, now=lambda: next(again)), history)
    assert [table(server, database, name) for name in (HISTORY, SNAPSHOT)] == before
    write(target, [replace(record_rows(history.records[0])[-1], sql_text="other")])
    changed = [one for one in table(server, database) if one not in before[0]]
    assert [(one[11], one[2] > one[1]) for one in changed] == [("other", True)]  # type: ignore[operator]


def test_large_and_strange_statements_are_kept(server: Mysql, database: str) -> None:
    target = store(server, database)
    text = "ALTER TABLE t COMMENT '😀 \\ \" \0 é'" + "x" * 1_500_000
    write(target, [row(text=text), row(text="b", offset=5)])
    assert [one.sql_text for one in target.read("shop").history] == [text, "b"]


def test_what_was_forgotten_counts_again_once_it_comes_again(server: Mysql, database: str) -> None:
    target, history = store(server, database), mixed()
    written(target, history)
    last = history.records[-1]
    with target.session() as session:
        session.forget(HISTORY, "shop", [key_of(last)])
        session.forget(SNAPSHOT, "shop", [snapshot_key(history.checkpoints[-1])])
        assert last.number not in [mark.number for mark in session.marks(HISTORY, "shop")]
        assert [mark.number for mark in session.marks(SNAPSHOT, "shop")] == [1]
    read = history_of(target.read("shop"))
    assert read is not None
    assert (read.count, len(read.checkpoints)) == (last.number - 1, 1)
    written(target, history)
    assert same(history_of(target.read("shop")), history)


def test_old_snapshots_go_except_the_newest_of_them(server: Mysql, database: str) -> None:
    target, history = store(server, database), begun("orders")
    for pos in (200, 300, 400):
        applied(history, pos, f"ALTER TABLE orders ADD COLUMN c{pos} int")
        history.checkpoint(between(pos + 90), made_ms=pos)
    written(target, history)
    with target.session() as session:
        session.expire("other", 10**15)
        session.expire("shop", 395)
        assert [mark.number for mark in session.marks(SNAPSHOT, "shop")] == [3, 4]
    read = history_of(target.read("shop"))
    assert read is not None
    history.forget_before(3)
    assert same(read, history)


def test_rows_of_others_are_left_alone(server: Mysql, database: str) -> None:
    target = store(server, database)
    with target.session():
        pass
    for name in (HISTORY, SNAPSHOT):
        for extra in ("'not JSON'", "NULL", "'{}'", "'[1]'", "''"):
            ask(
                server,
                f"INSERT INTO {database}.{name} (gmt_create, gmt_modified, destination, "
                f"binlog_timestamp, extra) VALUES (NOW(), NOW(), 'shop', 1, {extra})",
            )
    written(target, mixed())
    with target.session() as session:
        assert len(session.marks(HISTORY, "shop")) == mixed().count
        session.expire("shop", 10**15)
    assert same(history_of(target.read("shop")), _since_the_last(mixed()))
    assert len(table(server, database)) == 5 + mixed().count
    theirs = f"SELECT COUNT(*) FROM {database}.{SNAPSHOT} WHERE binlog_file IS NULL"
    assert ask(server, theirs)[0] == (5,)


def _since_the_last(history: SchemaHistory) -> SchemaHistory:
    history.forget_before(history.checkpoints[-1].number)
    return history


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("DROP COLUMN extra", "meta_history has no column extra"),
        ("MODIFY sql_text varchar(500)", r"meta_history.sql_text is varchar\(500\)"),
        ("MODIFY binlog_offest int", "meta_history.binlog_offest is int"),
        ("DROP KEY binlog_file_offest", "meta_history has no UNIQUE KEY"),
        ("ADD COLUMN mine int NOT NULL", "meta_history.mine demands a value"),
    ],
)
def test_a_table_of_another_shape_is_refused(
    servers: Callable[[str], Mysql], database: str, change: str, fault: str
) -> None:
    server = servers("9.7")
    with store(server, database).session():
        pass
    ask(server, f"ALTER TABLE {database}.{HISTORY} {change}")
    with pytest.raises(StoreUnfit, match=fault), store(server, database).session():
        pass


def test_a_wider_table_is_welcome(servers: Callable[[str], Mysql], database: str) -> None:
    server = servers("9.7")
    ask(
        server,
        f"CREATE DATABASE {database}",
        f"USE {database}",
        creation(HISTORY).replace("`extra` text", "`extra` longtext, `mine` int"),
    )
    written(store(server, database), mixed())
    assert same(history_of(store(server, database).read("shop")), mixed())


def granted(server: Mysql, database: str, grants: Iterable[str]) -> MetaStore:
    user = f"u{database[-9:]}"
    ask(server, f"CREATE USER '{user}'@'%' IDENTIFIED BY 'right'")
    for grant in grants:
        ask(server, f"GRANT {grant} ON {database}.* TO '{user}'@'%'")
    return store(server, database, user=user, password="right")


def test_the_grants_that_are_reported_are_enough(server: Mysql, database: str) -> None:
    target = granted(server, database, ["CREATE, SELECT, INSERT, UPDATE, DELETE"])
    history = mixed()
    written(target, history)
    with target.session() as session:
        session.forget(HISTORY, "shop", [key_of(history.records[-1])])
        session.expire("shop", 10**15)


@pytest.mark.remedy("StoreRefused")
@pytest.mark.parametrize("grants", [[], ["SELECT"], ["CREATE, SELECT"]])
def test_a_missing_grant_is_named_with_those_that_are_enough(
    server: Mysql, database: str, grants: list[str]
) -> None:
    target = granted(server, database, grants)
    with pytest.raises(StoreRefused, match="denied") as caught:
        written(target, mixed())
    (wanted,) = re.findall(r"GRANT ([A-Z, ]+) on its database", str(caught.value))
    ask(server, f"GRANT {wanted} ON {database}.* TO 'u{database[-9:]}'@'%'")
    written(target, mixed())
    assert same(history_of(target.read("shop")), mixed())


def test_a_wrong_password_is_named(server: Mysql, database: str) -> None:
    target = granted(server, database, ["ALL"])
    wrong = MetaStore(replace(target.address, password="wrong"), database)
    with pytest.raises(StoreRefused, match="Access denied"):
        wrong.read("shop")


def test_a_store_that_is_away_is_lost_and_then_there_again(
    servers: Callable[[str], Mysql], database: str
) -> None:
    server = servers("8.0")
    target = store(server, database)
    written(target, mixed())
    server.kill()
    with pytest.raises(StoreLost):
        target.read("shop")
    server.start()
    assert same(history_of(target.read("shop")), mixed())


def test_tables_that_went_are_made_again(servers: Callable[[str], Mysql], database: str) -> None:
    server = servers("9.7")
    target = store(server, database)
    written(target, mixed())
    ask(server, f"DROP DATABASE {database}")
    with pytest.raises((StoreRefused, StoreUnfit)):
        target.read("shop")
    written(target, mixed())
    assert same(history_of(target.read("shop")), mixed())


@pytest.mark.remedy("StoreUnfit")
def test_a_row_that_the_server_takes_not_is_named_until_it_takes_it(
    servers: Callable[[str], Mysql], database: str
) -> None:
    server = servers("5.7")
    target = store(server, database)
    with pytest.raises(StoreUnfit, match="max_allowed_packet"):
        write(target, [row(text="x" * 5_000_000)])
    assert target.read("shop").history == []
    ((before,),) = ask(server, "SELECT @@GLOBAL.max_allowed_packet")
    ask(server, "SET GLOBAL max_allowed_packet = 16777216")
    try:
        write(target, [row(text="x" * 5_000_000)])
    finally:
        ask(server, f"SET GLOBAL max_allowed_packet = {before}")
    assert len(target.read("shop").history) == 1


def test_two_that_write_at_once_both_get_through(server: Mysql, database: str) -> None:
    first, second = store(server, database), store(server, database)
    history = mixed()
    with first.session() as one, second.session() as two:
        for record in history.records:
            one.write(record_rows(record))
            two.write(record_rows(record))
        for head in history.checkpoints:
            two.write(snapshot_rows(history.content(head)))
    assert same(history_of(first.read("shop")), history)
