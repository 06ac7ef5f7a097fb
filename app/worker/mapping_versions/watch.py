"""The watch on the mapping's versions in ZooKeeper, for all destinations of a worker.

Invariant: a version that this worker cannot use is refused whole, and the newest usable version stays. While
ZooKeeper does not answer, the versions read before stay. If ZooKeeper was emptied, the newest usable version is
stored there again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from mode import Service

from app.worker.mapping_versions.store import MappingStore
from app.worker.process.library_logs import SERVICES
from connectors.errors import AqueductError, CoordinationLost, MappingConflict, MappingError
from connectors.zookeeper.protocol import Opens, Session, SessionState
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.stored_version import StoredVersion

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 30.0
"""The interval of reads without a notice, in case a notice was lost with its connection."""
_FIRST_SECONDS = 15.0
"""The longest wait of a run for the first answer."""
_MOST_UNUSABLE = 20
"""Unusable versions that are passed over in search of a usable one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableVersion:
    """A version of the mapping that this worker can publish by."""

    number: int
    digest: str
    mapping: Mapping
    stored: StoredVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedVersion:
    """A version that cannot be used, and why."""

    number: int
    why: str


class Mappings(Protocol):
    """The versions, as a destination's runs see them."""

    newest: UsableVersion | None
    """The newest version that this worker can use; None if there is none."""
    refused: RefusedVersion | None
    """The newest version of all, if this worker cannot use it."""

    async def first(self) -> None:
        """Wait until the versions were read once; raise CoordinationLost if that takes too long."""

    async def version(self, number: int, copy: StoredVersion | None = None) -> UsableVersion:
        """Return a version: the newest read if it is the same, else the journal's copy, else from ZooKeeper.

        Raise MappingError if it does not exist or cannot be used, CoordinationLost if it cannot be read now.
        """


class MappingWatch(Service):  # type: ignore[misc]  # mode has no types
    """Reads each new version, and reports it."""

    logger = SERVICES

    def __init__(
        self,
        opens: Opens,
        root: str,
        *,
        usable: Callable[[Mapping], Mapping],
        changed: Callable[[], None],
    ) -> None:
        """``usable`` raises MappingError for a mapping that this worker cannot execute.

        ``changed`` is called after a new version was read or refused.
        """
        super().__init__()
        self._opens, self._root = opens, root
        self._usable, self._report = usable, changed
        self.newest: UsableVersion | None = None
        self.refused: RefusedVersion | None = None
        self._session: Session | None = None
        self._noticed, self._is_read = asyncio.Event(), asyncio.Event()

    @Service.task  # type: ignore[untyped-decorator]
    async def _watch(self) -> None:
        while not self.should_stop:
            try:
                async with self._opens(self._noticed.set) as session:
                    self._session = session
                    await self._follow(session)
            except AqueductError as error:
                log.debug("the mapping's versions are not read: %s: %s", error.name, error)
            except Exception as error:
                # An unforeseen library error must not end a worker that publishes.
                log.warning("the mapping's versions are not read: %r; this is retried", error)
            finally:
                self._session = None
            await self.sleep(_AGAIN_SECONDS)

    async def _follow(self, session: Session) -> None:
        """Read the versions at each notice, until the session is over."""
        while not self.should_stop and session.state is not SessionState.OVER:
            self._noticed.clear()
            if session.state is SessionState.CONNECTED:
                await self.look(session)
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._noticed.wait()
            except TimeoutError:
                continue

    async def look(self, session: Session) -> None:
        """Read the versions that are new."""
        store = MappingStore(session, self._root)
        known = self.newest.number if self.newest is not None else 0
        before = (self.newest, self.refused)
        refused: RefusedVersion | None = None
        numbers = await store.numbers()
        if (
            self.newest is not None
            and self.newest.stored is not None
            and max(numbers, default=0) < known
        ):
            await self._put_back(store, self.newest.stored)
        fresh = [one for one in numbers if one > known]
        for number in reversed(fresh[-_MOST_UNUSABLE:]):
            if self.refused is not None and number == self.refused.number:
                refused = refused or self.refused
                continue
            try:
                self.newest = await self._read(store, number)
                break
            except MappingError as error:
                refused = refused or RefusedVersion(number=number, why=error.detail)
        self.refused = refused
        if (self.newest, self.refused) != before:
            self._log()
            self._report()
        self._is_read.set()

    async def first(self) -> None:
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._is_read.wait()
        except TimeoutError:
            raise CoordinationLost(
                f"the mapping's versions below {self._root} were not read in {_FIRST_SECONDS:.0f} s"
            ) from None

    async def version(self, number: int, copy: StoredVersion | None = None) -> UsableVersion:
        copy = copy if copy is not None and copy.number == number else None
        newest = self.newest
        if (
            newest is not None
            and newest.number == number
            and (copy is None or copy.digest == newest.digest)
        ):
            return newest
        if copy is not None:
            if self._session is not None:
                await self._put_back(MappingStore(self._session, self._root), copy)
            return await self._usable_version(copy)
        if self._session is None:
            raise CoordinationLost(f"version {number} of the mapping cannot be read now")
        return await self._read(MappingStore(self._session, self._root), number)

    async def _put_back(self, store: MappingStore, version: StoredVersion) -> None:
        """Store a version in force again, if the store has no version with its number."""
        with suppress(MappingConflict):
            await store.add(version)
            log.error(
                "ZooKeeper had lost version %d of the mapping, which is in force; it is stored there again. A "
                "version with a smaller number takes no effect: store it again (`python -m app mapping set`)",
                version.number,
            )

    async def _read(self, store: MappingStore, number: int) -> UsableVersion:
        return await self._usable_version(await store.read(number))

    async def _usable_version(self, stored: StoredVersion) -> UsableVersion:
        def parsed() -> Mapping:
            try:
                return self._usable(stored.mapping())
            except (AqueductError, MemoryError):
                raise
            except Exception as error:  # of this version alone
                raise MappingError(
                    f"version {stored.number} cannot be read: {error!r}; store the mapping again with "
                    "`python -m app mapping set`"
                ) from error

        # A mapping of thousands of tables takes a second to parse. A thread that cannot start is not its fault.
        mapping = await asyncio.to_thread(parsed)
        return UsableVersion(
            number=stored.number, digest=stored.digest, mapping=mapping, stored=stored
        )

    def _log(self) -> None:
        if self.refused is not None:
            log.error(
                "version %d of the mapping is refused, and the one before it stays: %s",
                self.refused.number, self.refused.why,
            )  # fmt: skip
        elif self.newest is not None:
            log.info("version %d of the mapping is read", self.newest.number)
