"""The transactions topic against the published records: markers, parts and counts.

Invariant: the rules are those of docs/wire.md, "Transactions". Rows of a table that was ever quarantined are
not compared with the counts, since the END records of their transactions do not include them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import orjson

from app.audit.change_store import ORDINAL_BITS
from app.audit.topics.record_check import RecordCheck
from app.audit.topics.totals import values_of
from app.audit.verdict import FaultKind, Finding
from connectors.kafka.reading import StoredRecord


@dataclass(slots=True)
class _Open:
    id: str
    rank: int
    parts: int = 0
    counts: Counter[str] = field(default_factory=Counter)


class MarkerCheck:
    """Takes the topic's records in their order."""

    def __init__(self, done: RecordCheck, topic: str, uncounted: set[str]) -> None:
        self._done = done
        self._topic = topic
        self._home = done.subject.shares.home
        self._uncounted = {self._home(name) for name in uncounted}
        """Topics of tables that were ever quarantined."""
        self._open: _Open | None = None
        self._rank = 0
        self._epoch = 0
        self._whole = bytearray()
        """A byte for each transaction, by its rank: whether its BEGIN and END exist."""
        self._first: int | None = None

    def take(self, _topic: str, _partition: int, record: StoredRecord) -> None:
        """Check a BEGIN or an END."""
        value = orjson.loads(record.value)
        name, status = value["id"], value["status"]
        transaction = self._done.truth.store.transaction(name)
        if value["epoch"] < self._epoch:
            self._fault(
                f"epoch {value['epoch']} follows epoch {self._epoch}",
                name,
                record,
                FaultKind.EPOCHS_BACK,
            )
        self._epoch = max(self._epoch, value["epoch"])
        if transaction is None:
            return
        if self._first is None:
            self._first = transaction.rank
        if status == "BEGIN":
            self._begin(name, transaction.rank, record)
        else:
            self._end(value, name, transaction.rank, record)

    def _begin(self, name: str, rank: int, record: StoredRecord) -> None:
        if self._open is not None:
            self._fault("it begins within another", name, record)
        if rank <= self._rank:
            self._fault("it begins a second time, or out of the source's order", name, record)
        self._rank = max(self._rank, rank)
        self._open = _Open(name, rank)

    def _end(self, value: dict[str, object], name: str, rank: int, record: StoredRecord) -> None:
        now = self._open
        if now is None or now.id != name:
            if self._done.subject.beginnings.get((self._topic, 0), 0) == 0:
                self._fault("it ends without having begun", name, record)
            return
        now.parts += 1
        if value["part"] != now.parts:
            self._fault(f"its part {now.parts} is numbered {value['part']}", name, record)
        collections = value["data_collections"]
        assert isinstance(collections, list)
        # The counts name the merged topic for a transaction before the merge, and the share for a later
        # transaction.
        counted: Counter[str] = Counter()
        for each in collections:
            counted[self._home(each["topic"])] += each["event_count"]
        if counted.total() != value["event_count"]:
            self._fault("its counts do not add up", name, record)
        now.counts += counted
        if not value["last"]:
            return
        self._open = None
        if rank >= len(self._whole):
            self._whole.extend(bytes(rank + 1 - len(self._whole)))
        self._whole[rank] = 1
        if rank in self._done.truth.blurred:
            return
        seen = values_of(self._done, rank)
        for topic in sorted({*seen, *now.counts} - self._uncounted):
            if seen.get(topic, 0) != now.counts[topic]:
                what = f"it counts {now.counts[topic]} in {topic}, where {seen.get(topic, 0)} are"
                self._fault(what, name, record)

    def close(self) -> None:
        """Report the transactions with published rows and without markers."""
        if self._open is not None and self._done.subject.end.partial is None:
            self._missing(self._open.rank, "it has begun and does not end")
        last_rank = -1
        expired = self._done.subject.beginnings.get((self._topic, 0), 0) > 0
        for position, n, shape in self._done.truth.store.positions():
            rank = position >> ORDINAL_BITS
            if rank == last_rank or not self._done.seen[n] & 7:
                continue
            store = self._done.truth.store
            route = self._done.subject.routes.of_transaction(store, rank).of(shape.name)
            if route is None or self._home(route.topic) in self._uncounted:
                continue
            last_rank = rank
            if expired and (self._first is None or rank < self._first):
                self._done.verdict.expired[self._topic] += 1
            elif not self._is_noted(rank) and not self._is_open(rank):
                self._missing(rank, "it has published rows but no BEGIN and END")

    def _is_noted(self, rank: int) -> bool:
        return rank < len(self._whole) and bool(self._whole[rank])

    def _is_open(self, rank: int) -> bool:
        return self._open is not None and self._open.rank == rank

    def _missing(self, rank: int, what: str) -> None:
        transaction = self._done.truth.store.ranked(rank)
        self._done.verdict.add(
            Finding(
                kind=FaultKind.TRANSACTIONS,
                what=what,
                change_id=transaction.id,
                source=f"{transaction.file}:{transaction.pos}",
            )
        )

    def _fault(
        self, what: str, name: str, record: StoredRecord, kind: FaultKind = FaultKind.TRANSACTIONS
    ) -> None:
        self._done.verdict.add(
            Finding(
                kind=kind,
                what=what,
                change_id=name,
                topic=self._topic,
                partition=0,
                offset=record.offset,
            )
        )
