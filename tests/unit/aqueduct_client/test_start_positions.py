"""Start positions, in the in-memory twin."""

import random

import pytest

from aqueduct_client import start_positions
from aqueduct_client.errors import InvalidSubscription, StartUnknown
from aqueduct_client.memory import MemoryKafka, MemoryLog
from aqueduct_client.records import Partition
from aqueduct_client.start_positions import (
    AfterGtids,
    AfterSeq,
    AtTime,
    Earliest,
    Latest,
    Start,
    offset_of,
    parse_gtids,
    start_offsets,
)
from tests.unit.aqueduct_client.made import SERVER, TOPIC, Shop, headers, seqs, value

HERE = Partition(TOPIC, 0)
OTHER = "11111111-71ca-11e1-9e33-c80aa9429562"


def of(*values: bytes | None) -> MemoryLog:
    """A partition of these values, written 5 s after each other."""
    kafka = MemoryKafka()
    kafka.create(TOPIC)
    for at, body in enumerate(values):
        kafka.send(HERE, body, headers=headers(at + 1), ts_ms=5000 * at)
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


@pytest.mark.parametrize(
    "numbers",
    [
        [(1, 1), (2, 1), (1, 2), (2, 2)],
        [(1, 1), (1, 2), (1, 3), (2, 1)],  # the second one was added after all of the set
        [(1, 1), (1, 9), (2, 1), (2, 2)],
    ],
)
@pytest.mark.parametrize("number", [1, 2, 5])
async def test_a_domain_of_several_mariadb_servers_is_refused(
    numbers: list[tuple[int, int]], number: int
) -> None:
    log = of(*(value(at, name=f"shop{one}", gtid=f"0-{one}-{at}") for one, at in numbers))
    with pytest.raises(StartUnknown, match=rf"domain 0 has changes of shop1, shop2.*{TOPIC}"):
        await offset_of(log, HERE, AfterGtids(f"0-1-{number}"))
    assert await offset_of(log, HERE, AfterGtids(f"7-1-{number}")) == 0, "none is in the set"


@pytest.mark.parametrize("other", [Partition(TOPIC, 1), Partition("aq.trade.later", 0)])
async def test_a_domain_of_several_mariadb_servers_is_refused_over_partitions(
    other: Partition,
) -> None:
    kafka = MemoryKafka()
    kafka.create(HERE.topic, 2)
    kafka.create(other.topic)
    for tp, one in ((HERE, 1), (other, 2)):
        for at in range(1, 6):
            kafka.send(tp, value(at, name=f"shop{one}", gtid=f"0-{one}-{at}"), headers=headers(at))
    with pytest.raises(StartUnknown, match=r"domain 0 has changes of shop1, shop2"):
        await start_offsets(MemoryLog(kafka), [HERE, other], AfterGtids("0-1-5"))


def several(count: int) -> list[bytes]:
    """Changes of two masters in turn, numbered and with GTIDs within each."""
    return [
        value(
            at // 2 + 1,
            name=f"shop{at % 2}",
            gtid=f"{(SERVER, OTHER)[at % 2]}:{at // 2 + 1}",
        )
        for at in range(count)
    ]


@pytest.mark.remedy("client.StartUnknown")
async def test_a_number_needs_its_destination_in_a_topic_of_several() -> None:
    with pytest.raises(StartUnknown, match=r"shop0, shop1; give the destination"):
        await offset_of(of(*several(8)), HERE, AfterSeq(4))
    assert await offset_of(of(*several(8)), HERE, Latest()) == 8
    assert await offset_of(of(*several(8)), HERE, Earliest()) == 0


async def test_a_number_of_a_destination_is_found_among_others_changes() -> None:
    log = of(*several(100), *(value(seq, name="shop0") for seq in range(51, 61)))
    assert [await offset_of(log, HERE, AfterSeq(seq, "shop0")) for seq in (0, 1, 37, 50, 60)] == [
        0, 1, 73, 99, 110,
    ]  # fmt: skip
    assert await offset_of(log, HERE, AfterSeq(37, "shop1")) == 74
    assert await offset_of(log, HERE, AfterSeq(50, "shop1")) == 100, "it has none after"


async def test_a_topic_without_changes_of_a_destination_is_named_with_those_that_it_has() -> None:
    with pytest.raises(StartUnknown, match=r"no change of 'shop9'; it has those of shop0, shop1"):
        await start_offsets(of(*several(8)), [HERE], AfterSeq(4, "shop9"))
    assert await start_offsets(of(), [HERE], AfterSeq(4, "shop9")) == {HERE: 0}


