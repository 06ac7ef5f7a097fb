"""The cursor after a piece, from which a new run resumes; and the order in the journal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Container
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, for_code

from app.worker.destination.takeover.takeover import usable
from app.worker.pipeline.piece import GtidInterval, Piece, SourceTrace
from app.worker.pipeline.publish.publisher import Publisher, TopicPlans, _after
from connectors.errors import (
    AqueductError,
    BatchTooLarge,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    KafkaSlow,
    RecordTooLarge,
    TooFewBrokers,
    TopicGone,
    TopicUnfit,
    TopicUnusable,
)
from connectors.kafka.error_mapping import translated
from connectors.kafka.record_batches import BatchWriter, FinishedBatch
from connectors.kafka.topics import TopicPlan
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from tables.history.codec import Reading
from tables.history.position import HistoryPosition
from tables.rules.routes.routes import Routes
from tables.state.cursor import Cursor, Resume
from tables.state.quarantine import Entry, Outcome, Quarantine
from tests.unit.tables.made import applied, begun, table

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
END = Coordinates("b.000002", 900)
PLANS = TopicPlans(
    prefix="aq",
    replication_factor=1,
    cleanup_policy="delete",
    retention_ms=-1,
    max_message_bytes=1,
    journal_partitions=1,
    offline_seconds=120.0,
)


def cursor(gtids: str | None) -> Cursor:
    offset = SourceOffset(
        server_uuid="server",
        coordinates=Coordinates("b.000001", 4),
        gtid_set=None if gtids is None else GtidSet.parse(gtids),
    )
    return Cursor(destination="shop", installation="i", epoch=3, seq=5, versions=1, offset=offset)


def piece(*gtids: tuple[int, int], resume: Resume | None = None) -> Piece:
    runs: list[GtidInterval] = [(UUID, first, last) for first, last in gtids]
    return Piece(
        trace=SourceTrace(gtids=runs),
        coordinates=END,
        resume=resume,
        seq=9,
        version_count=2,
    )


def test_the_cursor_takes_over_place_and_counts_and_keeps_who_it_is_of() -> None:
    after = _after(cursor(None), piece())
    assert (after.seq, after.versions, after.offset.coordinates) == (9, 2, END)
    assert (after.destination, after.installation, after.epoch) == ("shop", "i", 3)
    assert after.offset.server_uuid == "server"


def test_the_transactions_of_a_piece_are_added_and_the_old_cursor_stays_as_it_was() -> None:
    before = cursor(f"{UUID}:1-3")
    after = _after(before, piece((4, 5), (9, 9)))
    assert str(after.offset.gtid_set) == f"{UUID}:1-5:9"
    assert str(before.offset.gtid_set) == f"{UUID}:1-3"


def test_the_first_transaction_of_a_new_server_is_added_to_an_empty_set() -> None:
    assert str(_after(cursor(""), piece((1, 1))).offset.gtid_set) == f"{UUID}:1"


def test_a_source_without_gtids_stays_without_them() -> None:
    assert _after(cursor(None), piece()).offset.gtid_set is None


def test_where_a_cut_transaction_continues_is_kept_until_it_has_ended() -> None:
    resume = Resume(transaction_id=f"{UUID}:4", rows=7, published=6, part=2)
    cut = _after(cursor(f"{UUID}:1-3"), piece(resume=resume))
    assert cut.resume == resume
    assert str(cut.offset.gtid_set) == f"{UUID}:1-3"
    ended = _after(cut, piece((4, 4)))
    assert ended.resume is None
    assert str(ended.offset.gtid_set) == f"{UUID}:1-4"


class Sent:
    """A producer that takes note of what is sent, in its order."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Sent]:
        yield self

    async def send(self, _topic: str, *, key: bytes = b"", **_others: Any) -> asyncio.Future[None]:
        self.keys.append(key)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def learn(self, _topics: object) -> None:
        """Returns all partitions as known."""

    async def ensure(self, *_plans: object, before: Container[str] = ()) -> None:
        """Returns that all topics exist."""

    async def unfit(self, *_plans: object, **_before: object) -> dict[str, AqueductError]:
        """Returns that all topics may be used."""
        return {}

    async def unwritable(self, _topics: object) -> dict[str, AqueductError]:
        """Returns that all topics may be written to."""
        return {}


