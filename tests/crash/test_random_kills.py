"""The worker is killed at moments nobody chose, and what a consumer reads shows nothing of it."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from devstack import Stack
from tests.crash.harness import examine, scene

KILLS = 10
SEED = int(os.environ.get("AQUEDUCT_TEST_SEED", "") or random.SystemRandom().randrange(10**6))


def test_ten_kills_under_load_lose_repeat_and_reorder_nothing(stack: Stack, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with scene(stack, tmp_path, prefix="kills", rows=12_000, seconds=45) as at:
        at.wait_running()
        at.load.start()
        for n in range(KILLS):
            # Every other time from steady work, else wherever the worker then is, a start included.
            if n % 2 == 0:
                at.wait_running()
            time.sleep(rng.uniform(0.1, 4.0))
            if n == KILLS // 2:
                at.load.alter()
            if n == KILLS - 2:
                at.load.bulk(3000)
            at.kill_worker()
        while at.load.running:
            time.sleep(0.2)
        at.wait_published()
        proof = examine(at)
    assert proof.faults() == {}, f"seed {SEED}"
    assert proof.changes >= 12_000
    assert at.worker.restarts == KILLS


@pytest.mark.parametrize("fault", ["lost", "repeated", "seq", "disordered"])
def test_the_checker_notices_a_planted_fault(fault: str) -> None:
    from tests.crash.planted import planted

    assert fault in planted(fault).faults()
    assert planted("none").faults() == {}
