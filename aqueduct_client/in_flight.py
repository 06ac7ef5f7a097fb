"""The batches that were delivered and are not acknowledged yet.

Invariant: no I/O. An offset is committed only by the acknowledgement of the batch that delivered it. The offset
after records that a filter dropped is committed once nothing delivered before them is in flight. A batch that
a rebalance, a rollback or a reconnection took back is stale for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aqueduct_client.errors import OutOfOrder, StaleBatch, UnknownBatch
from aqueduct_client.records import Partition, Record

Offsets = dict[Partition, int]
NOTHING = -1
"""The id of a batch without records, as in Canal."""


@dataclass(slots=True)
class _Delivered:
    id: int
    starts: Offsets
    """The offsets at which reading continues after a rollback."""
    ends: Offsets
    """The offsets that its acknowledgement commits."""


@dataclass(slots=True)
class InFlight:
    """Delivered batches in order, by id."""

    _waiting: deque[_Delivered] = field(default_factory=deque)
    _passed: Offsets = field(default_factory=dict)
    """Positions after dropped records that no batch in flight precedes."""
    _last: int = 0
    _stale: dict[int, str] = field(default_factory=dict)
    """Batches that were taken back, with the reason; the newest thousand."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the batches in flight, in order."""
        return tuple(each.id for each in self._waiting)

    def has(self, partition: Partition) -> bool:
        """Whether a batch in flight moves the group's offset of a partition."""
        return any(partition in each.ends for each in self._waiting)

    def passed(self, ends: Mapping[Partition, int]) -> None:
        """Note the positions after records that were dropped."""
        (self._waiting[-1].ends if self._waiting else self._passed).update(ends)

    def delivered(self, starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int:
        """Note a batch; return its id."""
        self._last += 1
        batch = _Delivered(self._last, dict(starts), {**self._passed, **ends})
        self._passed = {}
        self._waiting.append(batch)
        return batch.id

    def idle_offsets(self) -> Offsets:
        """Return the offsets after dropped records that may be committed now."""
        return dict(self._passed)

    def committed_idle(self, offsets: Mapping[Partition, int]) -> None:
        """Forget the offsets after dropped records that were committed."""
        self._passed = {tp: at for tp, at in self._passed.items() if offsets.get(tp) != at}

    def offsets_of(self, batch: int) -> Offsets:
        """Return the offsets that a batch's acknowledgement commits; raise unless it is the first in flight."""
        self._check(batch)
        if self._waiting[0].id != batch:
            first = self._waiting[0].id
            raise OutOfOrder(f"the first in flight is {first}", batch=batch)
        return dict(self._waiting[0].ends)

    def acknowledged(self, batch: int) -> None:
        """Remove the first batch, whose offsets are committed; do nothing if it was taken back meanwhile."""
        if self._waiting and self._waiting[0].id == batch:
            self._waiting.popleft()

    def rolled_back(self, batch: int | None) -> Offsets:
        """Take back a batch and all later batches (None: all); return the offsets at which to read again."""
        if batch is not None:
            self._check(batch)
        starts: Offsets = {}
        while self._waiting and (batch is None or self._waiting[-1].id >= batch):
            taken = self._waiting.pop()
            self._note_stale(taken.id, "it was rolled back")
            starts |= taken.starts
        return starts

    def taken_back(self, reason: str) -> None:
        """Take all batches back: their records are delivered again."""
        for each in self._waiting:
            self._note_stale(each.id, reason)
        self._waiting.clear()
        self._passed.clear()

    def _check(self, batch: int) -> None:
        if batch in self._stale:
            raise StaleBatch(self._stale[batch], batch=batch)
        if batch not in self.ids:
            raise UnknownBatch(f"in flight are {list(self.ids) or 'none'}", batch=batch)

    def _note_stale(self, batch: int, reason: str) -> None:
        self._stale[batch] = reason
        while len(self._stale) > 1000:
            del self._stale[next(iter(self._stale))]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in order, to be acknowledged together by ``id``; without records the id is -1."""

    id: int
    records: tuple[Record, ...]
    offsets: Offsets
    """The offsets after its records, by partition."""

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


EMPTY = Batch(NOTHING, (), {})
