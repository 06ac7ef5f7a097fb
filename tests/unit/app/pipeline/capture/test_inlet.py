"""Portions enter between two transactions, in the order in which they were handed in."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from app.pipeline.capture.inlet import Entering
from app.pipeline.capture.reader_thread import Reader
from app.pipeline.portions.new_rules import NewRules
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from tests.made import START
from tests.unit.app.pipeline.runs import RULES


def chunk(pos: int, **more: Any) -> Chunk:
    return Chunk(start=Coordinates(START.file, pos), data=b"", checksum=False, **more)


def entering(destination: str) -> Entering:
    rules = replace(RULES, destination=destination)
    return lambda start: NewRules(start=start, rules=rules, known={})


def put(*chunks: Chunk, handed_in: dict[int, list[str]]) -> list[tuple[str, int]]:
    """The decoders' input; ``handed_in``: portions by the position of the chunk that they precede."""
    got: list[tuple[str, int]] = []

    def taken(portion: Any) -> bool:
        name = portion.rules.destination if isinstance(portion, NewRules) else "chunk"
        got.append((name, portion.start.pos))
        return True

    def read(_: Any) -> Any:
        for one in chunks:
            for name in handed_in.get(one.start.pos, []):
                reader.inlet.hand_in(entering(name))
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
