"""One active client by ZooKeeper's election, with real sessions."""

from __future__ import annotations

import asyncio
import socket
import sys
import uuid

import pytest
from kazoo.client import KazooClient

from aqueduct_client import ZooKeeperTurn
from aqueduct_client.errors import MissingLibrary
from devstack import Stack
from tests.harness.wait import TIMEOUT, until_in_loop


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


async def until_mine(turn: ZooKeeperTurn) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await turn.mine(0.2):
            pass


async def test_a_standby_follows_the_active_one(stack: Stack, group: str) -> None:
    first, second = (
        ZooKeeperTurn(hosts=stack.zookeeper, group=group, session_seconds=2) for _ in range(2)
    )
    await until_mine(first)
    assert not await second.mine(1.0)
    assert [each.is_mine for each in (first, second)] == [True, False]
    await first.close()
    await until_mine(second)
    other = ZooKeeperTurn(hosts=stack.zookeeper, group=f"{group}-other", session_seconds=2)
    await until_mine(other)
    await asyncio.gather(second.close(), other.close())


async def test_the_active_one_gives_up_with_its_connection_and_when_its_node_is_deleted(
    stack: Stack, group: str
) -> None:
    turn = ZooKeeperTurn(hosts=stack.zookeeper, group=group, session_seconds=2)
    await until_mine(turn)
    turn._on_state("SUSPENDED")
    assert [each.is_mine for each in (turn,)] == [False]
    await until_mine(turn)  # its node is still its own
    await asyncio.to_thread(turn._client.delete, turn.node)
    await until_in_loop(lambda: not turn.is_mine)
    await until_mine(turn)
    await turn.close()


async def expire(turn: ZooKeeperTurn) -> None:
    """End a client's session, as ZooKeeper does with one that is silent for too long."""

    def ended() -> None:
        other = KazooClient(hosts=turn.hosts, client_id=turn._client.client_id)
        other.start()
        other.stop()
        other.close()

    await asyncio.to_thread(ended)


async def test_sessions_that_are_cut_or_lost_leave_one_active_client(
    stack: Stack, group: str
) -> None:
    first, second = (
        ZooKeeperTurn(hosts=stack.zookeeper, group=group, session_seconds=4) for _ in range(2)
    )
    await until_mine(first)
    assert not await second.mine(0.1)
    # Its connection is cut, and made again in the same session.
    first._client._connection._socket.shutdown(socket.SHUT_RDWR)
    await until_in_loop(lambda: not first.is_mine)
    await until_mine(first)
    assert not second.is_mine
    # An operator ends the turn of the one that has reconnected.
    await asyncio.to_thread(second._client.delete, first.node)
    await until_mine(second)
    assert not await first.mine(0.2)
    assert not first.is_mine
    # The session of the active one is lost, and made again: the other one is active, and then this one.
    for active, other in ((second, first), (first, second)):
        await expire(active)
        await until_in_loop(lambda active=active: not active.is_mine)  # type: ignore[misc]
        await until_mine(other)
        assert not await active.mine(0.5)
        assert other.is_mine
    await second.close()
    await until_mine(first)
    await first.close()


async def test_a_connection_that_is_lost_while_the_node_is_taken_ends_the_turn(
    stack: Stack, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = ZooKeeperTurn(hosts=stack.zookeeper, group=group, session_seconds=4)
    take, lost, again = ZooKeeperTurn._take, list[bool](), list[bool]()

    def taken(one: ZooKeeperTurn) -> bool:
        # The next attempt may succeed before the test has looked.
        found = (not lost or bool(again)) and take(one)
        if found and not lost:
            lost.append(True)
            one._on_state("SUSPENDED")
        return found

    monkeypatch.setattr(ZooKeeperTurn, "_take", taken)
    async with asyncio.timeout(TIMEOUT):
        while not lost:
            assert not await turn.mine(0)
    assert not turn.is_mine
    again.append(True)
    await until_mine(turn)
    await turn.close()


@pytest.mark.remedy("client.MissingLibrary")
async def test_without_kazoo_the_package_to_install_is_named(
    stack: Stack, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = ZooKeeperTurn(hosts=stack.zookeeper, group=group)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "kazoo.client", None)
        with pytest.raises(MissingLibrary, match="pip install kazoo"):
            await turn.mine(1)
    # Once it can be imported, the same object is enough.
    await until_mine(turn)
    await turn.close()


async def test_without_zookeeper_nobody_is_active() -> None:
    turn = ZooKeeperTurn(hosts="127.0.0.1:1", group="g", session_seconds=2)
    assert not await turn.mine(0.5)
    await turn.close()
