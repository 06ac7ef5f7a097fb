"""Portions enter between two transactions, in the order in which they were handed in."""

from __future__ import annotations

import select
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from app.worker.pipeline.capture.inlet import Entering, Inlet
from app.worker.pipeline.capture.reader_thread import Reader
from app.worker.pipeline.portions import KeyWatch, Portion
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from tests.made import START


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
