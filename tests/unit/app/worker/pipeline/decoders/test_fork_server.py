"""Decoders are forked from the fork server: quickly started, and restarted if it is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.worker.pipeline.decoders import fork_client
from app.worker.pipeline.decoders.fork_client import FORK_SERVER
from app.worker.pipeline.decoders.pool import DecoderProcess, Pool
from connectors.errors import DecoderLost
from tests.unit.app.worker.pipeline.decoders.runs import (
    Outlet,
    all_ready,
    decoders,
    is_alive,
    run,
    wait_until,
)
from tests.unit.app.worker.pipeline.decoders.stages import Made, ordered


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
    FORK_SERVER.ready()


def maker() -> int:
    assert FORK_SERVER._current is not None
    return FORK_SERVER._current.pid


@contextmanager
def stuck(seconds: float) -> Iterator[None]:
    """The fork server is stopped, and the wait for it is limited."""
    assert FORK_SERVER._current is not None
    FORK_SERVER._current._socket.settimeout(seconds)
    os.kill(maker(), signal.SIGSTOP)
    yield


def test_a_hangup_of_the_whole_group_leaves_it_there() -> None:
    os.kill(maker(), signal.SIGHUP)
    first = maker()
    run(1, [ordered(0)])
    assert maker() == first
    assert is_alive(first)


def test_no_socket_is_given_to_two_where_it_is_not_known_whether_the_first_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    whole = fork_client._ForkServerProcess.answer

    def silent(self: fork_client._ForkServerProcess) -> str:
        answer = whole(self)
        if not answer.startswith("pid"):
            return answer
        made.append(int(answer.partition(" ")[2]))
        raise TimeoutError("timed out")

    first = maker()
    monkeypatch.setattr(fork_client._ForkServerProcess, "answer", silent)
    with pytest.raises(DecoderLost, match="timed out"):
        DecoderProcess("shop decoder 1/1")
    assert len(made) == 1
    wait_until(lambda: not is_alive(made[0]) and not is_alive(first))
    monkeypatch.undo()
    assert numbers(run(1, [ordered(0)])) == [1]


def test_decoders_end_at_once_while_the_process_they_were_forked_from_is_stopped() -> None:
    with decoders(2, Outlet()) as pool:
        assert isinstance(pool, Pool)
        all_ready(pool)
        with stuck(3.0):
            waiting = threading.Thread(target=_born_in_vain, daemon=True)
            waiting.start()
            wait_until(FORK_SERVER._lock.locked)
            began = time.monotonic()
            for decoder in pool._decoders:
                decoder.process.kill()
            assert time.monotonic() - began < 0.5
            # It is a child of a stopped process: it stays, but does nothing any more.
            wait_until(lambda: not any(is_alive(pid) for pid in pool.pids))
            assert waiting.is_alive()
        FORK_SERVER.close()
        waiting.join(1.0)
        assert not waiting.is_alive()


def _born_in_vain() -> None:
    with pytest.raises(DecoderLost):
        DecoderProcess("shop decoder 1/1")


def test_who_has_ended_is_not_killed_again_as_its_number_may_be_anothers() -> None:
    first, second = DecoderProcess("shop decoder 1/2"), DecoderProcess("shop decoder 2/2")
    try:
        first.kill()
        first.wait()
        wait_until(lambda: not is_alive(first.pid))
        first._copy.pid = second.pid
        first.kill()
        first.wait()
        assert is_alive(second.pid)
        # Nor by one that has ended unseen, of another maker.
        first._copy._is_over = False
        first._copy._maker = object()  # type: ignore[assignment]
        first.kill()
        assert is_alive(second.pid)
    finally:
        for each in (first, second):
            each.kill()
            each.wait()
            each.connection.close()


def test_one_that_is_frozen_when_a_decoder_is_needed_is_given_up_after_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FORK_SERVER.close()
    monkeypatch.setattr(fork_client, "_ANSWER_SECONDS", 0.3)
    # So that waiting for a start instead is seen to hang.
    monkeypatch.setattr(fork_client, "_START_SECONDS", 3600.0)
    run(1, [ordered(0)])
    frozen = maker()
    os.kill(frozen, signal.SIGSTOP)
    try:
        with pytest.raises(DecoderLost, match="no process could be started: timed out"):
            DecoderProcess("shop decoder 1/1")
        wait_until(lambda: not is_alive(frozen))
        assert numbers(run(1, [ordered(0), ordered(1)])) == [1, 2]
        assert maker() != frozen
    finally:
        FORK_SERVER.close()


def test_the_limit_of_an_answer_is_the_one_that_the_documents_name() -> None:
    FORK_SERVER.ready()
    assert FORK_SERVER._current is not None
    assert FORK_SERVER._current._socket.gettimeout() == fork_client._ANSWER_SECONDS == 10.0
