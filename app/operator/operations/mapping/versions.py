"""Versions of the mapping in ZooKeeper: read, compared, stored and restored.

Invariant: a version is stored only if a worker with these settings can publish by it, and only after the newest
one that its author has seen.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings.mapping import read_mapping
from app.settings.model import Settings
from app.worker.mapping_versions.store import MappingStore
from app.worker.wiring import coordination_plan
from connectors.errors import MappingConflict, MappingError, UsageError
from connectors.zookeeper.kazoo_session import opens
from tables.rules.mapping.mapping import Difference, Mapping, differences
from tables.rules.mapping.stored_version import StoredVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version that was stored, and what it changes."""

    version: StoredVersion
    before: int
    """The newest version before it; 0: none."""
    differences: tuple[Difference, ...]


@asynccontextmanager
async def mapping_store(settings: Settings) -> AsyncIterator[MappingStore]:
    """Open the store that the settings name; raise UsageError if they name a file."""
    coordination = coordination_plan(settings)
    if settings.mapping.store != "zookeeper" or coordination is None:
        raise UsageError(
            "the settings read the mapping from mapping.file; set mapping.store to zookeeper first, "
            "on every worker"
        )
    client, root, _ = coordination
    async with opens(client)(lambda: None) as session:
        yield MappingStore(session, root)


async def version_of(store: MappingStore, number: int | None) -> StoredVersion:
    """Return a version, or the newest; raise MappingError if there is none."""
    if number is None:
        number = await newest_of(store)
    if number == 0:
        raise MappingError("there is no version yet; store one with `python -m app mapping set`")
    return await store.read(number)


async def newest_of(store: MappingStore) -> int:
    """Return the number of the newest version; 0: there is none."""
    return max(await store.numbers(), default=0)


async def given_mapping(store: MappingStore, text: str) -> Mapping:
    """Return the mapping that a number, ``newest``, or the path of a file or folder names."""
    if text == "newest" or text.isdecimal():
        found = await version_of(store, None if text == "newest" else int(text))
        return found.mapping()
    return read_mapping(Path(text))


async def all_versions(store: MappingStore, most: int) -> list[StoredVersion]:
    """Return the newest versions, the newest first."""
    return [await store.read(one) for one in reversed((await store.numbers())[-most:])]


async def store_mapping(
    settings: Settings,
    store: MappingStore,
    mapping: Mapping,
    *,
    by: str,
    why: str,
    after: int | None,
    restores: int | None = None,
) -> NewVersion:
    """Store a mapping as the version after the newest.

    ``after``: the newest version that the author has seen; None: whichever it is. Raises MappingError with all
    faults, MappingConflict if another version is the newest, UsageError if nothing would change.
    """
    settings.mapping.usable(mapping, settings.prefix)
    newest = await newest_of(store)
    if after is not None and newest not in (0, after):
        raise MappingConflict(f"version {newest} is the newest, not {after}")
    before = (await store.read(newest)).mapping() if newest else Mapping()
    # To try one again that the tables did not fit.
    is_again = restores is not None and restores == newest
    if newest and before.digest == mapping.digest and not is_again:
        raise UsageError(f"version {newest}, the newest, is equal; nothing was stored")
    version = StoredVersion.of(
        mapping,
        number=max(newest, after or 0) + 1,
        by=by,
        why=why,
        ts_ms=time.time_ns() // 1_000_000,
        restores=restores,
    )
    await store.add(version)
    return NewVersion(version=version, before=newest, differences=differences(before, mapping))


async def with_stored_mapping(settings: Settings) -> Settings:
    """Return settings with the newest mapping that they can use, where they name the store; else as they are.

    Raises MappingError if no version can be used.
    """
    if settings.mapping.store != "zookeeper":
        return settings
    async with mapping_store(settings) as store:
        mapping = settings.mapping.usable(
            (await version_of(store, None)).mapping(), settings.prefix
        )
    return settings.model_copy(update={"mapping": settings.mapping.with_mapping(mapping)})
