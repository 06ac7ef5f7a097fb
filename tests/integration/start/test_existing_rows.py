"""Rows older than the binlog: a start at the earliest change reports them with their number."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from app.worker.destination.takeover.initial_state import check_earliest, log_omitted_rows
from connectors.errors import StartIncomplete
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.wait import until
from tests.integration.worker.source import address_of, facts_of


@pytest.fixture(scope="module")
def mysql(stack: Stack) -> Iterator[Mysql]:
    rows = [f"INSERT INTO shop.t VALUES ({n})" for n in range(20)]
    table = "CREATE TABLE shop.t (id int PRIMARY KEY)"
    with own_mysql(
        stack, "CREATE DATABASE shop", table, *rows, options={"server_id": 41}
    ) as server:
        yield server


def shop(database: str, _table: str) -> bool:
    return database == "shop"


def checked(mysql: Mysql, *, accepted: bool = False) -> None:
    check_earliest("shop", facts_of(mysql), address_of(mysql), shop, accepted=accepted)


def test_a_binlog_with_all_is_taken_and_one_that_was_purged_or_reset_is_refused_with_the_counts(
    mysql: Mysql, caplog: pytest.LogCaptureFixture
) -> None:
    checked(mysql)
    run(mysql, "FLUSH BINARY LOGS")
    (last,) = [facts_of(mysql).binlogs[-1][0]]
    run(mysql, f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(
        StartIncomplete, match=r"purged.*about \d+ row\(s\).*estimates.*shop\.t \d+"
    ):
        checked(mysql)
    with caplog.at_level(logging.WARNING):
        checked(mysql, accepted=True)
        log_omitted_rows("shop", address_of(mysql), shop)
    assert [record.message.count("shop.t ") for record in caplog.records] == [1, 1]
    # A reset takes numbers and GTIDs back, but not the tables' age.
    begun = ask(mysql, "SELECT UNIX_TIMESTAMP()")
    until(lambda: ask(mysql, "SELECT UNIX_TIMESTAMP()") != begun)
    run(mysql, "RESET BINARY LOGS AND GTIDS")
    with pytest.raises(StartIncomplete, match=r"older than its oldest binlog file.*shop\.t \d+"):
        checked(mysql)
    run(mysql, "TRUNCATE shop.t")
    checked(mysql)
