"""A replication group on loopback: all members have the same GTIDs, after any failover or absence."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from connectors.errors import SourceDiverged, StandbyLags
from devstack.mysql import Mysql
from devstack.ports import free_port
from devstack.processes import Children
from tests.harness.sql import ask
from tests.harness.wait import until
from tests.integration.failover.prove import at_home, moved, published, refused
from tests.integration.failover.servers import Pair, insert
from tests.integration.past.servers import TABLE, made
from tests.integration.worker.source import facts_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("failover/test_fit has the same of a standby and its files"),
]


@pytest.fixture
def group(children: Children, tmp_path: Path) -> Pair:
    """The primary and a secondary."""
    name, ports = str(uuid.uuid4()), [free_port(None), free_port(None)]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    members = []
    for number, address in enumerate(addresses, 1):
        member = made(
            children,
            tmp_path / str(number),
            server_id=number,
            performance_schema="ON",
            plugin_load_add="group_replication.so",
            report_host="127.0.0.1",
            loose_group_replication_group_name=name,
            loose_group_replication_local_address=address,
            loose_group_replication_group_seeds=",".join(addresses),
            loose_group_replication_start_on_boot="OFF",
            loose_group_replication_recovery_get_public_key="ON",
        )
        member.start()
        members.append(member)
    found = Pair(*members)
    ask(found.master, "SET GLOBAL group_replication_bootstrap_group = ON", *_JOIN)
    ask(found.master, "SET GLOBAL group_replication_bootstrap_group = OFF", *TABLE)
    ask(found.standby, *_JOIN)
    until(lambda: _online(found.standby) == 2)
    return found


_ACCOUNT = (
    "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'aqueduct', SOURCE_PASSWORD = 'aqueduct' "
    "FOR CHANNEL 'group_replication_recovery'"
)
_JOIN = (_ACCOUNT, "START GROUP_REPLICATION")


def _online(member: Mysql) -> int:
    return len(
        ask(
            member,
            "SELECT 1 FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'",
        )
    )


@contextlib.contextmanager
def _held(member: Mysql) -> Iterator[None]:
    """While a member cannot apply what comes for the table."""
    connection = pymysql.connect(host=member.host, port=member.port, user="root")
    with connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES shop.t READ")
        yield


def _same(one: Mysql, other: Mysql) -> bool:
    return facts_of(one).gtid_executed == facts_of(other).gtid_executed


def test_a_primary_is_left_for_another_member_and_one_that_was_away_is_waited_for(
    group: Pair,
) -> None:
    first, second = group.master, group.standby
    insert(first, "one", "two")
    until(lambda: _same(first, second))
    before = published(first)
    assert at_home(before, first) == before.proof
    assert moved(before, second).offset.gtid_set == before.offset.gtid_set
    # A new primary; its numbers are of another block.
    ask(second, "SELECT group_replication_set_as_primary(@@server_uuid)")
    until(lambda: ask(second, "SELECT @@super_read_only")[0][0] == 0)
    insert(second, "three")
    until(lambda: _same(first, second))
    for member, other in ((first, second), (second, first)):
        cursor = published(member)
        assert at_home(cursor, member).landmark == cursor.proof.landmark
        assert moved(cursor, other).offset.gtid_set == cursor.offset.gtid_set
    # A member that applies nothing for a while lags, and is not lost.
    with _held(first):
        insert(second, "four")
        ahead = published(second)
        refused(ahead, first, StandbyLags, "group")
    until(lambda: _same(first, second))
    assert moved(ahead, first)
    # One that is away for a while comes back with all of it.
    ask(first, "STOP GROUP_REPLICATION")
    insert(second, "five")
    ahead = published(second)
    refused(ahead, first, SourceDiverged, "lacks")
    ask(first, "START GROUP_REPLICATION")
    until(lambda: _online(first) == 2 and _same(first, second))
    assert moved(ahead, first).offset.gtid_set == ahead.offset.gtid_set
    assert at_home(before, first).landmark == before.proof.landmark
