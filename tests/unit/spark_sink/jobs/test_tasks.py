"""Work beside the batches begins however closely they follow one another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import pytest

from spark_sink.errors import KafkaUnreachable
from spark_sink.jobs.stream import (
    BackgroundTasks,
    Work,
    quiet_ddl,
    requested_reloads,
    work_on_due_table,
)
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.waiting_tables import Request, Waits

NAME = ("shop", "t")
LONGEST = 30.0


class Sink:
    """The work's input, a request or a table that is due, and its outcome."""

    def __init__(self, *, requests: int = 0, due: bool = False) -> None:
        self.requests: list[Request] = []
        self.coming = [
            Request(number=str(number), database=NAME[0], table=NAME[1])
            for number in range(requests)
        ]
        self.is_due = due
        self.done: list[str] = []
        self.finished = threading.Event()
        self.fault: Exception | None = None

    def asks(self) -> bool:
        return bool(self.coming)

    def refresh(self) -> bool:
        self.requests = list(self.coming)
        return True

    def answer(self, *requests: Request) -> None:
        self._did(f"reload {', '.join(one.table for one in requests)}")

    def due(self) -> Name | None:
        return NAME if self.is_due else None

    def maintain(self, name: Name) -> None:
        self._did(f"maintain {name[1]}")

    def _did(self, what: str) -> None:
        self.done.append(what)
        self.coming.clear()
        self.is_due = False
        self.finished.set()
        if self.fault is not None:
            raise self.fault

    def beside(self, gate: threading.Lock) -> BackgroundTasks:
        return BackgroundTasks(
            due=(
                partial(requested_reloads, gate, cast(Waits, self), self.answer),
                partial(work_on_due_table, self.due, self.maintain),
            )
        )


@contextmanager
def batches(gate: threading.Lock) -> Iterator[None]:
    """Batches that follow one another, each for a tenth of a second, with a millisecond between."""
    over, begun = threading.Event(), threading.Event()

    def apply() -> None:
        while not over.is_set():
            with gate:
                begun.set()
                over.wait(0.1)
            over.wait(0.001)

    thread = threading.Thread(target=apply)
    thread.start()
    assert begun.wait(LONGEST)
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("sink", "done"),
    [(Sink(requests=1), ["reload t"]), (Sink(due=True), ["maintain t"])],
    ids=["reload", "maintenance"],
)
def test_it_begins_between_batches_that_follow_one_another(sink: Sink, done: list[str]) -> None:
    gate, stop = threading.Lock(), threading.Event()
    beside = sink.beside(gate)
    with batches(gate):
        for _ in range(5):
            beside.look(stop)
            if sink.finished.wait(0.05):
                break
    assert sink.done == done


def test_maintenance_begins_in_a_long_batch() -> None:
    gate, stop = threading.Lock(), threading.Event()
    sink = Sink(due=True)
    beside = sink.beside(gate)
    with gate:
        beside.look(stop)
        assert sink.finished.wait(LONGEST)
    assert sink.done == ["maintain t"]


def test_a_request_is_answered_after_a_long_batch_though_maintenance_is_always_due() -> None:
    """Else maintenance begins, waits for the gate until the batch ends, and does so again in the next one."""
    gate, stop = threading.Lock(), threading.Event()
    sink = Sink(requests=1, due=True)
    beside = sink.beside(gate)
    with gate:
        beside.look(stop)
        assert not sink.finished.is_set()
    assert sink.finished.wait(LONGEST)
    assert sink.done == ["reload t"]


def test_work_that_is_always_due_leaves_turns_to_the_other_kinds() -> None:
    done: list[str] = []
    requests = ["request", "request"]
    kinds: list[Callable[[], Work | None]] = [
        lambda: partial(done.append, requests.pop()) if requests else None,
        lambda: partial(done.append, "sweep"),
        lambda: None,
        lambda: partial(done.append, "maintain"),
        lambda: partial(done.append, "remove"),
    ]
    beside, stop = BackgroundTasks(due=kinds), threading.Event()

    def turns(number: int) -> list[str]:
        done.clear()
        for _ in range(number):
            beside.look(stop)
            assert beside.finished(stop) is None
        return list(done)

    assert turns(4) == ["request", "request", "sweep", "maintain"]
    requests.append("request")
    assert turns(5) == ["request", "remove", "sweep", "maintain", "remove"]


def test_what_fails_is_kept_unless_a_stop_was_asked_for() -> None:
    for asked, kept in ((False, True), (True, False)):
        gate, stop = threading.Lock(), threading.Event()
        sink = Sink(due=True)
        sink.fault = ValueError("disk full")
        if asked:
            stop.set()
        beside = sink.beside(gate)
        beside.look(stop)
        assert beside._thread is not None
        beside._thread.join(LONGEST)
        assert (beside.failure is sink.fault) is kept


@pytest.mark.parametrize("fault", [None, ValueError("disk full")])
def test_the_end_waits_for_the_task_that_runs_and_has_its_failure(fault: Exception | None) -> None:
    sink, begun, goes_on, stop = Sink(), threading.Event(), threading.Event(), threading.Event()
    sink.fault = fault

    def work() -> None:
        begun.set()
        assert goes_on.wait(LONGEST)
        sink._did("reload")

    beside = BackgroundTasks(due=(lambda: work,))
    assert beside.finished(stop) is None
    beside.look(stop)
    assert begun.wait(LONGEST)
    threading.Timer(0.1, goes_on.set).start()
    assert beside.finished(stop) is fault
    assert sink.done == ["reload"]


def test_the_end_does_not_wait_for_a_task_after_a_stop() -> None:
    goes_on, stop = threading.Event(), threading.Event()
    beside = BackgroundTasks(due=(lambda: partial(goes_on.wait, LONGEST),))
    beside.look(stop)
    stop.set()
    assert beside.finished(stop) is None
    assert not goes_on.is_set()
    goes_on.set()


def test_ddl_is_looked_for_without_a_batch_and_kafka_may_be_away_meanwhile() -> None:
    for fault, kept in ((None, False), (KafkaUnreachable("x"), False), (ValueError("x"), True)):
        sink = Sink()
        sink.fault = fault
        look = partial(quiet_ddl, lambda: True, partial(sink._did, "DDL"))
        beside = BackgroundTasks(due=(partial(quiet_ddl, lambda: False, lambda: None), look))
        beside.look(threading.Event())
        assert beside._thread is not None
        beside._thread.join(LONGEST)
        assert sink.done == ["DDL"]
        assert (beside.failure is not None) is kept
