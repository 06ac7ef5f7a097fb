"""Two sinks that fill one warehouse from one Kafka, as processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from devstack import Stack
from tests.integration.spark_sink.test_sink import COLUMNS, TIMEOUT, Installation, insert, until
from tests.unit.spark_sink.conftest import FORMAT
from tests.unit.spark_sink.history import schema

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.skipif(
        FORMAT != "delta", reason="test_iceberg.py has two, with a catalog for both"
    ),
]


def tables(at: Installation) -> dict[str, tuple[str, int, int]]:
    """The state of each table, and its rows and markers."""
    listed = at.run("tables", "--json", "--count")
    assert listed.returncode == 0, listed.stderr
    found = json.loads(listed.stdout)
    return {one["table"]: (one["state"], one["live"], one["deleted"]) for one in found}


@pytest.mark.remedy("sink.CheckpointShared")
@pytest.mark.long("unit/spark_sink/jobs/test_presence.py has the rules without processes")
async def test_each_sink_applies_its_topics_and_answers_its_requests(
    stack: Stack, tmp_path: Path
) -> None:
    one = Installation(tmp_path, stack.kafka, prefix="sinktwo")
    (tmp_path / "two").mkdir()
    two = Installation(tmp_path / "two", stack.kafka, prefix="sinktwo")
    mine, theirs = one.topic("t"), one.topic("late")
    one.config.write_text(f"{one.config.read_text()}on_rename: keep\non_drop: keep\n")
    shared = one.config.read_text()
    settings = two.config.read_text().replace(f"{tmp_path}/two/wh", f"{tmp_path}/wh")
    settings = f"{settings}on_rename: keep\non_drop: keep\n"
    one.config.write_text(f"{shared}include: {mine}\n")
    await one.make_topics(f"{one.prefix}.__schemas", mine, theirs)
    await one.write(schema(*COLUMNS), schema(*COLUMNS, table="late"))
    await one.write(insert(1, "kept"), insert(2, "late", "late"))
    with one.running() as first:
        until(lambda: one.applied("t") >= 1, first)
        # Without a name it would remove the other's checkpoint, as that has topics which are excluded here.
        two.config.write_text(f"{settings}include: {theirs}\nfresh: false\n")
        refused = two.run()
        assert refused.returncode == 1
        assert "CheckpointShared" in refused.stderr
        two.config.write_text(f"{settings}name: two\ninclude: {theirs}\nfresh: false\n")
        with two.running() as second:
            until(lambda: two.applied("late") >= 1, second)
            await one.write(insert(3, "kept"), insert(4, "late", "late"))
            until(lambda: one.applied("t") >= 3, first)
            until(lambda: two.applied("late") >= 3, second)
            rebuilt = two.run("rebuild", "shop.late")
            assert rebuilt.returncode == 0, rebuilt.stderr
            maintained = two.run("maintain", "shop.late", "shop.t")
            assert maintained.stdout == "shop.late: maintained\nshop.t: maintained\n"
            assert maintained.returncode == 0, maintained.stderr
            assert "waiting for the sink" in maintained.stderr
            for process in (first, second):
                os.killpg(process.pid, signal.SIGTERM)
            outputs = [process.communicate(timeout=TIMEOUT)[0] for process in (first, second)]
            assert [first.returncode, second.returncode] == [0, 0], outputs
            assert not any("Traceback" in output for output in outputs)
    assert tables(one) == {"t": ("ok", 2, 0), "late": ("ok", 2, 0)}
    here = one.run("maintain", "shop.t", "shop.gone")
    assert here.returncode == 1
    assert "no sink runs" in here.stderr
    assert "shop.t: maintained\n" in here.stdout
    assert "MaintenanceIncomplete: Not all tables were maintained: 1 of 2" in here.stderr
