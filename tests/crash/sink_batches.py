"""The sink, killed before and after each write: nothing is lost or repeated (`make crash SUITE=sink`)."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from devstack import Stack
from spark_sink.jobs.stream import Sink
from spark_sink.metrics import Metrics
from spark_sink.settings.model import Settings
from tests.crash.sink_scene import TIMEOUT, SinkScene, sinking
from tests.crash.sink_steps import STEPS, most
from tests.harness import wait
from tests.harness.servers import own_stack
from tests.unit.spark_sink.conftest import spark as spark

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
ONLY = os.environ.get("ONLY") or ""
ROWS = ("insert", "insert", "update", "update", "move", "partial", "delete", "truncate")
"""Kinds of changes that no running reload is refused for."""


def chosen(*names: str) -> list[str]:
    """Those that ONLY names, or all."""
    return [name for name in names if ONLY in name]


def part(name: str) -> pytest.MarkDecorator:
    """The mark of a test that ONLY may leave out."""
    return pytest.mark.skipif(not chosen(name), reason=f"ONLY={ONLY}")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A broker of these tests' own."""
    with own_stack(tmp_path_factory.mktemp("kafka"), ["kafka"]) as running:
        yield running


@pytest.fixture
async def scene(
    request: pytest.FixtureRequest, kafka: Stack, spark: SparkSession, tmp_path: Path
) -> SinkScene:
    """A source whose first changes are in Kafka."""
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    prefix = "".join(filter(str.isalnum, request.node.name))[-40:]
    made = SinkScene(tmp_path, kafka.kafka, spark, prefix=prefix, seed=seed)
    await made.begin()
    await made.play()
    return made


@pytest.mark.parametrize("named", sorted({step.partition(".")[0] for step in chosen(*STEPS)}))
async def test_a_kill_before_or_after_any_write_loses_and_repeats_nothing(
    scene: SinkScene, named: str
) -> None:
    steps = [step for step in chosen(*STEPS) if step.startswith(f"{named}.")]
    is_reload = named == "reload"
    # Storing recent changes takes processors from what is killed here.
    scene.settings["fresh"] = named in {"recent", "batch"}
    if is_reload:
        scene.apply()
    writes = dict.fromkeys(step.rpartition(".")[0] for step in steps)
    for write in [*writes] * int(os.environ.get("ROUNDS") or 1):
        # The second sink dies while it repairs what the first has left.
        for step in (step for step in steps if step.startswith(f"{write}.")):
            if is_reload:
                scene.ask_for_reload()
            nth = scene.random.randint(1, most(step))
            await scene.killed(step, nth, *(ROWS if is_reload else ()))
        scene.apply()
        await scene.check(write)


def emptied(folder: str) -> Callable[[Path], None]:
    """Makes the newest file of a folder, or the file itself, empty: as a power loss may leave it."""

    def empty(checkpoint: Path) -> None:
        path = checkpoint / folder
        if path.is_dir():
            names = [one for one in path.iterdir() if one.name.isdigit()]
            path = max(names, key=lambda one: int(one.name))
        assert path.stat().st_size
        path.write_bytes(b"")

    return empty


DAMAGES: dict[str, Callable[[Path], None]] = {
    "checkpoint.lost": shutil.rmtree,
    "checkpoint.offsets": emptied("offsets"),
    "checkpoint.commits": emptied("commits"),
    "checkpoint.metadata": emptied("metadata"),
    "checkpoint.sources": emptied("sources/0/0"),
    "checkpoint.origin": emptied("__origin.json"),
}


@pytest.mark.skipif(not chosen(*DAMAGES), reason=f"ONLY={ONLY}")
async def test_a_checkpoint_that_is_lost_or_empty_in_part_is_replaced_by_the_ledger(
    scene: SinkScene,
) -> None:
    scene.apply()
    for name in chosen(*DAMAGES):
        await scene.play()
        DAMAGES[name](scene.checkpoint)
        scene.apply()
        await scene.check(name)


@part("replay")
async def test_records_that_come_again_as_after_a_failover_change_nothing(scene: SinkScene) -> None:
    for number in range(6):
        scene.source.play()
        scene.source.play(*ROWS)
        scene.source.replay(failover=number % 2 == 1)
        await scene.write(scene.source.take())
        scene.apply()
        await scene.check(f"replay {number}")


@part("compaction")
async def test_compaction_beside_the_batches_loses_and_repeats_nothing(scene: SinkScene) -> None:
    plan = {"every": 1, "retention_hours": 0.01, "purge_deleted_hours": 1}
    settings = Settings(**{**scene.settings, "maintenance": plan})
    stop, failed = threading.Event(), []

    def run() -> None:
        try:
            Sink(scene.spark, settings, Metrics()).run(stop)
        except Exception as fault:
            failed.append(fault)

    sink = threading.Thread(target=run)
    sink.start()
    try:
        for _ in range(3):
            scene.source.play()
            for records in scene.source.take():
                await scene.write([records])
                await asyncio.sleep(1)
    finally:
        stop.set()
        sink.join()
    assert failed == []
    scene.apply()
    await scene.check("compaction")


@part("storm")
async def test_an_alter_every_few_rows_loses_and_repeats_nothing(scene: SinkScene) -> None:
    for number in range(3):
        for _ in range(15):
            scene.source.play("insert", "update", "insert")
            scene.source.play(
                scene.random.choice(("add_column", "drop_column", "rename_column", "widen_column"))
            )
        await scene.write(scene.source.take())
        scene.apply()
        await scene.check(f"storm {number}")


STOPS = ("table.merge.before", "table.merge.after", "batch.log.before", "recent.add.before")


@part("stop")
async def test_a_stop_within_a_batch_is_orderly_and_leaves_it_to_the_next_start(
    scene: SinkScene,
) -> None:
    for step in STOPS:
        # Longer than the batch in hand is given to finish.
        code = await scene.ended(step, 9.0, 1, "stop")
        assert code == 0, scene.log()
        assert "Traceback" not in scene.log()
        scene.apply()
        await scene.check(f"stop {step}")


@part("outage")
async def test_a_broker_that_is_away_during_batches_costs_a_restart_at_most(
    scene: SinkScene, kafka: Stack
) -> None:
    scene.config.write_text(yaml.safe_dump(scene.settings))
    ended = []
    for end in (kafka.kafka_server.kill, kafka.kafka_server.stop):
        with sinking(scene.config, "none", 0) as sink:

            async def until(line: str) -> None:
                """Waits for one more such line of the log, or for the end of the sink."""
                before = scene.lines(line)

                async def is_there() -> bool:
                    return sink.poll() is not None or scene.lines(line) > before

                await wait.until_async(is_there, seconds=TIMEOUT, glance=0.2, late=scene.log)

            await scene.play()
            await until(" batch started ")
            end()
            await until("KafkaUnreachable")
            kafka.kafka_server.start()
            await scene.play()
            await until(" batch applied ")
            ended.append(sink.poll())
        scene.apply()
        await scene.check("outage")
    assert set(ended) <= {None, 1}
    assert scene.lines("Traceback") == 0
    assert scene.lines("KafkaUnreachable") >= len(ended)
