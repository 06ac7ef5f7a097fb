"""Shards of two databases in one topic: names, keys, tags and the row filter, against a naive reading."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from aqueduct_client import subscribe
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import run
from tests.harness.topics import changes, statements, stored
from tests.harness.worker import running, settings
from tests.integration.process.test_records import command

MAPPING = """
databases:
  trade: {from: ["shop_[12]"], topic: trade}
tables:
  trade.orders:
    from: ["shop_[12].orders_[01]"]
    tags: {"": order, status: paid}
    tag_topics: [paid]
    row_filter: price > 0 AND status <> 'test'
    columns: [id, price, status]
    ddl: [alter]
"""
SHARDS = [(f"shop_{one}", f"orders_{other}") for one in (1, 2) for other in (0, 1)]
COLUMNS = "(id int PRIMARY KEY, price decimal(8,2), status varchar(9), secret varchar(9))"
ROWS = (
    "INSERT INTO {} VALUES (1, 10, 'new', 'x'), (2, 0, 'new', 'x'), (3, 1, 'test', 'x'), (4, NULL, 'new', 'x')",
    "UPDATE {} SET status = 'paid' WHERE id < 3",
    "UPDATE {} SET price = price + 5 WHERE id < 3",
    "UPDATE {} SET price = -1 WHERE id = 1",
    "UPDATE {} SET id = 9 WHERE id = 2",
    "DELETE FROM {}",
)
BOTH = "order,paid"
EXPECTED = [
    ("c", 1, BOTH),
    ("u", 1, BOTH),  # status
    ("u", 1, "order"),  # price alone
    ("c", 2, BOTH),  # enters the filter
    ("d", 1, BOTH),  # leaves it
    ("d", 2, BOTH),
    ("c", 9, BOTH),
    ("d", 9, BOTH),
]
"""What each shard's subscribers see: op, id, tags."""


def fill(mysql: Mysql) -> None:
    for database in ("shop_1", "shop_2"):
        run(mysql, f"CREATE DATABASE {database}")
        run(mysql, f"CREATE TABLE {database}.items (id int PRIMARY KEY)")
        run(mysql, f"INSERT INTO {database}.items VALUES (1)")
    names = [".".join(shard) for shard in SHARDS]
    run(mysql, *(f"CREATE TABLE {name} {COLUMNS}" for name in names))
    run(mysql, *(statement.format(name) for statement in ROWS for name in names))
    run(
        mysql,
        "DROP TABLE shop_1.items",
        "TRUNCATE shop_2.items",
        "DROP TABLE IF EXISTS shop_1.items",
    )
    run(mysql, "INSERT INTO shop.t VALUES (1, 1)")


@pytest.mark.remedy("RuleImpossible")
def test_shards_of_two_databases_are_one_topic_and_a_rule_that_fits_no_more_stops_its_table_alone(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    wanted = settings(stack, mysql, tmp_path, filter={"include": r"shop.*\..*"})
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml")}
    # A key change is one row of the metric; two tables are emptied.
    rows = len(SHARDS) * len(EXPECTED) - 4 + 2 + 1 + 2
    fill(mysql)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == rows)
        audited = command(tmp_path, "audit", "shop", "--witness", "mysql-replication")
        assert audited.returncode == 0, audited.stdout + audited.stderr
        run(mysql, "ALTER TABLE shop_2.orders_1 DROP COLUMN status")
        run(mysql, "INSERT INTO shop_2.orders_1 VALUES (5, 5, 'x')")
        run(mysql, "INSERT INTO shop_2.orders_0 VALUES (5, 5, 'new', 'x')")
        status = worker.wait(lambda status: bool(status["set_aside"]))
        assert [one["table"] for one in status["set_aside"]] == ["shop_2.orders_1"]
        assert "there is no column 'status'" in str(status["set_aside"])
        worker.wait(lambda _: ("orders_0", 5) in inserted(stack, f"{wanted['prefix']}.trade"))
        assert worker.stop() == 0
        (words,) = set(re.findall(r"python -m app (schema resolve [^`]+)`", worker.log))
    assert_as_expected(stack, str(wanted["prefix"]))
    assert_tagged_alone(stack, str(wanted["prefix"]))
    # Corrected, it is read again by the printed command, with the definition that its rows had.
    corrected = MAPPING.replace(" AND status <> 'test'", "").replace(", status]", "]")
    corrected = corrected.replace(", status: paid", "").replace("tag_topics: [paid]", "")
    (tmp_path / "mapping.yaml").write_text(corrected)
    run(mysql, "ALTER TABLE shop_2.orders_1 ADD COLUMN note int FIRST")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING" and bool(status["set_aside"]))
        named = words.replace("DEST", "shop").replace("TABLE", "shop_2.orders_1")
        done = command(tmp_path, *named.split())
        assert done.returncode == 0, done.stdout + done.stderr
        run(mysql, "INSERT INTO shop_2.orders_1 VALUES (7, 6, 6, 'x')")
        worker.wait(lambda _: ("orders_1", 6) in inserted(stack, f"{wanted['prefix']}.trade"))
        assert worker.destination()["set_aside"] == []
    assert ("orders_1", 5) in inserted(stack, f"{wanted['prefix']}.trade")


