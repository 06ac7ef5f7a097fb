"""The merges of a worker, and their states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from app.worker.coordination.write_permit import WritePermit
from app.worker.coordination.znodes import Identity
from app.worker.merge.plan import MergePlan, MergeStatus
from app.worker.merge.run import MergeRun
from app.worker.pipeline.publish.budget import Budget
from app.worker.work.takeover import UnitTakeover
from app.worker.work.unit import Installation, Unit


class Merges:
    """All merges of a worker."""

    def __init__(
        self, plans: Iterable[MergePlan], installation: Installation, identity: Identity
    ) -> None:
        """``identity``: this worker's."""
        self._states = [MergeStatus(plan) for plan in plans]
        self._installation, self._identity = installation, identity

    def units(self) -> list[Unit]:
        """One unit of work for each."""
        return [self._unit(status) for status in self._states]

    def status(self) -> dict[str, Any]:
        """For the status page."""
        return {one.plan.name: one.to_json() for one in self._states}

    def _unit(self, status: MergeStatus) -> Unit:
        plan = status.plan
        takeover = UnitTakeover(identity=self._identity, journal=plan.journal)
        budget = Budget(plan.max_bytes)

        async def run(permit: WritePermit, succeeded: Callable[[], None]) -> None:
            await MergeRun(
                plan=plan,
                status=status,
                permit=permit,
                installation=self._installation,
                takeover=takeover,
                budget=budget,
                succeeded=succeeded,
            ).run()

        return Unit(plan.unit, status, run, context={"merge": plan.name})
