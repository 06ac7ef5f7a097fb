"""The handoff from the reader thread to the publishing loop: order, limits, and errors in order."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from app.worker.pipeline.piece import Piece, SourceTrace
from app.worker.pipeline.publish import handoff as module
from app.worker.pipeline.publish.handoff import Handoff
from connectors.errors import SourceLost, UnsupportedEvent
from connectors.kafka.record_batches import FinishedBatch
from connectors.mysql.position import Coordinates
from tables.state.cursor import Resume

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ENOUGH = 1_000_000
"""More than is ever there, where a test takes all."""


def piece(
    number: int,
    *,
    size: int = 10,
    empty: bool = False,
    whole: bool = True,
    resume: Resume | None = None,
) -> Piece:
    made = Piece(
        coordinates=Coordinates("b.000001", number),
        seq=number,
        version_count=0,
        size=size,
        trace=SourceTrace(gtids=[(UUID, number, number)]),
        whole=whole,
        resume=resume,
    )
    if not empty:
        made.batches.append(FinishedBatch("t", 0, b"%d" % number, 1))
    return made


def numbers_of(*pieces: Piece) -> list[int]:
    """The numbers of the pieces that these were joined of."""
    return [int(batch.raw) for one in pieces for batch in one.batches]


async def all_of(handoff: Handoff, *, max_bytes: int) -> list[Piece]:
    """The pieces taken before the reader's error."""
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
    monkeypatch.setattr(module, "MAX_PIECES", 8)
    handoff = Handoff(asyncio.get_running_loop(), max_bytes=200)
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
    assert numbers_of(*found) == [*range(1, 2001)]
    assert max(count for count, _ in waiting) <= 8
    assert max(size for _, size in waiting) < 200 + 60
    assert handoff._bytes == 0


async def test_what_only_moved_the_place_is_added_to_the_piece_before() -> None:
    handoff = Handoff(asyncio.get_running_loop())
    assert handoff.put(piece(1))
    for number in range(2, 5001):
        assert handoff.put(piece(number, size=0, empty=True))
    (held,) = handoff._pieces
    assert held.trace.gtids == [(UUID, 1, 5000)]
    assert held.coordinates.pos == 5000
    assert held.seq == 5000


async def test_what_only_moved_the_place_is_not_added_to_a_part_of_a_transaction() -> None:
    """A part may be committed alone, with the position from which its transaction continues."""
    handoff = Handoff(asyncio.get_running_loop())
    resume = Resume(transaction_id=f"{UUID}:1", rows=1, published=1, part=1)
    assert handoff.put(piece(1, resume=resume))
    assert handoff.put(piece(2, empty=True))
    assert [one.resume for one in handoff._pieces] == [resume, None]


async def test_what_is_not_whole_is_joined_with_what_follows_and_never_taken_alone() -> None:
    handoff = Handoff(asyncio.get_running_loop())
    for number in (1, 2, 3):
        assert handoff.put(piece(number, whole=False))
    assert await handoff.take(max_bytes=ENOUGH, timeout=0.01) is None
    assert handoff.put(piece(4))
    taken = await handoff.take(max_bytes=1, timeout=10)
    assert taken is not None
    assert taken.whole
    assert numbers_of(taken) == [1, 2, 3, 4]
    assert (taken.coordinates.pos, taken.seq, taken.trace.gtids) == (4, 4, [(UUID, 1, 4)])
    assert handoff._bytes == 0


async def test_what_is_whole_is_taken_though_something_unfinished_stands_after_it() -> None:
    handoff = Handoff(asyncio.get_running_loop())
    for number in (1, 2):
        assert handoff.put(piece(number))
    assert handoff.put(piece(3, whole=False))
    first = await handoff.take(max_bytes=ENOUGH, timeout=10)
    assert first is not None
    assert numbers_of(first) == [1, 2]
    assert await handoff.take(max_bytes=ENOUGH, timeout=0.01) is None
    assert handoff.put(piece(4))
    second = await handoff.take(max_bytes=ENOUGH, timeout=10)
    assert second is not None
    assert numbers_of(second) == [3, 4]


async def test_what_is_not_whole_never_waits_for_room_that_only_more_can_make() -> None:
    handoff = Handoff(asyncio.get_running_loop(), max_bytes=100)
    for number in range(1, 51):
        assert await asyncio.to_thread(handoff.put, piece(number, whole=number == 50))
    taken = await handoff.take(max_bytes=1, timeout=10)
    assert taken is not None
    assert numbers_of(taken) == [*range(1, 51)]


@pytest.mark.parametrize("before", [0, 2])
async def test_an_error_after_what_is_not_whole_drops_that_and_keeps_what_was(before: int) -> None:
    handoff = Handoff(asyncio.get_running_loop())
    for number in range(1, before + 1):
        assert handoff.put(piece(number))
    assert handoff.put(piece(8, whole=False))
    broken = piece(9, empty=True, whole=False)
    broken.error = UnsupportedEvent()
    assert handoff.put(broken)
    handoff.fail(broken.error)
    if before:
        taken = await handoff.take(max_bytes=ENOUGH, timeout=10)
        assert taken is not None
        assert numbers_of(taken) == [1, 2]
        assert taken.coordinates.pos == 2
    for _ in range(2):
        with pytest.raises(UnsupportedEvent):
            await handoff.take(max_bytes=ENOUGH, timeout=10)


async def test_gathering_ends_when_there_is_enough_or_an_error_and_else_with_its_time() -> None:
    handoff = Handoff(asyncio.get_running_loop(), enough=100)
    handoff.put(piece(1, size=99))
    await handoff.gather(0.01)

    async def assert_ended_by(act: Callable[[], object]) -> None:
        waiting = asyncio.create_task(handoff.gather(3600))
        await asyncio.sleep(0)
        assert not waiting.done()
        act()
        await asyncio.wait_for(waiting, timeout=10)

    await assert_ended_by(lambda: handoff.put(piece(2, size=1)))
    assert await handoff.take(max_bytes=ENOUGH, timeout=10) is not None
    await assert_ended_by(lambda: handoff.fail(SourceLost()))


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


async def test_nothing_to_take_is_reported_after_the_timeout() -> None:
    handoff = Handoff(asyncio.get_running_loop())
    assert await handoff.take(max_bytes=1, timeout=0.01) is None
