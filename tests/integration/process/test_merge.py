"""Two destinations merged into one topic: by time, exactly once, over kills and a shard that stalls."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import signal
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete

from app.__main__ import main
from connectors.kafka.topics import TopicPlan
from devstack import Stack
from devstack.mysql import Mysql
from tables.state.journal.state import partition_of
from tables.state.merge_cursor import MergeCursor, note_of
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run
from tests.harness.topics import names, on_kafka, stored
from wire.topics import journal_topic

SHARDS = ("east", "west")
PARTITIONS = 2
Record = tuple[str, int, int, str]
"""Destination, seq, time of the commit in milliseconds, ChangeId."""


@pytest.fixture
def mysql(stack: Stack) -> Mysql:
    """The shared server, in which each shard has a database of its own."""
    return stack.mysql


class Shards:
    """Two databases with one table each; writes to both, in turns, until it is stopped."""

    def __init__(self, mysql: Mysql, **others: Mysql) -> None:
        """``others``: the servers of shards that are not at the first one."""
        self.servers = {shard: others.get(shard, mysql) for shard in SHARDS}
        unique = uuid.uuid4().hex[:8]
        self.databases = {shard: f"{shard}{unique}" for shard in SHARDS}
        self.count = 0
        for shard, database in self.databases.items():
            run(
                self.servers[shard],
                f"CREATE DATABASE {database}",
                f"CREATE TABLE {database}.orders (id int PRIMARY KEY, x int)",
            )

    def write(self, shards: Iterable[str] = SHARDS) -> None:
        for shard in shards:
            self.count += 1
            values = f"({self.count}, 1), ({-self.count}, 2)"
            table = f"{self.databases[shard]}.orders"
            run(self.servers[shard], f"INSERT INTO {table} VALUES {values}")
            run(self.servers[shard], f"DELETE FROM {table} WHERE id = {-self.count}")

    def settings(self, stack: Stack, folder: Path, **merge: Any) -> dict[str, Any]:
        """Settings of a worker that merges both."""
        wanted = pair_settings(stack, self.servers[SHARDS[0]], folder, names=SHARDS)
        for shard, database in self.databases.items():
            own = wanted["destinations"][shard]
            own["filter"] = {"include": rf"{database}\..*"}
            own["source"] = own["source"] | {"port": self.servers[shard].port}
        real = ", ".join(f"{database}.orders" for database in self.databases.values())
        mapping = folder / "mapping.yaml"
        mapping.write_text(
            f"tables: {{trade.orders: {{from: [{real}], topic: trade, partitions: {PARTITIONS}}}}}"
        )
        wanted["mapping"] = {"file": str(mapping)}
        wanted["merge"] = {"trade": {"destinations": list(SHARDS), **merge}}
        return wanted


class Load(threading.Thread):
    """Writes to all shards until the block's end."""

    def __init__(self, shards: Shards) -> None:
        super().__init__(daemon=True)
        self._shards, self._ended = shards, threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            self._shards.write()
            time.sleep(0.01)

    def __enter__(self) -> Load:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def records(stack: Stack, topic: str) -> list[list[Record]]:
    """The records with values of each partition, in its order."""
    return [
        [
            (
                source["name"],
                source["seq"],
                source["ts_ms"],
                dict(one.headers)["change_id"].decode(),
            )
            for one in part
            if one.value
            for source in (json.loads(one.value)["source"],)
        ]
        for part in stored(stack, topic, partitions=PARTITIONS)
    ]


def check_each_once(stack: Stack, prefix: str) -> list[list[Record]]:
    """Check that the merged topic has all records of the shards once, those of a shard in order; return it."""
    merged = records(stack, f"{prefix}.trade")
    for shard in SHARDS:
        own = records(stack, f"{prefix}.__shard.{shard}.trade")
        assert [[one for one in part if one[0] == shard] for part in merged] == own
        numbers = sorted(seq for part in own for _, seq, _, _ in part)
        # Statements have numbers too, which are not on these topics.
        assert len(numbers) == len(set(numbers)) > 0
    return merged


