"""A merge as a unit of work: what its runs share."""

from __future__ import annotations

from app.worker.coordination.write_permit import WritePermit
from app.worker.coordination.znodes import Identity
from app.worker.merge.plan import MergePlan, MergeStatus
from app.worker.merge.run import MergeRun
from app.worker.pipeline.publish.budget import Budget
from app.worker.work.requests import Requests
from app.worker.work.retry_policy import ErrorPolicy
from app.worker.work.takeover import UnitTakeover
from app.worker.work.unit import Installation, Unit


def merge_unit(plan: MergePlan, installation: Installation, identity: Identity) -> Unit:
    """Return the unit of work; ``identity``: this worker's."""
    status, budget, policy = MergeStatus(plan), Budget(plan.max_bytes), ErrorPolicy()
    permit, requests = WritePermit(), Requests()
    takeover = UnitTakeover(identity=identity, journal=plan.journal, requests=requests)

    async def run() -> None:
        await MergeRun(
            plan=plan,
            status=status,
            permit=permit,
            installation=installation,
            takeover=takeover,
            budget=budget,
            succeeded=policy.succeeded,
        ).run()

    return Unit(
        name=plan.unit,
        status=status,
        run=run,
        context={"merge": plan.name},
        permit=permit,
        requests=requests,
        policy=lambda: policy,
        measure=status.measure,
    )
