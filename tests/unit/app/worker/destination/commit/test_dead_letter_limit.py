"""The limit of dead letters per hour, across runs."""

from __future__ import annotations

import pytest

from app.worker.destination.commit.run_participants import HOUR, DeadLetters
from app.worker.pipeline.piece import DeadLetter, Piece
from app.worker.status import DestinationStatus
from connectors.errors import DeadLetterLimitReached
from connectors.mysql.position import Coordinates
from tests.unit.app.worker.destination.commit.made import BEFORE


def piece(*rows: int) -> Piece:
    letters = [DeadLetter("shop.t", f"gtid:{row}", "b.000001:4", row, "bad") for row in rows]
    position = Coordinates("b.000001", 9)
    return Piece(coordinates=position, seq=0, version_count=0, dead_letters=letters)


def test_the_first_one_too_many_is_named_and_the_hour_moves_on() -> None:
    now = [0.0]
    status = DestinationStatus("limits")
    letters = DeadLetters(3, status, clock=lambda: now[0])
    for one in (piece(1), piece(), piece(2)):
        letters.before(one, BEFORE)
        letters.committed(one, BEFORE)
    now[0] = HOUR / 2
    with pytest.raises(DeadLetterLimitReached) as caught:
        letters.before(piece(3, 4), BEFORE)
    assert caught.value.context == {
        "table": "shop.t",
        "coordinates": "b.000001:4",
        "gtid": "gtid:4",
        "row": 4,
    }
    letters.before(piece(), BEFORE)
    now[0] = HOUR
    letters.before(piece(4, 5, 6), BEFORE)
    with pytest.raises(DeadLetterLimitReached, match="3 are allowed"):
        letters.before(piece(4, 5, 6, 7), BEFORE)
    assert status.to_json()["dead_letters"]["here"] == {"shop.t": 2}
    assert status.to_json()["dead_letters"]["last"]["row"] == 2
    assert "2 dead letter(s)" in status.line()


def test_what_was_refused_does_not_count() -> None:
    letters = DeadLetters(1, DestinationStatus("refused"), clock=lambda: 0.0)
    with pytest.raises(DeadLetterLimitReached):
        letters.before(piece(1, 2), BEFORE)
    letters.before(piece(1), BEFORE)