def inversions(merged: list[list[Record]]) -> int:
    """How often a record follows one of a later commit."""
    return sum(
        before[2] > after[2] for part in merged for before, after in itertools.pairwise(part)
    )


def partitions_of(stack: Stack, topic: str) -> int:
    (found,) = on_kafka(stack, lambda admin: admin.describe_topics([topic]))
    return len(found["partitions"])


def merge_of(pair: Pair) -> dict[str, Any]:
    """The state of the merge on the worker that leads it."""
    for name, worker in pair.workers.items():
        if worker.process.poll() is None:
            found = pair.status(name).get("merges", {}).get("trade", {})
            if found.get("state") == "RUNNING":
                return {**found, "worker": name}
    return {}


def shard_of(pair: Pair, shard: str) -> dict[str, Any]:
    """The state of a shard in the running merge; empty while no worker answers that it runs."""
    found: dict[str, Any] = merge_of(pair).get("shards", {}).get(shard, {})
    return found


def busy(pair: Pair) -> str | None:
    """The worker that leads the merge, once it has merged some records by itself."""
    found = merge_of(pair)
    return found["worker"] if found and found["shards"]["east"]["records"] > 50 else None


def is_merged(stack: Stack, pair: Pair, shards: Shards) -> bool:
    """Whether three records of each write are there: two inserts and a delete."""
    return sum(map(len, records(stack, f"{pair.wanted['prefix']}.trade"))) == 3 * shards.count


def rewind(stack: Stack, prefix: str, shard: str, to: int = 0, *, raw: bytes | None = None) -> None:
    """Write a shard's first cursor again, or another one, or anything."""
    topic, unit = f"{prefix}.__shard.{shard}.trade", "merge.trade"
    offsets = {str(part): to for part in range(PARTITIONS)}
    key, value = note_of(MergeCursor(merge=unit, topic=topic, offsets=offsets, ts_ms=1))

    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=stack.kafka) as producer:
            journal = journal_topic(prefix)
            count = len(await producer.partitions_for(journal))
            await producer.send_and_wait(
                journal, raw or value, key=key, partition=partition_of(unit, count)
            )

    asyncio.run(write())


def test_a_merge_is_by_time_and_waits_for_a_stalled_shard_if_so_set(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path, stalled="wait", stalled_after_seconds=3)
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        with Load(shards):
            pair.until(lambda: merge_of(pair).get("shards", {}).get("west", {}).get("records"))
            time.sleep(2)
        # Idle shards show by themselves that nothing is missing.
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "pause", "west"]) == 0
        shards.write(["east"])
        pair.until(lambda: shard_of(pair, "west").get("stalled"))
        assert shard_of(pair, "east").get("held")
        assert not is_merged(stack, pair, shards)
        shards.write(["west"])
        assert main(["destination", "resume", "west"]) == 0
        pair.until(lambda: is_merged(stack, pair, shards))
        assert merge_of(pair)["late"] == 0
        # A journal that was restored from an older copy has older cursors.
        pair.end("one", signal.SIGKILL)
        for shard in SHARDS:
            rewind(stack, wanted["prefix"], shard)
        pair.start("one")
        found = pair.until(
            lambda: pair.status("one").get("merges", {}).get("trade", {}).get("error")
        )
        assert "JournalOutdated" in found
        assert f"{wanted['prefix']}.trade has" in found
    assert inversions(check_each_once(stack, wanted["prefix"])) == 0


