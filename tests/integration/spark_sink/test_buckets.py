"""The sink on S3: warehouse, checkpoint and claim checks in buckets of a real server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import Stack, jars, java
from devstack.processes import Children
from tests.integration.spark_sink.test_sink import (
    Installation,
    descendants,
    insert,
    until,
    until_ended,
)
from tests.s3 import CREDENTIALS, S3Server, s3_server
from tests.unit.spark_sink.conftest import FORMAT
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.long(
        "unit/spark_sink/spark/test_bucket_advice.py has the errors, test_presence.py who may write"
    ),
]
COLUMNS = (("id", "int"), ("v", "longtext"))
LARGE = "x" * 50_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    owner = Children()
    try:
        jars.fetch(["s3"], java.find_or_install(owner), owner=owner)
    finally:
        owner.close()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server(tmp_path_factory.mktemp("s3")) as running:
            running.make("lake")
            running.make("claims")
            yield running


class Bucketed(Installation):
    """A sink whose warehouse is in a bucket."""

    def __init__(
        self,
        folder: Path,
        kafka: str,
        server: S3Server,
        prefix: str,
        *,
        bucket: str = "lake",
        endpoint: str = "",
    ) -> None:
        super().__init__(folder, kafka, prefix)
        self.warehouse = f"s3a://{bucket}/{prefix}"
        self.config.write_text(
            f"prefix: {prefix}\nbootstrap_servers: {kafka}\nwarehouse: {self.warehouse}\n"
            f"metrics: {{port: {self.port}}}\nlog: {{file: {folder}/details.log}}\nmerge_interval: 1\n"
            f"format: {FORMAT}\n"
            "spark_options:\n"
            f"  spark.hadoop.fs.s3a.endpoint: {endpoint or server.endpoint}\n"
            "  spark.hadoop.fs.s3a.path.style.access: 'true'\n"
            "  spark.hadoop.fs.s3a.connection.expect.continue: 'false'\n"
        )


def claimed(server: S3Server, change: Change) -> Change:
    """A change whose images are in the bucket of claims, as a worker publishes it."""
    value = json.dumps({"before": change.before, "after": change.after}).encode()
    digest = hashlib.sha256(value).hexdigest()
    key = f"aq.shop.t/2026-11-21/{digest}.json"
    server.client().put_object(Bucket="claims", Key=key, Body=value)
    described = {"location": f"s3://claims/{key}", "size": len(value), "sha256": digest}
    return Change(op=change.op, seq=change.seq, more={"claim_check": described})


async def test_rows_arrive_in_a_bucket_though_the_sink_is_killed_within_a_batch(
    stack: Stack, server: S3Server, tmp_path: Path
) -> None:
    at = Bucketed(tmp_path, stack.kafka, server, "sinks3")
    await at.make_topics(f"{at.prefix}.__schemas", at.topic("t"))
    await at.write(schema(*COLUMNS), insert(1, "kept"))
    await at.write(claimed(server, Change(op="c", seq=2, after={"id": 2, "v": LARGE})))
    with at.running() as sink:
        until(lambda: at.applied("t") >= 4, sink)
        for seq in (3, 4):
            begun = at.batches()
            await at.write(insert(seq, "kept"))
            at.until_batch(begun, sink)
            await asyncio.sleep(1)
        processes = [sink.pid, *descendants(sink.pid)]
        os.killpg(sink.pid, signal.SIGKILL)
        sink.wait()
        until_ended(processes)
    again = at.run("--mode", "available-now")
    assert again.returncode == 0, again.stderr
    shown = at.run("show", "shop.t")
    assert shown.returncode == 0, shown.stderr
    rows = dict(re.findall(r"\|(\d+)\s*\|(\w+)\s*\|", shown.stdout))
    assert rows == {"1": "kept", "2": LARGE, "3": "kept", "4": "kept"}
    assert any(key.startswith("sinks3/__checkpoint/") for key in server.keys("lake"))


@pytest.mark.parametrize(
    ("fault", "symptom", "advice"),
    [
        ("bucket", "absent", "Create the bucket"),
        ("credentials", "403|Forbidden|InvalidAccessKeyId", "Check the credentials"),
        ("endpoint", "127.0.0.1:1", "Check spark.hadoop.fs.s3a.endpoint"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line_with_what_to_do(
    stack: Stack, server: S3Server, tmp_path: Path, fault: str, symptom: str, advice: str
) -> None:
    at = Bucketed(
        tmp_path,
        stack.kafka,
        server,
        "sinks3faults",
        bucket="absent" if fault == "bucket" else "lake",
        endpoint="http://127.0.0.1:1" if fault == "endpoint" else "",
    )
    if fault == "credentials":
        with server.asking_who_it_is():
            ended = at.run()
    else:
        ended = at.run()
    assert_one_line(ended, symptom, advice)


def assert_one_line(ended: subprocess.CompletedProcess[str], symptom: str, advice: str) -> None:
    assert ended.returncode == 1
    (line,) = (line for line in ended.stderr.splitlines() if "WarehouseUnusable" in line)
    assert re.search(symptom, line)
    assert advice in line
    assert "Traceback" not in ended.stderr


_REFUSALS = {
    "delta": (1, ("WarehouseShared", "log store for several writers")),
    "iceberg": (
        2,
        ("BadSettings", "an Iceberg catalog of type hadoop is not safe for", "set catalog"),
    ),
}


async def test_a_second_sink_is_refused_and_maintenance_goes_through_the_one_that_runs(
    stack: Stack, server: S3Server, tmp_path: Path
) -> None:
    (tmp_path / "two").mkdir()
    one = Bucketed(tmp_path, stack.kafka, server, "sinks3two")
    two = Bucketed(tmp_path / "two", stack.kafka, server, "sinks3two")
    mine, theirs = one.topic("t"), one.topic("late")
    await one.make_topics(f"{one.prefix}.__schemas", mine, theirs)
    await one.write(schema(*COLUMNS), insert(1, "kept"))
    one.config.write_text(
        f"{one.config.read_text()}include: {mine}\non_rename: keep\non_drop: keep\n"
    )
    two.config.write_text(
        f"{two.config.read_text()}name: two\ninclude: {theirs}\non_rename: keep\non_drop: keep\nfresh: false\n"
    )
    with one.running() as sink:
        until(lambda: one.applied("t") >= 1, sink)
        refused = two.run()
        code, parts = _REFUSALS[FORMAT]
        assert refused.returncode == code
        for part in parts:
            assert part in refused.stderr
        maintained = one.run("maintain")
        assert maintained.stdout == "shop.t: maintained\n"
        assert "waiting for the sink" in maintained.stderr
