"""The merges of a worker, and their states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from app.coordination.write_permit import WritePermit
from app.merge.plan import MergePlan, MergeStatus
from app.merge.run import MergeRun
from app.units.unit import Installation, Unit


class Merges:
    """All merges of a worker."""

    def __init__(self, plans: Iterable[MergePlan], installation: Installation) -> None:
        self._states = [MergeStatus(plan) for plan in plans]
        self._installation = installation

    def units(self) -> list[Unit]:
        """One unit of work for each."""
        return [self._unit(status) for status in self._states]

    def status(self) -> dict[str, Any]:
        """For the status page."""
        return {one.plan.name: one.to_json() for one in self._states}

    def _unit(self, status: MergeStatus) -> Unit:
        plan = status.plan

        async def run(permit: WritePermit, succeeded: Callable[[], None]) -> None:
            await MergeRun(
                plan=plan,
                status=status,
                permit=permit,
                installation=self._installation,
                succeeded=succeeded,
            ).run()

        return Unit(plan.unit, status, run, context={"merge": plan.name})