@pytest.mark.long("unit/app/worker/unit has pauses")
def test_a_merge_that_is_paused_publishes_nothing_and_continues_with_each_record_once(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path)

    def of() -> dict[str, Any]:
        found: dict[str, Any] = pair.status("one").get("merges", {}).get("trade", {})
        return found

    def count(topic: str) -> int:
        return sum(map(len, records(stack, f"{wanted['prefix']}.{topic}")))

    def asks(word: str, name: str) -> str:
        capsys.readouterr()
        assert main(["destination", word, name]) == 0, capsys.readouterr()
        return capsys.readouterr().out

    def lags() -> list[float]:
        return [one["lag_seconds"] or 0 for one in of()["shards"].values()]

    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        before = count("trade")
        said = asks("pause", "merge.trade")
        assert said.startswith("merge.trade: PAUSED, applied by worker one ")
        shards.write()
        pair.until(lambda: sum(count(f"__shard.{one}.trade") for one in SHARDS) == before + 6)
        # The metric is set each second.
        pair.until(lambda: min(lags()) > 5)
        assert count("trade") == before
        assert (of()["state"], of()["wish"]) == ("PAUSED", "pause")
        shown = pair.workers["one"].get("/metrics")
        assert 'aqueduct_destination_state{destination="merge.trade",state="PAUSED"} 1.0' in shown
        (lag,) = re.findall(
            r'^aqueduct_merge_lag_seconds{destination="west",merge="trade"} (\S+)', shown, re.M
        )
        assert float(lag) > 3
        capsys.readouterr()
        main(["destination", "list"])
        listed = capsys.readouterr().out.splitlines()
        assert [one.split()[:4] for one in listed if one.startswith("merge.")] == [
            ["merge.trade", "PAUSED", "pause", "one"]
        ]
        # The request is in the journal, and outlives the worker.
        pair.end("one", signal.SIGKILL)
        pair.start("one")
        pair.until(lambda: of().get("state") == "PAUSED")
        assert asks("pause", "logical.schemas").startswith("logical.schemas: PAUSED, ")
        shards.write()
        assert count("trade") == before
        assert asks("resume", "logical.schemas").startswith("logical.schemas: RUNNING, ")
        assert asks("resume", "merge.trade").startswith("merge.trade: RUNNING, ")
        pair.until(lambda: is_merged(stack, pair, shards))
        assert asks("restart", "merge.trade").startswith("merge.trade: RUNNING, ")
        assert asks("stop", "merge.trade").startswith("merge.trade: STOPPED, ")
        before = count("trade")
        shards.write()
        pair.until(lambda: sum(count(f"__shard.{one}.trade") for one in SHARDS) == before + 6)
        assert (count("trade"), of()["state"]) == (before, "STOPPED")
        assert asks("resume", "merge.trade").startswith("merge.trade: RUNNING, ")
        pair.until(lambda: is_merged(stack, pair, shards))
    check_each_once(stack, wanted["prefix"])


@pytest.mark.long(
    "test_topics.py has a destination's topics, unit/app/worker/merge/test_run.py the run's end"
)
def test_a_merged_topic_that_was_made_again_waits_until_that_is_accepted(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path)
    topic = f"{wanted['prefix']}.trade"
    plan = TopicPlan(
        name=topic, partitions=PARTITIONS, replication_factor=1, max_message_bytes=16 << 20
    )
    made = NewTopic(topic, PARTITIONS, 1, topic_configs=plan.config())

    def error(pair: Pair) -> str:
        found = pair.status("one").get("merges", {}).get("trade", {})
        return str(found.get("waiting", {}).get(topic, ""))

    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        on_kafka(stack, lambda admin: admin.delete_topics([topic]))
        pair.until(lambda: topic not in names(stack))
        on_kafka(stack, lambda admin: admin.create_topics([made]))
        pair.until(lambda: error(pair).startswith("TopicReplaced: ") and topic in error(pair))
        shards.write()
        words = ["destination", "accept-topic", "merge.trade", topic, "--why", "test"]
        assert " ".join(words[:4]) in error(pair)
        assert main([*words, "--yes-lose-changes"]) == 0
        # What was merged before is gone, and all that comes later is merged once.
        pair.until(lambda: sum(map(len, records(stack, topic))) == 3 * len(SHARDS))
        assert error(pair) == ""