class Refusing(Sent):
    """A producer whose broker refuses the batches of one topic as too large."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._refused = topic

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Sent]:
        try:
            yield self
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge from error

    async def send_batch(
        self, _batch: object, topic: str, *, partition: int
    ) -> asyncio.Future[None]:
        assert partition == 0
        answer = asyncio.get_running_loop().create_future()
        if topic == self._refused:
            answer.set_exception(MessageSizeTooLargeError())
        else:
            answer.set_result(None)
        return answer

    async def largest(self, _topic: str) -> int:
        """Returns a limit that each of the records is below."""
        return 100_000


class Judged(Sent):
    """A producer, and its topics, one of which has a broker that refuses the records as they arrive."""

    compression = "lz4"

    def __init__(self, topic: str, refusal: KafkaError) -> None:
        super().__init__()
        self._topic, self._refusal = topic, refusal
        self.limit = 10
        self.settings: str | None = "as they were"
        """The digest of each topic's settings; None if they may not be read."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Sent]:
        try:
            yield self
        except KafkaError as error:
            raise translated(error) from error

    async def send_batch(
        self, _batch: object, topic: str, *, partition: int
    ) -> asyncio.Future[None]:
        assert partition == 0
        answer = asyncio.get_running_loop().create_future()
        if topic == self._topic:
            answer.set_exception(self._refusal)
        else:
            answer.set_result(None)
        return answer

    async def largest(self, _topic: str) -> int:
        return self.limit

    def forget(self, _topics: object) -> None:
        """They are as they were."""

    async def digests(self, topics: Collection[str]) -> dict[str, str]:
        return {} if self.settings is None else dict.fromkeys(topics, self.settings)


def batch_of(topic: str, records: int) -> FinishedBatch:
    writer = BatchWriter(topic, partitions=1, compression=None, timestamp_ms=1)
    for _ in range(records):
        writer.append(b"k", b"v", [])
    return writer.finished()[0]


@pytest.mark.parametrize("refused", ["aq.a", "aq.b"])
@pytest.mark.parametrize("progress", [False, True])
async def test_a_refused_batch_is_named_whatever_is_sent_beside_it(
    refused: str, progress: bool
) -> None:
    sent = Refusing(refused)
    publisher = Publisher(
        cast(Any, sent),
        plans=replace(PLANS, progress=progress),
        topics=cast(Any, sent),
        cursor=cursor(None),
    )
    given = piece()
    given.committed_ms = 5
    given.batches += [batch_of("aq.a", 2), batch_of("aq.b", 3)]
    with pytest.raises(BatchTooLarge) as raised:
        await publisher.publish(given)
    assert raised.value.context["topic"] == refused


async def refusal_of(
    kafka: Judged, *topics: str, ours: int = 1000
) -> tuple[Publisher, AqueductError]:
    """The publisher of a record to each of these topics, and the error of doing so."""
    plans = replace(PLANS, max_message_bytes=ours)
    publisher = Publisher(
        cast(Any, kafka), plans=plans, topics=cast(Any, kafka), cursor=cursor(None)
    )
    given = piece()
    given.batches += [batch_of(topic, 1) for topic in topics]
    with pytest.raises((KafkaRefused, RecordTooLarge)) as raised:
        await publisher.publish(given)
    rows = {f"aq.shop.{name}": {("shop", name)} for name in "ab"}
    error = await publisher.of_tables(
        raised.value, dict.fromkeys(topics, 1), lambda topic: rows.get(topic, set())
    )
    return publisher, error


