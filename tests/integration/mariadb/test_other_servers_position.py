"""A MariaDB finds the position by itself that follows another server's GTID position."""

from connectors.mysql.lookup.start import position_after
from connectors.mysql.server.facts import read_facts
from devstack.mysql import Mysql
from tests.integration.mariadb.source import end_of, position_of, written
from tests.integration.worker.source import address_of


def test_the_position_is_that_of_the_first_transaction_not_in_it(newest: Mysql) -> None:
    written(newest, "CREATE DATABASE later", "CREATE TABLE later.t (id int)")
    before = position_of(newest)
    assert before.gtid_set is not None
    source = address_of(newest)
    assert position_after(before.gtid_set, read_facts(source), source) == end_of(newest)
    written(newest, "INSERT INTO later.t VALUES (1)", "INSERT INTO later.t VALUES (2)")
    assert position_after(before.gtid_set, read_facts(source), source) == before.coordinates
