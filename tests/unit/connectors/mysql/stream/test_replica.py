"""The replica returns a chunk if it is large enough or a decoder is idle, and never half a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from connectors.errors import CorruptEvent
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.stream.replica import LINGER, BinlogStream, gathered
from tests.unit.connectors.mysql.cutting import kinds, without_gtids
from tests.unit.connectors.mysql.facts import ADDRESS
from tests.unit.connectors.mysql.wire import Wire

BYE = b"\5\0\0\1\xfe\0\0\2\0"
QUIET = b""


def one() -> bytes:
    wire = Wire()
    without_gtids(wire, Random(1))
    return wire.data


class Socket:
    """Returns scripted pieces, one a call, then the server's end of stream."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces: Iterator[bytes] = iter([*pieces, BYE])
        self.waits: list[float | None] = []

    def receive(self, space: memoryview, seconds: float | None) -> int:
        piece = next(self._pieces)
        assert piece or seconds is not None, "waited forever although something was due"
        space[: len(piece)] = piece
        self.waits.append(seconds)
        return len(piece)


def counts(socket: Socket, room: Callable[[], bool]) -> list[int]:
    """The number of transactions in each chunk returned, and the rest at the end."""
    cutter = Cutter(Coordinates("b.000001", 4), checksum=True)
    found = list(gathered(cutter, socket.receive, room))
    found += [cutter.flush()] if cutter.pending else []
    return [held.count(16) for held in kinds(found)]


def test_a_lone_transaction_waits_only_for_the_linger() -> None:
    socket = Socket(one(), QUIET, one(), QUIET)
    assert counts(socket, lambda: True) == [1, 1]
    assert socket.waits[0] is None
    assert socket.waits[1] is not None
    assert 0 < socket.waits[1] <= LINGER


def test_what_comes_within_the_linger_comes_together() -> None:
    assert counts(Socket(one(), one(), one(), QUIET), lambda: True) == [3]


def test_while_nobody_is_free_more_is_gathered() -> None:
    free = iter([False, False, True])
    assert counts(Socket(one(), QUIET, one(), QUIET, QUIET, one(), QUIET), free.__next__) == [3]


def test_half_a_transaction_is_waited_for() -> None:
    data = one()
    socket = Socket(data + data[:50], QUIET, data[50:], QUIET)
    assert counts(socket, lambda: True) == [1, 1]


def test_what_is_enough_is_given_out_without_asking() -> None:
    def nobody() -> bool:
        raise AssertionError

    many = one() * 200
    assert sum(counts(Socket(*[many] * 20), nobody)) == 4000


def test_damage_where_no_transaction_can_be_skipped_names_another_way_past_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The statements before a start are read so, of which the decoders skip none."""
    monkeypatch.setattr(BinlogStream, "_packet", lambda _: bytes(30))
    at = SourceOffset(server_uuid="u", coordinates=Coordinates("b.000001", 4))
    with pytest.raises(CorruptEvent) as caught:
        next(BinlogStream(ADDRESS, at).events_there_are())
    assert "coordinates=b.000001:4" in str(caught.value)
    assert "cursor set DEST --file FILE --pos 4" in str(caught.value)
    assert "cursor skip" not in str(caught.value)
