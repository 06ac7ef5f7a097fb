"""Decoders are copies of one process: quickly made, and made anew where that is lost."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from app.decoding.pool import Pool
from app.decoding.spawning import NURSERY
from tests.unit.app.decoding.runs import Outlet, all_ready, decoders, is_alive, run, wait_until
from tests.unit.app.decoding.stages import Made, ordered


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def numbers(outlet: Outlet) -> list[int]:
    pieces: list[Made] = outlet.pieces
    return [piece.first for piece in pieces]


def test_a_decoder_is_there_long_before_a_new_python_would_be() -> None:
    began = time.process_time(), time.monotonic()
    with decoders(4, Outlet()) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        assert len({parent_of(pid) for pid in pool.pids}) == 1
        born = sum(
            float(field) / os.sysconf("SC_CLK_TCK")
            for pid in pool.pids
            for field in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        )
    # A new Python needs 0.4 s of a processor for its imports; each.
    assert born + time.process_time() - began[0] < 0.8, time.monotonic() - began[1]


def test_decoders_outlive_what_they_are_copies_of_and_the_next_are_copies_of_another() -> None:
    outlet = Outlet()
    with decoders(2, outlet) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        first = parent_of(pool.pids[0])
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not is_alive(first))
        for number in range(3):
            assert pool.put(ordered(number))
        wait_until(lambda: len(outlet.pieces) == 3)
        with decoders(1, Outlet()) as other:
            assert isinstance(other, Pool)
            all_ready(other)
            assert parent_of(other.pids[0]) != first
    wait_until(lambda: not any(is_alive(pid) for pid in pool.pids))


def test_a_decoder_ends_with_its_pool_though_who_could_kill_it_is_gone() -> None:
    outlet = Outlet()
    with decoders(2, outlet) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        assert pool.put(ordered(0, decode_fault="hang"))
        os.kill(parent_of(pool.pids[0]), signal.SIGKILL)
        pool.close()
    wait_until(lambda: not any(is_alive(pid) for pid in pool.pids))
    assert numbers(run(1, [ordered(0), ordered(1)])) == [1, 2]


def test_nothing_of_a_decoder_is_left_in_what_it_is_a_copy_of() -> None:
    run(1, [ordered(0)])
    with decoders(1, Outlet()) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        parent = parent_of(pool.pids[0])
        held = len(list(Path(f"/proc/{parent}/fd").iterdir()))
    for _ in range(5):
        run(2, [ordered(0), ordered(1)])
    assert len(list(Path(f"/proc/{parent}/fd").iterdir())) == held
    assert not Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    NURSERY.ready()
