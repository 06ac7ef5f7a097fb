"""A broker with transactions, in memory: what Kafka guarantees, and nothing more.

Invariant: only the last owner of a transactional id may write under it; committed records are seen by all, and
others by none. Source: KIP-98, and KIP-890 for the fencing by a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from connectors.errors import Fenced
from connectors.kafka.reading import StoredRecord

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Written:
    """A record, or a batch of them as it came, and the transaction that it belongs to."""

    key: bytes
    value: bytes
    transaction: int


@dataclass(slots=True)
class _Owner:
    epoch: int = -1
    open: int | None = None


@dataclass(slots=True)
class Broker:
    """Partitions, transactional ids, and how each transaction ended."""

    logs: dict[Place, list[Written | None]] = field(default_factory=dict)
    """None is what compaction removed."""
    committed: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)
    owners: dict[str, _Owner] = field(default_factory=dict)
    _transactions: int = 0

    def take_over(self, name: str) -> int:
        """What a new producer does first: it ends what its predecessor left open. Returns its epoch."""
        owner = self.owners.setdefault(name, _Owner())
        self._end(owner, is_committed=False)
        owner.epoch += 1
        return owner.epoch

    def time_out(self, name: str) -> None:
        """Its transaction was open for too long: it is aborted, and its producer may not continue."""
        owner = self.owners.get(name)
        if owner is not None and owner.open is not None:
            self.take_over(name)

    def write(self, name: str, epoch: int, position: Place, key: bytes, value: bytes) -> None:
        """Put something into the open transaction, or begin one; raise Fenced."""
        owner = self.owner(name, epoch)
        if owner.open is None:
            self._transactions += 1
            owner.open = self._transactions
        self.logs.setdefault(position, []).append(Written(key, value, owner.open))

    def commit(self, name: str, epoch: int) -> None:
        """End the open transaction; raise Fenced."""
        self._end(self.owner(name, epoch), is_committed=True)

    def seen(self, position: Place) -> Iterator[StoredRecord]:
        """What is committed, in its order."""
        for offset, one in enumerate(self.logs.get(position, [])):
            if one is not None and one.transaction in self.committed:
                yield StoredRecord(one.key, one.value, offset)

    def end(self, position: Place) -> int:
        """Where a partition ends, open transactions included."""
        return len(self.logs.get(position, []))

    def read(self, position: Place, start: int, end: int) -> list[StoredRecord] | None:
        """What is committed between two offsets; None while an open transaction stands before the end."""
        log = self.logs.get(position, [])[:end]
        if any(one is not None and one.transaction not in self._ended for one in log):
            return None
        return [record for record in self.seen(position) if start <= record.offset < end]

    def compact(self, position: Place, *, keeps: Callable[[bytes], bool]) -> None:
        """Remove what a later committed record of the same key replaces, and what was aborted."""
        log = self.logs.get(position, [])
        newest = {
            one.key: offset
            for offset, one in enumerate(log)
            if one is not None and one.transaction in self.committed
        }
        for offset, one in enumerate(log):
            if one is None or one.transaction not in self._ended or keeps(one.key):
                continue
            if one.transaction not in self.committed or newest[one.key] > offset:
                log[offset] = None

    def owner(self, name: str, epoch: int) -> _Owner:
        """Who may write under a transactional id; raise Fenced for everybody else."""
        owner = self.owners[name]
        if epoch != owner.epoch:
            raise Fenced
        return owner

    def _end(self, owner: _Owner, *, is_committed: bool) -> None:
        if owner.open is None:
            return
        self._ended.add(owner.open)
        if is_committed:
            self.committed.add(owner.open)
        owner.open = None
