"""A mapping tried on the recorded binlog, then switched to: what is published equals what was reported."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from connectors.kafka.reading import Follower, read_to_end
from connectors.kafka.topics import Topics
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.forked import run_command
from tests.harness.servers import own_mysql
from tests.harness.sql import ask, run
from tests.harness.worker import Worker, running, settings

CANARY, NUMBER = "CanaryBird", 515_051_501
OLD = """
tables:
  orders: {from: [shop.orders], topic: orders}
  lines: {from: [shop.lines], topic: lines}
  users: {from: [shop.users], topic: users, column_actions: {card: {truncate: 2}, note: {rename: remark}}}
  torn: {from: [shop.torn], topic: torn}
"""
NEW = """
tables:
  orders: {from: [shop.orders], topic: orders, row_filter: price > 10, partitions: 5, repartition_from: 2}
  items: {from: [shop.items], topic: goods, tags: {"": item, name: named}, tag_topics: [named]}
  lines: {from: [shop.lines], topic: lines, key: [number, line], partition_by: [number]}
  users:
    from: [shop.users]
    topic: users
    column_actions: {id: {hmac: k1}, secret: {hmac: k1}, card: drop, note: redact}
    ddl: [create]
  torn: {from: [shop.torn], topic: torn, columns: [id, gone]}
