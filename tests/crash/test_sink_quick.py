"""The sink on a real Kafka, ended at some of its writes, in one process; `make crash SUITE=sink` kills it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from devstack import Stack
from tests.crash.sink_batches import STOPS
from tests.crash.sink_scene import SinkScene
from tests.crash.sink_steps import STEPS as ALL
from tests.crash.sink_steps import installed
from tests.unit.spark_sink.conftest import spark

__all__ = ["spark"]
pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


STEPS = ("ddl.put.after", "table.merge.after")


class Killed(Exception):
    """In place of a kill."""


def killed() -> None:
    raise Killed("Killed")


@pytest.mark.long("test_sink.py repeats a batch; tests of each part end it at single writes")
async def test_a_batch_that_ends_at_any_write_is_applied_again(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    scene = SinkScene(tmp_path, stack.kafka, spark, prefix="sinkquick", seed=seed)
    scene.settings["max_offsets_per_trigger"] = 1000
    await scene.begin()
    await scene.play(*["insert"] * 12)
    scene.apply()
    await scene.play("swap", "truncate", "unusable", *["insert", "update", "move", "delete"] * 3)
    for step in STEPS:
        with installed(step, killed), pytest.raises(Exception, match="Killed"):
            scene.apply()
    (scene.checkpoint / "metadata").write_text("")
    scene.apply()
    await scene.check("the last")


def test_each_step_of_the_long_suite_is_one_that_the_sink_has() -> None:
    # Each is installed on the sink's own classes, so in a process of its own.
    script = (
        "from tests.crash import sink_killed, sink_steps\n"
        "for install in sink_killed.STEPS.values(): install(None)\n"
        "for step in sink_steps.STEPS: sink_steps.install(step, print)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert set(STOPS) <= set(ALL)
