"""Whole audits, in memory: what changes outside the row topics excuse, and what they do not."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from app.audit.audit import Scope, audit
from app.audit.topics.topics import Partition
from app.audit.truth.printed_events import Event, events
from app.audit.truth.witness import WitnessName
from app.audit.verdict import Verdict
from connectors.kafka.reading import StoredRecord, Take
from tables.rules.routes.routes import Routes
from tests.harness.recorded_topics import RecordedTopics
from tests.unit.app.audit.truth.test_changes import FILE, SOURCE, rows, transaction

TOPIC, JOURNAL = "aq.shop.t", "aq.__journal"
QUARANTINE, DEAD_LETTERS = "aq.__quarantine.shop", "aq.__dead_letters.shop"


@dataclass
class Binlog:
    """One file of transactions, as mysqlbinlog prints it."""

    transactions: Sequence[str]
    name = WitnessName.MYSQLBINLOG
    server_uuid = "u"

    def files(self) -> list[str]:
        return ["binlog.000001"]

    def events(self, first: str) -> Generator[Event]:
        assert first == "binlog.000001"
        lines = "".join([FILE, *self.transactions]).encode().splitlines(keepends=True)
        yield from events(iter(lines))


def created(seq: int, change: str, key: int) -> StoredRecord:
    """The record of an insert."""
    source = {"name": "shop", "seq": seq, "epoch": 1, "db": "shop", "table": "t", "schema": 1}
    value = {"op": "c", "source": source, "before": None, "after": {"id": key}}
    headers = (("change_id", f"{SOURCE}:{change}".encode()),)
    return StoredRecord(b'{"id":%d}' % key, orjson.dumps(value), seq, headers)


def parked(offset: int, change: str, *, table: str = "t", kind: str = "rows") -> StoredRecord:
    """An event in the quarantine topic."""
    transaction, _, ordinal = change.partition("#")
    meta = {"kind": kind, "id": f"{SOURCE}:{transaction}", "ordinal": int(ordinal), "rows": 1}
    key = orjson.dumps({"database": "shop", "table": table})
    return StoredRecord(key, b"x", offset, (("meta", orjson.dumps(meta)),))


def cursor(seq: int, transactions: int) -> StoredRecord:
    value = {
        "epoch": 1, "seq": seq, "server_uuid": "u", "file": "binlog.000001", "pos": 5000,
        "gtid_set": f"{SOURCE}:1-{transactions}", "resume": None,
    }  # fmt: skip
    return StoredRecord(b"cursor/shop", orjson.dumps(value), 0)


def entry(outcome: str, **more: Any) -> StoredRecord:
    """The journal's record of the table's quarantine."""
    value = {"database": "shop", "table": "t", "outcome": outcome, **more}
    return StoredRecord(b"quarantine/shop/shop/t", orjson.dumps(value), 1)


def verdict(topics: RecordedTopics, *transactions: str) -> Verdict:
    routes = Routes(prefix="aq")
    binlog = Binlog(transactions)
    return audit(
        Scope(destination="shop", routes=routes, binlog=binlog, published=topics, markers=False)
    )


INSERTS = [transaction(n, rows("t", n), at=200 * n) for n in (1, 2, 3, 4)]


def quarantined_twice(note: StoredRecord) -> RecordedTopics:
    """A table whose changes 1 and 2 were released, of which 2 is missing, and 4 was parked later."""
    return RecordedTopics(
        {TOPIC: 1, JOURNAL: 1, QUARANTINE: 1},
        {
            (TOPIC, 0): [created(1, "1#0", 1), created(3, "3#0", 3)],
            (JOURNAL, 0): [cursor(3, 4), note],
            (QUARANTINE, 0): [
                parked(0, "1#0"), parked(1, "2#0"), parked(2, "4#0", table="other", kind="statement"),
                parked(3, "4#0"),
            ],
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("note", "quarantined", "given_up"),
    [
        (entry("waiting", offset=2, lost=0), 1, 0),
        (entry("releasing", offset=2, lost=0), 1, 0),
        (entry("refused", offset=2), 1, 0),
        (entry("given up", offset=4, lost=1), 0, 1),
        # A statement has recreated the table since.
        (entry("released", offset=4, lost=1), 0, 1),
    ],
)
def test_a_quarantine_excuses_only_changes_that_wait_or_were_given_up(
    note: StoredRecord, quarantined: int, given_up: int
) -> None:
    found = verdict(quarantined_twice(note), *INSERTS)
    assert found.faults == {"lost": 1, "seq_gaps": 1}
    assert [str(one.change_id) for one in found.shown[next(iter(found.counts))]] == [
        f"{SOURCE}:2#0"
    ]
    assert found.quarantined["shop.t"] == quarantined
    assert found.unjudged["shop.t: given up by an operator"] == given_up


def test_released_changes_that_are_lost_are_no_longer_excused() -> None:
    found = verdict(quarantined_twice(entry("released", offset=4, lost=0)), *INSERTS)
    assert found.faults == {"lost": 2, "seq_gaps": 1}


class Released(RecordedTopics):
    """A journal that has a release from its second reading on."""

    def read(self, partitions: Iterable[Partition], take: Take) -> None:
        wanted = list(partitions)
        RecordedTopics.read(self, wanted, take)
        if wanted == [(JOURNAL, 0)]:
            self.records[JOURNAL, 0] += [cursor(4, 4), entry("released", offset=4, lost=0)]
            self.records[TOPIC, 0].append(created(4, "4#0", 4))


def test_a_table_that_is_released_during_the_audit_was_quarantined() -> None:
    held = quarantined_twice(entry("waiting", offset=2, lost=0))
    found = verdict(Released(held.counts, held.records), *INSERTS)
    assert found.faults == {"lost": 1, "seq_gaps": 1}
    assert found.quarantined == {"shop.t": 1}


def dead(offset: int, change: str, kind: str) -> StoredRecord:
    headers = (
        ("change_id", f"{SOURCE}:{change}".encode()),
        ("meta", orjson.dumps({"kind": kind})),
    )
    return StoredRecord(b"", b"x", offset, headers)


def test_rows_after_an_event_that_is_a_dead_letter_are_not_compared_with_the_events_own() -> None:
    topics = RecordedTopics(
        {TOPIC: 1, JOURNAL: 1, DEAD_LETTERS: 1},
        {
            # The event of the rows 7 and 8 counts as one row.
            (TOPIC, 0): [created(1, "1#0", 6), created(2, "1#2", 9)],
            (JOURNAL, 0): [cursor(2, 1)],
            (DEAD_LETTERS, 0): [dead(0, "1#1", "event")],
        },
    )
    found = verdict(topics, transaction(1, rows("t", 6), rows("t", 7, 8), rows("t", 9)))
    assert found.faults == {}
    assert found.unjudged == {"rows at or after some of shop.t that the witness cannot read": 3}