def test_a_stalled_shard_is_passed_and_kills_repeat_nothing(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path, wait_seconds=0.5, stalled_after_seconds=3)
    with Pair(wanted, tmp_path) as pair:
        for name in ("one", "two"):
            pair.start(name)
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        with Load(shards):
            for _ in range(2):
                leader = pair.until(lambda: busy(pair))
                pair.end(leader, signal.SIGKILL)
                pair.start(leader)
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "pause", "west"]) == 0
        shards.write(["west", "east"])
        pair.until(lambda: shard_of(pair, "west").get("stalled"))
        before = sum(map(len, records(stack, f"{wanted['prefix']}.trade")))
        shards.write(["east"])
        pair.until(lambda: sum(map(len, records(stack, f"{wanted['prefix']}.trade"))) >= before + 3)
        assert main(["destination", "resume", "west"]) == 0
        pair.until(lambda: is_merged(stack, pair, shards))
        pair.until(lambda: shard_of(pair, "west").get("stalled") is False)
    check_each_once(stack, wanted["prefix"])


@pytest.mark.remedy("JournalUnreadable")
@pytest.mark.long("test_one_worker.py has a worker without ZooKeeper")
def test_without_zookeeper_one_worker_merges_until_it_has_ended(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path)
    del wanted["zookeeper"]

    def of(name: str) -> dict[str, Any]:
        found: dict[str, Any] = pair.status(name).get("merges", {}).get("trade", {})
        return found

    def is_ready_to_end(name: str) -> bool:
        """Whether all is merged, by what an operator sees."""
        found = of(name)
        return found.get("state") == "RUNNING" and all(
            (one["unread"], one["held"]) == (0, 0) for one in found["shards"].values()
        )

    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        pair.start("two")
        pair.until(lambda: of("two").get("state") == "FENCED")
        assert of("two")["error"].startswith("AnotherWorkerLeads: "), of("two")
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        # It was not taken from the first, which would have taken it back.
        assert (of("one")["state"], of("one")["error"]) == ("RUNNING", None)
        assert "Fenced" not in pair.workers["one"].log
        pair.end("one", signal.SIGTERM)
        pair.until(lambda: of("two").get("state") == "RUNNING")
        # The merged topic has as many partitions as the largest share.
        topic = f"{wanted['prefix']}.trade"
        share = f"{wanted['prefix']}.__shard.west.trade"
        on_kafka(stack, lambda admin: admin.create_partitions({share: NewPartitions(4)}))
        pair.until(lambda: partitions_of(stack, topic) == 4)
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        assert (of("two")["state"], of("two")["waiting"]) == ("RUNNING", {})
        # What another program has written over a cursor is written again, and nothing is merged twice.
        rewind(stack, wanted["prefix"], "east", raw=b"not json")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("two")))
        assert main(["journal", "repair", "merge.trade", "--why", "x"]) == 0
        assert "rewritten as at offset" in capsys.readouterr().out
        assert main(["journal", "repair", "logical.schemas", "--why", "x"]) == 0
        assert "logical.schemas: all records are readable" in capsys.readouterr().out
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        pair.until(lambda: is_ready_to_end("two"))
        pair.end("two", signal.SIGKILL)
        # A shard's topic that was made again ends before the cursor.
        rewind(stack, wanted["prefix"], "east", to=10**6)
        pair.start("two")
        pair.until(lambda: of("two").get("state") == "RUNNING")
        assert of("two")["waiting"][topic].startswith("TopicUnfit: "), of("two")
        assert of("two")["shards"]["east"]["unread"] is None
    check_each_once(stack, wanted["prefix"])


