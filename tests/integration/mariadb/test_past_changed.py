"""A MariaDB whose binlog was reset and has reached the same GTIDs again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.errors import SourceDiverged, StandbyFiltered
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.integration.failover.prove import at_home, moved, published, refused
from tests.integration.failover.servers import Pair, insert, is_there
from tests.integration.mariadb.conftest import SERIES, started
from tests.integration.mariadb.test_standby import follow
from tests.integration.worker.source import facts_of


@pytest.fixture(params=SERIES[-1:])
def both(
    request: pytest.FixtureRequest, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    servers = [
        started(request.param, children, tmp_path_factory, server_id=n, log_slave_updates="ON")
        for n in (21, 22)
    ]
    found = Pair(*servers)
    try:
        follow(found.standby, found.master)
        for server in servers:
            ask(server, "GRANT SLAVE MONITOR ON *.* TO 'aqueduct'@'%'")
        found.create()
        yield found
    finally:
        found.kill()


def test_the_same_gtids_are_no_proof_and_copies_are_compared(both: Pair) -> None:
    insert(both.master, *"abc")
    both.caught_up()
    cursor = published(both.master)
    assert at_home(cursor, both.master) == cursor.proof
    assert moved(cursor, both.standby).offset.gtid_set == cursor.offset.gtid_set
    ask(both.standby, "STOP SLAVE", "SET GLOBAL replicate_ignore_db = 'shop'", "START SLAVE")
    refused(cursor, both.standby, StandbyFiltered, "REPLICATE_IGNORE_DB = shop")
    insert(both.master, "left out")
    ask(both.standby, "DO 0")
    behind = published(both.master)
    until(lambda: _position(both.standby) == _position(both.master))
    ask(both.standby, "STOP SLAVE", "SET GLOBAL replicate_ignore_db = ''", "START SLAVE")
    refused(behind, both.standby, SourceDiverged, "published|binlog")

    ask(both.master, "RESET MASTER")
    insert(both.master, *"uvwxyzuvw")
    with pytest.raises(SourceDiverged, match="is no longer there"):
        at_home(behind, both.master)
    # The state may be set to whatever it was.
    ask(both.master, "RESET MASTER", f"SET GLOBAL gtid_binlog_state = '{behind.offset.gtid_set}'")
    insert(both.master, *"uvwxyzuvw")
    with pytest.raises(SourceDiverged):
        at_home(behind, both.master)


def test_a_domain_that_was_deleted_is_missed_and_a_purge_leaves_the_rest_to_compare(
    both: Pair,
) -> None:
    insert(both.master, *"abc")
    ask(both.master, "CREATE DATABASE other", "CREATE TABLE other.t (id int PRIMARY KEY)")
    both.caught_up()
    # The rows of captured tables are purged on the standby; what came after them is not.
    until(lambda: is_there(both.standby, "other.t"))
    _rotated(both.standby)
    ask(both.master, "INSERT INTO other.t VALUES (1)")
    cursor = published(both.master)
    assert len(cursor.proof.recent) > 2
    until(lambda: _position(both.standby) == _position(both.master))
    assert moved(cursor, both.standby).offset.gtid_set == cursor.offset.gtid_set
    ask(both.master, "SET gtid_domain_id = 7", "INSERT INTO shop.t (x) VALUES (7)")
    cursor = published(both.master)
    _rotated(both.master)
    ask(both.master, "FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)")
    with pytest.raises(SourceDiverged, match="never wrote into its binlog"):
        at_home(cursor, both.master)


def _rotated(server: Mysql) -> None:
    """Begin a file, and purge all before it."""
    # By default it purges only what a connected replica has.
    ask(server, "SET GLOBAL slave_connections_needed_for_purge = 0", "FLUSH BINARY LOGS")
    last = ask(server, "SHOW BINARY LOGS")[-1][0]

    def purged() -> bool:
        # A file that recovery may still need is kept until InnoDB's next checkpoint.
        ask(server, f"PURGE BINARY LOGS TO '{last}'")
        return bool(ask(server, "SHOW BINARY LOGS")[0][0] == last)

    until(purged)


def _position(server: Mysql) -> object:
    facts = facts_of(server)
    return facts.variables.get("gtid_current_pos")
