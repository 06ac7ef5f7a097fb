"""One active client by ZooKeeper's election, with real sessions."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from aqueduct_client import ZooKeeperTurn
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


async def test_without_zookeeper_nobody_is_active() -> None:
    turn = ZooKeeperTurn(hosts="127.0.0.1:1", group="g", session_seconds=2)
    assert not await turn.mine(0.5)
    await turn.close()
