"""Takeover of a unit by this worker: the transactional id, taken only if no other worker leads, and the claim.

Invariant: as with destinations, the lease is confirmed before the transactional id is taken over and after the
journal was read; without coordination, a live leader is not replaced. Each leader claims the unit in the
journal with its first transaction, so a worker that was fenced finds the new leader there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from app.worker.coordination.write_permit import WritePermit
from app.worker.coordination.znodes import Identity
from app.worker.unit.other_workers import OtherWorkers
from app.worker.unit.process_identity import this_process
from app.worker.unit.requests import Requests
from connectors.kafka.producer import TransactionalProducer
from connectors.kafka.reading import StoredRecord
from tables.state.cursor import next_epoch
from tables.state.journal.records import Leader, leader_in, leader_key, note_of
from tables.state.journal.state import DestinationState, JournalPartition


@dataclass(slots=True, kw_only=True)
class UnitTakeover:
    """The takeovers of one unit, over all its runs."""

    identity: Identity
    """This worker's identity."""
    journal: JournalPartition
    """The unit's partition of the journal."""
    requests: Requests
    _has_led: bool = False

    async def take_id(self, producer: TransactionalProducer, permit: WritePermit) -> None:
        """Take over the transactional id.

        Raise LeadershipLost if this worker no longer leads; without coordination, AnotherWorkerLeads or Fenced
        if another worker leads.
        """
        await permit.lease.confirm()
        permit.check()
        if not permit.lease.shared:
            others = OtherWorkers(self.journal, self.identity.worker)
            await others.check(self._last_leader, had_led=self._has_led)
        await producer.init_transactions()

    async def claim(
        self, producer: TransactionalProducer, permit: WritePermit, state: DestinationState
    ) -> None:
        """Claim the unit, once its state was read from the journal.

        Raise StopRequested if the state has a request by which the unit is not to run.
        """
        self.requests.check(state.control)
        # If reading took long, the id may have been taken from a later leader.
        await permit.lease.confirm()
        leader = Leader(
            destination=self.journal.destination,
            worker=self.identity.worker,
            address=self.identity.address,
            process=this_process(),
            epoch=next_epoch(
                state.leader.epoch if state.leader is not None else 0,
                term=permit.lease.term,
                now=time.time(),
            ),
            ts_ms=time.time_ns() // 1_000_000,
        )
        async with permit.writing(), producer.transaction() as kafka:
            await self.journal.send(kafka, [note_of(leader)])
            permit.lease.check()
        self._has_led = True

    async def _last_leader(self) -> Leader | None:
        """The last leader, as far as the journal can be read without waiting."""
        key, found = leader_key(self.journal.destination), list[StoredRecord]()

        def take(record: StoredRecord) -> None:
            if record.key == key:
                found[:] = [record]

        await self.journal.read(take, waits_for_open=False)
        return leader_in(found[0]) if found else None
