"""Two workers whose destinations share a partition of the journal, and what others do to their topics:
`make crash SUITE=requests`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import re
import shlex
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from app.__main__ import main
from connectors.kafka.producer import TransactionalProducer
from devstack import Stack
from tables.rules.routes.routes import Routes
from tables.state.journal.state import cursor_key, partition_of
from tests.harness.pair import Pair, pair_settings
from tests.harness.sql import run
from tests.integration.process.test_shared import Rows, judge
from wire.topics import journal_topic

BOTH = ("shop", "orders")
PARTITION = partition_of("shop", 4)
FOREIGN = "nightly import"
_COMMAND = re.compile(r"python -m app ((?:[^;.\n]|\.(?=\S))+)")
_SMALL = 20_000


class Shared:
    """Both workers at work, the rows written so far, and the partition that the destinations share."""

    def __init__(self, stack: Stack, folder: Path, pair: Pair, database: str) -> None:
        self.stack, self.folder, self.pair, self.database = stack, folder, pair, database
        self.rows = Rows(stack.mysql, database)
        self.prefix: str = pair.wanted["prefix"]
        self.options = {"bootstrap_servers": stack.kafka}

    def at_work(self) -> tuple[str, str]:
        """Wait until each leads one, and start what has ended; who leads shop and who orders."""
        self.pair.until(self._spread, seconds=120)
        return self.pair.leader("shop"), self.pair.leader("orders")

    def _spread(self) -> bool:
        for name in ("a", "b"):
            worker = self.pair.workers.get(name)
            if worker is None or worker.process.poll() is not None:
                self.pair.start(name)
        leaders = {self.pair._runs(one) for one in BOTH}
        return leaders == {"a", "b"}

    def kill(self, name: str) -> None:
        """Kill the worker like kill -9."""
        self.pair.end(name, signal.SIGKILL)

    def shown(self, worker: str, destination: str = "shop") -> dict[str, Any]:
        """A worker's status of a destination."""
        found = self.pair.status(worker).get("destinations", {})
        return dict(found.get(destination, {}))

    def wait(self, worker: str, destination: str, state: str, error: str = "") -> str:
        """Wait until a destination is in a state, with an error that begins so; the error."""
        return str(
            self.pair.until(
                lambda: self._in(self.shown(worker, destination), state, error), seconds=90
            )
        )

    @staticmethod
    def _in(status: dict[str, Any], state: str, error: str) -> str | None:
        said = str(status.get("error") or "")
        return (said or state) if status.get("state") == state and said.startswith(error) else None

    def published(self, destination: str) -> None:
        """Wait until all rows so far are, each once and in order."""
        judge(self.stack, self.pair.wanted, destination, self.rows, self.database)

    def all_published(self) -> None:
        for one in BOTH:
            self.published(one)

    def write(self, *records: tuple[bytes, bytes]) -> None:
        """Write to the partition as another program would."""

        async def written() -> None:
            producer = AIOKafkaProducer(**self.options)
            await producer.start()
            for key, value in records:
                await producer.send_and_wait(
                    journal_topic(self.prefix), key=key, value=value, partition=PARTITION
                )
            await producer.stop()

        asyncio.run(written())

    def does(self, *words: str) -> tuple[int, str]:
        """A command: its exit code, and all that it prints."""
        out = io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            patch.setenv("AQUEDUCT_CONFIG", str(self.pair.config("a")))
            return main(list(words)), out.getvalue()

    def does_as_printed(self, text: str) -> list[str]:
        """Run each command that a text names, unchanged; return their output."""
        commands = [shlex.split(words) for words in _COMMAND.findall(text)]
        assert commands, text
        printed = []
        for words in commands:
            code, result = self.does(*words)
            assert code == 0, (words, result)
            printed.append(result)
        return printed

    async def _asked(self, act: Callable[[AIOKafkaAdminClient], Any]) -> Any:
        admin = AIOKafkaAdminClient(**self.options)
        await admin.start()
        try:
            return await act(admin)
        finally:
            await admin.close()

    def ask(self, act: Callable[[AIOKafkaAdminClient], Any]) -> Any:
        """Ask an administrator's client."""
        return asyncio.run(self._asked(act))

    def limit(self, topic: str, size: int) -> None:
        """Set max.message.bytes of a topic, and leave its other settings as they are."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self.ask(lambda admin: admin.describe_configs([resource]))
        own = {name: value for name, value, _, source, *_ in answer.resources[0][4] if source == 1}
        new = ConfigResource(
            ConfigResourceType.TOPIC, topic, configs={**own, "max.message.bytes": str(size)}
        )
        self.ask(lambda admin: admin.alter_configs([new]))


@pytest.fixture(scope="module")
def shared(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared-journal")
    database = f"held{uuid.uuid4().hex[:8]}"
    run(stack.mysql, f"CREATE DATABASE {database}")
    for table in BOTH:
        run(stack.mysql, f"CREATE TABLE {database}.{table} (id int PRIMARY KEY, x int)")
    assert partition_of("orders", 4) == PARTITION
    wanted = pair_settings(stack, stack.mysql, folder, names=BOTH, database=database)
    for one in wanted["destinations"].values():
        one["decoders"] = 0
    with Pair(wanted, folder) as pair:
        yield Shared(stack, folder, pair, database)


@pytest.mark.remedy("JournalUnreadable")
def test_records_that_cannot_be_read_stop_one_destination_and_are_written_again_as_printed(
    shared: Shared,
) -> None:
    leads, other = shared.at_work()
    shared.rows.add()
    shared.all_published()
    shared.kill(leads)
    bad = f"schema/shop/{shared.database}/shop/1".encode()
    shared.write((cursor_key("shop"), b"not json"), (bad, b"\xff\x00"))
    shared.rows.add()
    error = shared.wait(other, "shop", "FAILED", "JournalUnreadable")
    for part in ("offset=", "key=", f"partition={PARTITION}", "destination=shop"):
        assert part in error
    # Another that has its records in the same partition continues.
    shared.published("orders")
    assert shared.shown(other, "orders")["state"] == "RUNNING"
    printed = shared.does_as_printed(error)
    assert "key cursor/shop: rewritten as at offset" in printed[0]
    shared.wait(other, "shop", "RUNNING")
    shared.all_published()
    # Where all can be read, nobody is fenced.
    epoch = shared.shown(other)["cursor"]["epoch"]
    assert shared.does("journal", "repair", "shop", "--why", "again")[1].startswith("shop: all")
    shared.rows.add()
    shared.all_published()
    assert shared.shown(other)["cursor"]["epoch"] == epoch


@pytest.mark.remedy("TransactionOpen")
def test_a_strangers_open_transaction_is_named_and_ended_as_printed(shared: Shared) -> None:
    leads, other = shared.at_work()

    async def left_open() -> None:
        producer = TransactionalProducer(
            FOREIGN, options=shared.options, compression=None, timeout_factor=40
        )
        await producer.init_transactions()
        assert producer._kafka is not None
        await producer._kafka.begin_transaction()
        sent = await producer._kafka.send(
            journal_topic(shared.prefix), key=b"k", value=b"v", partition=PARTITION
        )
        await sent
        await producer.discard()

    asyncio.run(left_open())
    shared.kill(leads)
    shared.rows.add()
    error = shared.wait(other, "shop", "RETRYING", "TransactionOpen")
    assert FOREIGN in error
    # What leads needs not read the journal.
    shared.published("orders")
    code, result = shared.does("destination", "pause", "orders")
    assert (code, "TransactionOpen" in result, FOREIGN in result) == (1, True, True), result
    code, result = shared.does("journal", "abort", "shop")
    assert (code, FOREIGN in result) == (1, True), result
    assert _COMMAND.findall(result) == _COMMAND.findall(error)
    printed = shared.does_as_printed(error)
    assert printed == [f"shop: the transaction of {FOREIGN!r} is aborted\n"]
    shared.wait(other, "shop", "RUNNING")
    shared.all_published()
    assert shared.does("journal", "abort", "shop")[0] == 0


def test_changelogs_that_are_deleted_under_two_workers_are_filled_again(shared: Shared) -> None:
    leads, other = shared.at_work()
    names = shared.ask(lambda admin: admin.list_topics())
    found = [name for name in names if name.startswith(shared.prefix) and "changelog" in name]
    assert found
    survivor = shared.pair.workers[other]
    shared.ask(lambda admin: admin.delete_topics(found))
    shared.rows.add()
    shared.kill(leads)
    # The other ends once Faust finds out, and says what that means; whatever starts workers again does so.
    shared.at_work()
    shared.rows.add()
    shared.all_published()
    if survivor.process.poll() is not None:
        assert "Nothing is lost. The worker ends; once it is started again" in survivor.log
    assert not any("rocksdb" in log.read_text().lower() for log in shared.folder.glob("*.log"))
    shared.pair.until(lambda: set(found) <= set(shared.ask(lambda admin: admin.list_topics())))


@pytest.mark.remedy("BatchTooLarge")
def test_a_smaller_limit_of_a_row_topic_makes_smaller_batches_and_a_larger_one_larger_again(
    shared: Shared,
) -> None:
    leads, _ = shared.at_work()
    worker, mysql = shared.pair.workers[leads], shared.stack.mysql
    topic = Routes(prefix=shared.prefix).topic((shared.database, "shop"))
    shared.limit(topic, _SMALL)
    for _ in range(10):
        shared.rows.add(1500)
    shared.pair.until(lambda: "BatchTooLarge" in worker.log)
    shared.all_published()
    assert re.search(rf"BatchTooLarge: .*\d+ record\(s\) .* takes {_SMALL} ", worker.log)
    # The table of one that is too large by itself waits until the topic takes it; no destination stops.
    run(mysql, f"ALTER TABLE {shared.database}.shop ADD COLUMN t longtext")
    text = random.Random(1).randbytes(2 * _SMALL).hex()
    run(mysql, f"INSERT INTO {shared.database}.shop VALUES ({shared.rows.count}, 1, '{text}')")
    shared.rows.count += 1
    (waiting,) = shared.pair.until(
        lambda: shared.shown(leads, "shop").get("set_aside") or None, seconds=90
    )
    error = waiting["why"]
    assert error.startswith("RecordTooLarge")
    for part in (str(_SMALL), f"table={shared.database}.shop", "max.message.bytes", "gtid="):
        assert part in error
    shared.limit(topic, 10 * 1024 * 1024)
    shared.published("shop")