def assert_tagged_alone(stack: Stack, prefix: str) -> None:
    """Check that the topic of the tag has its records alone, and that a subscriber of it reads them."""
    all_ = records(stack, f"{prefix}.trade")
    tagged = [one for one in all_ if "paid" in one[1].get("tags", "").split(",")]
    assert records(stack, f"{prefix}.__tag.paid.trade") == tagged
    assert 0 < len(tagged) < len(all_)
    subscriber = subscribe(
        "trade.orders", group=prefix, brokers=stack.kafka, prefix=prefix,
        topics={"trade": f"{prefix}.trade"}, tag_topic="paid",
    )  # fmt: skip
    with subscriber:
        found: list[int] = []
        while len(found) < len(tagged):
            batch = subscriber.get_without_ack(500, timeout=60)
            found += [one.seq for one in batch]
            subscriber.ack(batch.id)
    assert sorted(found) == [int(value["source"]["seq"]) for value, _ in tagged]


def assert_as_expected(stack: Stack, prefix: str) -> None:
    found: dict[tuple[str, str], list[tuple[str, int, str]]] = defaultdict(list)
    emptied: list[tuple[str, str]] = []
    for record, headers in records(stack, f"{prefix}.trade"):
        source, image = record["source"], record["after"] or record["before"]
        real = (source["db"], source["table"])
        if record["op"] == "t":
            emptied.append(real)
            continue
        assert source["logical_db"] == "trade"
        tags = headers.get("tags", "")
        assert tags.split(",") == source.get("tags", [""])
        assert json.loads(headers["key"]) == {"__shard": ["shop", *real], "id": image["id"]}
        if source["table"] == "items":
            assert (source["logical_table"], tags) == ("items", "")
            continue
        assert source["logical_table"] == "orders"
        assert tuple(image) == ("id", "price", "status")
        found[real].append((record["op"], image["id"], tags))
    assert emptied == [("shop_1", "items"), ("shop_2", "items")]
    more = {("shop_2", "orders_0"): [("c", 5, BOTH)]}
    assert found == {shard: [*EXPECTED, *more.get(shard, ())] for shard in SHARDS}
    published = [one.value["ddl"] for one in statements(stack, prefix)]
    assert [text for text in published if "orders" in text] == [
        "ALTER TABLE shop_2.orders_1 DROP COLUMN status"
    ]
    assert "CREATE TABLE shop_1.items (id int PRIMARY KEY)" in published
    (plain,) = changes(stack, f"{prefix}.shop.t", partitions=2)
    assert "logical_db" not in plain.value["source"]
    assert json.loads(plain.key) == {"id": 1}


def inserted(stack: Stack, topic: str) -> set[tuple[str, int]]:
    """The table and id of each inserted row."""
    values = [value for value, _ in records(stack, topic) if value["op"] == "c"]
    return {(value["source"]["table"], value["after"]["id"]) for value in values}


def records(stack: Stack, topic: str) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """The values of a topic by number, with their headers and, as another, the key."""
    found = [
        (
            json.loads(one.value),
            {name: text.decode() for name, text in one.headers}
            | {"key": (one.key or b"null").decode()},
        )
        for part in stored(stack, topic, partitions=2)
        for one in part
        if one.value
    ]
    return sorted(found, key=lambda pair: int(pair[0]["source"]["seq"]))
