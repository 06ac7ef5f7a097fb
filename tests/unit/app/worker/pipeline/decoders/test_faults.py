"""Decoder faults: each is raised once, by name, at its position, and nothing hangs or leaks."""

import errno
import itertools
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.pipeline.decoders.fork_client import FORK_SERVER
from app.worker.pipeline.decoders.pool import Limits, Pool
from connectors.errors import (
    AqueductError,
    CorruptEvent,
    DecoderLost,
    DecoderStalled,
    MalformedEvent,
)
from tests.unit.app.worker.pipeline.decoders.runs import (
    Outlet,
    all_ready,
    decoders,
    is_alive,
    run,
    wait_until,
)
from tests.unit.app.worker.pipeline.decoders.stages import Counting, ordered

PHASES = ["decode_fault", "number_fault", "encode_fault"]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("fault", "says"), [("kill", "SIGKILL"), ("segfault", "SIGSEGV"), ("exit", "status 3")]
)
def test_a_decoder_that_dies_is_reported(phase: str, fault: str, says: str) -> None:
    orders: list[dict[str, Any]] = [{}, {}, {}, {phase: fault}, {}, {}]
    outlet = run(2, [ordered(n, **order) for n, order in enumerate(orders)])
    assert [piece.first for piece in outlet.pieces] == list(range(1, len(outlet.pieces) + 1))
    assert len(outlet.pieces) <= 3
    assert isinstance(outlet.error, DecoderLost)
    assert says in str(outlet.error)
    assert outlet.error.context["decoder"] in ("shop decoder 1/2", "shop decoder 2/2")


def test_a_decoder_that_dies_as_it_sends_is_reported() -> None:
    outlet = run(1, [ordered(0), ordered(1, size=500_000, send_fault=True), ordered(2)])
    assert [piece.first for piece in outlet.pieces] == [1]
    assert isinstance(outlet.error, DecoderLost)


@pytest.mark.parametrize("which", [0, 1])
def test_a_decoder_that_is_killed_while_another_holds_all_up_is_reported(
    tmp_path: Path, which: int
) -> None:
    outlet, mark = Outlet(), tmp_path / "decoded"
    with decoders(2, outlet) as running:
        assert isinstance(running, Pool)
        all_ready(running)
        assert running.put(ordered(0, decode_fault="hang"))
        assert running.put(ordered(1, mark=str(mark)))
        # One is busy forever, the other has decoded and waits for the state.
        wait_until(mark.exists)
        os.kill(running.pids[which], signal.SIGKILL)
        assert isinstance(outlet.error, DecoderLost)
        assert outlet.error.context["pid"] == running.pids[which]
        assert not running.put(ordered(2))
        wait_until(lambda: not any(is_alive(pid) for pid in running.pids))


@pytest.mark.parametrize("which", [0, 1])
def test_a_decoder_that_is_frozen_is_ended_once_it_is_its_turn(which: int) -> None:
    outlet = Outlet()
    with decoders(2, outlet, limits=Limits(stall_seconds=0.6)) as running:
        assert isinstance(running, Pool)
        all_ready(running)
        os.kill(running.pids[which], signal.SIGSTOP)
        # The other one may be free again before each of the first portions.
        for number in itertools.count():
            if outlet.ended.is_set() or not running.put(ordered(number)):
                break
        assert isinstance(outlet.error, DecoderStalled)
        assert outlet.error.context["pid"] == running.pids[which]
        assert [piece.first for piece in outlet.pieces] == list(range(1, len(outlet.pieces) + 1))
        wait_until(lambda: not any(is_alive(pid) for pid in running.pids))


@pytest.mark.parametrize("reports", [False, True])
def test_one_that_waits_for_another_program_is_left_alone_as_long_as_it_reports_progress(
    *, reports: bool
) -> None:
    outlet = Outlet()
    with decoders(1, outlet, limits=Limits(stall_seconds=2.0)) as running:
        assert running.put(ordered(0, waits=30, wait=0.2, reports=reports))
        wait_until(lambda: bool(outlet.pieces) or outlet.ended.is_set())
        assert len(outlet.pieces) == reports
        if not reports:
            assert isinstance(outlet.error, DecoderStalled)


def test_a_decoder_that_is_frozen_without_work_is_left_alone() -> None:
    outlet = Outlet()
    with decoders(2, outlet, limits=Limits(stall_seconds=0.3)) as running:
        assert isinstance(running, Pool)
        all_ready(running)
        assert running.put(ordered(0))
        wait_until(lambda: len(outlet.pieces) == 1)
        outlet.open.clear()
        assert running.put(ordered(1))
        # Its piece waits for who takes it, which is no fault of a decoder.
        wait_until(lambda: running._next_to_work() is None)
        looks = _Looks(running)
        wait_until(lambda: looks.count > 40)
        assert outlet.errors == []


