"""Start positions, in the in-memory twin."""

import pytest

from aqueduct_client.errors import InvalidSubscription, StartUnknown
from aqueduct_client.memory import MemoryKafka, MemoryLog
from aqueduct_client.records import Partition
from aqueduct_client.start import (
    AfterGtids,
    AfterSeq,
    AtTime,
    Earliest,
    Latest,
    Start,
    offset_of,
    parse_gtids,
)
from tests.unit.aqueduct_client.made import SERVER, TOPIC, Shop, seqs, value

HERE = Partition(TOPIC, 0)
OTHER = "11111111-71ca-11e1-9e33-c80aa9429562"


def of(*values: bytes | None) -> MemoryLog:
    """A partition of these values, written 5 s after each other."""
    kafka = MemoryKafka()
    kafka.create(TOPIC)
    for at, body in enumerate(values):
        kafka.send(HERE, body, ts_ms=5000 * at)
    return MemoryLog(kafka)


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (Earliest(), 0),
        (Latest(), 100),
        (AfterSeq(0), 0),
        (AfterSeq(37), 37),
        (AfterSeq(100), 100),
        (AfterSeq(1000), 100),
        (AfterGtids(f"{SERVER}:1-42"), 42),
        (AfterGtids(f"{OTHER}:1-7,\n{SERVER.upper()}:1-42"), 42),
        (AfterGtids(f"{OTHER}:1-7"), 0),
        (AtTime(0), 0),
        (AtTime(51_000), 50),
        (AtTime(50_001), 50),
        (AtTime(999_000), 100),
    ],
)
async def test_a_position_is_the_first_record_past_it(start: Start, offset: int) -> None:
    log = of(*(value(seq) for seq in range(1, 101)))
    assert await offset_of(log, HERE, start) == offset


async def test_tombstones_between_are_passed_over() -> None:
    log = of(value(1), None, value(2), None, None, value(3), None)
    assert [await offset_of(log, HERE, AfterSeq(seq)) for seq in range(4)] == [0, 1, 3, 6]


async def test_changes_that_were_repeated_in_a_later_epoch_keep_their_order() -> None:
    log = of(*(value(seq, epoch=1 if seq < 4 else 9) for seq in range(1, 7)))
    assert await offset_of(log, HERE, AfterSeq(4)) == 4


async def test_mariadbs_positions_are_by_domain() -> None:
    log = of(*(value(seq, gtid=f"0-{seq % 2 + 1}-{seq}") for seq in range(1, 10)))
    assert await offset_of(log, HERE, AfterGtids("0-1-6,1-1-4")) == 6


async def test_a_number_of_another_destination_says_nothing() -> None:
    mixed = of(*(value(seq, name=f"shop{seq % 2}") for seq in range(1, 9)))
    with pytest.raises(StartUnknown, match="numbered within a destination"):
        await offset_of(mixed, HERE, AfterSeq(4, "shop0"))


async def test_a_topic_without_gtids_is_not_searched_by_gtid() -> None:
    with pytest.raises(StartUnknown, match="no GTID"):
        await offset_of(of(value(1, gtid=None)), HERE, AfterGtids(f"{SERVER}:1"))


@pytest.mark.parametrize("text", ["", "  ", SERVER])
def test_what_is_no_gtid_set_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidSubscription, match="no GTID set"):
        AfterGtids(text)


def test_a_tag_holds_for_the_intervals_after_it() -> None:
    assert parse_gtids(f"{SERVER}:1-3:5:red:1-2") == {
        SERVER: ((1, 3), (5, 5)),
        f"{SERVER}:red": ((1, 2),),
    }


async def test_a_start_applies_once_and_is_kept() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert len(await subscriber.get_without_ack(timeout=0.02)) == 0
    shop.publish(1)  # while no client runs
    async with shop.subscriber(start=Latest()) as subscriber:
        assert seqs(await subscriber.get_without_ack()) == [3]
