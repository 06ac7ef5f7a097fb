"""The progress of a destination's snapshots, as its leader shows it; without an answer, as the journal has it.

Invariant: nothing is changed; where the figures come from is stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.operator.journal_access import Journal
from app.operator.operations.destination.worker_status import WorkerAt, read_statuses


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """The snapshots of a destination at one time."""

    tables: Mapping[str, Mapping[str, Any]]
    """By table, as ``TableSnapshot.to_json`` has it."""
    waits: tuple[str, ...] = ()
    """What the leader waits for that is of no single table."""
    unanswered: str | None
    """Why the leader was not asked, so that this is the journal's state; None: it is the leader's."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing is being read, or waits to be."""
        return all(one["state"] not in ("waiting", "reading") for one in self.tables.values())


class ProgressReader:
    """Reads it again and again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._leader: WorkerAt | None = None

    async def read(self) -> SnapshotProgress:
        """The progress now; raises StateUnknown if the destination has never run."""
        unanswered = "the journal names no leader"
        if self._leader is not None:
            answer = await self._ask(self._leader)
            if not isinstance(answer, str):
                return answer
        state = await self._journal.state(whole_history=False)
        if state.leader is not None:
            self._leader = WorkerAt(state.leader.worker, state.leader.address or "")
            answer = await self._ask(self._leader)
            if not isinstance(answer, str):
                return answer
            unanswered, self._leader = answer, None
        tables = {
            ".".join(name): one.to_json() for name, one in sorted(state.snapshots.all.items())
        }
        return SnapshotProgress(tables=tables, unanswered=unanswered)

    async def _ask(self, leader: WorkerAt) -> SnapshotProgress | str:
        """What the leader shows, or why it shows nothing."""
        answer = (await read_statuses([leader]))[leader]
        if isinstance(answer, str):
            return answer
        found = answer.get(self._journal.plan.name)
        if found is None or found["state"] in ("STANDBY", "STOPPED"):
            return f"worker {leader.worker} does not lead it"
        waits = tuple(found.get("snapshot_waits", ()))
        return SnapshotProgress(tables=found["snapshot"], waits=waits, unanswered=None)
