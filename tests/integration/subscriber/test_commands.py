"""`python -m app subscriber …`: where groups are, and how they are moved."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from app.__main__ import main
from app.operator.terminal import run_operation
from aqueduct_client import AfterSeq, Earliest, Latest, SyncSubscriber, subscribe
from aqueduct_client.errors import ForeignFormat, MalformedRecord, RecordsGone, TopicReplaced
from connectors.kafka.group_positions import delete_offsets, store_offsets
from connectors.kafka.topics import TopicPlan, Topics
from devstack import Stack
from tests.harness.worker import settings
from tests.unit.aqueduct_client.made import SERVER, headers, seqs, value

Run = Callable[..., tuple[int, str, str]]
GROUP = "mails"


@pytest.fixture
def prefix(stack: Stack, tmp_path: Path) -> str:
    """An installation with a topic of ten changes in two partitions."""
    wanted = settings(stack, stack.mysql, tmp_path)
    (tmp_path / "aqueduct.yaml").write_text(yaml.safe_dump(wanted))
    made = str(wanted["prefix"])
    run_operation(published(stack.kafka, f"{made}.trade.orders"))
    return made


async def published(brokers: str, topic: str) -> None:
    plan = TopicPlan(name=topic, partitions=2, replication_factor=1, max_message_bytes=10**6)
    await Topics({"bootstrap_servers": brokers}).ensure(plan)
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        for seq in range(1, 11):
            await producer.send_and_wait(
                topic, value(seq), partition=seq % 2, headers=headers(seq), timestamp_ms=seq * 1000
            )


async def deleted(brokers: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    await admin.delete_topics([topic])
    await admin.close()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; its exit code and what it printed."""
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))

    def ran(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["subscriber", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return ran


def mails(stack: Stack, prefix: str, **more: Any) -> SyncSubscriber:
    return subscribe(
        "trade.orders", group=f"{prefix}.{GROUP}", brokers=stack.kafka, prefix=prefix,
        session_seconds=6, **more,
    )  # fmt: skip


def drained(subscriber: SyncSubscriber) -> list[int]:
    """Everything up to the end, acknowledged."""
    found: list[int] = []
    while batch := subscriber.get(timeout=2.5 if not found else 0.3):
        found += seqs(batch)
    return sorted(found)


@pytest.mark.remedy("GroupActive", "client.TopicReplaced")
def test_a_group_is_listed_and_moved(stack: Stack, prefix: str, run: Run) -> None:
    group, topic = f"{prefix}.{GROUP}", f"{prefix}.trade.orders"
    with mails(stack, prefix, start=Earliest()) as subscriber:
        assert drained(subscriber) == list(range(1, 11))
        code, _, error = run("set", group, "--earliest")
        assert code == 1
        assert "GroupActive" in error
        assert "aiokafka" in error, "it names the clients"
    # Another installation's topics, whose prefix begins with this one's, are not this one's.
    other = f"{topic}.shop.items"
    for name in (f"{topic}.__journal", other):
        run_operation(published(stack.kafka, name))
    run_operation(store_offsets({"bootstrap_servers": stack.kafka}, group, {(other, 0): 1}))
    code, out, _ = run("list", "--format", "json")
    assert code == 0
    (listed,) = [each for each in json.loads(out) if each["group"] == group]
    assert listed == {"group": group, "state": "Empty", "clients": [], "topics": [topic]}

    code, out, error = run("set", group, "trade.orders", "--seq", "7")
    assert (code, out, "NotConfirmed" in error) == (1, "", True)
    assert f"{topic}:0 from 5 to 3, up to 2 records are delivered again" in error
    assert "or add --yes" in error
    assert json.loads(run("position", group, "--format", "json")[1])[0]["offset"] == 5
    code, out, _ = run("set", group, "trade.orders", "--seq", "7", "--yes")
    assert code == 0, out
    assert "up to 2 records are delivered again" in out
    code, out, _ = run("position", group, "--format", "json")
    even, odd = json.loads(out)
    assert (even["offset"], even["end"], even["lag"], even["next"]["seq"]) == (3, 5, 2, 8)
    assert (odd["next"]["seq"], odd["next"]["gtid"]) == (9, f"{SERVER}:9")
    assert f"{topic}  0" in run("position", group)[1]

    for words, expected in (
        (("--gtid", f"{SERVER}:1-4"), [5, 6, 7, 8, 9, 10]),
        (("--partition", "1", "--offset", "4"), [9]),
        (("--latest",), []),
    ):
        assert run("set", group, "--topic", topic, *words, "--yes")[0] == 0
        with mails(stack, prefix) as subscriber:
            assert drained(subscriber) == expected

    # What moves nothing needs no confirmation.
    assert run("set", group, "--topic", topic, "--latest")[0] == 0
    assert run("reset", group, "--dry-run")[0] == 0
    assert "begins at its start position" in run("reset", group)[2]
    assert json.loads(run("position", group, "--format", "json")[1])[0]["offset"] == 5
    code, out, _ = run("reset", group, "--yes")
    assert code == 0
    assert "begins at its start position" in out
    with mails(stack, prefix, start=Latest()) as subscriber:
        assert drained(subscriber) == []
    assert run("position", group)[0] == 0

    # Kafka has forgotten the group: it would continue where it was, unless it is reset.
    known = [(topic, 0), (topic, 1)]
    run_operation(delete_offsets({"bootstrap_servers": stack.kafka}, group, known))
    assert run("reset", group, "--yes")[0] == 0
    with mails(stack, prefix, start=AfterSeq(8)) as subscriber:
        assert drained(subscriber) == [9, 10]

    # What was set is noted too, and a topic that was made again is read once a command has decided.
    assert run("set", group, "trade.orders", "--seq", "6", "--yes")[0] == 0
    run_operation(delete_offsets({"bootstrap_servers": stack.kafka}, group, known))
    with mails(stack, prefix) as subscriber:
        assert drained(subscriber) == [7, 8, 9, 10]
    run_operation(deleted(stack.kafka, topic))
    run_operation(published(stack.kafka, topic))
    with pytest.raises(TopicReplaced):
        mails(stack, prefix).__enter__()
    assert run("set", group, "trade.orders", "--earliest", "--yes")[0] == 0
    with mails(stack, prefix) as subscriber:
        assert drained(subscriber) == list(range(1, 11))


@pytest.mark.remedy(
    "client.RecordsGone", "client.MalformedRecord", "client.ForeignFormat", "TopicPositionUnknown"
)
def test_a_group_leaves_what_it_cannot_read_by_the_command_that_the_error_names(
    stack: Stack, prefix: str, run: Run
) -> None:
    group, topic = f"{prefix}.{GROUP}", f"{prefix}.trade.orders"

    def does_as_printed(error: BaseException, offset: int) -> None:
        (words,) = re.findall(r"python -m app subscriber (set [^.]+(?:\.N)?)", str(error))
        words = words.replace("GROUP", group).replace("TABLE", "trade.orders")
        words = words.replace("--partition N --offset N", f"--partition 0 --offset {offset}")
        assert run(*words.split(), "--yes")[0] == 0

    run_operation(store_offsets({"bootstrap_servers": stack.kafka}, group, {(topic, 0): 9999}))
    with mails(stack, prefix) as subscriber, pytest.raises(RecordsGone) as gone:
        drained(subscriber)
    code, _, error = run("set", group, "trade.orders", "--seq", "3", "--destination", "other")
    assert (code, "TopicPositionUnknown" in error) == (1, True), error
    does_as_printed(gone.value, 0)
    with mails(stack, prefix, start=Earliest()) as subscriber:
        assert drained(subscriber) == list(range(1, 11))
    for offset, kind, more in (
        (5, MalformedRecord, []),
        (6, ForeignFormat, [("format", b"canal")]),
    ):
        run_operation(foreign(stack.kafka, topic, more))
        with mails(stack, prefix) as subscriber, pytest.raises(kind, match=f"{offset}") as found:
            drained(subscriber)
        does_as_printed(found.value, offset + 1)
        with mails(stack, prefix) as subscriber:
            assert drained(subscriber) == []


async def foreign(brokers: str, topic: str, more: list[tuple[str, bytes]]) -> None:
    """Write a record that no worker wrote for this client, with these headers."""
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        await producer.send_and_wait(topic, b"{}", key=b"k", partition=0, headers=more)


def test_a_group_of_a_tags_topic_is_listed_moved_and_reset(
    stack: Stack, prefix: str, run: Run
) -> None:
    group, topic = f"{prefix}.tagged", f"{prefix}.__tag.vip.trade.orders"
    run_operation(published(stack.kafka, topic))
    run_operation(store_offsets({"bootstrap_servers": stack.kafka}, group, {(topic, 0): 1}))
    listed = json.loads(run("list", "--format", "json")[1])
    assert [one["topics"] for one in listed if one["group"] == group] == [[topic]]
    assert run("set", group, "--earliest", "--yes")[0] == 0
    assert json.loads(run("position", group, "--format", "json")[1])[0]["offset"] == 0
    assert run("reset", group, "--yes")[0] == 0
    assert group not in run("list")[1]


def test_a_group_of_a_topic_outside_the_prefix_is_moved_by_its_name_and_listed_by_its_version(
    stack: Stack, prefix: str, run: Run
) -> None:
    group, topic = f"{prefix}.named", f"inv_{prefix}.trade.orders"
    run_operation(published(stack.kafka, topic))
    run_operation(store_offsets({"bootstrap_servers": stack.kafka}, group, {(topic, 0): 1}))
    assert group not in run("list")[1]
    position = run("position", group, "--topic", topic, "--format", "json")[1]
    assert [one["offset"] for one in json.loads(position)] == [1, None]
    version = {"destination": "shop", "topic": topic}
    run_operation(written(stack.kafka, f"{prefix}.__schemas", json.dumps(version)))
    listed = json.loads(run("list", "--format", "json")[1])
    assert [one["topics"] for one in listed if one["group"] == group] == [[topic]]
    assert run("set", group, "--earliest", "--yes")[0] == 0
    assert run("reset", group, "--topic", topic, "--yes")[0] == 0
    assert group not in run("list")[1]


def test_a_group_in_topics_of_another_installation_is_not_listed(
    stack: Stack, prefix: str, run: Run
) -> None:
    other, group = f"{prefix}.eu", f"{prefix}.eu.{GROUP}"
    run_operation(published(stack.kafka, f"{other}.trade.orders"))
    with mails(stack, other, start=Earliest()) as subscriber:
        assert drained(subscriber) == list(range(1, 11))

    def is_listed() -> bool:
        return group in {one["group"] for one in json.loads(run("list", "--format", "json")[1])}

    assert is_listed(), "a mapping may have named the topic so"
    run_operation(written(stack.kafka, f"{other}.__journal", "{}"))
    assert not is_listed()
    version = {"destination": "shop", "topic": f"{other}.trade.orders"}
    run_operation(written(stack.kafka, f"{prefix}.__schemas", json.dumps(version)))
    assert is_listed(), "a table version names it"


async def written(brokers: str, topic: str, text: str) -> None:
    plan = TopicPlan(name=topic, partitions=1, replication_factor=1, max_message_bytes=10**6)
    await Topics({"bootstrap_servers": brokers}).ensure(plan)
    async with AIOKafkaProducer(bootstrap_servers=brokers) as producer:
        await producer.send_and_wait(topic, text.encode(), key=b"k")


@pytest.mark.usefixtures("prefix")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("position", "no-such-group"), "no position in a table's topic"),
        (("set", "g", "trade.gone", "--latest"), "there is no topic"),
        (("set", "g", "orders", "--latest"), "write database.table"),
        (("set", "g", "trade.orders", "--gtid", "x"), "no GTID set"),
        (("set", "g", "trade.orders", "--offset", "3"), "give --partition too"),
        (("set", "g", "trade.orders", "--seq", "3", "--destination", "other"), "numbered within"),
        (
            ("set", "g", "trade.orders", "--partition", "0", "--offset", "6"),
            "has the offsets 0 to 5",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(
    run: Run, words: tuple[str, ...], message: str
) -> None:
    code, _, error = run(*words)
    assert code in (1, 2)
    assert message in error
    assert "Traceback" not in error
