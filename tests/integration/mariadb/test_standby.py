"""A MariaDB and its standby: by GTIDs the standby is waited for, read on, and refused where it differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.worker.destination.failover.cursor_translation import CursorTranslation, TranslatedCursor
from app.worker.destination.plan import Failover
from connectors.errors import SourceDiverged, SourceRefused
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from devstack import Stack
from devstack.mysql import Mysql
from devstack.processes import Children
from tables.state.cursor import Cursor
from tables.state.fingerprints import Fingerprints
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.harness.worker import running, settings
from tests.integration.failover.servers import Pair, insert, notes
from tests.integration.failover.setting import has_rows, reads, shows, two_sources
from tests.integration.mariadb.conftest import SERIES, started
from tests.integration.mariadb.source import end_of, position_of
from tests.integration.worker.source import address_of, facts_of
from tests.unit.app.worker.pipeline.runs import RULES


@pytest.fixture(params=SERIES)
def both(
    request: pytest.FixtureRequest, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    servers = [
        started(request.param, children, tmp_path_factory, server_id=n, log_slave_updates="ON")
        for n in (21, 22)
    ]
    pair = Pair(*servers)
    try:
        follow(pair.standby, pair.master)
        pair.create()
        yield pair
    finally:
        pair.kill()


@pytest.mark.remedy("NoSourceFits")
@pytest.mark.long("failover/test_with_gtids has it on MySQL")
def test_the_standby_is_read_on_once_it_has_all_and_one_with_rows_of_its_own_is_refused(
    stack: Stack, both: Pair, tmp_path: Path
) -> None:
    given = two_sources(stack, both, tmp_path)
    given["destinations"]["shop"]["decoders"] = 0
    with running(given, tmp_path) as worker:
        insert(both.master, "one", "two")
        has_rows(worker, 2)
        both.caught_up()
        ask(both.standby, "STOP SLAVE SQL_THREAD")
        insert(both.master, "three")
        has_rows(worker, 3)
        end = end_of(both.master)
        until(lambda: _received(both.standby) == (end.file, end.pos))
        both.master.kill()
        # Nothing says that it replicates to an account that may not ask.
        shows(worker, "RETRYING", "SourceRefused", "whether it is a replica")
        _let_ask(both.standby)
        shows(worker, "RETRYING", "StandbyLags", "applies nothing")
        ask(both.standby, "START SLAVE SQL_THREAD")
        reads(worker, both.standby)
        promote(both.standby)
        insert(both.standby, "four", "five")
        has_rows(worker, 5)
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    assert notes(stack, given["prefix"]) == ["one", "two", "three", "four", "five"]
    _way_back(both)


@pytest.mark.long("the other test has a standby that logs what it applies")
def test_a_destination_moves_to_a_promoted_replica_that_logged_nothing_of_its_source(
    stack: Stack,
    children: Children,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    servers = [started(SERIES[-1], children, tmp_path_factory, server_id=n) for n in (21, 22)]
    both = Pair(*servers)
    follow(both.standby, both.master)
    _let_ask(both.standby)
    ask(
        both.master,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY AUTO_INCREMENT, x int, note varchar(40))",
    )
    wanted = settings(stack, both.master, tmp_path)
    shop = wanted["destinations"]["shop"]
    with running(wanted, tmp_path) as worker:
        insert(both.master, "one", "two")
        has_rows(worker, 2)
        assert worker.stop() == 0
    both.caught_up()
    promote(both.standby)
    insert(both.standby, "three")
    shop["source"]["port"] = both.standby.port
    with running(wanted, tmp_path) as worker:
        # Its binlog has nothing that was published, so nothing shows that it has the same rows.
        found = shows(worker, "FAILED", "SourceUnproven", "none of the last published transactions")
        assert "unproven" in found
        assert worker.stop() == 0
    shop["accept"].append("unproven")
    with running(wanted, tmp_path) as worker:
        insert(both.standby, "four")
        has_rows(worker, 2)
        assert worker.stop() == 0
    assert notes(stack, wanted["prefix"]) == ["one", "two", "three", "four"]
    # Numbers of two servers are not compared.
    insert(both.master, "five")
    lost = str(ask(both.master, "SELECT @@gtid_binlog_pos")[0][0])
    position = position_of(both.master).gtid_set
    assert position is not None
    with pytest.raises(
        SourceDiverged, match=rf"lacks {lost} \(it has 0-21-\d at most of server 21"
    ):
        _moved(Pair(both.standby, both.master), position)


def _way_back(both: Pair) -> None:
    """The old master, as its cursor is one of the standby's."""
    position = position_of(both.standby).gtid_set
    assert position is not None
    both.master.start()
    with pytest.raises(SourceRefused, match="whether it is a replica"):
        _moved(both, position)
    _let_ask(both.master)
    with pytest.raises(SourceDiverged, match=r"for good.*not a replica"):
        _moved(both, position)
    follow(both.master, both.standby)
    both.caught_up()
    assert _moved(both, position).offset.coordinates == end_of(both.master)
    ask(both.master, "CREATE DATABASE own")
    insert(both.standby, "six")
    # With the source that was read, and without it.
    ask(both.master, "SET GLOBAL read_only = ON")
    until(lambda: _has(both.master, "six"))
    own = str(ask(both.master, "SELECT @@GLOBAL.gtid_binlog_state")[0][0]).split(",")
    (errant,) = (gtid for gtid in own if gtid.startswith("0-21-"))
    with pytest.raises(SourceDiverged, match=f"of its own that its source lacks: {errant}"):
        _moved(both, position)
    both.standby.kill()
    with pytest.raises(SourceDiverged, match=f"of its own that its source lacks: {errant}"):
        _moved(both, position)
    assert _moved(both, position, accept_errant=True)


def follow(replica: Mysql, source: Mysql) -> None:
    ask(
        replica,
        "SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos",
        f"CHANGE MASTER TO MASTER_HOST = '{source.host}', MASTER_PORT = {source.port}, "
        "MASTER_USER = 'aqueduct', MASTER_PASSWORD = 'aqueduct', MASTER_CONNECT_RETRY = 1, "
        "MASTER_SSL = 0, MASTER_USE_GTID = slave_pos",
        "START SLAVE",
    )


def _let_ask(server: Mysql) -> None:
    # Not in its binlog, where it would be a transaction of its own.
    ask(server, "SET SESSION sql_log_bin = 0", "GRANT SLAVE MONITOR ON *.* TO 'aqueduct'@'%'")


def promote(replica: Mysql) -> None:
    ask(replica, "STOP SLAVE", "RESET SLAVE ALL")


def _received(replica: Mysql) -> tuple[str, int]:
    row = ask(replica, "SHOW SLAVE STATUS")[0]
    return str(row[5]), int(row[6])


def _has(server: Mysql, note: str) -> bool:
    return bool(ask(server, f"SELECT 1 FROM shop.t WHERE note = '{note}'"))


def _moved(both: Pair, gtids: Gtids, *, accept_errant: bool = False) -> TranslatedCursor:
    """The position from which the master is resumed after the standby's position."""
    offset = SourceOffset(
        server_uuid="standby", coordinates=Coordinates("binlog.000001", 4), gtid_set=gtids
    )
    switch = CursorTranslation(
        cursor=Cursor(
            destination="shop", installation="i", epoch=1, seq=5, versions=0, offset=offset
        ),
        facts=facts_of(both.master),
        address=address_of(both.master),
        failover=Failover(accept_errant=accept_errant),
        rules=RULES,
        other=address_of(both.standby, heartbeat=0.5),
        clocks={},
    )
    return switch.moved(Fingerprints("shop"))