class _Looks:
    """The number of times that no decoder had work."""

    def __init__(self, pool: Pool) -> None:
        self.count = 0
        whole = pool._watch.rest

        def rest() -> None:
            self.count += 1
            whole()

        pool._watch = cast(Any, SimpleNamespace(rest=rest, stalled=pool._watch.stalled))


def test_a_decoder_that_dies_while_put_waits_for_room_is_reported() -> None:
    outlet = Outlet()
    with decoders(1, outlet, limits=Limits(portions=1)) as running:
        assert isinstance(running, Pool)
        assert running.put(ordered(0, decode_fault="hang"))
        threading.Timer(0.1, os.kill, (running.pids[0], signal.SIGKILL)).start()
        assert not running.put(ordered(1))
        assert isinstance(outlet.error, DecoderLost)


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("phase", PHASES)
def test_the_error_of_a_stage_comes_after_the_pieces_before(phase: str, count: int) -> None:
    orders: list[dict[str, Any]] = [{"decode": 0.05}, {}, {phase: "named"}, {}, {}]
    outlet = run(count, [ordered(n, **order) for n, order in enumerate(orders)])
    assert [piece.first for piece in outlet.pieces] == [1, 2]
    assert type(outlet.error) is CorruptEvent
    assert str(outlet.error) == (
        "A binlog event is damaged: as ordered [coordinates=b.000001:4]. Order less."
    )


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("phase", PHASES)
def test_any_other_exception_gets_a_name_and_its_traceback_is_for_debugging(
    phase: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="app.worker.pipeline.decoders"):
        order: dict[str, Any] = {phase: "raise"}
        outlet = run(count, [ordered(0), ordered(1, **order)])
    assert len(outlet.pieces) == 1
    assert type(outlet.error) is MalformedEvent
    assert "ValueError: as ordered [chunk=b.000001:1]" in str(outlet.error)
    assert "Traceback" in caplog.text
    assert all(one.levelno == logging.DEBUG for one in caplog.records)


@pytest.mark.parametrize("count", [0, 2])
def test_a_stage_out_of_memory_is_tried_again(count: int) -> None:
    outlet = run(count, [ordered(0, decode_fault="memory")])
    assert type(outlet.error) is DecoderLost
    assert "out of memory" in str(outlet.error)


def test_an_error_that_says_of_where_what_cannot_be_sent_is_still_the_same_error() -> None:
    error = run(1, [ordered(0, decode_fault="odd")]).error
    assert type(error) is CorruptEvent
    assert "<lambda>" in str(error)


def test_a_piece_that_cannot_be_sent_is_reported() -> None:
    outlet = run(1, [ordered(0), ordered(1, unsendable=True)])
    assert len(outlet.pieces) == 1
    assert type(outlet.error) is MalformedEvent


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        ("raise", DecoderLost, "it could not start: ValueError: as ordered"),
        ("named", CorruptEvent, "as ordered"),
        ("exit", DecoderLost, "status 3"),
    ],
)
def test_a_stage_that_cannot_be_made_is_reported(
    fault: str, error: type[AqueductError], says: str
) -> None:
    outlet = Outlet()
    with decoders(2, outlet, spec=Counting(start_fault=fault)) as running:
        assert not running.put(ordered(0))
        assert type(outlet.error) is error
        assert says in str(outlet.error)


def test_a_system_without_a_process_to_give_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    FORK_SERVER.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    before = threading.active_count()
    with pytest.raises(DecoderLost, match="no process could be started"), decoders(2, Outlet()):
        pass
    assert threading.active_count() == before


def test_what_a_decoder_prints_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    run(1, [ordered(0, decode_fault="say")])
    assert "shop decoder 1/1: something unheard of" in caplog.text


def test_signals_to_the_whole_group_leave_decoders_at_work() -> None:
    outlet = Outlet()
    with decoders(2, outlet) as running:
        assert isinstance(running, Pool)
        for number in range(50):
            for pid in running.pids:
                os.kill(pid, signal.SIGINT)
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGHUP)
            assert running.put(ordered(number))
        wait_until(lambda: len(outlet.pieces) == 50)
    assert outlet.errors == []


@pytest.mark.parametrize("call", ["socketpair", "pipe"])
def test_without_files_to_give_it_is_reported_and_none_is_left_open(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr({"socketpair": socket, "pipe": os}[call], call, none_left)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(DecoderLost, match="Too many open files"), decoders(2, Outlet()):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
