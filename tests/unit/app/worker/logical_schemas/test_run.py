"""Runs of the publication against topics in memory: each change once, over restarts and failed commits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.record import MemoryRecords

from app.worker.coordination.write_permit import WritePermit
from app.worker.logical_schemas import run as module
from app.worker.logical_schemas.plan import LogicalSchemasPlan, LogicalSchemasStatus
from app.worker.logical_schemas.run import LogicalSchemasRun
from app.worker.pipeline.publish.publisher import TopicPlans
from app.worker.pipeline.publish.transaction_size import Budget
from app.worker.status import State
from app.worker.unit.takeover import UnitTakeover
from connectors.errors import (
    AqueductError,
    KafkaDenied,
    KafkaLost,
    RecordsGone,
    RecordTooLarge,
    TransactionOpen,
)
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.decisions import (
    DECIDED,
    UNIT,
    Decision,
    Verb,
    note_of_decision,
)
from tables.history.logical_schemas.published import PublishedSchema
from tables.history.logical_schemas.shard import ShardName
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion
from tables.state.journal.state import DestinationState, fold
from tests.unit.tables.history.logical_schemas.made import NAME, full_name, version

JOURNAL, SCHEMAS, LOGICAL = "aq.__journal", "aq.__schemas", "aq.__logical_schemas"
ROUTES = {
    name: Routes(
        prefix="aq",
        destination=name,
        mapping=from_yaml(
            "tables: {trade.orders: {from: ['shop.orders_[0-9]+'], topic: trade}, "
            "trade.items: {from: ['shop.items_[0-9]+'], topic: items}}"
        ),
    )
    for name in "ab"
}
ID = "id int not null"


class Ended(Exception):
    """Nothing more is read in this run."""


class Kafka:
    """Topics of one partition each; a transaction is visible once it is committed."""

    def __init__(self) -> None:
        self.topics: dict[str, list[tuple[bytes, bytes | None]]] = {JOURNAL: [], SCHEMAS: []}
        self.transactions: list[list[str]] = []
        """The topics that each committed transaction wrote to, in order."""
        self.fails = False
        self.hidden: set[str] = set()
        """Topics of which the follower returns nothing, as if a transaction were open."""
        self.steps: list[str] = []
        self.later: list[Callable[[], None]] = []
        """What is done within a run, one after another, each time that all is read."""
        self.troubles: dict[str, AqueductError] = {}
        """The topics that cannot be read, with the reason."""
        self.unseen: set[str] = set()
        """Topics that the account may not see."""
        self.loses: dict[str, AqueductError] = {}
        """Topics that lose their leader while their ends are asked for."""
        self.gone: set[str] = set()
        """Topics whose next record is removed before it is read."""
        self.limit: int | None = None
        """The largest batch that the topic of logical schemas takes; None: any."""
        self.is_limit_known = True

    def write(self, topic: str, value: Mapping[str, Any]) -> None:
        self.topics.setdefault(topic, []).append((b"", orjson.dumps(value)))

    def remove(self, topic: str) -> None:
        del self.topics[topic]

    def alter(
        self, name: str | ShardName, number: int, text: str, *, ts_ms: int = 0, **more: Any
    ) -> None:
        """Publish a version of a shard; ``more``: other values of its record."""
        real = full_name(name) if isinstance(name, str) else name
        made: TableVersion = version(real, number, text, ts_ms=ts_ms)
        records = self.topics.setdefault(SCHEMAS, [])
        records.append((orjson.dumps(made.key_json()), orjson.dumps({**made.to_json(), **more})))

    def decide(
        self, verb: Verb, name: str = "", value: str = "", *, table: TableName = NAME
    ) -> None:
        decision = Decision(
            table=table, id=f"d{len(self.topics[JOURNAL])}", verb=verb, name=name, value=value,
            by="ann", why="a test", ts_ms=1,
        )  # fmt: skip
        self.topics[JOURNAL].append(note_of_decision(decision))

    def records(self, topic: str) -> list[StoredRecord]:
        found = self.topics.get(topic, [])
        return [StoredRecord(key, value or b"", at) for at, (key, value) in enumerate(found)]

    def outcomes(self) -> list[dict[str, Any]]:
        """What workers decided, in order."""
        found = self.topics[JOURNAL]
        return [orjson.loads(value) for key, value in found if DECIDED.is_of(key) and value]

    async def largest(self, _topic: str) -> int | None:
        return self.limit if self.is_limit_known else None

    async def unwritable(self, names: Iterable[str]) -> dict[str, AqueductError]:
        return {one: KafkaDenied(topic=one) for one in names if one in self.unseen}

    async def digests(self, names: Iterable[str]) -> dict[str, str]:
        return {one: str(self.limit) for one in names if self.is_limit_known}

    def published(self) -> list[PublishedSchema]:
        return [
            PublishedSchema.from_record(one.value) for one in self.records(LOGICAL) if one.value
        ]

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Kafka]:
        self._sent: list[tuple[str, bytes, bytes | None]] = []
        try:
            yield self
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge("the broker's answer") from error
        if self.fails:
            raise KafkaLost("no answer to the commit")
        self.steps.append("committed")
        self.transactions.append([topic for topic, _, _ in self._sent])
        for topic, key, value in self._sent:
            self.topics.setdefault(topic, []).append((key, value))

    async def send(self, topic: str, *, key: bytes, value: bytes | None, partition: int) -> Any:
        assert partition == 0
        self._sent.append((topic, key, value))

        async def sent() -> SimpleNamespace:
            return SimpleNamespace(offset=0)

        return sent()

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        assert partition == 0
        answer = asyncio.get_running_loop().create_future()
        if self.limit is not None and batch.size() > self.limit:
            answer.set_exception(MessageSizeTooLargeError())
            return answer
        for one in MemoryRecords(bytes(batch._build())).next_batch():
            self._sent.append((topic, one.key, one.value))
        answer.set_result(None)
        return answer


class Follower:
    """Reads the topics; the run ends after some reads that return nothing."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka, self._positions = kafka, dict[tuple[str, int], int]()
        self._idle = 0
        self.leaderless: frozenset[tuple[str, int]] = frozenset()

    async def partitions(self, names: Iterable[str]) -> dict[str, int]:
        self.leaderless = frozenset(self.unreadable)
        return {one: 1 for one in self._kafka.topics if one.startswith(tuple(names))}

    async def beginnings(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(partitions, 0)

    async def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return {one: len(self._kafka.topics[one[0]]) for one in partitions}

    async def follow(self, starts: Mapping[tuple[str, int], int]) -> None:
        self._positions |= starts

    async def position(self, partition: tuple[str, int]) -> int:
        return self._positions[partition]

    @property
    def unreadable(self) -> dict[tuple[str, int], AqueductError]:
        return {(topic, 0): error for topic, error in self._kafka.troubles.items()}

    async def unread(self) -> dict[tuple[str, int], int]:
        if self._kafka.loses:
            self._kafka.troubles |= self._kafka.loses
            self._kafka.loses = {}
            raise KafkaLost("no answer")
        return {}

    async def leave(self, partitions: Iterable[tuple[str, int]]) -> None:
        for one in partitions:
            del self._positions[one]

    async def read(self, _seconds: float) -> dict[tuple[str, int], list[Any]]:
        found = {}
        for (topic, number), start in self._positions.items():
            if topic in self._kafka.gone:
                self._kafka.gone.remove(topic)
                gone = RecordsGone(f"{topic} [0] has no offset {start}")
                gone.lost = {(topic, number): start}
                raise gone
        for (topic, number), start in self._positions.items():
            if topic in self._kafka.hidden | self._kafka.troubles.keys():
                continue
            found[topic, number] = [
                SimpleNamespace(key=one.key, value=one.value, offset=one.offset, headers=())
                for one in self._kafka.records(topic)[start:]
            ]
            self._positions[topic, number] = start + len(found[topic, number])
        self._idle = 0 if any(found.values()) else self._idle + 1
        if self._idle > 2 and self._kafka.later:
            self._kafka.later.pop(0)()
            self._idle = 0
        if self._idle > 2:
            raise Ended
        return found


class Takeover:
    """Takes note of the steps, in the order of what is read and published."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    async def take_id(self, *_: object) -> None:
        self._kafka.steps.append("id taken")

    async def claim(self, _producer: object, _permit: object, state: DestinationState) -> None:
        assert state.destination == UNIT
        self._kafka.steps.append("claimed")


class Scene:
    """An installation, and the runs in it one after another."""

    def __init__(self) -> None:
        self.kafka, self.routes = Kafka(), dict[str, Routes](ROUTES)
        self.is_known = True
        self.status = LogicalSchemasStatus()
        self.budget = Budget(module.MOST_BYTES)

    async def run(self) -> None:
        plan = LogicalSchemasPlan(
            worker="w",
            topics=TopicPlans(
                prefix="aq",
                replication_factor=1,
                cleanup_policy="delete",
                retention_ms=-1,
                max_message_bytes=1 << 20,
                journal_partitions=1,
                offline_seconds=120.0,
            ),
            kafka_options={},
            compression=None,
            routes=lambda: dict(self.routes) if self.is_known else None,
        )

        async def installation() -> str:
            return "i"

        one = LogicalSchemasRun(
            plan=plan,
            status=self.status,
            permit=WritePermit(),
            installation=installation,
            takeover=cast(UnitTakeover, Takeover(self.kafka)),
            budget=self.budget,
            succeeded=lambda: None,
        )
        with contextlib.suppress(Ended):
            await one.run()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene()
    kafka = made.kafka

    async def nothing(*_: object) -> None:
        return None

    async def state(_: object) -> DestinationState:
        kafka.steps.append("journal read")
        return fold(UNIT, kafka.records(JOURNAL))

    async def read(_: object, topic: str, _partition: int) -> list[StoredRecord]:
        return kafka.records(topic)

    @contextlib.asynccontextmanager
    async def opened(
        _: object, *, wait_seconds: float, **_options: object
    ) -> AsyncIterator[Follower]:
        assert wait_seconds == module._READ_SECONDS
        yield Follower(kafka)

    producer = SimpleNamespace(
        init_transactions=nothing, learn=nothing, discard=nothing, transaction=kafka.transaction
    )
    monkeypatch.setattr(module, "TransactionalProducer", lambda *_, **__: producer)

    async def no_ids(_names: object) -> dict[str, str]:
        return {}

    topics = SimpleNamespace(
        ensure=nothing,
        ids=no_ids,
        unwritable=kafka.unwritable,
        largest=kafka.largest,
        digests=kafka.digests,
    )
    monkeypatch.setattr(module, "Topics", lambda _: topics)
    monkeypatch.setattr(module, "Follower", SimpleNamespace(opened=opened))
    monkeypatch.setattr(module, "committed_state", state)
    monkeypatch.setattr(module, "read_to_end", read)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
    return made


def states(scene: Scene) -> list[str]:
    return [cast(str, one.content["state"]) for one in scene.kafka.published()]


async def test_a_change_is_published_once_over_any_restart(scene: Scene) -> None:
    scene.kafka.alter("a1", 1, ID)
    scene.kafka.alter("b1", 1, ID)
    await scene.run()
    await scene.run()
    assert states(scene) == ["equal"]
    scene.kafka.alter("b1", 2, f"{ID}; x int", ts_ms=5)
    await scene.run()
    await scene.run()
    assert states(scene) == ["equal", "converging"]
    assert [one.version for one in scene.kafka.published()] == [1, 2]
    assert scene.status.state is State.RUNNING


async def test_a_run_takes_the_id_and_claims_the_unit_before_it_publishes(scene: Scene) -> None:
    scene.kafka.alter("a1", 1, ID)
    await scene.run()
    assert scene.kafka.steps == ["id taken", "journal read", "claimed", "committed"]


async def test_nothing_is_published_before_all_topics_are_read(scene: Scene) -> None:
    scene.kafka.alter("b1", 1, ID)
    scene.kafka.write("aq.__ddl.b", {})
    for topic in (SCHEMAS, "aq.__ddl.b"):
        scene.kafka.hidden = {topic}
        await scene.run()
        assert scene.kafka.published() == []
    scene.kafka.hidden = set()
    scene.is_known = False
    await scene.run()
    assert scene.kafka.published() == []
    assert scene.status.state is State.STARTING
    assert "the mapping in ZooKeeper was not read yet" in str(scene.status.error)
    scene.is_known = True
    await scene.run()
    assert states(scene) == ["equal"]


async def test_a_transaction_that_stays_open_is_shown_and_not_waited_for_silently(
    scene: Scene,
) -> None:
    scene.kafka.troubles[SCHEMAS] = TransactionOpen(topic=SCHEMAS)
    with pytest.raises(TransactionOpen):
        await scene.run()


async def test_a_commit_that_failed_is_made_by_the_next_run(scene: Scene) -> None:
    scene.kafka.alter("a1", 1, ID)
    scene.kafka.alter("b1", 1, f"{ID}; x int")
    scene.kafka.decide(Verb.EXCLUDE, str(full_name("b1")))
    scene.kafka.fails = True
    with pytest.raises(KafkaLost):
        await scene.run()
    assert (scene.kafka.published(), scene.kafka.transactions) == ([], [])
    scene.kafka.fails = False
    await scene.run()
    # The outcome is in the transaction of the schema that it changes.
    assert scene.kafka.transactions == [[LOGICAL, JOURNAL]]
    assert states(scene) == ["accepted"]
    await scene.run()
    assert len(scene.kafka.transactions) == 1


async def test_what_comes_within_a_run_is_taken_by_it(scene: Scene) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, ID)
    kafka.later = [
        lambda: kafka.alter("b1", 1, f"{ID}; x int"),
        lambda: kafka.decide(Verb.EXCLUDE, str(full_name("b1"))),
        lambda: kafka.decide(Verb.INCLUDE, str(full_name("b1"))),
        lambda: kafka.write(
            "aq.__ddl.a",
            {
                "source": {"ts_ms": 9},
                "tables": [{"database": "shop", "table": "orders_1", "new": None}],
            },
        ),
        lambda: scene.routes.__delitem__("a"),
    ]
    await scene.run()
    assert states(scene) == ["equal", "converging", "accepted", "converging", "equal", "equal"]
    assert kafka.transactions[2:4] == [[LOGICAL, JOURNAL]] * 2


async def test_a_refused_decision_has_an_outcome_and_changes_nothing(scene: Scene) -> None:
    scene.kafka.alter("a1", 1, ID)
    await scene.run()
    scene.kafka.decide(Verb.ACCEPT, value="0123456789abcdef")
    await scene.run()
    await scene.run()
    assert scene.kafka.transactions == [[LOGICAL], [JOURNAL]]
    outcome = orjson.loads(scene.kafka.records(JOURNAL)[-1].value)
    assert (outcome["refused"], outcome["state"]) == ("its real tables do not differ", "equal")


async def test_a_refused_decision_leaves_the_earlier_one_in_force_over_any_compaction(
    scene: Scene,
) -> None:
    kafka = scene.kafka
    kafka.alter("a1", 1, f"{ID}; x int")
    kafka.alter("b1", 1, f"{ID}; x varchar(20)")
    await scene.run()
    kafka.decide(Verb.TAKE_TYPE, "x", "varchar(20)")
    await scene.run()
    kafka.decide(Verb.TAKE_TYPE, "x", "date")
    await scene.run()
    assert orjson.loads(kafka.records(JOURNAL)[-1].value)["refused"]
    last = dict(kafka.topics[JOURNAL])
    kafka.topics[JOURNAL] = list(last.items())
    kafka.alter("a1", 2, f"{ID}; x int; y int", ts_ms=5)
    await scene.run()
    assert states(scene)[:2] == ["conflict", "accepted"]
    assert "conflict" not in states(scene)[1:]


async def test_a_logical_table_without_a_shard_is_removed(scene: Scene) -> None:
    scene.kafka.alter("a1", 1, ID)
    await scene.run()
    del scene.routes["a"]
    await scene.run()
    await scene.run()
    assert [one.value == b"" for one in scene.kafka.records(LOGICAL)] == [False, True]
    scene.routes["a"] = ROUTES["a"]
    await scene.run()
    assert [one.version for one in scene.kafka.published()] == [1, 1]


async def test_a_dropped_shard_stays_dropped_without_its_statement(scene: Scene) -> None:
    scene.kafka.alter("a1", 1, ID)
    scene.kafka.alter("b1", 1, f"{ID}; x int")
    table = {"database": "shop", "table": "orders_1", "new": None}
    scene.kafka.write("aq.__ddl.b", {"source": {"ts_ms": 7}, "tables": [table]})
    await scene.run()
    assert states(scene) == ["equal"]
    scene.kafka.topics["aq.__ddl.b"].clear()
    await scene.run()
    assert states(scene) == ["equal"]
    scene.kafka.write("aq.__ddl.b", {"source": {"ts_ms": 9}, "tables": [{**table, "new": {}}]})
    await scene.run()
    assert states(scene) == ["equal", "converging"]


async def test_records_of_another_form_are_skipped(scene: Scene) -> None:
    scene.kafka.write(SCHEMAS, {"table": "t"})
    dropped = {"database": "shop", "table": "orders_1", "new": None}
    foreign: list[Any] = [
        {"tables": [{}]}, [1], "x", 7, {"tables": 7}, {"tables": ["x"]}, {"tables": [dropped]},
        {"tables": [dropped], "source": {"ts_ms": "x"}}, {"tables": [{**dropped, "table": []}]},
    ]  # fmt: skip
    for one in foreign:
        scene.kafka.write("aq.__ddl.a", one)
        scene.kafka.write(SCHEMAS, one)
    scene.kafka.write(LOGICAL, {"state": "equal"})
    numbers = {"version": 1, "since_ms": 1, "ts_ms": 1}
    for name in ("x", ["x"]):
        scene.kafka.write(LOGICAL, {"state": "equal", "database": name, "table": "t", **numbers})
    scene.kafka.alter("a1", 1, ID)
    await scene.run()
    last = PublishedSchema.from_record(scene.kafka.records(LOGICAL)[-1].value)
    assert (last.name, last.version) == (NAME, 1)