async def test_numbers_that_begin_again_in_a_later_epoch_are_found_in_the_first() -> None:
    """As after a journal was restored: the epoch grows, and the numbers do not."""
    numbers = [(1, seq) for seq in range(1, 51)] + [(2, seq) for seq in range(20, 91)]
    log = of(*(value(seq, epoch=epoch) for epoch, seq in numbers))
    for wanted in (0, 19, 45, 50, 70, 90):
        first = next((at for at, (_, seq) in enumerate(numbers) if seq > wanted), len(numbers))
        assert await offset_of(log, HERE, AfterSeq(wanted)) == first


async def test_no_transaction_outside_the_set_is_skipped_where_several_masters_feed_a_topic() -> (
    None
):
    """Each choice of what a copy has of two masters whose changes arrive in an order of their own."""
    choice = random.Random(3)
    for _ in range(133):
        left, changes = {SERVER: 0, OTHER: 0}, list[tuple[str, int]]()
        while len(changes) < 40:
            server = choice.choice(list(left))
            left[server] += 1
            changes.append((server, left[server]))
        log = of(*(value(number, gtid=f"{server}:{number}") for server, number in changes))
        known = {server: choice.randint(1, last) for server, last in left.items() if last}
        gtids = ",".join(f"{server}:1-{number}" for server, number in known.items())
        outside = [at for at, (server, number) in enumerate(changes) if number > known[server]]
        assert await offset_of(log, HERE, AfterGtids(gtids)) == min(outside, default=40)


async def test_a_set_with_gaps_begins_at_its_first_gap() -> None:
    log = of(*(value(seq) for seq in range(1, 41)))
    assert await offset_of(log, HERE, AfterGtids(f"{SERVER}:1-4:6-30")) == 4


def existing(seq: int) -> bytes:
    """A row that existed already."""
    return value(seq, op="r", gtid=None, snapshot="incremental")


async def test_existing_rows_are_passed_over_if_a_later_transaction_is_in_the_set() -> None:
    changes = [existing(1), value(2), existing(3), value(4), existing(5), value(6), existing(7)]
    log = of(*changes)
    found = [await offset_of(log, HERE, AfterGtids(f"{SERVER}:1-{n}")) for n in (1, 3, 5, 6)]
    assert found == [0, 2, 4, 6], "rows read after the last known transaction may be newer"
    assert await offset_of(of(existing(1), existing(2)), HERE, AfterGtids(f"{SERVER}:1-9")) == 0


async def test_the_deletes_of_a_truncate_are_judged_by_its_transaction() -> None:
    kafka = MemoryKafka()
    kafka.create(TOPIC)
    removed = value(2, op="d", gtid=None, snapshot="incremental")
    for body, change in (
        (value(50), f"{SERVER}:50#0"),
        (removed, f"truncate:{SERVER}:51:0#0"),
        (value(20, gtid=f"{OTHER}:20"), f"{OTHER}:20#0"),
        (removed, "truncate:snapshot:one:trade.orders:3#0"),
        (value(21, gtid=f"{OTHER}:21"), f"{OTHER}:21#0"),
    ):
        kafka.send(HERE, body, headers=[("change_id", change.encode())])
    for gtids, offset in (
        (f"{SERVER}:1-50,{OTHER}:1-21", 1),
        (f"{SERVER}:1-51,{OTHER}:1-20", 3),
        (f"{SERVER}:1-51,{OTHER}:1-21", 5),
        (f"{SERVER}:1-51,{OTHER}:1-19", 2),
    ):
        assert await offset_of(MemoryLog(kafka), HERE, AfterGtids(gtids)) == offset


async def test_a_transaction_without_a_gtid_is_named() -> None:
    with pytest.raises(StartUnknown, match=r"no GTID.*offset=1"):
        await offset_of(of(existing(1), value(2, gtid=None)), HERE, AfterGtids(f"{SERVER}:1"))


def written_now(*commits: int) -> MemoryLog:
    """A partition of changes with these times of commit, all written in hour 2."""
    kafka = MemoryKafka()
    kafka.create(TOPIC)
    for seq, ts_ms in enumerate(commits, start=1):
        kafka.send(HERE, value(seq, ts_ms=ts_ms), ts_ms=7_200_000 + seq)
    return MemoryLog(kafka)


