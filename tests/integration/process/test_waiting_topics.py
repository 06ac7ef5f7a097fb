"""Tables whose topics cannot take their rows: each waits by its name, and comes back in order."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewPartitions, NewTopic

from app.failpoints import VARIABLE
from connectors.kafka.topics import TopicPlan
from devstack import Stack
from devstack.kafka import Kafka, new_cluster
from devstack.mysql import Mysql
from tests.crash.accounts import Account, Grant
from tests.harness.beside import beside
from tests.harness.forked import run_command
from tests.harness.pair import Pair, pair_settings
from tests.harness.servers import own_mysql
from tests.harness.sql import run
from tests.harness.topics import (
    Change,
    changes,
    has_rows,
    names,
    on_kafka,
    statements,
    stored,
    values,
)
from tests.harness.wait import TIMEOUT, until
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_topics import alter, delete, make, remake
from tests.integration.subscriber.test_accounts import WithAccounts
from tests.schema_registry import schema_registry

_TOPIC, _PREFIXED, _WRITE, _ALTER = 2, 4, 4, 7
_MAPPING = """
tables:
  shop.avro: {format: avro}
  shop.twin: {from: ["shop.twi[n]"]}
  shop.other: {from: ["shop.[t]win"], format: avro}
"""
_MORE = "  shop.grown: {partitions: 3, repartition_from: 2}\n"
_EARLY = ("few", "compact", "denied", "avro", "twin", "clock")
REFUSED = ("turned", "small")
"""Whose records the broker refuses as they arrive."""
WAITING = (*_EARLY, "lost", "again", *REFUSED)
TABLES = ("calm", "grown", *WAITING)


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithAccounts]:
    """A broker at which the worker's account may do what it is granted."""
    made = WithAccounts(tmp_path_factory.mktemp("accounts"), ["worker"])
    try:
        made.start()
        yield made
    finally:
        made.children.kill()


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own; without full row metadata only the history has the columns' names."""
    options: dict[str, str | int] = {"server_id": 31, "binlog_row_metadata": "MINIMAL"}
    with own_mysql(stack, "CREATE DATABASE shop", options=options) as server:
        yield server


