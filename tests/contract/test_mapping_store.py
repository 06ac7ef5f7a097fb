"""The contract of the mapping's versions: over the in-memory twin, and over a real ZooKeeper."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from app.worker.mapping_versions.store import MappingStore
from connectors.errors import MappingConflict, MappingError
from connectors.zookeeper.kazoo_session import ZooKeeperClient
from connectors.zookeeper.kazoo_session import opens as kazoo_opens
from connectors.zookeeper.protocol import Session
from devstack import Stack
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.stored_version import StoredVersion
from tests.harness.memory_zookeeper import MemoryServer
from tests.harness.wait import TIMEOUT

Opens = Callable[[Callable[[], None]], AbstractAsyncContextManager[Session]]


@pytest.fixture(params=["twin", "zookeeper"])
def opens(request: pytest.FixtureRequest) -> Opens:
    if request.param == "twin":
        return MemoryServer().opens
    stack: Stack = request.getfixturevalue("stack")
    return kazoo_opens(ZooKeeperClient(hosts=stack.zookeeper, timeout=6.0))


@pytest.fixture
def root() -> str:
    return f"/test-{uuid.uuid4().hex}"


@asynccontextmanager
async def stores(opens: Opens, root: str) -> AsyncIterator[tuple[MappingStore, asyncio.Event]]:
    """A store, and the notice of a new version."""
    noticed = asyncio.Event()
    async with opens(noticed.set) as session:
        yield MappingStore(session, root), noticed


def version(number: int, topic: str = "t") -> StoredVersion:
    mapping = from_yaml(f"tables: {{a: {{topic: {topic}}}}}")
    return StoredVersion.of(mapping, number=number, by="ann", why="a reason", ts_ms=7)


async def test_a_store_without_versions_has_no_numbers(opens: Opens, root: str) -> None:
    async with stores(opens, root) as (store, _):
        assert await store.numbers() == []
        with pytest.raises(MappingError, match="version 1 is not in ZooKeeper"):
            await store.read(1)


async def test_a_version_is_read_as_it_was_stored(opens: Opens, root: str) -> None:
    async with stores(opens, root) as (store, _):
        for number in (1, 2, 10):
            await store.add(version(number))
        assert await store.numbers() == [1, 2, 10]
        assert await store.read(10) == version(10)


async def test_the_second_author_of_a_number_is_refused(opens: Opens, root: str) -> None:
    async with stores(opens, root) as (one, _), stores(opens, root) as (other, _):
        outcomes = await asyncio.gather(
            one.add(version(1, "mine")), other.add(version(1, "yours")), return_exceptions=True
        )
        assert [type(each) for each in outcomes if each is not None] == [MappingConflict]
        assert (await one.read(1)) == (await other.read(1))


async def test_a_new_version_is_noticed(opens: Opens, root: str) -> None:
    async with stores(opens, root) as (reader, noticed), stores(opens, root) as (author, _):
        await author.add(version(1))
        assert await reader.numbers() == [1]
        noticed.clear()
        await author.add(version(2))
        async with asyncio.timeout(TIMEOUT):
            await noticed.wait()
        assert await reader.numbers() == [1, 2]