@pytest.mark.remedy("MergeUnfinished")
@pytest.mark.long("unit/app/worker/destination/takeover/test_published_check.py has the comparison")
def test_a_merge_that_is_removed_with_unread_records_is_named_until_it_is_back(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path, stalled="wait", stalled_after_seconds=3)
    merge, topic = wanted.pop("merge"), f"{wanted['prefix']}.trade"
    wanted["merge"] = merge
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "pause", "west"]) == 0
        shards.write(["east"])
        pair.until(lambda: shard_of(pair, "east").get("held"))
        pair.end("one", signal.SIGTERM)
        del wanted["merge"]
        pair.start("one")
        found = pair.until(lambda: pair.status("one")["destinations"]["east"]["error"])
        assert found.startswith("MergeUnfinished: "), found
        assert f"has records that {topic} lacks" in found
        # West has nothing that is not merged.
        assert main(["destination", "resume", "west"]) == 0
        shards.write(["west"])
        pair.until(lambda: is_merged_but(stack, pair, shards, "east"))
        # It is STARTING for a moment in each attempt.
        pair.until(lambda: pair.states("east") == {"one": "RETRYING"})
        pair.end("one", signal.SIGTERM)
        merge["trade"]["stalled"] = "pass"
        wanted["merge"] = merge
        pair.start("one")
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "pause", "east"]) == 0
        pair.until(lambda: shard_of(pair, "east").get("unread") == 0)
        pair.end("one", signal.SIGTERM)
        del wanted["merge"]
        pair.start("one")
        assert main(["destination", "resume", "east"]) == 0
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
    merged = [one for part in records(stack, topic) for one in part]
    assert len({one[3] for one in merged}) == len(merged) == 3 * shards.count
    for shard in SHARDS:
        for part in records(stack, topic):
            own = [seq for name, seq, _, _ in part if name == shard]
            assert own == sorted(own)


@pytest.mark.remedy("MergeUnfinished")
@pytest.mark.long("unit/app/worker/merge/test_start_check.py has what a removed destination left")
def test_a_merged_topic_waits_for_what_a_removed_destination_left_until_it_is_back(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path, stalled="wait", stalled_after_seconds=3)
    destinations, merge = wanted["destinations"], wanted["merge"]["trade"]
    east, west = destinations["east"], destinations["west"]
    destinations["idle"] = {**west, "server_id": 7150, "filter": {"include": "none\\..*"}}
    merge["destinations"] = [*SHARDS, "idle"]
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "pause", "west"]) == 0
        shards.write(["east"])
        pair.until(lambda: shard_of(pair, "east").get("held"))
        assert main(["destination", "delete", "east"]) == 1
        assert main(["destination", "delete", "east", "--yes-lose-changes"]) == 0
        pair.end("one", signal.SIGTERM)
        del destinations["east"]
        merge["destinations"] = ["west", "idle"]
        pair.start("one")
        assert main(["destination", "resume", "west"]) == 0
        shards.write(["west"])
        waiting = pair.until(lambda: merge_of(pair).get("waiting"))
        (found,) = waiting.items()
        assert found[0] == f"{wanted['prefix']}.trade"
        assert "MergeUnfinished: " in found[1]
        assert f"{wanted['prefix']}.__shard.east.trade has records" in found[1]
        pair.end("one", signal.SIGTERM)
        destinations["east"] = east
        merge |= {"destinations": [*SHARDS, "idle"], "stalled": "pass"}
        pair.start("one")
        # The destination itself is still deleted, and need not run.
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "delete", "east"]) == 0
        pair.end("one", signal.SIGTERM)
        del destinations["east"]
        merge["destinations"] = ["west", "idle"]
        pair.start("one")
        shards.write(["west"])
        pair.until(lambda: is_merged(stack, pair, shards))
    check_each_once(stack, wanted["prefix"])


@pytest.mark.remedy("MergeUnfinished")
@pytest.mark.long("unit/app/worker/destination/takeover/test_published_check.py has the comparison")
def test_a_merge_that_ends_with_one_of_its_two_destinations_is_named_by_the_other_until_it_is_back(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path, stalled="wait", stalled_after_seconds=3)
    merge, destinations = wanted["merge"], wanted["destinations"]
    east = destinations["east"]
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "pause", "west"]) == 0
        shards.write(["east"])
        pair.until(lambda: shard_of(pair, "east").get("held"))
        pair.end("one", signal.SIGTERM)
        # A merge has two destinations at least, so it goes with one of them.
        del destinations["east"], wanted["merge"]
        pair.start("one")
        assert main(["destination", "resume", "west", "--timeout", "1"]) == 1
        found = pair.until(lambda: pair.status("one")["destinations"]["west"]["error"])
        assert found.startswith("MergeUnfinished: "), found
        topic = f"{wanted['prefix']}.trade"
        assert f"{wanted['prefix']}.__shard.east.trade has records that {topic} lacks" in found
        assert "no destination east" in found
        pair.end("one", signal.SIGTERM)
        destinations["east"] = east
        merge["trade"]["stalled"] = "pass"
        wanted["merge"] = merge
        pair.start("one")
        pair.until(lambda: is_merged(stack, pair, shards))
        assert main(["destination", "delete", "east"]) == 0
        pair.until(lambda: shard_of(pair, "west").get("unread") == 0)
        pair.end("one", signal.SIGTERM)
        del destinations["east"], wanted["merge"]
        pair.start("one")
        shards.write(["west"])
        pair.until(lambda: is_merged(stack, pair, shards))
    merged = [one for part in records(stack, topic) for one in part]
    assert len({one[3] for one in merged}) == len(merged) == 3 * shards.count