"""
TABLES = (
    "shop.orders (id int PRIMARY KEY, price decimal(8,2))",
    "shop.items (id int PRIMARY KEY, name varchar(20))",
    "shop.lines (id int PRIMARY KEY, number int NOT NULL, line int NOT NULL)",
    "shop.users (id int PRIMARY KEY, secret varchar(40), card varchar(40), note varchar(40))",
    "shop.torn (id int PRIMARY KEY, gone int)",
)
SHOWN = ("__ddl", "__quarantine", "__tag")
"""What topics of records begin with, beside those of rows."""
RESPECTS = ("value", "topic", "key", "partition", "appears", "vanishes")


class Found(NamedTuple):
    """A published record."""

    topic: str
    partition: int
    key: bytes | None
    value: dict[str, Any] | None
    headers: dict[str, bytes]


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, which logs statements with rows."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, x int)",
        options={"server_id": 9, "binlog_rows_query_log_events": "ON"},
    ) as server:
        yield server


def written(mysql: Mysql) -> None:
    """Rows of each table, with statements between them."""
    run(mysql, *(f"CREATE TABLE {one}" for one in TABLES))
    secrets = f"'{CANARY}', 'xx{CANARY}', '{CANARY}'"
    run(
        mysql,
        "INSERT INTO shop.orders VALUES (1, 5), (2, 50), (3, 5), (4, 50)",
        "UPDATE shop.orders SET price = 60 - price",  # two enter the filter, two leave it
        "UPDATE shop.orders SET id = id + 10",
        "INSERT INTO shop.items VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "DELETE FROM shop.items WHERE id = 2",
        "INSERT INTO shop.lines SELECT n, n DIV 4, n MOD 4 FROM "
        "(WITH RECURSIVE c AS (SELECT 0 n UNION ALL SELECT n + 1 FROM c WHERE n < 39) SELECT n FROM c) x",
        "UPDATE shop.lines SET number = number + 1 WHERE id < 4",
        "UPDATE shop.lines SET id = id + 100 WHERE id > 37",
        f"INSERT INTO shop.users VALUES ({NUMBER}, {secrets}), ({NUMBER + 1}, {secrets})",
        f"UPDATE shop.users SET secret = 'old {CANARY}' WHERE id = {NUMBER}",
        f"DELETE FROM shop.users WHERE id = {NUMBER + 1} /* {CANARY} */",
        "INSERT INTO shop.torn VALUES (1, 1), (2, 2)",
        "ALTER TABLE shop.orders ADD COLUMN more int",
        f"ALTER TABLE shop.users ADD COLUMN last varchar(40) DEFAULT '{CANARY}'",
        "ALTER TABLE shop.torn DROP COLUMN gone",
        "INSERT INTO shop.orders VALUES (7, 7, 7), (8, 80, 8)",
        f"INSERT INTO shop.users VALUES ({NUMBER + 2}, {secrets}, 'x')",
        "INSERT INTO shop.torn VALUES (3), (4)",
        "UPDATE shop.torn SET id = 9 WHERE id = 1",
        "TRUNCATE TABLE shop.items",
        "INSERT INTO shop.t VALUES (1, 1), (2, 2)",
    )


def test_what_a_trial_reports_is_what_is_published_after_the_switch(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "keys").write_text(f"k1: {base64.b64encode(bytes(range(32))).decode()}\n")
    wanted = settings(stack, mysql, tmp_path)
    wanted["include_query"] = True
    wanted["destinations"]["shop"]["accept"].append("changed_keys")
    wanted["zookeeper"] = {"hosts": stack.zookeeper, "root": f"/{wanted['prefix']}"}
    wanted["mapping"] = {"store": "zookeeper", "key_file": str(tmp_path / "keys")}
    with running(wanted, tmp_path) as worker:
        command(tmp_path, "mapping", "set", str(tmp_path / "old.yaml"), "--why", "first")
        begin = worker.wait(lambda status: status["state"] == "RUNNING")["cursor"]
        reached(worker, mysql)
        begin = worker.destination()["cursor"]
        written(mysql)
        reached(worker, mysql)
        assert worker.stop() == 0
    before, sizes = published(stack, str(wanted["prefix"])), ends(stack, str(wanted["prefix"]))
    position = f"{begin['file']}:{begin['pos']}"
    tried = trial(tmp_path, "--from", position)
    assert tried["in_force"] == "version 1"
    assert [one["version"] for one in history(tmp_path)] == [1]
    # The same trial by other ways to give its beginning.
    assert in_json(tmp_path, "--gtid", begin["gtid_set"])["tables"] == tried["tables"]
    # The statements of the fixture are before the position.
    assert in_json(tmp_path, "--last", "30m")["totals"]["old"] == tried["totals"]["old"] + 2
    assert in_json(tmp_path, "--last", "1", code=0)["totals"]["old"] == 2
    assert in_json(tmp_path, "--from", "cursor", code=0)["totals"]["old"] == 0
    assert ends(stack, str(wanted["prefix"])) == sizes, "a trial wrote to a topic"
    command(tmp_path, "mapping", "set", str(tmp_path / "new.yaml"), "--why", "second")
    where = ("--file", begin["file"], "--pos", str(begin["pos"]))
    command(tmp_path, "cursor", "set", "shop", *where, "--why", "again", "--yes-lose-changes")
    with running(wanted, tmp_path) as worker:
        reached(worker, mysql)
        assert [one["table"] for one in worker.destination()["set_aside"]] == ["shop.torn"]
        assert worker.stop() == 0
    after = published(stack, str(wanted["prefix"]))
    assert_as_reported(
        tried, before, {name: after[name][len(before.get(name, ())) :] for name in after}
    )
    assert list(tried["quarantined"]) == ["shop.torn"]
    # What is in force now differs in nothing from itself.
    again = trial(tmp_path, "--from", position, code=0)
    assert again["in_force"] == "version 2"
    assert again["totals"]["refused_by_both"] == 3
    # A version that fits the quarantined table would bring it back.
    run(mysql, "INSERT INTO shop.torn VALUES (5)")
    (tmp_path / "new.yaml").write_text(NEW.replace(", columns: [id, gone]", ""))
    returned = in_json(tmp_path, "--last", "1")["totals"]
    assert (returned["old"], returned["new"], returned["appears"]) == (0, 1, 1)
    # The topic has five partitions now, and a rule that states another number is refused.
    (tmp_path / "new.yaml").write_text(NEW.replace("partitions: 5", "partitions: 7"))
    assert "7" in refused(tmp_path, "--last", "1")


@pytest.mark.long("what a trial reports is what is published")
def test_a_trial_follows_a_server_beside_the_worker_and_names_what_it_cannot_do(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    moved = "tables: {t: {from: [shop.t], topic: moved}}"
    (tmp_path / "new.yaml").write_text(moved)
    # Before this, no definition of a table is known.
    run(mysql, "INSERT INTO shop.t VALUES (0, 0)")
    with running(settings(stack, mysql, tmp_path, start="latest"), tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, "INSERT INTO shop.t VALUES (1, 1)")
        reached(worker, mysql)
        assert in_json(tmp_path)["totals"]["old"] == 1
        assert refused(tmp_path, "--from", "binlog.000001:4").startswith("HistoryTooShort")
        epoch = worker.destination()["cursor"]["epoch"]
        quiet = in_json(tmp_path, "--seconds", "1", code=0)
        assert (quiet["in_force"], quiet["totals"]["old"]) == ("no mapping", 0)
        live = while_written(mysql, lambda: trial(tmp_path, "--seconds", "2"))
        assert live["totals"]["topic"] == live["totals"]["old"] > 0
        reached(worker, mysql)
        (tmp_path / "new.yaml").write_text("tables: {x: {from: [nowhere], topic: shop.t}}")
        assert refused(tmp_path).startswith("MappingError")
        (tmp_path / "new.yaml").write_text("tables: {t: {row_filter: 'sleep(1)'}}")
        assert refused(tmp_path).startswith("MappingError")
        (tmp_path / "new.yaml").write_text(moved)
        run(mysql, "FLUSH BINARY LOGS", "INSERT INTO shop.t VALUES (2, 2)")
        reached(worker, mysql)
        run(mysql, "PURGE BINARY LOGS TO 'binlog.000002'")
        assert refused(tmp_path, "--from", "binlog.000001:4").startswith("PositionPurged")
        assert refused(tmp_path, "--from", "2001-01-01").startswith("PositionPurged")
        assert refused(tmp_path, "--from", "binlog.000009:4").startswith("PositionPastEnd")
        assert refused(tmp_path, "--destination", "none", code=2).startswith("UsageError")
        # Neither of the trials has ended the worker's connection.
        assert worker.destination()["cursor"]["epoch"] == epoch
        mysql.stop()
        assert refused(tmp_path).startswith("SourceLost")


def while_written(mysql: Mysql, work: Callable[[], Any]) -> Any:
    """The result of work, during which rows are inserted."""
    ended = threading.Event()

    def write() -> None:
        number = 100
        while not ended.is_set():
            run(mysql, f"INSERT INTO shop.t VALUES ({number}, 1)")
            number += 1
            ended.wait(0.1)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        return work()
    finally:
        ended.set()
        writer.join()


def refused(folder: Path, *words: str, code: int = 1) -> str:
    """The only error of a trial, by its name."""
    failed = tried_by(folder, *words)
    assert (failed.returncode, failed.stdout) == (code, ""), failed
    assert "Traceback" not in failed.stderr
    return str(failed.stderr).removeprefix("aqueduct: ")


def reached(worker: Worker, mysql: Mysql) -> None:
    """Wait until the cursor has all transactions of the server."""
    ((executed,),) = ask(mysql, "SELECT @@GLOBAL.gtid_executed")
    worker.wait(
        lambda status: (
            bool(status["cursor"])
            and status["state"] == "RUNNING"
            and status["cursor"]["gtid_set"].replace("\n", "") == executed.replace("\n", "")
        )
    )


def tried_by(folder: Path, *words: str) -> Any:
    return run_command(folder / "aqueduct.yaml", "mapping", "try", str(folder / "new.yaml"), *words)


def trial(folder: Path, *words: str, code: int = 3) -> dict[str, Any]:
    """The result of a trial, whose report in either form has nothing of the canary."""
    report = tried_by(folder, *words, "--samples", "50")
    assert report.returncode == code, report.stdout + report.stderr
    assert_nothing_of_the_canary(report.stdout, report.stderr)
    found = in_json(folder, *words, code=code)
    last = report.stdout.splitlines()[-1]
    assert last.startswith("trial: old=")
    if "--seconds" not in words:
        assert last == "trial: " + " ".join(
            f"{name}={found['totals'][name]}"
            for name in ("old", "new", "equal", *RESPECTS, "refused")
        )
    return found


def in_json(folder: Path, *words: str, code: int = 3) -> dict[str, Any]:
    """The same, of the form for programs alone."""
    done = tried_by(folder, *words, "--samples", "50", "--json")
    assert done.returncode == code, done.stdout + done.stderr
    assert_nothing_of_the_canary(done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_nothing_of_the_canary(*texts: str) -> None:
    for text in texts:
        assert CANARY not in text
        assert str(NUMBER)[:-1] not in text
        assert "xx" not in text


def command(folder: Path, *words: str) -> str:
    done = run_command(folder / "aqueduct.yaml", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def history(folder: Path) -> Any:
    return json.loads(command(folder, "mapping", "history", "--format", "json"))


def published(stack: Stack, prefix: str) -> dict[str, list[Found]]:
    """The records of rows and of statements by topic and partition, in their order."""
    options = {"bootstrap_servers": stack.kafka}

    async def read() -> dict[str, list[Found]]:
        found = {}
        for name, count in (await Topics(options).counts()).items():
            own = name.removeprefix(f"{prefix}.")
            if own == name or (own.startswith("__") and not own.startswith(SHOWN)):
                continue
            for number in range(count):
                found[f"{name}/{number}"] = [
                    Found(name, number, one.key, _value(own, one.value), dict(one.headers))
                    for one in await read_to_end(options, name, number)
                ]
        return found

    return asyncio.run(read())


def ends(stack: Stack, prefix: str) -> dict[tuple[str, int], int | None]:
    """All partitions by topic; of those with the prefix, the journal's too, the number of records.

    The broker itself writes to others at any time: the offsets of a group of which a member was
    killed, and the end of a transaction that timed out.
    """
    options = {"bootstrap_servers": stack.kafka}

    async def read() -> dict[tuple[str, int], int | None]:
        async with Follower.opened(options) as follower:
            counts = await Topics(options).counts()
            partitions = [(name, n) for name in counts for n in range(counts[name])]
            own = [one for one in partitions if one[0].startswith(f"{prefix}.")]
            return {**dict.fromkeys(partitions), **await follower.ends(own)}

    return asyncio.run(read())


def _value(topic: str, value: bytes) -> dict[str, Any] | None:
    if topic.startswith("__quarantine"):
        return {}
    return json.loads(value) if value else None


def assert_as_reported(
    tried: dict[str, Any], old: dict[str, list[Found]], new: dict[str, list[Found]]
) -> None:
    """Compare a trial with the records of both mappings, by a reading of its own."""
    first, second = by_change(old, since=tried["from"]), by_change(new, since=None)
    parked = {
        f"{meta['id']}#{number}"
        for name, records in new.items()
        if "__quarantine" in name
        for one in records
        if (meta := json.loads(one.headers["meta"])).get("rows")
        for number in range(meta["ordinal"], meta["ordinal"] + meta["rows"])
    }
    counts: dict[str, Counter[str]] = {}
    tables = {name: one[0] for name, one in (first | second).items()}
    for name, table in tables.items():
        count = counts.setdefault(table, Counter())
        one, other = first.get(name), second.get(name)
        count["old"] += one is not None
        count["new"] += other is not None
        if one is None:
            count["appears"] += 1
        elif other is None:
            count["vanishes"] += name[0].partition("/")[0] not in parked
        else:
            differing = respects(one[1], other[1])
            count.update(differing or ["equal"])
    counts["shop.torn"]["refused"] = len(parked)
    reported = {
        one["table"]: Counter(
            {name: one[name] for name in ("old", "new", "equal", *RESPECTS, "refused")}
        )
        for one in tried["tables"]
    }
    assert {name: +count for name, count in reported.items()} == {
        name: +count for name, count in counts.items()
    }
    total = sum(reported.values(), Counter[str]())
    assert all(total[name] for name in (*RESPECTS, "equal", "refused")), total
    assert total == +Counter({name: tried["totals"][name] for name in total})


def by_change(
    found: dict[str, list[Found]], *, since: dict[str, Any] | None
) -> dict[tuple[str, bool, bool], tuple[str, Found]]:
    """The records by ChangeId, whether each is a tombstone, and whether it is a copy, with their tables."""
    by_name: dict[tuple[str, bool, bool], tuple[str, Found]] = {}
    for name, records in found.items():
        if "__quarantine" in name:
            continue
        for one in records:
            change = one.headers["change_id"].decode()
            if one.value is None:
                table = by_name[change, False, "__tag" in name][0]
            else:
                source = one.value["source"]
                table = "(statements)" if "__ddl" in name else f"{source['db']}.{source['table']}"
                if since is not None and before(source, since["position"]):
                    continue
            identity = change, one.value is None, "__tag" in name
            assert identity not in by_name
            by_name[identity] = table, one
    return by_name


def before(source: dict[str, Any], position: str) -> bool:
    file, _, pos = position.rpartition(":")
    return (source["file"], source["pos"]) < (file, int(pos))


def respects(old: Found, new: Found) -> list[str]:
    found = []
    if contents(old) != contents(new):
        found.append("value")
    if old.topic != new.topic:
        found.append("topic")
    elif old.partition != new.partition:
        found.append("partition")
    if old.key != new.key:
        found.append("key")
    return found


def contents(one: Found) -> Any:
    """A record's tags and value, without the numbers of its run."""
    tags = one.headers.get("tags")
    if one.value is None:
        return tags
    value = {name: part for name, part in one.value.items() if name not in ("ts_ms", "transaction")}
    value["source"] = {
        name: part
        for name, part in value["source"].items()
        if name not in ("seq", "epoch", "schema")
    }
    for table in value.get("tables", ()):
        table.pop("version", None)
    return tags, value