async def test_no_change_committed_then_or_later_is_skipped_after_a_backlog() -> None:
    """Two masters, of which one was read late; every second change qualifies."""
    commits = [
        7_000_123 + at if at % 2 else 100_123 + at for at in range(200)
    ]  # fmt: skip
    log = written_now(*commits)
    for wanted in (0, 100_200, 3_600_000, 7_000_124, 7_000_200, 7_000_322, 7_000_323):
        first = next((at for at, ts in enumerate(commits) if ts >= wanted), 200)
        assert await offset_of(log, HERE, AtTime(wanted)) == first


async def test_a_source_whose_clock_is_later_than_the_workers_is_searched_whole() -> None:
    log = written_now(*(20_000_123 + 1000 * at for at in range(50)))
    assert await offset_of(log, HERE, AtTime(20_010_000)) == 10


async def test_a_workers_clock_that_was_an_hour_slow_for_a_while_skips_nothing() -> None:
    kafka = MemoryKafka()
    kafka.create(TOPIC)
    hour = 3_600_000
    for at in range(1000):
        committed = 10 * hour + 5000 * at
        is_slow = 300 <= at < 550
        kafka.send(
            HERE, value(at + 1, ts_ms=committed), ts_ms=committed - hour if is_slow else committed
        )
    wanted = 10 * hour + 5000 * 500
    assert await offset_of(MemoryLog(kafka), HERE, AtTime(wanted)) == 500


@pytest.mark.parametrize(
    ("slow", "older"), [((7400, 7900), 0), ((7400, 7900), 250), ((4500, 7900), 1500)]
)
async def test_a_slow_clock_between_the_looks_and_right_before_the_position_skips_nothing(
    slow: tuple[int, int], older: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last changes that were written by the slow clock may be old, as those of a backlog are."""
    monkeypatch.setattr(start_positions, "_LOOKS", 2)
    kafka = MemoryKafka()
    kafka.create(TOPIC)
    hour, (begin, end) = 3_600_000, slow
    for at in range(12_000):
        now = 10 * hour + 5000 * at
        is_slow, is_older = begin <= at < end, end - older <= at < end
        committed = 5 * hour + at if is_older else now
        # The slow clock shows one time, as if it were set back again and again.
        written = 10 * hour + 5000 * begin - hour if is_slow else now
        kafka.send(HERE, value(at + 1, ts_ms=committed), ts_ms=written)
    first = end - 2 * older - 100 if older > 1000 else 7600
    assert await offset_of(MemoryLog(kafka), HERE, AtTime(10 * hour + 5000 * first)) == first


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        SERVER,
        # Of one that is half understood, the other half would be delivered again.
        f"{SERVER}:1-5,garbage",
        f"{SERVER}:1-5,{OTHER}:7_9",
        f"{SERVER}:1-5,{OTHER[:-1]}:7",
        f"{SERVER}:1-5;{OTHER}:7",
        "0-1-6,1-1",
    ],
)
def test_what_is_no_gtid_set_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidSubscription, match="no GTID set"):
        AfterGtids(text)


def test_a_tag_holds_for_the_intervals_after_it() -> None:
    assert parse_gtids(f"{SERVER}:1-3:5:red:1-2") == {
        SERVER: ((1, 3), (5, 5)),
        f"{SERVER}:red": ((1, 2),),
    }


async def test_a_group_that_begins_several_topics_is_refused_for_a_domain_of_several_servers() -> (
    None
):
    shop = Shop()
    later = "aq.trade.later"
    shop.kafka.create(later)
    for topic, one in ((TOPIC, 1), (later, 2)):
        gtid = f"0-{one}-1"
        shop.kafka.send(
            Partition(topic, 0), value(1, name=f"shop{one}", gtid=gtid), headers=headers(1)
        )
    with pytest.raises(StartUnknown, match=r"domain 0 has changes of shop1, shop2"):
        await shop.subscriber(topics=[TOPIC, later], start=AfterGtids("0-1-1")).__aenter__()
    assert await shop.notes().read() == {}


async def test_a_start_applies_once_and_is_kept() -> None:
    shop = Shop()
    shop.publish(2)
    async with shop.subscriber(start=Latest()) as subscriber:
        assert len(await subscriber.get_without_ack(timeout=0.02)) == 0
    shop.publish(1)  # while no client runs
    async with shop.subscriber(start=Latest()) as subscriber:
        assert seqs(await subscriber.get_without_ack()) == [3]
