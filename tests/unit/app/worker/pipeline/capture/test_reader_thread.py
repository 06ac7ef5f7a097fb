"""The reader thread blocked in a statement: detected and abandoned."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.pipeline.capture import reader_thread
from app.worker.pipeline.capture.reader_thread import Entering, Inlet, Reader
from app.worker.pipeline.portions import KeyWatch, Portion
from app.worker.status import State
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import ReaderStalled
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from tests.made import START

PLACE = Coordinates("binlog.000001", 400)


class Stream:
    """Two chunks, the second only when it is asked for."""

    def __init__(self) -> None:
        self.more = threading.Event()

    def chunks(self, _: Any, *, interruption: Any) -> Iterator[Any]:
        assert not interruption.is_wanted
        yield SimpleNamespace(start=PLACE, is_rest=False)
        self.more.wait(60)

    def close(self) -> None:
        self.more.set()


class BlockingTracker:
    """Works on a statement until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()

    def note(self, _: Any) -> None:
        self.begun.set()
        assert self.let_go.wait(60)


@pytest.mark.remedy("ReaderStalled")
def test_a_reader_that_is_stuck_in_a_statement_is_named_and_one_from_after_it_reads_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, tracker, put = Stream(), BlockingTracker(), threading.Event()

    def taken(_: Any) -> bool:
        put.set()
        return True

    decoders = SimpleNamespace(idle=bool, put=taken, finish=lambda _: None, close=lambda: None)
    one = Reader(cast(Any, stream), cast(Any, decoders), cast(Any, tracker))
    one.start()
    try:
        assert tracker.begun.wait(60)
        one.check()
        monkeypatch.setattr(reader_thread, "STALL_SECONDS", 0.0)
        with pytest.raises(ReaderStalled) as caught:
            one.check()
        assert caught.value.context["coordinates"] == PLACE
        policy = ErrorPolicy()
        states = [policy.decide(caught.value).state for _ in range(3)]
        assert states == [State.RETRYING, State.RETRYING, State.FAILED]
        assert "python -m app cursor set" in str(caught.value)
        # From a cursor after it another thread reads, though this one cannot be ended.
        later, read = Stream(), threading.Event()

        def put_other(_: Any) -> bool:
            read.set()
            return True

        others = SimpleNamespace(**{**vars(decoders), "put": put_other})
        other = Reader(cast(Any, later), cast(Any, others))
        other.start()
        assert read.wait(60)
        assert one.is_alive()
        other.check()
        other.stop()
        tracker.let_go.set()
        assert put.wait(60)
        # It waits for the source now, which is no stall of its own.
        one.check()
    finally:
        tracker.let_go.set()
        one.stop()


def chunk(pos: int, **more: Any) -> Chunk:
    return Chunk(start=Coordinates(START.file, pos), data=b"events", checksum=False, **more)


def rest(pos: int) -> Chunk:
    """The position at which an idle stream waits."""
    return replace(chunk(pos), data=b"")


def entering(table: str) -> Entering:
    tables = frozenset({("shop", table)})
    return lambda start: [KeyWatch(start=start, tables=tables, id=0)]


def named(portion: Any) -> str:
    """The table of a portion that was handed in."""
    return next(iter(portion.tables))[1] if isinstance(portion, KeyWatch) else "chunk"


def put(*chunks: Chunk, handed_in: dict[int, list[str]]) -> list[tuple[str, int]]:
    """The decoders' input; ``handed_in``: portions by the position of the chunk that they precede."""
    got: list[tuple[str, int]] = []

    def taken(portion: Any) -> bool:
        got.append((named(portion), portion.start.pos))
        return True

    def read(_: Any, *, interruption: Any) -> Any:
        assert interruption is reader.inlet
        for one in chunks:
            for name in handed_in.get(one.start.pos, []):
                least = Coordinates(START.file, int(name[1:])) if name[1:] else None
                reader.inlet.hand_in(entering(name), not_before=least)
            assert interruption.is_wanted or not handed_in.get(one.start.pos)
            yield one

    decoders = SimpleNamespace(idle=bool, put=taken, finish=lambda _: None)
    reader = Reader(cast(Any, SimpleNamespace(chunks=read)), cast(Any, decoders))
    reader.run()
    return got


def test_a_portion_enters_before_the_next_chunk_that_begins_between_two_transactions() -> None:
    chunks = [chunk(1), chunk(2, context=(b"gtid",)), chunk(3, container=(START, START)), chunk(4)]
    assert put(*chunks, handed_in={2: ["a"]}) == [
        ("chunk", 1),
        ("chunk", 2),
        ("chunk", 3),
        ("a", 4),
        ("chunk", 4),
    ]


def test_portions_enter_in_the_order_in_which_they_were_handed_in_each_once() -> None:
    assert put(chunk(1), chunk(2), handed_in={1: ["a", "b"], 2: ["c"]}) == [
        ("a", 1),
        ("b", 1),
        ("chunk", 1),
        ("c", 2),
        ("chunk", 2),
    ]


def test_a_portion_enters_at_its_own_position_or_later_and_keeps_its_turn() -> None:
    assert put(chunk(1), chunk(2), chunk(3), chunk(4), handed_in={1: ["a3", "b"]}) == [
        ("chunk", 1),
        ("chunk", 2),
        ("a3", 3),
        ("b", 3),
        ("chunk", 3),
        ("chunk", 4),
    ]


def test_a_portion_enters_where_an_idle_stream_waits() -> None:
    assert put(chunk(1), rest(2), rest(3), chunk(4), handed_in={2: ["a", "b3"]}) == [
        ("chunk", 1),
        ("a", 2),
        ("b3", 3),
        ("chunk", 4),
    ]


def test_each_portion_ends_the_wait_for_data() -> None:
    inlet = Inlet()
    poll = select.poll()
    poll.register(inlet.fileno(), select.POLLIN)
    assert not poll.poll(0)
    for _ in range(100_000):
        inlet.hand_in(entering("a"))
    assert poll.poll(0)
    inlet.noticed()
    assert not poll.poll(0)
    assert inlet.is_wanted
    inlet.hand_in(entering("b"))
    assert poll.poll(0)


def test_portions_handed_in_together_are_made_while_they_are_put_and_nothing_is_between_them() -> (
    None
):
    done: list[str] = []

    def some(start: Coordinates) -> Iterator[Portion]:
        for name in ("a", "b"):
            done.append(f"make {name}")
            yield from entering(name)(start)

    def taken(portion: Any) -> bool:
        name = named(portion)
        done.append(f"put {name} {portion.start.pos}")
        return name != "b" or is_open

    def read(_: Any, *, interruption: Any) -> Any:
        yield chunk(1)
        interruption.hand_in(some)
        interruption.hand_in(entering("c"))
        yield chunk(2)
        yield chunk(3)

    for is_open in (True, False):
        done.clear()
        decoders = SimpleNamespace(idle=bool, put=taken, finish=lambda _: None)
        Reader(cast(Any, SimpleNamespace(chunks=read)), cast(Any, decoders)).run()
        first = ["put chunk 1", "make a", "put a 2", "make b", "put b 2"]
        rest_of = ["put c 2", "put chunk 2", "put chunk 3"] if is_open else []
        assert done == [*first, *rest_of], "once the decoders are closed, nothing more is made"
