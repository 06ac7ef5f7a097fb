"""A merge does not begin with what was merged: the newest merged record against the next one of its shard."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from app.worker.merge import start_check as module
from app.worker.merge.start_check import check_starts, origin_of
from connectors.errors import JournalOutdated, RecordForeign
from connectors.kafka.reading import Partition, StoredRecord
from tests.unit.app.worker.merge.test_shares import PLAN
from wire.records import Origin

SHARE = ("aq.__shard.a.trade", 1)


def record(seq: int, *, epoch: int = 1, offset: int = 0, name: str = "a") -> StoredRecord:
    value = {"source": {"name": name, "epoch": epoch, "seq": seq}}
    return StoredRecord(b"{}", orjson.dumps(value), offset)


class Kafka:
    """The newest merged record, and the records of a share."""

    def __init__(self, merged: StoredRecord | None, share: list[StoredRecord]) -> None:
        self.merged, self.share = merged, share

    async def newest(
        self, _options: Any, topics: set[str], **_: Any
    ) -> dict[Partition, StoredRecord]:
        assert topics == {"aq.trade"}
        return {} if self.merged is None else {("aq.trade", 1): self.merged}

    async def firsts(
        self, _options: Any, starts: dict[Partition, int], **_: Any
    ) -> dict[Partition, StoredRecord]:
        assert starts.keys() <= {SHARE}
        found = [one for start in starts.values() for one in self.share if one.offset >= start]
        return {SHARE: found[0]} if found else {}


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(merged: StoredRecord | None, share: list[StoredRecord], start: int) -> None:
        kafka = Kafka(merged, share)
        monkeypatch.setattr(module, "newest", kafka.newest)
        monkeypatch.setattr(module, "firsts", kafka.firsts)
        asyncio.run(check_starts(PLAN, {SHARE: start}))

    return run


STORED = [record(seq, offset=at) for at, seq in enumerate((4, 7, 9))]


def test_a_cursor_after_the_newest_merged_record_is_a_beginning(begin: Any) -> None:
    begin(record(7), STORED, 2)
    begin(record(9), STORED, 3)
    begin(None, STORED, 0)
    # Changes that were published again have a later epoch.
    begin(record(99), [record(5, epoch=2, offset=3)], 3)
    # Of a shard that is not begun now.
    begin(record(99, name="b"), STORED, 0)


@pytest.mark.parametrize("start", [0, 1])
def test_an_older_cursor_is_an_error(begin: Any, start: int) -> None:
    with pytest.raises(JournalOutdated, match=rf"at seq {(4, 7)[start]} of a, and aq.trade has 7"):
        begin(record(7), STORED, start)


FOREIGN = [b"{", b"[]", b"{}", b'{"source":{"name":"a","epoch":"x","seq":1}}', b'{"source":7}']


@pytest.mark.remedy("RecordForeign")
@pytest.mark.parametrize("value", FOREIGN)
def test_a_record_that_another_program_wrote_is_named(begin: Any, value: bytes) -> None:
    with pytest.raises(RecordForeign, match=r"topic=aq.trade, partition=1, offset=5"):
        begin(StoredRecord(b"k", value, 5), STORED, 0)
    with pytest.raises(RecordForeign, match=r"topic=aq.__shard.a.trade, partition=1, offset=6"):
        begin(record(7), [StoredRecord(b"k", value, 6)], 0)
    # A new merged topic is empty, and a copy of the other lacks that record.
    begin(None, STORED, 0)


def test_other_formats_have_their_origin_in_headers() -> None:
    headers = [("destination", b"a"), ("epoch", b"2"), ("seq", b"41")]
    assert origin_of(b"[]", headers) == Origin("a", 2, 41)
    assert origin_of(record(4).value, ()) == Origin("a", 1, 4)
