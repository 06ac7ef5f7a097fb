"""Servers before 8.0 prove their past too: they write no times of commit, with GTIDs or without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.errors import SourceDiverged
from devstack.mysql import Mysql
from tests.harness.servers import GTIDS_OFF, own_server
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.integration.failover.prove import at_home, published

_WITH = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "log_slave_updates": "ON"}


@pytest.fixture(params=["5.6", "5.7 with GTIDs"])
def mysql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mysql]:
    series, _, has_gtids = request.param.partition(" ")
    options: dict[str, str | int] = {"server_id": 9, **(_WITH if has_gtids else GTIDS_OFF)}
    with own_server(series, tmp_path / "mysql", options=options) as server:
        yield server


def test_a_reset_that_covers_the_cursor_again_is_refused_and_a_restart_is_not(mysql: Mysql) -> None:
    ask(mysql, "CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY AUTO_INCREMENT)")
    ask(mysql, *["INSERT INTO shop.t VALUES ()"] * 5)
    cursor = published(mysql)
    mysql.kill()
    mysql.start()
    ask(mysql, "INSERT INTO shop.t VALUES ()")
    assert at_home(cursor, mysql) == cursor.proof
    # Within one second only the server's own counter distinguishes two of its histories.
    begun = ask(mysql, "SELECT UNIX_TIMESTAMP()")
    until(lambda: ask(mysql, "SELECT UNIX_TIMESTAMP()") != begun)
    ask(mysql, "RESET MASTER")
    ask(mysql, "CREATE DATABASE shoq", "CREATE TABLE shoq.t (id int PRIMARY KEY AUTO_INCREMENT)")
    ask(mysql, *["INSERT INTO shoq.t VALUES ()"] * 9)
    with pytest.raises(SourceDiverged, match="no longer there"):
        at_home(cursor, mysql)