def is_merged_but(stack: Stack, pair: Pair, shards: Shards, shard: str) -> bool:
    """Whether all records are there, but for three of a shard."""
    merged = [one for part in records(stack, f"{pair.wanted['prefix']}.trade") for one in part]
    return len(merged) == 3 * (shards.count - 1) and shard in {one[0] for one in merged}


async def delete_all_records(stack: Stack, topic: str) -> None:
    """Delete what a topic holds, as its retention does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    try:
        parts = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        await admin.delete_records({one: RecordsToDelete(before_offset=-1) for one in parts})
    finally:
        await admin.close()


@pytest.mark.remedy("RecordsGone")
@pytest.mark.long("unit/app/worker/merge/test_shares.py has the error, and that it can be accepted")
def test_a_merged_topic_waits_for_records_that_a_shard_lost_before_they_were_merged_until_accepted(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = Shards(mysql)
    wanted = shards.settings(stack, tmp_path, stalled="wait", stalled_after_seconds=3)
    prefix = str(wanted["prefix"])
    east = f"{prefix}.__shard.east.trade"
    with Pair(wanted, tmp_path) as pair:
        pair.start("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        for _ in range(5):
            shards.write()
        pair.until(lambda: is_merged(stack, pair, shards))
        # With a shard that is waited for, records of the other one are published and not merged.
        assert main(["destination", "pause", "west"]) == 0
        published = sum(map(len, records(stack, east)))
        for _ in range(5):
            shards.write(["east"])
        pair.until(lambda: sum(map(len, records(stack, east))) == published + 15)
        pair.until(lambda: shard_of(pair, "east").get("held"))
        pair.end("one", signal.SIGKILL)
        merged = records(stack, f"{prefix}.trade")
        assert sum(map(len, merged)) == 3 * 10
        asyncio.run(delete_all_records(stack, east))
        pair.start("one")

        def of_merge() -> dict[str, Any]:
            found: dict[str, Any] = pair.status("one").get("merges", {}).get("trade", {})
            return found

        pair.until(lambda: of_merge().get("waiting"))
        found = of_merge()["waiting"][f"{prefix}.trade"]
        assert found.startswith("RecordsGone: "), found
        assert f"topic={east}" in found
        # The destinations continue, and nothing is merged without what is missing.
        assert main(["destination", "resume", "west"]) == 0
        shards.write()
        pair.until(lambda: sum(map(len, records(stack, east))) == 3)
        time.sleep(2)
        assert records(stack, f"{prefix}.trade") == merged
        pair.end("one", signal.SIGTERM)
        wanted["merge"]["trade"]["accept"] = ["records_gone"]
        pair.start("one")
        shards.write()
        pair.until(lambda: sum(map(len, records(stack, f"{prefix}.trade"))) == 3 * 14)
        assert (of_merge()["state"], of_merge()["waiting"]) == ("RUNNING", {})
        assert "records deleted before they were merged are omitted" in pair.workers["one"].log
    now_there = records(stack, f"{prefix}.trade")
    for shard in SHARDS:
        left = records(stack, f"{prefix}.__shard.{shard}.trade")
        before = [[one for one in part if one[0] == shard] for part in merged]
        now = [[one for one in part if one[0] == shard] for part in now_there]
        # All that was merged before, and then all that the topic has; of west nothing is missing.
        expected = left if shard == "west" else [a + b for a, b in zip(before, left, strict=True)]
        assert now == expected
