"""The consequences of setting a cursor, which an operator has to confirm."""

from __future__ import annotations

import pytest

from app.operator import cursor as cursor_commands
from app.operator.cursor import move_effect
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from tables.state.cursor import Cursor, Resume
from tests.unit.connectors.mysql.facts import ADDRESS, OTHER, SERVER


def at(pos: int, gtids: Gtids | None = None, *, server: str = SERVER) -> SourceOffset:
    return SourceOffset(
        server_uuid=server, coordinates=Coordinates("b.000001", pos), gtid_set=gtids
    )


def cursor(offset: SourceOffset, resume: Resume | None = None) -> Cursor:
    return Cursor(
        destination="shop",
        installation="i",
        epoch=3,
        seq=9,
        versions=1,
        offset=offset,
        resume=resume,
    )


def mysql(numbers: str) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:{numbers}")


@pytest.fixture(autouse=True)
def without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subtract as the server does, for the sets of these tests."""

    def difference(one: GtidSet, other: GtidSet, _address: object) -> int:
        found = {f"{SERVER}:{n}" for n in range(1, 100) if f"{SERVER}:{n}" in one} - {
            f"{SERVER}:{n}" for n in range(1, 100) if f"{SERVER}:{n}" in other
        }
        return len(found)

    monkeypatch.setattr(cursor_commands, "_count_difference", difference)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (at(4, mysql("1-9")), at(4, mysql("1-4")), "back: 5 transaction(s) are published again"),
        (
            at(4, mysql("1-9")),
            at(4, mysql("1-11")),
            "forward: 2 transaction(s) are never published",
        ),
        (at(90), at(50), "back from b.000001:90"),
        (at(90), at(95), "forward from b.000001:90"),
        (at(90), at(90, server=OTHER), "is unknown"),
        (
            at(4, MariadbGtidList.parse("0-1-9")),
            at(4, MariadbGtidList.parse("0-1-7")),
            "back: the changes in between are published again",
        ),
        (
            at(4, MariadbGtidList.parse("0-1-9")),
            at(4, MariadbGtidList.parse("0-1-12")),
            "forward: the changes in between are never published",
        ),
        (
            at(4, MariadbGtidList.parse("0-1-9,1-1-5")),
            at(4, MariadbGtidList.parse("0-1-12,1-1-3")),
            "back in others",
        ),
    ],
)
def test_each_way_is_reported_and_costs_something(
    before: SourceOffset, after: SourceOffset, text: str
) -> None:
    found = move_effect(cursor(before), after, ADDRESS)
    assert text in found.text
    assert not found.is_free
    assert found.is_back == found.text.startswith("back")


def test_both_ways_at_once_are_reported_and_are_not_back() -> None:
    found = move_effect(cursor(at(4, mysql("1-9"))), at(4, mysql("1-4:20")), ADDRESS)
    assert "forward: 1 transaction(s)" in found.text
    assert "back: 5 transaction(s)" in found.text
    assert not found.is_back


@pytest.mark.parametrize(
    "position", [at(4, mysql("1-9")), at(4), at(4, MariadbGtidList.parse("0-1-9"))]
)
def test_the_same_place_and_the_first_cursor_are_free(position: SourceOffset) -> None:
    assert move_effect(cursor(position), position, ADDRESS).is_free
    assert move_effect(None, position, ADDRESS).is_free


def test_a_half_published_transaction_is_named_wherever_the_cursor_goes() -> None:
    resume = Resume(transaction_id=f"{SERVER}:10", rows=7, published=5, part=1)
    found = move_effect(cursor(at(4, mysql("1-9")), resume), at(4, mysql("1-9")), ADDRESS)
    assert f"5 record(s) of {SERVER}:10" in found.text
    assert not found.is_free
