"""The worker's decoders: a lost one is reported and replaced, none outlives the worker, none is required."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import checks
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.wait import until
from tests.harness.worker import Worker, running, settings
from tests.integration.process.test_worker import insert, published

_ONE = pytest.mark.long("none and three are on either side")


def decoders_of(worker: Worker) -> list[int]:
    """The worker's decoder processes that are there now."""
    return [
        pid
        for pid in children_of(worker.process.pid)
        if b"app.worker.pipeline.decoders.child" in command(pid)
    ]


def all_decoders_of(worker: Worker, count: int) -> list[int]:
    """This many decoders. Linux may omit a child while a sibling exits (`man 5 proc`)."""
    until(
        lambda: len(decoders_of(worker)) == count,
        late=lambda: f"there are {decoders_of(worker)}, not {count} decoders",
    )
    return decoders_of(worker)


def children_of(pid: int) -> Iterator[int]:
    """Its children and theirs."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from children_of(child)


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.remedy("DecoderLost")
def test_a_decoder_that_is_killed_is_reported_by_name_and_its_work_done_again(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, decoders=2)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        first, second = all_decoders_of(worker, 2)
        for n in range(20):
            insert(mysql, n * 500, 500)
            if n == 10:
                os.kill(second, signal.SIGKILL)
        worker.wait(lambda status: status["rows"] == 10_000 and status["state"] == "RUNNING")
        assert "DecoderLost" in worker.log
        assert str(second) in worker.log
        assert "Traceback" not in worker.log
        metric_line = 'aqueduct_errors_total{destination="shop",error="DecoderLost"} 1.0'
        assert metric_line in worker.get("/metrics")
        assert {first, second}.isdisjoint(decoders_of(worker))
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}
    assert len(records) == 10_000 + 2


@pytest.mark.remedy("DecoderStalled")
@pytest.mark.long(
    "unit/app/worker/pipeline/decoders/test_faults.py freezes one, the test above kills one"
)
def test_a_decoder_that_is_frozen_is_ended_by_name_and_its_work_done_again(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    wanted = settings(stack, mysql, tmp_path, decoders=1)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        (frozen,) = all_decoders_of(worker, 1)
        os.kill(frozen, signal.SIGSTOP)
        insert(mysql, 0, 500)
        worker.wait(lambda status: status["rows"] == 500 and status["state"] == "RUNNING")
        assert "DecoderStalled" in worker.log
        assert f"pid={frozen}" in worker.log
        metric_line = 'aqueduct_errors_total{destination="shop",error="DecoderStalled"} 1.0'
        assert metric_line in worker.get("/metrics")
        assert frozen not in decoders_of(worker)
    assert len(published(stack, wanted["prefix"])) == 500 + 2


def test_no_decoder_outlives_a_worker_that_is_killed(
    stack: Stack, mysql: Mysql, tmp_path: Path
) -> None:
    with running(settings(stack, mysql, tmp_path, decoders=3), tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        decoders = all_decoders_of(worker, 3)
    until(
        lambda: not any(b"app.worker.pipeline.decoders.child" in command(pid) for pid in decoders)
    )


@pytest.mark.parametrize("decoders", [0, pytest.param(1, marks=_ONE), 3])
def test_any_number_of_decoders_publishes_the_same(
    stack: Stack, mysql: Mysql, tmp_path: Path, decoders: int
) -> None:
    wanted = settings(stack, mysql, tmp_path, decoders=decoders)
    for n in range(6):
        insert(mysql, n * 5000, 5000)
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["rows"] == 30_000)
        all_decoders_of(worker, decoders)
    records = published(stack, wanted["prefix"])
    assert checks.seq_faults(records) == []
    assert checks.duplicated(records) == {}
    assert len(records) == 30_000 + 2
