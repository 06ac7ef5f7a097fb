"""Between the thread that reads and the loop that publishes: order, limits, and the error in its place."""

import asyncio
import threading

import pytest
from app.pipeline.assemble import Piece

from app import handoff as module
from app.handoff import Handoff
from app.pipeline.envelope import Outgoing
from connectors.errors import SourceLost
from connectors.mysql.position import Coordinates


def piece(number: int, *, size: int = 10, empty: bool = False) -> Piece:
    made = Piece(
        coordinates=Coordinates("b.000001", number), seq=number, version_count=0, size=size
    )
    made.gtids.append(f"uuid:{number}")
    if not empty:
        made.records.append(Outgoing("t", b"%d" % number, b"{}", []))
    return made


async def all_of(handoff: Handoff, *, max_bytes: int) -> list[Piece]:
    """What comes out until the reader's error does."""
    found: list[Piece] = []
    while True:
        try:
            taken = await handoff.take(max_bytes=max_bytes, timeout=10)
        except SourceLost:
            return found
        if taken is not None:
            found.append(taken)


async def test_pieces_come_in_order_and_the_error_after_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 200)
    monkeypatch.setattr(module, "MAX_PIECES", 8)
    handoff = Handoff(asyncio.get_running_loop())
    waiting: list[tuple[int, int]] = []

    def read() -> None:
        for number in range(1, 2001):
            assert handoff.put(piece(number, size=number % 60))
            waiting.append((len(handoff._pieces), handoff._bytes))
        handoff.fail(SourceLost())

    thread = threading.Thread(target=read)
    thread.start()
    found = await all_of(handoff, max_bytes=150)
    thread.join()
    assert [int(record.key or b"") for one in found for record in one.records] == [*range(1, 2001)]
    assert max(count for count, _ in waiting) <= 8
    assert max(size for _, size in waiting) < 200 + 60
    assert handoff._bytes == 0


async def test_what_only_moved_the_place_is_added_to_the_piece_before_but_not_without_limit() -> (
    None
):
    handoff = Handoff(asyncio.get_running_loop())
    for number in range(1, 5001):
        assert handoff.put(piece(number, size=0, empty=True))
    held = [len(one.gtids) for one in handoff._pieces]
    assert sum(held) == 5000
    assert max(held) <= 1000
    assert handoff._pieces[-1].coordinates.pos == 5000


async def test_closing_lets_a_waiting_reader_go() -> None:
    handoff = Handoff(asyncio.get_running_loop())
    answers: list[bool] = []

    def read() -> None:
        answers.extend(handoff.put(piece(n, size=module.MAX_BYTES)) for n in (1, 2))

    thread = threading.Thread(target=read)
    thread.start()
    await asyncio.wait_for(handoff._ready.wait(), timeout=10)
    handoff.close()
    await asyncio.to_thread(thread.join)
    assert answers == [True, False]


async def test_nothing_to_take_is_told_after_the_timeout() -> None:
    handoff = Handoff(asyncio.get_running_loop())
    assert await handoff.take(max_bytes=1, timeout=0.01) is None
