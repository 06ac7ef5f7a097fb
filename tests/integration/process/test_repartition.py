"""A topic gets more partitions at one boundary: by a pushed mapping, under load, and with a killed leader."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.__main__ import main
from connectors.kafka.record_batches import partition_of
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run
from tests.harness.topics import stored, values
from tests.harness.wait import until
from tests.integration.process.test_mapping_push import Writer
from wire.topics import schemas_topic

BEFORE, AFTER = 2, 5
RULES = "{{tables: {{{}.shop: {{topic: trade, tags: {{'': all}}, tag_topics: [all], partitions: {}{}}}}}}}"


@pytest.fixture
def mysql(stack: Stack) -> Mysql:
    """The shared server; the test has a database of its own in it."""
    return stack.mysql


class Found(NamedTuple):
    """A record with a value."""

    partition: int
    offset: int
    key: bytes
    seq: int
    schema: int
    name: str


def records(stack: Stack, topic: str, partitions: int) -> list[Found]:
    """The records of a topic, by number."""
    found = [
        Found(
            number,
            one.offset,
            one.key,
            source["seq"],
            source["schema"],
            dict(one.headers)["change_id"].decode(),
        )
        for number, part in enumerate(stored(stack, topic, partitions=partitions))
        for one in part
        if one.value
        for source in (json.loads(one.value)["source"],)
    ]
    return sorted(found, key=lambda one: one.seq)


def versions(stack: Stack, prefix: str) -> dict[int, dict[str, Any]]:
    """The table's versions by number."""
    found = values(stack, schemas_topic(prefix))
    return {one["version"]: one for one in found if one["table"] == "shop"}


def test_keys_are_over_more_partitions_from_a_boundary_on_that_readers_can_see(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = f"part{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {database}")
    run(mysql, f"CREATE TABLE {database}.shop (id int PRIMARY KEY, x int)")
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    wanted["mapping"] = {"store": "zookeeper"}
    topic = f"{wanted['prefix']}.trade"

    def push(partitions: int, more: str = "") -> int:
        file = tmp_path / "mapping.yaml"
        file.write_text(RULES.format(database, partitions, more))
        return main(["mapping", "set", str(file), "--why", "a test"])

    with Pair(wanted, tmp_path) as pair, Writer(mysql, f"{database}.shop") as writer:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        assert push(BEFORE) == 0
        for name in ("one", "two"):
            pair.start(name)
        leader = pair.leader("shop")
        pair.settled()
        writer.start()

        def mapping() -> dict[str, Any]:
            for name, worker in pair.workers.items():
                if worker.process.poll() is None:
                    one = pair.status(name).get("destinations", {}).get("shop", {})
                    if one.get("state") == "RUNNING":
                        return dict(one["mapping"])
            return {}

        pair.until(lambda: len(records(stack, topic, BEFORE)) > 200)
        # Not asked for, asked for with another count than there is, and fewer: the old version stays.
        for partitions, more, why in (
            (AFTER, "", f"add repartition_from: {BEFORE}"),
            (AFTER, ", repartition_from: 3", "and not repartition_from: 3"),
            (1, "", "no topic loses partitions"),
        ):
            assert push(partitions, more) == 0
            pair.until(lambda: why in (mapping().get("refused") or ""))  # noqa: B023 - called at once
            assert mapping()["version"] == 1
        assert push(AFTER, f", repartition_from: {BEFORE}") == 0
        pair.end(leader, signal.SIGKILL)
        pair.until(lambda: mapping().get("version") == 5)
        pair.until(lambda: any(one.schema > 1 for one in records(stack, topic, AFTER)))
        pair.start(leader)
        pair.settled()
        # The same count again is no change, and a later version need not name the one before.
        assert push(AFTER) == 0
        pair.until(lambda: mapping().get("version") == 6)
        writer.stop()
        until(lambda: len(records(stack, topic, AFTER)) >= writer.count, glance=0.3)
    found = records(stack, topic, AFTER)
    assert len({one.name for one in found}) == len(found) == writer.count
    first, second = versions(stack, wanted["prefix"]).values()
    assert (first["partitions"], second["partitions"]) == (BEFORE, AFTER)
    assert "since" not in first
    since = {int(part): offset for part, offset in second["since"].items()}
    assert set(since) == set(range(AFTER))
    assert {one.schema for one in found} == {1, 2}
    for one in found:
        count = BEFORE if one.schema == 1 else AFTER
        assert one.partition == partition_of(one.key, count)
        assert (one.offset < since[one.partition]) is (one.schema == 1)
    schemas = [one.schema for one in found]
    assert schemas == sorted(schemas)
    tagged = records(stack, f"{wanted['prefix']}.__tag.all.trade", AFTER)
    assert [(one.partition, one.seq) for one in tagged] == [
        (one.partition, one.seq) for one in found
    ]


def test_the_topic_of_a_tag_that_is_added_again_follows_its_rows(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = f"tag{uuid.uuid4().hex[:8]}"
    run(mysql, f"CREATE DATABASE {database}")
    run(mysql, f"CREATE TABLE {database}.shop (id int PRIMARY KEY, x int)")
    wanted = pair_settings(stack, mysql, tmp_path, database=database)
    wanted["mapping"] = {"store": "zookeeper"}
    topic, tagged = (f"{wanted['prefix']}.{one}" for one in ("trade", "__tag.all.trade"))
    with Pair(wanted, tmp_path) as pair:
        pair.write("one")
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(pair.config("one")))
        pair.start("one")
        count = 0

        def version() -> object:
            one = pair.status("one").get("destinations", {}).get("shop", {})
            return one["mapping"].get("version") if one.get("state") == "RUNNING" else None

        tags = "tag_topics: [all], "
        for number, (partitions, more, tagging) in enumerate(
            (
                (BEFORE, "", tags),
                (AFTER, f", repartition_from: {BEFORE}", ""),
                (AFTER, "", tags),
            ),
            start=1,
        ):
            file = tmp_path / "mapping.yaml"
            text = RULES.format(database, partitions, more)
            file.write_text(text.replace(tags, tagging))
            assert main(["mapping", "set", str(file), "--why", "a test"]) == 0
            pair.until(lambda: version() == number)  # noqa: B023 - called at once
            values = ", ".join(f"({count + key}, 1)" for key in range(20))
            run(mysql, f"INSERT INTO {database}.shop VALUES {values}")
            count += 20
            pair.until(lambda: len(records(stack, topic, partitions)) == count)  # noqa: B023
    rows = records(stack, topic, AFTER)
    assert [(one.partition, one.seq) for one in records(stack, tagged, AFTER)] == [
        (one.partition, one.seq) for one in (*rows[:20], *rows[40:])
    ]
