"""Tests for which one series of MariaDB suffices: partial images, counts, its newest types."""

import pytest

from connectors.mysql.lookup.binlog_end import read_end
from connectors.mysql.rows.counter import row_count
from connectors.mysql.rows.decoder import RowDecoder
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.integration.mariadb.families import FAMILIES
from tests.integration.mariadb.source import written
from tests.integration.mariadb.test_values_oracle import assert_selected
from tests.integration.remedies import repaired
from tests.integration.worker.families import statements_for
from tests.integration.worker.source import address_of, decoded, facts_of, now
from tests.integration.worker.stated import not_native
from tests.steps import Rows

pytestmark = pytest.mark.stack

DATABASE = "newest"


@pytest.fixture(scope="module", autouse=True)
def database(newest: Mysql) -> None:
    run(newest, f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_counted_without_knowing_their_values(newest: Mysql, family: str) -> None:
    table = f"{DATABASE}.counted_{family}"
    steps = written(
        newest,
        *statements_for(table, FAMILIES[family]()),
        f"UPDATE {table} SET id = id + 100",
        f"DELETE FROM {table}",
    )
    charsets = facts_of(newest).charsets
    rows = [step for step in steps if isinstance(step, Rows)]
    counts = [row_count(step.table_map, step.event_type, step.body) for step in rows]
    assert sum(counts) >= 6
    assert counts == [
        len(list(RowDecoder(step.table_map, charsets).decode(step.event_type, step.body)))
        for step in rows
    ]


@pytest.mark.parametrize("image", ["FULL", "NOBLOB", "MINIMAL", "FULL_NODUP"])
@pytest.mark.parametrize("family", ["integers", "strings", "compressed", "addresses"])
def test_a_row_of_any_image_is_what_the_server_selects(
    newest: Mysql, family: str, image: str
) -> None:
    table = f"image_{family}_{image.lower()}"
    columns = list(FAMILIES[family]())
    create = statements_for(f"{DATABASE}.{table}", columns)
    run(newest, *create[:2])
    steps = written(
        newest,
        f"SET SESSION binlog_row_image = {image}",
        *create[:1],
        *create[2:],
    )
    assert_selected(newest, steps, table, DATABASE)
    updated = written(
        newest,
        f"SET SESSION binlog_row_image = {image}",
        create[0],
        f"UPDATE {DATABASE}.{table} SET c1 = c1, c0 = c0 WHERE id = 1",
        f"UPDATE {DATABASE}.{table} SET c0 = NULL WHERE id <= 3",
    )
    changes = decoded(newest, updated)
    assert len(changes) == len([row for row in changes if row.after()["c0"] is None]) > 0
    if image == "FULL":
        assert_selected(newest, steps + updated, table, DATABASE)


def test_a_vector_is_its_bytes(newest: Mysql) -> None:
    steps = written(
        newest,
        f"CREATE TABLE {DATABASE}.vectors (id int primary key, v vector(3))",
        f"INSERT INTO {DATABASE}.vectors VALUES (1, VEC_FromText('[1,-2,0.5]')), (2, NULL)",
    )
    (one, two) = [row.after()["v"] for row in decoded(newest, steps)]
    assert (one, two) == ("AACAPwAAAMAAAAA/", None)


def test_a_timestamp_may_be_beyond_2038(newest: Mysql) -> None:
    steps = written(
        newest,
        f"CREATE TABLE {DATABASE}.late (id int primary key, a timestamp(6) null, b timestamp null)",
        f"INSERT INTO {DATABASE}.late VALUES (1, '2106-02-07 06:28:15.999999', '2038-01-19 03:14:08')",
    )
    assert_selected(newest, steps, "late", DATABASE)
    (row,) = decoded(newest, steps)
    assert row.after()["a"] == "2106-02-07T06:28:15.999999Z"


def test_each_remedy_of_the_preflight_repairs_the_server_as_it_is_printed(newest: Mysql) -> None:
    spoiled = {
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "MINIMAL",
    }
    first, then = repaired(newest, spoiled, host="127.0.0.1")
    assert "4 problem(s)" in first
    assert "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO 'o''bare'@'127.0.0.1';" in first
    assert then == ""


def test_every_function_that_we_take_for_the_servers_own_is_that(newest: Mysql) -> None:
    with connected(newest) as cursor:
        assert not_native(cursor) == []


def test_the_source_is_past_an_end_only_once_a_transaction_follows(newest: Mysql) -> None:
    run(newest, "CREATE DATABASE unread", "CREATE TABLE unread.t (id int PRIMARY KEY)")
    ours = now(newest)
    assert not read_end(address_of(newest)).is_past(ours)
    run(newest, "FLUSH BINARY LOGS")
    assert not read_end(address_of(newest)).is_past(ours)
    run(newest, "INSERT INTO unread.t VALUES (1)")
    assert read_end(address_of(newest)).is_past(ours)
    assert not read_end(address_of(newest)).is_past(now(newest))
