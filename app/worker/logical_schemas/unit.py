"""The publication of logical schemas as a unit of work, and the routes that it reads.

Invariant: routes are rebuilt only if the settings or the mapping have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from app.worker.coordination.cluster_view import Identity
from app.worker.coordination.write_permit import WritePermit
from app.worker.logical_schemas.plan import LogicalSchemasPlan, LogicalSchemasStatus
from app.worker.logical_schemas.run import MOST_BYTES, LogicalSchemasRun
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.unit.requests import Requests
from app.worker.unit.retry_policy import ErrorPolicy
from app.worker.unit.run_loop import Installation, Unit
from app.worker.unit.takeover import UnitTakeover
from tables.history.logical_schemas.decisions import UNIT
from tables.rules.mapping.mapping import Mapping as TableMapping
from tables.rules.routes.routes import Routes


def logical_schemas_unit(
    plan: LogicalSchemasPlan, installation: Installation, identity: Identity
) -> Unit:
    """Return the unit of work; ``identity`` is this worker's."""
    status, budget = LogicalSchemasStatus(), Budget(MOST_BYTES)
    permit, requests, policy = WritePermit(), Requests(), ErrorPolicy()
    takeover = UnitTakeover(identity=identity, journal=plan.journal, requests=requests)

    async def run() -> None:
        await LogicalSchemasRun(
            plan=plan,
            status=status,
            permit=permit,
            installation=installation,
            takeover=takeover,
            budget=budget,
            succeeded=policy.succeeded,
        ).run()

    return Unit(
        name=UNIT,
        status=status,
        run=run,
        permit=permit,
        requests=requests,
        policy=lambda: policy,
        measure=status.measure,
    )


@dataclass(slots=True, kw_only=True)
class FollowedRoutes:
    """The routes of all destinations by the newest version of the mapping in ZooKeeper."""

    settled: Callable[[], Mapping[str, Routes]]
    """Returns the routes by the settings."""
    newest: Callable[[], TableMapping | None]
    """Returns the mapping; None before a version was read."""
    _made: Mapping[str, Routes] = field(default_factory=dict)
    _from: tuple[Mapping[str, Routes], TableMapping] | None = None

    def __call__(self) -> Mapping[str, Routes] | None:
        settled, mapping = self.settled(), self.newest()
        if mapping is None:
            return None
        if self._from is None or self._from[0] != settled or self._from[1] is not mapping:
            self._made = {name: replace(one, mapping=mapping) for name, one in settled.items()}
            self._from = (settled, mapping)
        return self._made
