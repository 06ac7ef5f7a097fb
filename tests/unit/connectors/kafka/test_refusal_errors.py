"""The record that a broker refused for its size, as named by the error."""

from __future__ import annotations

import asyncio
import os

import orjson
import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from connectors.errors import BatchTooLarge, RecordTooLarge, Retry
from connectors.kafka.record_batches import BatchWriter, FinishedBatch
from connectors.kafka.refusal_errors import refused_batch, too_large


def batch(*values: bytes) -> FinishedBatch:
    writer = BatchWriter("aq.shop.t", partitions=1, compression="lz4", timestamp_ms=1)
    for number, value in enumerate(values):
        key = orjson.dumps({"id": number})
        writer.append(key, value, [("change_id", b"u:7#%d" % number)])
    (found,) = writer.finished()
    return found


def row(note: str) -> bytes:
    source = {"db": "shop", "table": "t", "gtid": "u:7", "file": "b.000001", "pos": 99}
    return orjson.dumps({"after": {"note": note}, "source": source})


async def test_the_batch_is_the_one_whose_answer_says_so() -> None:
    loop = asyncio.get_running_loop()
    sent = [(batch(row(str(n))), loop.create_future()) for n in range(4)]
    sent[0][1].set_result(None)
    sent[1][1].cancel()
    sent[2][1].set_exception(RecordListTooLargeError())
    error = MessageSizeTooLargeError()
    assert refused_batch(sent, error) is sent[2][0]
    assert refused_batch(sent, KafkaError()) is None
    assert refused_batch(sent[:2], error) is None
    assert refused_batch(sent, None) is None


def test_its_largest_record_is_reported_with_table_key_place_and_sizes() -> None:
    found = too_large(batch(row("a"), row("b" * 5000), row("c")), 1000)
    size = len(row("b" * 5000))
    assert found.context == {
        "topic": "aq.shop.t",
        "table": "shop.t",
        "gtid": "u:7",
        "coordinates": "b.000001:99",
        "key": '{"id":1}',
        "change_id": "u:7#1",
        "size": size,
        "limit": 1000,
    }
    assert f"{size} bytes" in str(found)
    assert "the topic takes 1000 (the smaller of max.message.bytes and segment.bytes)" in str(found)
    assert "bbbb" not in str(found)


@pytest.mark.parametrize("length", [10, 3_000_000])
def test_its_remedy_is_a_command_by_which_the_topic_takes_it(length: int) -> None:
    one = batch(row(os.urandom(length // 2).hex()))
    found = too_large(one, 100)
    assert isinstance(found, RecordTooLarge)
    begin, _, rest = found.action.partition("--add-config max.message.bytes=")
    assert begin.endswith("kafka-configs.sh --alter --topic aq.shop.t ")
    assert int(rest.split(";")[0]) > max(len(one.raw), 1_000_000)


def test_what_is_no_row_is_reported_without_a_table() -> None:
    found = too_large(batch(b"\xff" * 100), None)
    assert "table" not in found.context
    assert found.context["size"] == 100


def test_where_each_record_fits_the_batch_is_refused_and_is_to_be_cut() -> None:
    many = batch(*(row(os.urandom(200).hex()) for _ in range(20)))
    found = too_large(many, 2000)
    assert type(found) is BatchTooLarge
    assert found.context == {"topic": "aq.shop.t", "size": len(many.raw), "limit": 2000}
    assert f"20 record(s) of {len(many.raw)} bytes" in str(found)
    assert found.retry is Retry.TIMED


def test_a_batch_is_cut_too_where_nobody_may_ask_for_the_topics_limit() -> None:
    many = batch(*(row(os.urandom(200).hex()) for _ in range(20)))
    found = too_large(many, None)
    assert type(found) is BatchTooLarge
    assert found.context == {"topic": "aq.shop.t", "size": len(many.raw)}
    assert "DescribeConfigs" in str(found)


def test_a_record_alone_in_its_batch_is_too_large_by_itself() -> None:
    assert type(too_large(batch(row("a" * 100)), 10)) is RecordTooLarge


@pytest.mark.parametrize("records", [1, 20])
def test_what_a_raised_limit_allows_by_now_is_tried_again(records: int) -> None:
    refused = batch(*(row(os.urandom(200).hex()) for _ in range(records)))
    found = too_large(refused, 1024 * 1024)
    assert (type(found), found.retry) == (BatchTooLarge, Retry.TIMED)
    assert "the topic takes 1048576 now, which is enough" in str(found)


def test_a_record_that_only_compression_makes_too_large_is_too_large() -> None:
    alone = batch(os.urandom(4000))
    assert type(too_large(alone, len(alone.raw) - 1)) is RecordTooLarge


@pytest.mark.parametrize(("gtid", "shown"), [("u:7", "u:7"), ("", None)])
def test_a_row_in_another_format_is_reported_with_its_table(gtid: str, shown: str | None) -> None:
    value = orjson.dumps(
        {"data": ["x" * 900], "database": "trade", "table": "orders", "gtid": gtid}
    )
    found = too_large(batch(value), 500)
    assert found.context["table"] == "trade.orders"
    assert found.context.get("gtid") == shown
