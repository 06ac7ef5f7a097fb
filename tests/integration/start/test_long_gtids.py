"""Sets of GTIDs that are longer than what SHOW VARIABLES prints, and MariaDB's named connections."""

from __future__ import annotations

import uuid

import pytest

from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.binlog_end import read_end
from connectors.mysql.server.connection import connected
from connectors.mysql.server.facts import read_facts
from connectors.mysql.server.replication import channels, replication_filters
from devstack.processes import Children
from tests.harness import servers
from tests.harness.sql import ask, run
from tests.integration.mariadb.conftest import SERIES
from tests.integration.worker.source import address_of


def test_mysqls_sets_are_read_whole(
    children: Children, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mysql = servers.started("9.7", tmp_path_factory.mktemp("long"), children)
    purged = ",".join(f"{uuid.UUID(int=n)}:1-{n}" for n in range(2, 42))
    run(mysql, f"SET GLOBAL gtid_purged = '+{purged}'")
    ((shown,),) = ask(mysql, "SELECT @@GLOBAL.gtid_executed")
    assert len(shown) > 1_600
    facts = read_facts(address_of(mysql))
    assert facts.gtid_purged == GtidSet.parse(purged)
    assert facts.gtid_executed == GtidSet.parse(shown)
    assert read_end(address_of(mysql)).gtids == facts.gtid_executed


@pytest.mark.parametrize("series", SERIES)
def test_mariadbs_sets_are_read_whole_and_a_named_connection_makes_a_replica(
    series: str, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = servers.started(f"mariadb-{series}", tmp_path_factory.mktemp("named"), children)
    follows = ",".join(f"{domain}-1-{10**12 + domain}" for domain in range(1, 301))
    run(server, f"SET GLOBAL gtid_slave_pos = '{follows}'")
    address = address_of(server)
    facts = read_facts(address)
    assert facts.variables["gtid_slave_pos"] == follows
    assert not facts.is_replica
    run(
        server,
        "CHANGE MASTER 'a' TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'x'",
        "SET GLOBAL a.replicate_do_db = 'only'",
        "GRANT SLAVE MONITOR ON *.* TO aqueduct@'%'",
    )
    facts = read_facts(address)
    assert facts.is_replica
    assert [one.source for one in channels(address)] == ["127.0.0.1:1"]
    with connected(address) as cursor:
        found = replication_filters(cursor, facts)
    assert [str(one) for one in found] == ["REPLICATE_DO_DB = only"]
