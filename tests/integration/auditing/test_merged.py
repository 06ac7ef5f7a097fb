"""The audit of destinations whose rows are merged, from the beginning or later, and of their warehouse."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.recorded_topics import RecordedTopics
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings
from tests.integration.auditing.conftest import caught_up, recorded
from tests.integration.auditing.story import play

SHARDS = {"shop": "east", "depot": "west"}
"""The destinations, and the database of each."""
CREATED = [
    statement
    for database in SHARDS.values()
    for statement in (
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.orders (id int PRIMARY KEY, x int)",
    )
]
ROWS = 20
_ALIKE = pytest.mark.long("the other one, of a topic with a name of its own that is merged later")


def written(first: int) -> list[str]:
    """Inserts, updates, deletes and changed keys in both shards, with ids of their own from a number on."""
    found = []
    for shift, database in enumerate(SHARDS.values()):
        begin = first + 1000 * shift
        values = ", ".join(f"({begin + n}, 1)" for n in range(ROWS))
        found += [
            f"INSERT INTO {database}.orders VALUES {values}",
            f"UPDATE {database}.orders SET x = 2 WHERE id BETWEEN {begin} AND {begin + 5}",
            f"UPDATE {database}.orders SET id = {begin + 500} WHERE id = {begin + 6}",
            f"DELETE FROM {database}.orders WHERE id = {begin + 7}",
        ]
    return found


@pytest.fixture(scope="module")
def mysql(stack: Stack) -> Iterator[Mysql]:
    mysql = stack.second_mysql("audited-merged", {"server_id": 12})
    mysql.start()
    try:
        play(mysql, [*CREATED, *written(10_000)])
        yield mysql
    finally:
        mysql.kill()


def merged_settings(stack: Stack, mysql: Mysql, folder: Path, *, topic: str) -> dict[str, Any]:
    """Settings of both destinations, without a merge."""
    wanted = settings(stack, mysql, folder)
    shop = wanted["destinations"]["shop"] | {"decoders": 1}
    wanted["destinations"] = {
        name: shop | {"server_id": 6201 + number, "filter": {"include": rf"{database}\..*"}}
        for number, (name, database) in enumerate(SHARDS.items())
    }
    wanted["provide_transaction_metadata"] = True
    real = ", ".join(f"{database}.orders" for database in SHARDS.values())
    mapping = folder / "mapping.yaml"
    # Ids of the shards are disjoint.
    rules = f"from: [{real}], partitions: 2, shard_in_key: never{topic and f', topic: {topic}'}"
    mapping.write_text(f"tables: {{trade.orders: {{{rules}}}}}")
    wanted["mapping"] = {"file": str(mapping)}
    return wanted


def all_merged(stack: Stack, mysql: Mysql, worker: Worker, topics: tuple[str, str]) -> None:
    """Wait until all is published, and each record of the shares is in the merged topic too."""
    prefix, merged = topics
    caught_up(worker, mysql)

    def is_merged() -> bool:
        status = json.loads(worker.get("/status") or "{}")
        depot = status.get("destinations", {}).get("depot", {})
        if (depot.get("cursor") or {}).get("gtid_set") != worker.destination()["cursor"][
            "gtid_set"
        ]:
            return False
        found = recorded(stack, prefix)
        ids = [set(change_ids(found, f"{prefix}.__shard.{name}.{merged}")) for name in SHARDS]
        return all(ids) and set.union(*ids) <= set(change_ids(found, f"{prefix}.{merged}"))

    until(is_merged, late=lambda: worker.log[-2000:])


def change_ids(topics: RecordedTopics, topic: str) -> list[bytes]:
    return [
        dict(record.headers)["change_id"]
        for (name, _), records in topics.records.items()
        if name == topic
        for record in records
    ]


def audited(mysql: Mysql, folder: Path, name: str, *words: str) -> dict[str, Any]:
    """The report on a destination."""
    assert mysql.mysqlbinlog is not None
    program = shlex.join(mysql.mysqlbinlog)
    config = folder / "aqueduct.yaml"
    done = run_command(config, "audit", name, "--mysqlbinlog", program, "--format", "json", *words)
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("topic", "is_later"),
    [
        ("trade", True),
        pytest.param("", False, marks=_ALIKE),
        pytest.param("", True, marks=_ALIKE),
        pytest.param("trade", False, marks=_ALIKE),
    ],
)
def test_a_merged_destination_is_right_and_what_its_warehouse_lacks_is_found(
    stack: Stack, mysql: Mysql, tmp_path: Path, *, topic: str, is_later: bool
) -> None:
    wanted = merged_settings(stack, mysql, tmp_path, topic=topic)
    prefix, merged = wanted["prefix"], topic or "trade.orders"
    first = 20_000 + 10_000 * (2 * bool(topic) + is_later)
    if is_later:
        with running(wanted, tmp_path) as worker:
            caught_up(worker, mysql)
            until(lambda: len(set(owners(stack, prefix, f"{prefix}.{merged}"))) == len(SHARDS))
            assert worker.stop() == 0
    wanted["merge"] = {"trade": {"destinations": list(SHARDS)}}
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        play(mysql, written(first))
        all_merged(stack, mysql, worker, (prefix, merged))
        assert worker.stop() == 0
    topics = recorded(stack, prefix)
    right, stale, empty = (tmp_path / name for name in ("right", "stale", "empty"))
    rows = last_rows(topics, f"{prefix}.{merged}")
    lost_update = next(n for n, one in enumerate(rows) if one["values"]["c1"] == 2)
    older = older_row(topics, f"{prefix}.{merged}", rows[lost_update])
    for file, kept in (
        (right, rows),
        (stale, [*rows[:lost_update], older, *rows[lost_update + 1 :]]),
        (empty, []),
    ):
        write_dump(file, kept, topics, f"{prefix}.{merged}")
    live = {
        name: sum(not one["deleted"] and one["destination"] == name for one in rows)
        for name in SHARDS
    }
    for name in SHARDS:
        found = audited(mysql, tmp_path, name, "--warehouse", str(right))
        assert (found["clean"], found["complete"]) == (True, True), found
        assert found["changes"] > 0
        (table,) = found["warehouse"]
        assert (table["rows"], table["behind"]) == (live[name], 0)
        (table,) = audited(mysql, tmp_path, name, "--warehouse", str(empty))["warehouse"]
        assert table["missing"] == live[name]
    (table,) = audited(mysql, tmp_path, older["destination"], "--warehouse", str(stale))[
        "warehouse"
    ]
    assert (table["missing"], table["extra"], table["different"]) == (0, 0, 1), table


def owners(stack: Stack, prefix: str, topic: str) -> Iterator[str]:
    """The destination of each record of a topic."""
    for _, _, value in values(recorded(stack, prefix), topic):
        yield value["source"]["name"]


def values(topics: RecordedTopics, topic: str) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
    """Partition, key and value of each record that has one."""
    for (name, partition), records in topics.records.items():
        if name == topic:
            for record in records:
                if record.value:
                    yield partition, record.key, json.loads(record.value)


def row_of(value: dict[str, Any]) -> dict[str, Any]:
    """A row as the sink dumps it."""
    source, image = value["source"], value["after"] or value["before"]
    return {
        "destination": source["name"], "epoch": source["epoch"], "seq": source["seq"],
        "deleted": value["op"] == "d", "version": source["schema"], "unrepresentable": None, "delta": 0,
        "values": {"c0": image["id"], "c1": None if value["op"] == "d" else image["x"]},
    }  # fmt: skip


def last_rows(topics: RecordedTopics, topic: str) -> list[dict[str, Any]]:
    """The rows of a warehouse to which all is applied."""
    return list({key: row_of(value) for _, key, value in values(topics, topic)}.values())


def older_row(topics: RecordedTopics, topic: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row in its state before its last change."""
    states = [row_of(value) for _, _, value in values(topics, topic)]
    of_key = [one for one in states if one["values"]["c0"] == row["values"]["c0"]]
    assert of_key[-1] == row
    return of_key[-2]


def write_dump(file: Path, rows: list[dict[str, Any]], topics: RecordedTopics, topic: str) -> None:
    """Write the dump of a sink that has applied all of the merged topic."""
    applied = [
        [topic, partition, records[-1].offset + 1]
        for (name, partition), records in topics.records.items()
        if name == topic and records
    ]
    prefix = topic.partition(".")[0]
    head = {"format": 2, "prefix": prefix, "cluster": None, "warehouse": "/wh", "applied": applied}
    named = {"database": "trade", "table": "orders"}
    table = {**named, "columns": ["id", "x"], "types": ["int", "int"], "key": ["id"]}
    end = {"end": True, "tables": 1, "rows": len(rows), "floors": []}
    file.write_text("".join(json.dumps(line) + "\n" for line in (head, table, *rows, end)))
