"""The contract of coordination sessions: the in-memory twin and a real ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from connectors.errors import CoordinationLost, CoordinationRefused
from connectors.zookeeper.kazoo_session import KazooSession, ZooKeeperClient
from connectors.zookeeper.protocol import NodeTaken, Session, SessionState
from devstack import Stack
from devstack.zookeeper import ZooKeeper
from tests.harness.memory_zookeeper import MemoryServer

Opens = Callable[[Callable[[], None]], AbstractAsyncContextManager[Session]]


@pytest.fixture(params=["twin", "zookeeper"])
def opens(request: pytest.FixtureRequest) -> Opens:
    """A way to open sessions with one server, the twin or the real one."""
    if request.param == "twin":
        server = MemoryServer()

        @asynccontextmanager
        async def twin(changed: Callable[[], None]) -> AsyncIterator[Session]:
            session = server.session(changed)
            yield session
            await session.close()

        return twin
    stack: Stack = request.getfixturevalue("stack")
    client = ZooKeeperClient(hosts=stack.zookeeper, timeout=2.0)

    @asynccontextmanager
    async def real(changed: Callable[[], None]) -> AsyncIterator[Session]:
        session = await KazooSession.opened(client, changed, within=10)
        yield session
        await session.close()

    return real


@pytest.fixture
def root() -> str:
    return f"/test-{uuid.uuid4().hex}"


def nobody() -> None:
    """Records the reported changes."""


async def test_a_node_is_made_read_and_deleted(opens: Opens, root: str) -> None:
    async with opens(nobody) as session:
        made = await session.create(f"{root}/a/b", b"data", ephemeral=False)
        assert await session.read(f"{root}/a/b") == made
        assert (made.data, made.owner) == (b"data", 0)
        assert await session.children(f"{root}/a") == ["b"]
        await session.delete(f"{root}/a/b")
        await session.delete(f"{root}/a/b")
        assert await session.read(f"{root}/a/b") is None
        assert await session.children(f"{root}/a/b") == []


async def test_who_comes_second_finds_a_node_taken(opens: Opens, root: str) -> None:
    async with opens(nobody) as first, opens(nobody) as second:
        made = await first.create(f"{root}/running", b"1", ephemeral=True)
        with pytest.raises(NodeTaken):
            await second.create(f"{root}/running", b"2", ephemeral=True)
        assert await second.read(f"{root}/running") == made
        assert made.owner == first.id != second.id


async def test_a_node_that_is_made_later_has_a_greater_number(opens: Opens, root: str) -> None:
    async with opens(nobody) as session:
        numbers = []
        for _ in range(3):
            numbers.append((await session.create(f"{root}/n", b"", ephemeral=True)).czxid)
            await session.delete(f"{root}/n")
        assert numbers == sorted(set(numbers))


async def test_ephemeral_nodes_end_with_their_session(opens: Opens, root: str) -> None:
    async with opens(nobody) as other:
        async with opens(nobody) as session:
            await session.create(f"{root}/gone", b"", ephemeral=True)
            await session.create(f"{root}/stays", b"", ephemeral=False)
        assert session.state is SessionState.OVER
        with pytest.raises(CoordinationLost):
            await session.read(root)
        assert await other.children(root) == ["stays"]


async def test_a_change_of_children_is_reported_to_those_who_have_looked(
    opens: Opens, root: str
) -> None:
    notified = asyncio.Event()
    async with opens(notified.set) as watching, opens(nobody) as other:
        await other.create(f"{root}/a", b"", ephemeral=False)
        assert await watching.children(root) == ["a"]
        notified.clear()
        await other.create(f"{root}/b", b"", ephemeral=True)
        await asyncio.wait_for(notified.wait(), 5)
        assert await watching.children(root) == ["a", "b"]
        notified.clear()
        await other.delete(f"{root}/b")
        await asyncio.wait_for(notified.wait(), 5)


async def test_what_was_answered_is_noted_by_when_it_was_asked(opens: Opens, root: str) -> None:
    async with opens(nobody) as session:
        before = session.answered
        await asyncio.sleep(0.01)
        await session.read(root)
        assert session.answered > before
        assert session.timeout > 0


async def test_nobody_answers_where_no_server_is() -> None:
    client = ZooKeeperClient(hosts="127.0.0.1:1", timeout=2.0)
    with pytest.raises(CoordinationLost, match=r"no session with 127\.0\.0\.1:1"):
        await KazooSession.opened(client, nobody, within=1)


async def test_servers_may_grant_another_time_than_was_asked_for(stack: Stack) -> None:
    client = ZooKeeperClient(hosts=stack.zookeeper, timeout=0.1)
    session = await KazooSession.opened(client, nobody, within=10)
    assert session.timeout == 1.0  # the least that this server grants
    await session.close()


@pytest.mark.remedy("CoordinationRefused")
async def test_an_account_shuts_out_all_others(stack: Stack, root: str) -> None:
    ours = ZooKeeperClient(hosts=stack.zookeeper, timeout=2.0, username="ann", password="secret")
    session = await KazooSession.opened(ours, nobody, within=10)
    other = await KazooSession.opened(
        ZooKeeperClient(hosts=stack.zookeeper, timeout=2.0), nobody, within=10
    )
    await session.create(f"{root}/running", b"", ephemeral=True)
    for refused in (other.read(f"{root}/running"), other.delete(f"{root}/running")):
        with pytest.raises(CoordinationRefused):
            await refused
    assert await session.read(f"{root}/running") is not None
    await other.close()
    # Its password in the settings is all that the other lacked.
    other = await KazooSession.opened(ours, nobody, within=10)
    assert await other.read(f"{root}/running") is not None
    await session.close()
    await other.close()


async def test_a_loop_that_hangs_keeps_no_session(stack: Stack, root: str) -> None:
    client = ZooKeeperClient(hosts=stack.zookeeper, timeout=2.0)
    hanging = await KazooSession.opened(client, nobody, within=10)
    await hanging.create(f"{root}/running", b"", ephemeral=True)
    time.sleep(4.0)  # noqa: ASYNC251 - this is the hang
    assert hanging.state is SessionState.OVER
    other = await KazooSession.opened(client, nobody, within=10)
    assert await other.read(f"{root}/running") is None
    await other.close()
    await hanging.close()


async def test_a_server_that_comes_back_empty_ends_the_session(stack: Stack) -> None:
    running = stack.zookeeper_server
    server = ZooKeeper(
        stack.run_dir / f"zookeeper-{uuid.uuid4().hex}",
        stack._java("zookeeper")[1],
        java=stack._java("zookeeper")[0],
        owner=stack.children,
    )
    assert running.child is not None
    server.start()
    client = ZooKeeperClient(hosts=server.address, timeout=2.0)
    notified = asyncio.Event()
    session = await KazooSession.opened(client, notified.set, within=10)
    notified.clear()
    server.kill()
    await asyncio.wait_for(notified.wait(), 10)
    assert session.state is SessionState.SUSPENDED
    with pytest.raises(CoordinationLost, match="suspended"):
        await session.read("/")
    with contextlib.suppress(CoordinationLost):
        await session.close()