@pytest.mark.remedy("TopicUnusable", "TopicUnfit", "KafkaDenied", "SchemaRefused")
@pytest.mark.long(
    "test_topics.py has topics that are unfit, gone and made again; "
    "unit/app/worker/pipeline/publish/test_publisher.py which tables wait"
)
def test_tables_whose_topics_cannot_take_rows_wait_by_name_and_come_back_in_order(
    broker: WithAccounts, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(broker, mysql, tmp_path)
    prefix = str(wanted["prefix"])
    wanted["kafka"] = {
        "bootstrap_servers": broker.signed,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "worker",
        "sasl_password": "secret",
    }
    account = Account(broker, "worker", prefix)  # type: ignore[arg-type]
    rights = [one for one in account.on_topics() if one.operation != _WRITE]
    writing = [
        Grant(_TOPIC, f"{prefix}.{name}", _PREFIXED, _WRITE)
        for name in ("__", *(f"shop.{table}" for table in TABLES if table != "denied"))
    ]
    account.grant(rights, writing, account.on_group(), account.on_ids())
    (tmp_path / "mapping.yaml").write_text(_MAPPING)
    few, compact, lost, again, clock, turned, small = (
        f"{prefix}.shop.{one}" for one in ("few", "compact", "lost", "again", "clock", *REFUSED)
    )

    def plan(name: str, **more: Any) -> TopicPlan:
        common = {"partitions": 2, "replication_factor": 1, "max_message_bytes": 16 << 20}
        return TopicPlan(name=name, **(common | more))

    make(broker, plan(few, partitions=1).command())
    make(broker, plan(compact, cleanup_policy="compact").command())
    make(broker, plan(clock).command())
    alter(broker, plan(clock), {"message.timestamp.before.max.ms": "0"})
    with schema_registry() as registry:
        registry.refused = frozenset({"avro-value"})
        wanted["mapping"] = {
            "file": str(tmp_path / "mapping.yaml"),
            "schema_registry": {"url": registry.url},
        }
        for table in TABLES:
            # A topic that has become compacted refuses records without a key.
            key = "" if table == "turned" else "PRIMARY KEY"
            run(mysql, f"CREATE TABLE shop.{table} (id INT {key}, n INT)")
        write(mysql, 1)
        with running(wanted, tmp_path) as one:
            calm(broker, one, prefix, 1)
            waits(one, *_EARLY)
            # Topics that vanish or are altered while the worker runs, and a statement on each table.
            delete(broker, lost)
            remake(broker, plan(again))
            alter(broker, plan(turned, cleanup_policy="compact"))
            alter(broker, plan(small), {"max.message.bytes": "100"})
            run(mysql, *(f"ALTER TABLE shop.{table} ADD m INT DEFAULT 7 FIRST" for table in TABLES))
            write(mysql, 2)
            calm(broker, one, prefix, 2)
            found = waits(one, *WAITING)
            for table, why in (
                ("few", "TopicUnfit"), ("compact", "TopicUnfit"), ("denied", "KafkaDenied"),
                ("avro", "incompatible"), ("twin", "match"), ("lost", "TopicGone"),
                ("again", "TopicReplaced"), ("clock", "TopicUnfit"), ("turned", "TopicUnfit"),
                ("small", "RecordTooLarge"),
            ):  # fmt: skip
                assert why in found[f"shop.{table}"], found
            assert registry.refused
            one.process.kill()
            one.process.wait()
        write(mysql, 3)
        # To grow a topic needs a right that the account lacks.
        (tmp_path / "mapping.yaml").write_text(_MAPPING + _MORE)
        with running(wanted, tmp_path) as one:
            calm(broker, one, prefix, 3)
            found = waits(one, *WAITING, "grown")
            assert "Grant it Alter" in found["shop.grown"]
            assert "RecordTooLarge" not in one.log, (
                "it is not tried again before its topic is altered"
            )
            account.grant([Grant(_TOPIC, f"{prefix}.shop.grown", _PREFIXED, _ALTER)])
            alter(broker, plan(clock))
            alter(broker, plan(turned))
            alter(broker, plan(small))
            on_kafka(broker, lambda admin: admin.create_partitions({few: NewPartitions(2)}))
            alter(broker, plan(compact))
            account.grant([Grant(_TOPIC, f"{prefix}.shop.denied", _PREFIXED, _WRITE)])
            make(broker, plan(lost).command())
            for topic in (lost, again):
                accepted = ("accept-topic", "shop", topic, "--why", "a test", "--yes-lose-changes")
                done = run_command(tmp_path / "aqueduct.yaml", "destination", *accepted)
                assert done.returncode == 0, (done.stdout, done.stderr)
            waits(one, "avro", "twin")
            registry.refused = frozenset()
            done = run_command(
                tmp_path / "aqueduct.yaml", "schema", "resolve", "shop", "shop.avro", "--again"
            )
            assert done.returncode == 0, (done.stdout, done.stderr)
            waits(one, "twin")
            assert one.stop() == 0
        (tmp_path / "mapping.yaml").write_text(_MAPPING.replace("[t]win", "nobody") + _MORE)
        with running(wanted, tmp_path) as one:
            waits(one)
            write(mysql, 4)
            calm(broker, one, prefix, 4)
            assert one.stop() == 0
    # What topics that were made again had before is gone; each other row is there once, in order, and whole.
    first = {"id": 1, "n": 1}
    rest = [{"m": 7, "id": number, "n": number} for number in (2, 3, 4)]
    seqs = []
    for table in TABLES:
        if table != "avro":
            count = 3 if table == "grown" else 2
            published = changes(broker, f"{prefix}.shop.{table}", partitions=count)
            wholly = rest if table in ("lost", "again") else [first, *rest]
            assert [one.value["after"] for one in published] == wholly, table
            seqs += [one.seq for one in published]
    topic = f"{prefix}.shop.avro"
    raw = list(itertools.chain(*stored(broker, topic, partitions=2)))
    assert len(raw) == 4
    seqs += [int(dict(one.headers)["seq"]) for one in raw]
    seqs += [one.seq for one in statements(broker, prefix)]
    # Those of the two rows that are gone are missing.
    assert len(seqs) == len({*seqs}) == max(seqs) - 2


class TwoBrokers(Stack):
    """Two brokers, of which the second may be away; what is made before it starts is on the first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ("kafka",))
        program, libraries = self._java("kafka")
        cluster = new_cluster()
        self.first, self.second = (
            Kafka(folder / str(one), libraries, java=program, owner=self.children, cluster=cluster)
            for one in (1, 2)
        )
        noticed = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
        for number, broker in enumerate((self.first, self.second), 1):
            broker.join(self.first, number=number, options=noticed)

    @property
    def kafka(self) -> str:
        return self.first.address


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    """Two brokers, of which the first runs."""
    made = TwoBrokers(tmp_path_factory.mktemp("brokers"))
    try:
        made.first.start()
        yield made
    finally:
        made.children.kill()


OFFLINE = ("far", "pair")
"""Tables whose topics have a copy on the second broker: the only one, or one of two that must be in sync."""


@pytest.mark.long(
    "unit/app/worker/pipeline/publish/test_publisher.py has which tables wait, and when"
)
def test_tables_whose_topics_take_no_records_wait_alone_and_come_back_by_themselves(
    brokers: TwoBrokers, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(brokers, mysql, tmp_path)
    wanted["topics"]["offline_seconds"] = 3
    prefix, tables = str(wanted["prefix"]), ("calm", *OFFLINE)

    def create(*names: str) -> None:
        run(mysql, *(f"CREATE TABLE shop.{one} (id INT PRIMARY KEY, n INT)" for one in names))

    def write_on(number: int) -> None:
        values = f"VALUES ({number}, {number})"
        run(mysql, "BEGIN", *(f"INSERT INTO shop.{table} {values}" for table in tables), "COMMIT")

    def far(status: dict[str, Any]) -> bool:
        aside = {one["table"]: one["why"] for one in status["set_aside"]}
        return aside.keys() == {"shop.far", "shop.pair"} and status["state"] == "RUNNING"

    # All of the destination's own topics, and what Kafka itself needs, are on the first broker.
    create("calm")
    run(mysql, "INSERT INTO shop.calm VALUES (0, 0)")
    with running(wanted, tmp_path) as one:
        calm(brokers, one, prefix, 1)
        assert one.stop() == 0
    brokers.second.start()
    place(brokers, f"{prefix}.shop.far", [2], partitions=2)
    place(brokers, f"{prefix}.shop.pair", [1, 2], partitions=2)
    create(*OFFLINE)
    write_on(1)
    with monkeypatch.context() as faults:
        faults.setenv(VARIABLE, "commit.before=freeze")
        frozen = running(wanted, tmp_path)
        one = frozen.__enter__()
    with ExitStack() as ends:
        ends.push(frozen)
        stat = Path(f"/proc/{one.process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        # The broker dies when its records are acknowledged and the transaction is not committed.
        brokers.second.kill()
        one.process.send_signal(signal.SIGCONT)
        calm(brokers, one, prefix, 2)
        write_on(2)
        status = one.wait(far)
        for waiting in status["set_aside"]:
            assert "TooFewBrokers" in waiting["why"], waiting
            assert f"schema resolve shop {waiting['table']} --again" in str(waiting), waiting
        calm(brokers, one, prefix, 3)
        write_on(3)
        calm(brokers, one, prefix, 4)
        # Tried too early, it waits on, and nothing else waits for it.
        tried = run_command(
            tmp_path / "aqueduct.yaml", "schema", "resolve", "shop", "shop.far", "--again"
        )
        assert tried.returncode == 1, (tried.stdout, tried.stderr)
        assert "stays quarantined: TooFewBrokers" in tried.stdout
        write_on(4)
        calm(brokers, one, prefix, 5)
        one.process.kill()
        one.process.wait()
    write_on(5)
    with running(wanted, tmp_path) as one:
        calm(brokers, one, prefix, 6)
        one.wait(far)
        brokers.second.start()
        one.wait(lambda status: status["state"] == "RUNNING" and not status["set_aside"])
        write_on(6)
        calm(brokers, one, prefix, 7)
        assert one.stop() == 0
    seqs = []
    for table in tables:
        found = changes(brokers, f"{prefix}.shop.{table}", partitions=2)
        ids = [one.value["after"]["id"] for one in found]
        assert ids == list(range(1 if table in OFFLINE else 0, 7)), table
        seqs += [one.seq for one in found]
    seqs += [one.seq for one in statements(brokers, prefix)]
    assert sorted(seqs) == list(range(1, len(seqs) + 1))


@pytest.mark.long(
    "test_truncates.py has the deletes, the test above topics without a leader that are written to"
)
def test_a_table_that_is_emptied_while_its_topic_has_no_leader_waits_alone(
    brokers: TwoBrokers, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(brokers, mysql, tmp_path, truncates="deletes")
    wanted["topics"]["offline_seconds"] = 3
    prefix = str(wanted["prefix"])
    run(mysql, "CREATE TABLE shop.calm (id INT PRIMARY KEY, n INT)")
    run(mysql, "INSERT INTO shop.calm VALUES (0, 0)")
    with running(wanted, tmp_path) as one:
        calm(brokers, one, prefix, 1)
        brokers.second.start()
        place(brokers, f"{prefix}.shop.far", [2], partitions=2)
        run(mysql, "CREATE TABLE shop.far (id INT PRIMARY KEY, n INT)")
        run(
            mysql,
            "INSERT INTO shop.far VALUES (1, 1), (2, 2)",
            "INSERT INTO shop.calm VALUES (1, 1)",
        )
        calm(brokers, one, prefix, 2)
        brokers.second.kill()
        run(mysql, "TRUNCATE shop.far", "INSERT INTO shop.calm VALUES (2, 2)")
        calm(brokers, one, prefix, 3)
        (why,) = waits(one, "far").values()
        assert "TooFewBrokers" in why
        run(mysql, "INSERT INTO shop.far VALUES (3, 3)", "INSERT INTO shop.calm VALUES (3, 3)")
        calm(brokers, one, prefix, 4)
        brokers.second.start()
        one.wait(lambda status: "set record or omit" in str(status["set_aside"]))
        assert one.stop() == 0
    # As its error says, for rules that no mapping in ZooKeeper has.
    wanted["destinations"]["shop"]["truncates"] = "record"
    with running(wanted, tmp_path) as one:
        one.wait(lambda status: status["state"] == "RUNNING")
        calm(brokers, one, prefix, 4)
        (waiting,) = one.wait(lambda status: status["state"] == "RUNNING")["set_aside"]
        assert "set record or omit" in waiting["refused"]
        assert "python -m app schema resolve shop shop.far --again" in waiting["action"]
        again = run_command(
            tmp_path / "aqueduct.yaml", "schema", "resolve", "shop", "shop.far", "--again"
        )
        assert again.returncode == 0, (again.stdout, again.stderr)
        one.wait(lambda status: status["state"] == "RUNNING" and not status["set_aside"])
        run(mysql, "INSERT INTO shop.far VALUES (4, 4)", "INSERT INTO shop.calm VALUES (4, 4)")
        calm(brokers, one, prefix, 5)
    found = [one.value for one in changes(brokers, f"{prefix}.shop.far", partitions=2)]
    ids = [one["after"]["id"] if one["op"] == "c" else one["op"] for one in found]
    assert list(dict.fromkeys(ids)) == [1, 2, "t", 3, 4]


def place(brokers: TwoBrokers, topic: str, copies: list[int], *, partitions: int) -> None:
    """Make a topic with copies on these brokers, all of which must be in sync."""
    plan = TopicPlan(
        name=topic, partitions=partitions, replication_factor=1, max_message_bytes=16 << 20
    )
    made = NewTopic(
        topic,
        -1,
        -1,
        replica_assignments=dict.fromkeys(range(partitions), copies),
        topic_configs=plan.config() | {"min.insync.replicas": str(len(copies))},
    )
    answer = on_kafka(brokers, lambda admin: admin.create_topics([made]))
    assert {code for _, code, *_ in answer.topic_errors} == {0}


SHARDS = ("east", "west")
MERGED = ("calm", "far", "pair", "apart")
"""Logical tables; of all but the first, the merged topic or one shard's has a copy on the second broker."""


@pytest.mark.long(
    "unit/app/worker/merge has which topics wait and come back, "
    "unit/connectors/kafka/test_follower.py what is read without a leader"
)
def test_merged_topics_whose_brokers_are_away_wait_alone_and_come_back_by_themselves(
    brokers: TwoBrokers, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(brokers, mysql, tmp_path)
    prefix = str(wanted["prefix"])
    wanted["topics"] |= {"offline_seconds": 3, "partitions": 1}
    shop = wanted["destinations"].pop("shop") | {"decoders": 1}
    for number, shard in enumerate(SHARDS):
        own = {"server_id": 6110 + number, "filter": {"include": rf"{shard}\..*"}}
        wanted["destinations"][shard] = shop | own
    wanted["merge"] = {
        "trade": {"destinations": list(SHARDS), "stalled": "wait", "stalled_after_seconds": 3}
    }
    mapping = [
        f"  trade.{table}: {{from: [{', '.join(f'{shard}.{table}' for shard in SHARDS)}], topic: {table}}}"
        for table in MERGED
    ]
    (tmp_path / "mapping.yaml").write_text("\n".join(["tables:", *mapping]))
    wanted["mapping"] = {"file": str(tmp_path / "mapping.yaml")}
    run(mysql, *(f"CREATE DATABASE {shard}" for shard in SHARDS))

    def create(*tables: str) -> None:
        names = (f"{shard}.{table}" for table in tables for shard in SHARDS)
        run(mysql, *(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)" for name in names))

    def merge(worker: Worker) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(worker.get("/status") or "{}")
        return dict(
            found.get("merges", {}).get("trade", {}), destinations=found.get("destinations")
        )

    def merged(table: str) -> list[tuple[str, int, int]]:
        """Destination, id and time of each record, in the topic's order."""
        return [
            (one["source"]["name"], one["after"]["id"], one["source"]["ts_ms"])
            for one in values(brokers, f"{prefix}.{table}")
        ]

    def wait(worker: Worker, reached: Callable[[], Any]) -> None:
        until(reached, late=lambda: f"{merge(worker)}\n{worker.log[-5000:]}")

    def continues(worker: Worker) -> None:
        """What has been written by now comes, in the topic whose brokers are there."""
        goal = written
        wait(worker, lambda: len(merged("calm")) >= 2 * goal)

    written = 0

    def write_on(stop: threading.Event) -> None:
        nonlocal written
        while not stop.wait(0.2):
            values = f"VALUES ({written + 1}, 1)"
            for shard in SHARDS:
                inserts = (f"INSERT INTO {shard}.{table} {values}" for table in MERGED)
                run(mysql, "BEGIN", *inserts, "COMMIT")
            written += 1

    # All other topics, and what Kafka itself needs, are on the first broker.
    create("calm")
    run(mysql, *(f"INSERT INTO {shard}.calm VALUES (0, 0)" for shard in SHARDS))
    with running(wanted, tmp_path) as one:
        wait(one, lambda: len(merged("calm")) == 2)
        assert one.stop() == 0
    brokers.second.start()
    place(brokers, f"{prefix}.far", [2], partitions=1)
    place(brokers, f"{prefix}.pair", [1, 2], partitions=1)
    for shard, table in itertools.product(SHARDS, MERGED[1:]):
        is_away = (shard, table) == ("east", "apart")
        topic = f"{prefix}.__shard.{shard}.{table}"
        place(brokers, topic, [2] if is_away else [1], partitions=1)
    place(brokers, f"{prefix}.apart", [1], partitions=1)
    create(*MERGED[1:])
    waiting = {f"{prefix}.{table}" for table in MERGED[1:]}

    def is_waiting(worker: Worker) -> bool:
        found = merge(worker)
        return found.get("state") == "RUNNING" and found["waiting"].keys() == waiting

    with beside(write_on) as stop, running(wanted, tmp_path) as one:
        wait(one, lambda: all(len(merged(table)) > 20 for table in MERGED))
        brokers.second.kill()
        wait(one, lambda: is_waiting(one))
        continues(one)
        found = merge(one)
        for table, why in (
            ("far", f"partition 0 has no leader [topic={prefix}.far"),
            ("pair", "partition 0 has 1 of its copies in sync, min.insync.replicas is 2"),
            ("apart", f"partition 0 has no leader [topic={prefix}.__shard.east.apart"),
        ):
            shown = found["waiting"][f"{prefix}.{table}"]
            assert shown.startswith("TooFewBrokers: "), shown
            assert why in shown, shown
            assert f"merge.trade: topic {prefix}.{table} waits, the others are merged" in one.log
        assert 'aqueduct_merge_topics_waiting{merge="trade"} 3.0' in one.get("/metrics")
        # Its last transaction cannot end where no broker is.
        assert ".merge.trade.spare is used instead" in one.log
        aside = found["destinations"]["east"]["set_aside"]
        assert [each["table"] for each in aside] == ["east.apart"]
        one.process.kill()
        one.process.wait()
        with running(wanted, tmp_path) as one:
            wait(one, lambda: is_waiting(one))
            continues(one)
            brokers.second.start()
            wait(one, lambda: merge(one).get("waiting") == {})
            wait(one, lambda: not merge(one)["destinations"]["east"]["set_aside"])
            stop()
            for table in MERGED:
                count = 2 * (written + (table == "calm"))
                wait(one, lambda table=table, count=count: len(merged(table)) >= count)  # type: ignore[misc]
            assert one.stop() == 0
    for table in MERGED:
        records = merged(table)
        for shard in SHARDS:
            ids = [number for name, number, _ in records if name == shard]
            assert ids == list(range(0 if table == "calm" else 1, written + 1)), table
        times = [time_ms for _, _, time_ms in records]
        # Rows that were quarantined come after those that their destination has published meanwhile.
        assert table == "apart" or times == sorted(times), table


SHARED = ("calm", "few", "small", "avro")
"""Tables of two workers; all but the first wait."""


@pytest.mark.long("the other test has the waits without a takeover; test_shared.py has takeovers")
def test_takeovers_keep_tables_waiting_and_end_their_waits_once(
    stack: Stack, mysql: Mysql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"]["filter"] = {"include": r"shop\..*"}
    prefix = str(wanted["prefix"])
    (tmp_path / "mapping.yaml").write_text("tables: {shop.avro: {format: avro}}")

    def plan(table: str, partitions: int = 2) -> TopicPlan:
        return TopicPlan(
            name=f"{prefix}.shop.{table}",
            partitions=partitions,
            replication_factor=1,
            max_message_bytes=16 << 20,
        )

    make(stack, plan("few", 1).command())
    make(stack, plan("small").command())
    alter(stack, plan("small"), {"max.message.bytes": "100"})
    for table in SHARED:
        run(mysql, f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, n INT)")
    with (
        schema_registry() as registry,
        Pair(wanted, tmp_path) as pair,
        writing(mysql) as (stop, count),
    ):
        registry.refused = frozenset({"avro-value"})
        wanted["mapping"] = {
            "file": str(tmp_path / "mapping.yaml"),
            "schema_registry": {"url": registry.url},
        }

        def asked() -> int:
            return sum("avro" in path for _, path in registry.requests)

        def aside(name: str) -> set[str]:
            status = pair.status(name)["destinations"]["shop"]
            return (
                {one["table"] for one in status["set_aside"]} if status["leader"]["here"] else set()
            )

        def holds(name: str) -> None:
            """It leads and publishes what does not wait; and nothing of what does is published, or tried."""
            assert pair.leader("shop") == name
            waiting = {f"shop.{table}" for table in SHARED[1:]}
            pair.until(lambda: aside(name) == waiting)
            reached = count()
            pair.until(lambda: len(changes(stack, plan("calm").name, partitions=2)) > reached)
            assert aside(name) == waiting
            for table, partitions in (("few", 1), ("small", 2)):
                assert changes(stack, plan(table).name, partitions=partitions) == []
            assert not has_rows(stack, plan("avro").name)

        pair.start("a")
        holds("a")
        tried = asked()
        pair.start("b")
        pair.settled()
        pair.end("a", signal.SIGKILL)
        holds("b")
        # A leader that is stopped loses its lease; it finds another one in its place.
        pair.start("a")
        pair.settled()
        pair.workers["b"].process.send_signal(signal.SIGSTOP)
        pair.until(lambda: pair.states("shop")["a"] == "RUNNING")
        holds("a")
        pair.workers["b"].process.send_signal(signal.SIGCONT)
        holds("a")
        assert asked() == tried
        for name in "ab":
            assert "RecordTooLarge" not in pair.workers[name].log, "no topic is tried again"
        # One is killed in the middle of a release; another one ends it.
        pair.end("b", signal.SIGKILL)
        with monkeypatch.context() as faults:
            faults.setenv(VARIABLE, "release.published=kill@1")
            dying = pair.start("b")
        pair.settled()
        pair.end("a", signal.SIGKILL)
        holds("b")
        on_kafka(stack, lambda admin: admin.create_partitions({plan("few").name: NewPartitions(2)}))
        assert dying.process.wait(TIMEOUT) == -signal.SIGKILL
        alter(stack, plan("small"))
        registry.refused = frozenset()
        pair.start("a")
        pair.until(lambda: aside("a") == {"shop.avro"})
        again = run_command(pair.config("a"), "schema", "resolve", "shop", "shop.avro", "--again")
        assert again.returncode == 0, (again.stdout, again.stderr)
        pair.until(lambda: pair.leader("shop") == "a" and aside("a") == set())
        stop()
        ids = list(range(1, count() + 1))
        raw = until(lambda: avro_rows(stack, plan("avro").name, len(ids)))
        assert len(raw) == len(ids)
        seqs = [int(dict(one.headers)["seq"]) for one in raw]
        for table in SHARED[:3]:
            found = until(partial(row_changes, stack, plan(table).name, len(ids)))
            assert [one.value["after"]["id"] for one in found] == ids, table
            seqs += [one.seq for one in found]
        seqs += [one.seq for one in statements(stack, prefix)]
        assert sorted(seqs) == list(range(1, len(seqs) + 1))


@contextmanager
def writing(mysql: Mysql) -> Iterator[tuple[Callable[[], None], Callable[[], int]]]:
    """A row for each shared table comes every 100 ms, until the first function is called; the second counts."""
    written = 0

    def write_on(stop: threading.Event) -> None:
        nonlocal written
        while not stop.wait(0.1):
            values = f"VALUES ({written + 1}, 1)"
            inserts = (f"INSERT INTO shop.{table} {values}" for table in SHARED)
            run(mysql, "BEGIN", *inserts, "COMMIT")
            written += 1

    with beside(write_on) as stop:
        yield stop, lambda: written


def row_changes(stack: Stack, topic: str, count: int) -> list[Change] | None:
    """The changes in a topic, once there are so many."""
    found = changes(stack, topic, partitions=2)
    return found if len(found) >= count else None


def avro_rows(stack: Stack, topic: str, count: int) -> list[Any] | None:
    """The records of a topic, once there are so many."""
    found = list(itertools.chain(*stored(stack, topic, partitions=2)))
    return found if len(found) >= count else None


def write(mysql: Mysql, number: int) -> None:
    """Write a row to each table, in one transaction."""
    values = f"(id, n) VALUES ({number}, {number})"
    run(mysql, "BEGIN", *(f"INSERT INTO shop.{table} {values}" for table in TABLES), "COMMIT")


def calm(stack: Stack, worker: Worker, prefix: str, count: int) -> None:
    """Wait until the calm table has so many rows."""
    topic = f"{prefix}.shop.calm"
    until(
        lambda: topic in names(stack) and len(changes(stack, topic, partitions=2)) == count,
        late=lambda: f"{worker.destination()}\n{worker.log[-3000:]}",
    )


def waits(worker: Worker, *tables: str) -> dict[str, str]:
    """Wait until exactly these wait, and all others are published; return why."""

    def aside(status: dict[str, Any]) -> dict[str, str]:
        return {one["table"]: one["why"] for one in status["set_aside"]}

    wanted = {f"shop.{one}" for one in tables}
    status = worker.wait(lambda one: one["state"] == "RUNNING" and aside(one).keys() == wanted)
    return aside(status)
