"""What a worker may lead: its destinations, and the units of work beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from app.worker.coordination.leadership import DestinationRunner
from app.worker.coordination.lease import Lease
from app.worker.work.unit import Unit


class Work:
    """All work of a worker."""

    def __init__(self, destinations: DestinationRunner, units: Iterable[Unit]) -> None:
        self._destinations = destinations
        self._units = {one.name: one for one in units}

    def wanted(self) -> Collection[str]:
        wanted = list(self._destinations.wanted())
        # A worker that may lead nothing yet leads no unit either.
        return [*wanted, *self._units] if wanted or self.is_ready() else []

    def is_ready(self) -> bool:
        return self._destinations.is_ready()

    async def lead(self, name: str, lease: Lease) -> None:
        if name in self._units:
            await self._units[name].lead(lease)
        else:
            await self._destinations.lead(name, lease)
