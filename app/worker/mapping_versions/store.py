"""The store of the mapping's versions, in ZooKeeper.

Invariant: a version is one node, created once and never written again. The newest version has the greatest
number. If two authors store a successor of the same version, ZooKeeper refuses the second, as the node exists.
"""

from __future__ import annotations

from connectors.errors import MappingConflict, MappingError
from connectors.zookeeper.protocol import NodeTaken, Session
from tables.rules.mapping.stored_version import StoredVersion

_DIGITS = 10


class MappingStore:
    """The versions of one installation's mapping, over a session."""

    def __init__(self, session: Session, root: str) -> None:
        self._session = session
        self._path = f"{root}/mapping/versions"

    async def numbers(self) -> list[int]:
        """Return the numbers of all versions, in order. The session notifies once of the next version."""
        names = await self._session.children(self._path)
        return sorted(int(name) for name in names if name.isdecimal())

    async def read(self, number: int) -> StoredVersion:
        """Return a version; raise MappingError if there is none or it cannot be read."""
        node = await self._session.read(self._node(number))
        if node is None:
            raise MappingError(
                f"version {number} is not in ZooKeeper below {self._path}",
                remedy="`python -m app mapping history` lists those that are; an audit can begin after it "
                "(--from). If a destination publishes by it, store its mapping again: `python -m app mapping "
                f"set FILE --why TEXT`, in a store that was emptied with `--after {number}`.",
            )
        return StoredVersion.from_bytes(number, node.data)

    async def add(self, version: StoredVersion) -> None:
        """Store the version after the newest one; raise MappingConflict if another author was faster."""
        try:
            await self._session.create(
                self._node(version.number), version.to_bytes(), ephemeral=False
            )
        except NodeTaken:
            raise MappingConflict(
                f"version {version.number} was stored by another author meanwhile"
            ) from None

    async def remove(self, number: int) -> None:
        """Remove a version, if there is one."""
        await self._session.delete(self._node(number))

    def _node(self, number: int) -> str:
        return f"{self._path}/{number:0{_DIGITS}d}"