REFUSALS = {
    "INVALID_TIMESTAMP": for_code(32)(),
    "UNSUPPORTED_COMPRESSION_TYPE": for_code(76)(),
    "RecordTooLarge": MessageSizeTooLargeError(),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_tables_wait_whose_topic_refuses_records_as_they_arrive_until_it_is_altered(
    name: str,
) -> None:
    kafka = Judged("aq.shop.a", REFUSALS[name])
    publisher, error = await refusal_of(kafka, "aq.shop.a", "aq.shop.b")
    assert isinstance(error, TopicUnusable)
    assert (error.name_of_table, error.others) == (("shop", "a"), ())
    assert name in error.detail
    assert "topic=aq.shop.a" in error.detail
    quarantine = Quarantine(destination="shop")
    entry = quarantine.add(
        ("shop", "a"),
        error.detail,
        HistoryPosition(server_uuid="u", start=END, end=END, gtid=None, ts_ms=1),
        table=table("id"),
        is_by_rule=True,
        is_by_topic=True,
        refused=error.refused,
    )
    assert Entry.from_json(entry.to_json(), Reading()) == entry
    routes = Routes(prefix="aq", include=r"shop\..*")
    assert await usable(routes, quarantine, publisher) == []
    kafka.settings = "altered"
    assert await usable(routes, quarantine, publisher) == [("shop", "a")]


@pytest.mark.parametrize("then", [None, "x"])
async def test_a_table_is_tried_again_at_intervals_if_its_topic_s_settings_may_not_be_read(
    then: str | None,
) -> None:
    kafka = Judged("aq.shop.a", REFUSALS["INVALID_TIMESTAMP"])
    kafka.settings = then
    publisher, error = await refusal_of(kafka, "aq.shop.a", "aq.shop.b")
    assert isinstance(error, TopicUnusable)
    kafka.settings = None
    quarantine = Quarantine(destination="shop")
    now_ms = time.time_ns() // 1_000_000
    at = HistoryPosition(server_uuid="u", start=END, end=END, gtid=None, ts_ms=now_ms)
    ways = {"table": table("id"), "is_by_rule": True, "is_by_topic": True, "refused": error.refused}
    quarantine.add(("shop", "a"), error.detail, at, **ways)  # type: ignore[arg-type]
    routes = Routes(prefix="aq", include=r"shop\..*")
    assert await usable(routes, quarantine, publisher) == []
    entry = quarantine.entries["shop", "a"]
    long_ago = replace(at, ts_ms=now_ms - 61_000)
    quarantine.entries["shop", "a"] = replace(entry, since=long_ago)
    assert await usable(routes, quarantine, publisher) == [("shop", "a")]
    # An attempt in the meantime has failed.
    quarantine.try_topics_again([("shop", "a")], epoch=3, ts_ms=now_ms)
    quarantine.add(("shop", "a"), error.detail, at, **ways)  # type: ignore[arg-type]
    assert await usable(routes, quarantine, publisher) == []
    kafka.settings = "altered"
    assert await usable(routes, quarantine, publisher) == [("shop", "a")]


@pytest.mark.parametrize("name", REFUSALS)
async def test_records_of_a_destination_s_own_topic_that_are_refused_are_of_no_table(
    name: str,
) -> None:
    _, error = await refusal_of(
        Judged("aq.__ddl.shop", REFUSALS[name]), "aq.__ddl.shop", "aq.shop.b"
    )
    assert isinstance(error, KafkaRefused | RecordTooLarge)


async def test_a_record_that_only_our_own_limit_does_not_allow_is_a_matter_of_oversize() -> None:
    kafka = Judged("aq.shop.a", MessageSizeTooLargeError())
    _, error = await refusal_of(kafka, "aq.shop.a", ours=kafka.limit)
    assert isinstance(error, RecordTooLarge)


async def test_the_records_of_a_piece_come_after_the_checkpoint_that_does_not_hold_them() -> None:
    # The next run reads the journal from that checkpoint's first part on.
    sent = Sent()
    publisher = Publisher(
        cast(Any, sent), plans=PLANS, topics=cast(Any, sent), cursor=cursor(f"{UUID}:1-3")
    )
    record = applied(begun("orders"), 200, "ALTER TABLE orders ADD a INT")
    piece_given = piece((4, 4))
    piece_given.tables.history.append(record)
    piece_given.notes.append((b"checkpoint/shop/2/0", b"{}"))
    await publisher.publish(piece_given)
    assert [key.partition(b"/")[0] for key in sent.keys] == [b"checkpoint", b"history", b"cursor"]
    assert publisher.cursor.history == 1


class Asked:
    """Topics as a broker has them: each that is unfit, gone or forbidden by its name."""

    def __init__(self, *denied: str, **faults: AqueductError) -> None:
        self._denied, self._faults = denied, faults
        self.offline: set[str] = set()
        self.written: set[str] = set()
        self.asked: list[set[str]] = []
        """The topics of each request by ``unfit``."""

    def forget(self, _topics: object) -> None:
        """They are as they were."""

    async def unwritable(self, names: Collection[str]) -> dict[str, AqueductError]:
        denied: dict[str, AqueductError] = {name: KafkaDenied(topic=name) for name in self._denied}
        offline = {name: TooFewBrokers("no leader", topic=name) for name in self.offline}
        return {name: one for name, one in (denied | offline).items() if name in names}

    async def ensure(self, *plans: TopicPlan, before: Container[str] = ()) -> None:
        for error in (await self.unfit(*plans, before=before)).values():
            raise error

    async def unfit(
        self, *plans: TopicPlan, before: Container[str] = ()
    ) -> dict[str, AqueductError]:
        assert before == self.written
        names = {plan.name for plan in plans}
        self.asked.append(names)
        return {name: one for name, one in self._faults.items() if name in names}


async def error_of(
    topics: Asked, error: AqueductError, *names: str, seconds: float = 0, written: str = ""
) -> AqueductError:
    """The outcome of an error of writing to these topics, of which each but ``x`` has a table of its name."""
    topics.written = {*written}
    publisher = Publisher(
        cast(Any, None),
        plans=replace(PLANS, offline_seconds=seconds),
        topics=cast(Any, topics),
        cursor=cursor(None),
        written=dict.fromkeys(written),
    )
    return await publisher.of_tables(
        error, dict.fromkeys(names, 1), lambda topic: {("shop", topic)} - {("shop", "x")}
    )


async def test_the_tables_of_topics_that_cannot_be_written_to_wait_each_by_its_own_reason() -> None:
    topics = Asked("c", a=TopicUnfit("small"), b=TopicGone(topic="b"))
    found = await error_of(topics, KafkaRefused("no"), "a", "b", "c", "d")
    assert isinstance(found, TopicUnusable)
    why = {one.name_of_table[1]: one.detail for one in (found, *found.others)}
    assert {name: text.partition(":")[0] for name, text in why.items()} == {
        "a": "TopicUnfit",
        "b": "TopicGone",
        "c": "KafkaDenied",
    }
    assert "accept-topic shop" in why["b"]
    assert topics.asked == [{"a", "b", "d"}], "one request for all"


async def test_what_is_not_a_matter_of_single_topics_with_tables_is_the_destination_s() -> None:
    error = KafkaRefused("no")
    assert await error_of(Asked(), error, "a") is error
    # A topic of no known table.
    assert await error_of(Asked(x=TopicUnfit("small")), error, "a", "x") is error
    # The dead letters are the destination's own, made with the first.
    letters = "aq.__dead_letters.shop"
    assert await error_of(Asked(letters), error, letters) is error
    for own in ("aq.__journal", "aq.__ddl.shop"):
        with pytest.raises(KafkaDenied, match=own):
            await error_of(Asked(own, "a"), error, "a")


@pytest.mark.parametrize(
    "error", [KafkaSlow("10 s"), KafkaLost("no answer"), TooFewBrokers("no leader")]
)
async def test_the_tables_of_a_topic_that_takes_no_records_wait_after_a_time(
    error: KafkaLost,
) -> None:
    topics = Asked("c")
    topics.offline = {"a"}
    first = await error_of(topics, error, "a", "b", written="ab", seconds=60)
    assert isinstance(first, TooFewBrokers)
    assert first.context["topic"] == "a"
    # One that may not be written to waits at once.
    found = await error_of(topics, error, "a", "b", "c", written="abc", seconds=60)
    assert isinstance(found, TopicUnusable)
    assert (found.name_of_table, found.others) == (("shop", "c"), ())
    found = await error_of(topics, error, "a", "b", written="ab")
    assert isinstance(found, TopicUnusable)
    assert (found.name_of_table, found.others) == (("shop", "a"), ())
    assert "TooFewBrokers" in found.detail
    assert dict(found.refused) == {}


async def test_a_topic_s_time_without_records_is_counted_over_runs_until_it_takes_some() -> None:
    topics, since = Asked(), dict[str, float]()
    topics.offline, topics.written = {"a"}, {"a", "b"}

    async def wait() -> AqueductError:
        publisher = Publisher(
            cast(Any, None),
            plans=PLANS,
            topics=cast(Any, topics),
            cursor=cursor(None),
            written={"a": 1, "b": 1},
            offline=since,
        )
        return await publisher.of_tables(KafkaSlow(""), {"a": 1}, lambda topic: {("shop", topic)})

    assert isinstance(await wait(), TooFewBrokers)
    since["a"] -= PLANS.offline_seconds
    assert isinstance(await wait(), TopicUnusable)
    topics.offline = set()
    assert isinstance(await wait(), KafkaSlow)
    topics.offline = {"a"}
    assert isinstance(await wait(), TooFewBrokers)
    since["a"] -= PLANS.offline_seconds
    # Records that it took show that it is back, without any error that asks for it.
    topics.offline = set()
    publisher = Publisher(
        cast(Any, Refusing("none")),
        plans=PLANS,
        topics=cast(Any, topics),
        cursor=cursor(None),
        written={"a": 1, "b": 1},
        offline=since,
    )
    await publisher.publish(replace(piece(), batches=[batch_of("b", 1)]))
    assert since.keys() == {"a"}
    await publisher.publish(replace(piece(), batches=[batch_of("a", 1)]))
    topics.offline = {"a"}
    assert isinstance(await wait(), TooFewBrokers)


async def test_no_table_waits_alone_if_no_other_topic_takes_records() -> None:
    topics = Asked()
    topics.offline = {"a", "b"}
    error = KafkaSlow("10 s")
    assert isinstance(await error_of(topics, error, "a", written="ab"), TooFewBrokers)
    # Without its own topics a destination cannot publish anything, nor let a table wait.
    topics.offline = {"a", "aq.__journal"}
    found = await error_of(topics, error, "a", written="ab")
    assert isinstance(found, TooFewBrokers)
    assert found.context["topic"] == "aq.__journal"


async def test_tables_come_back_once_their_topics_take_records() -> None:
    topics = Asked()
    topics.offline = {"aq.shop.a"}
    publisher = Publisher(
        cast(Any, None), plans=PLANS, topics=cast(Any, topics), cursor=cursor(None)
    )
    quarantine = Quarantine(destination="shop")
    quarantine.add(
        ("shop", "a"),
        "TooFewBrokers: no leader",
        HistoryPosition(server_uuid="u", start=END, end=END, gtid=None, ts_ms=1),
        table=table("id"),
        is_by_rule=True,
        is_by_topic=True,
    )
    routes = Routes(prefix="aq", include=r"shop\..*")
    assert await usable(routes, quarantine, publisher) == []
    topics.offline = set()
    assert await usable(routes, quarantine, publisher) == [("shop", "a")]
    # Its topic is not what one whose events did not fit waits for.
    entry = quarantine.entries["shop", "a"]
    quarantine.entries["shop", "a"] = replace(
        entry,
        outcome=Outcome.REFUSED,
        resolution="topic-7",
        reason="RuleImpossible at b.000002:900",
    )
    assert await usable(routes, quarantine, publisher) == []


async def test_no_transaction_is_begun_with_a_topic_that_takes_no_records() -> None:
    sent, topics = Sent(), Asked()
    topics.offline = {"aq.a"}
    publisher = Publisher(
        cast(Any, sent), plans=PLANS, topics=cast(Any, topics), cursor=cursor(None)
    )
    with pytest.raises(TooFewBrokers, match=r"topic=aq\.a"):
        await publisher.publish(replace(piece(), batches=[batch_of("aq.a", 1)]))
    assert sent.keys == []


async def test_a_topic_that_a_run_has_written_to_is_not_made_again_by_it() -> None:
    topics = Asked()
    publisher = Publisher(
        cast(Any, Refusing("none")), plans=PLANS, topics=cast(Any, topics), cursor=cursor(None)
    )
    await publisher.publish(replace(piece(), batches=[batch_of("aq.a", 1)]))
    topics.written = {"aq.a"}
    assert await publisher.unusable({"aq.a": 1}) == {}


async def test_a_topic_that_may_not_be_written_to_is_found_before_a_transaction_is_begun() -> None:
    sent = Sent()
    publisher = Publisher(
        cast(Any, sent), plans=PLANS, topics=cast(Any, Asked("aq.a")), cursor=cursor(None)
    )
    written = BatchWriter("aq.a", partitions=1, compression=None, max_bytes=99, timestamp_ms=1)
    written.append(b"{}", b"{}", [])
    with pytest.raises(KafkaDenied, match=r"topic=aq\.a"):
        await publisher.publish(replace(piece(), batches=written.finished()))
    assert sent.keys == []
