from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from app.settings.mapping import with_registry
from app.worker.mapping_versions.store import MappingStore
from app.worker.mapping_versions.watch import MappingWatch
from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.stored_version import StoredVersion
from tests.harness.memory_zookeeper import MemoryServer
from tests.harness.wait import until_async

ROOT = "/aqueduct"


async def put(server: MemoryServer, number: int, text: str) -> None:
    version = StoredVersion.of(from_yaml(text), number=number, by="a", why="b", ts_ms=1)
    await MappingStore(server.session(lambda: None), ROOT).add(version)


def usable(mapping: Mapping) -> Mapping:
    """As a worker without a schema registry."""
    return with_registry(mapping, "")


class Watched:
    def __init__(self, server: MemoryServer) -> None:
        self.changes = asyncio.Event()
        self.watch = MappingWatch(server.opens, ROOT, usable=usable, changed=self.changes.set)

    async def changed(self) -> None:
        async with asyncio.timeout(10):
            await self.changes.wait()
        self.changes.clear()


@asynccontextmanager
async def watching(server: MemoryServer) -> AsyncIterator[Watched]:
    watched = Watched(server)
    await watched.watch.start()
    try:
        async with asyncio.timeout(10):
            await watched.watch.first()
        watched.changes.clear()
        yield watched
    finally:
        await watched.watch.stop()


async def test_a_version_stored_later_is_reported() -> None:
    server = MemoryServer()
    async with watching(server) as watched:
        assert (watched.watch.newest, watched.watch.refused) == (None, None)
        await put(server, 1, "tables: {a: {topic: x}}")
        await watched.changed()
        newest = watched.watch.newest
        assert newest is not None
        assert (newest.number, newest.mapping.topics) == (1, ("x",))
        with pytest.raises(MappingError, match="version 2 is not in ZooKeeper"):
            await watched.watch.version(2)


async def test_an_unusable_version_is_refused_and_the_one_before_stays() -> None:
    server = MemoryServer()
    await put(server, 1, "tables: {a: {topic: x}}")
    await put(server, 2, "tables: {a: {format: avro}}")
    async with watching(server) as watched:
        newest, refused = watched.watch.newest, watched.watch.refused
        assert newest is not None
        assert refused is not None
        assert (newest.number, refused.number) == (1, 2)
        assert "format" in refused.why
        await put(server, 3, "tables: {a: {topic: z}}")
        await watched.changed()
        assert watched.watch.newest is not None
        assert (watched.watch.newest.number, watched.watch.refused) == (3, None)
        assert (await watched.watch.version(1)).mapping.topics == ("x",)


async def test_a_version_that_another_program_wrote_is_refused_and_the_one_before_is_read() -> None:
    server = MemoryServer()
    await put(server, 1, "tables: {a: {topic: x}}")
    value = {"format": 1, "number": 2, "text": 7, "digest": "x", "by": "a", "why": "b", "ts_ms": 1}
    node = f"{ROOT}/mapping/versions/0000000002"
    stored = zlib.compress(orjson.dumps(value))
    await server.session(lambda: None).create(node, stored, ephemeral=False)
    async with watching(server) as watched:
        newest, refused = watched.watch.newest, watched.watch.refused
        assert newest is not None
        assert refused is not None
        assert (newest.number, refused.number) == (1, 2)
        assert "python -m app mapping set" in refused.why
        with pytest.raises(MappingError, match="version 2 cannot be read"):
            await watched.watch.version(2)


async def test_a_version_is_tried_again_if_the_worker_lacked_memory_or_a_thread_for_it() -> None:
    server = MemoryServer()
    await put(server, 1, "tables: {a: {topic: x}}")
    lacks: list[BaseException] = [MemoryError()]

    def short(mapping: Mapping) -> Mapping:
        if lacks:
            raise lacks.pop()
        return usable(mapping)

    changes = asyncio.Event()
    watch = MappingWatch(server.opens, ROOT, usable=short, changed=changes.set)
    await watch.start()
    try:
        async with asyncio.timeout(10):
            await changes.wait()
        assert (lacks, watch.refused) == ([], None)
        assert watch.newest is not None
    finally:
        await watch.stop()


async def test_an_emptied_store_gets_back_what_is_in_force_and_the_next_version_follows_it() -> (
    None
):
    server = MemoryServer()
    for number, topic in ((1, "x"), (2, "y")):
        await put(server, number, f"tables: {{a: {{topic: {topic}}}}}")
    async with watching(server) as watched:
        assert watched.watch.newest is not None
        copy = watched.watch.newest.stored
        session = server.session(lambda: None)
        for number in (1, 2):
            await session.delete(f"{ROOT}/mapping/versions/{number:010d}")
        store = MappingStore(session, ROOT)
        # A lost notice is made up for by the next look.
        watched.watch._noticed.set()

        async def is_back() -> bool:
            return await store.numbers() == [2]

        await until_async(is_back)
        await put(server, 3, "tables: {a: {topic: z}}")
        await watched.changed()
        assert watched.watch.newest.number == 3
    # A worker that begins meanwhile knows it by the journal.
    empty = MemoryServer()
    async with watching(empty) as watched:
        found = await watched.watch.version(2, copy)
        assert (found.number, found.mapping.topics) == (2, ("y",))
        await watched.changed()
        assert watched.watch.newest is not None
        assert watched.watch.newest.number == 2


async def test_versions_are_followed_in_a_new_session_after_one_that_is_over() -> None:
    server = MemoryServer()
    async with watching(server) as watched:
        for session in list(server._sessions.values()):
            server.expire(session)
        await put(server, 1, "tables: {a: {topic: x}}")
        # Nothing notifies an expired session: its next look finds that it is over.
        watched.watch._noticed.set()
        await watched.changed()
        assert watched.watch.newest is not None
