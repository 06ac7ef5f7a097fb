"""Work in progress is bounded, idle decoders are detected, and closing ends all."""

import threading
import time
from pathlib import Path

import pytest

from app.worker.pipeline.decoders.pool import Limits, Pool
from connectors.errors import SourceLost
from tests.unit.app.worker.pipeline.decoders.runs import (
    DEADLINE,
    Outlet,
    all_ready,
    decoders,
    is_alive,
    wait_until,
)
from tests.unit.app.worker.pipeline.decoders.stages import ordered

SIZE = 100_000


def put_all(pool: Pool, count: int, *, most: list[tuple[int, int, int, int]]) -> None:
    """Put chunks; note what was under way after each: in all and of the fullest decoder."""
    for number in range(count):
        assert pool.put(ordered(number, size=SIZE, decode=0.001 * (number % 3)))
        with pool._lock:
            each = [dict(decoder.sizes) for decoder in pool._decoders]
            most.append(
                (
                    len(pool._pending),
                    pool._pending.bytes,
                    max(map(len, each)),
                    max(sum(sizes.values()) for sizes in each),
                )
            )


@pytest.mark.parametrize(
    ("limits", "index", "limit"),
    [
        (Limits(portions=3), 0, 3),
        (Limits(bytes=2 * SIZE), 1, 2 * SIZE + SIZE),
        (Limits(portions_each=1), 2, 1),
        (Limits(bytes_each=SIZE), 3, SIZE + SIZE),
    ],
)
def test_each_limit_holds(limits: Limits, index: int, limit: int) -> None:
    outlet = Outlet()
    outlet.open.clear()
    with decoders(2, outlet, limits=limits) as pool:
        assert isinstance(pool, Pool)
        most: list[tuple[int, int, int, int]] = []
        thread = threading.Thread(target=put_all, args=(pool, 60), kwargs={"most": most})
        thread.start()
        assert outlet.waiting.wait(DEADLINE)
        outlet.open.set()
        thread.join(DEADLINE)
        wait_until(lambda: len(outlet.pieces) == 60)
        wait_until(lambda: pool.under_way == (0, 0))
    seen = [one[index] for one in most]
    # A portion's order counts too.
    assert max(seen) <= limit + 400
    assert max(seen) > limit // 2


@pytest.mark.parametrize(
    ("limits", "each"),
    [
        (Limits(portions_each=1), 1),
        (Limits(portions_each=3), 3),
        (Limits(portions_each=9, bytes_each=SIZE), 1),
        (Limits(portions_each=9, bytes_each=SIZE + 1000), 2),
    ],
)
def test_a_busy_decoder_is_given_no_more_than_it_may_have(limits: Limits, each: int) -> None:
    with decoders(2, Outlet(), limits=limits) as pool:
        assert isinstance(pool, Pool)

        def put_on() -> None:
            while pool.put(ordered(0, size=SIZE, decode_fault="hang")):
                pass

        thread = threading.Thread(target=put_on)
        thread.start()
        wait_until(lambda: pool.under_way[0] == 2 * each)
        # Who would give more has the time to.
        time.sleep(0.1)
        assert [len(decoder.sizes) for decoder in pool._decoders] == [each, each]
        pool.close()
        thread.join(DEADLINE)


def test_pieces_that_nobody_takes_hold_the_reader_back() -> None:
    outlet = Outlet()
    outlet.open.clear()
    with decoders(2, outlet, limits=Limits(portions=5)) as pool:
        assert isinstance(pool, Pool)
        most: list[tuple[int, int, int, int]] = []
        thread = threading.Thread(target=put_all, args=(pool, 20), kwargs={"most": most})
        thread.start()
        wait_until(lambda: pool.under_way[0] == 5 and not any(w.sizes for w in pool._decoders))
        assert not pool.idle()
        assert len(most) in (4, 5)
        outlet.open.set()
        thread.join(DEADLINE)
        wait_until(lambda: len(outlet.pieces) == 20)


def test_a_chunk_larger_than_all_limits_goes_through_alone() -> None:
    outlet = Outlet()
    with decoders(2, outlet, limits=Limits(bytes=10, bytes_each=10)) as pool:
        for number in range(3):
            assert pool.put(ordered(number, size=5_000_000))
        wait_until(lambda: len(outlet.pieces) == 3)


def test_a_decoder_without_work_is_seen(tmp_path: Path) -> None:
    mark = tmp_path / "decoded"
    with decoders(2, Outlet()) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        assert pool.put(ordered(0, decode_fault="hang"))
        assert pool.idle()
        assert pool.put(ordered(1, mark=str(mark)))
        # It has decoded, and cannot continue before the first is done.
        wait_until(mark.exists)
        assert not pool.idle()


def test_what_is_kept_for_decoders_that_a_quiet_source_does_not_need_is_bounded() -> None:
    """It has one portion at a time, so that all decoders are idle."""
    outlet = Outlet()
    with decoders(3, outlet) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        for number in range(30):
            news = {"does": "s"} if number % 3 else {"tables": ["t"]}
            assert pool.put(ordered(number, **news))
            wait_until(lambda: pool.under_way == (0, 0))
            assert max(len(one.news) + len(one.learned) for one in pool._decoders) <= 4
        assert {piece.pid for piece in outlet.pieces} == set(pool.pids)
        # Nothing else is a reason to have the same tables in the memory of several.
        for number in range(10):
            assert pool.put(ordered(number))
            wait_until(lambda: pool.under_way == (0, 0))
    assert len({piece.pid for piece in outlet.pieces[-5:]}) == 1


def test_closing_ends_who_waits_and_leaves_no_process() -> None:
    outlet = Outlet()
    outlet.open.clear()
    answers: list[bool] = []
    with decoders(2, outlet, limits=Limits(portions=3)) as pool:
        assert isinstance(pool, Pool)

        def put_on() -> None:
            while pool.put(ordered(0)):
                pass
            answers.append(False)

        thread = threading.Thread(target=put_on)
        thread.start()
        # One thread is held by the outlet, the other by the pool.
        assert outlet.waiting.wait(DEADLINE)
        wait_until(lambda: pool.under_way[0] == 3)
        pool.close()
        thread.join(DEADLINE)
        assert answers == [False]
        assert not any(Path(f"/proc/{pid}").exists() for pid in pool.pids)
        pool.finish(SourceLost("too late"))
        assert not pool.put(ordered(0))
        assert not pool.idle()
    assert outlet.errors == []


@pytest.mark.parametrize("fault", ["", "hang", "spin"])
def test_closing_ends_decoders_at_once_whatever_they_do(fault: str) -> None:
    outlet, threads = Outlet(), threading.active_count()
    with decoders(3, outlet) as pool:
        assert isinstance(pool, Pool)
        if fault:
            for number in range(6):
                assert pool.put(ordered(number, decode_fault=fault))
        pool.close()
        assert not any(is_alive(pid) for pid in pool.pids)
        assert threading.active_count() == threads


def test_a_decoder_holds_one_socket_and_none_of_our_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AQUEDUCT_PLANTED", "secret")
    before = open_files()
    with decoders(3, Outlet()) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        for number, pid in enumerate(pool.pids, start=1):
            held = [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]
            assert len([one for one in held if one.startswith("socket:")]) == 1
            assert len(held) == 4
            assert b"AQUEDUCT_" not in Path(f"/proc/{pid}/environ").read_bytes()
            title = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            assert title[-2].rstrip() == f"shop decoder {number}/3".encode()
    assert open_files() == before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
