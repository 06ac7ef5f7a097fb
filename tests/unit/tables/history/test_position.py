"""Positions compare by number, by GTID sets or by time; otherwise they are reported as not comparable."""

from __future__ import annotations

import pytest

from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, SourceOffset
from tables.history.position import AtGtid, AtTime, HistoryPosition, PositionQuery, reached
from tests.unit.tables.made import OTHER, UUID, at, between, offset


def mariadb(text: str, *, pos: int = 4) -> SourceOffset:
    return SourceOffset(
        server_uuid=OTHER,
        coordinates=Coordinates("b.000001", pos),
        gtid_set=MariadbGtidList.parse(text),
    )


@pytest.mark.parametrize(
    ("position", "asked", "expected"),
    [
        # By coordinates: what begins before the position at which reading continues has happened.
        (at(200), offset(200), False),
        (at(200), offset(201), True),
        (at(200), offset(260), True),
        (at(200), offset(4, file=2), True),
        (at(200, file=2), offset(9999), False),
        (at(200), offset(9999, server=OTHER), None),
        (between(200), offset(200), True),
        (between(200), offset(199), False),
        # A file's name is a number, and 1000000 comes after 999999.
        (at(200, file=999_999), offset(4, file=1_000_000), True),
        (at(200, file=1_000_000), offset(9999, file=999_999), False),
        (at(1000), offset(999), False),
        # As of a statement: it and all before it.
        (at(200), at(200), True),
        (at(200), at(199), False),
        (at(200, file=2), at(300, file=1), False),
        (between(200), at(200), True),
        (at(200), at(900, server=OTHER), None),
        # By what a GTID set holds, whatever the coordinates.
        (at(200, gtid=f"{UUID}:5"), offset(4, gtids=f"{UUID}:1-5"), True),
        (at(200, gtid=f"{UUID}:10"), offset(9999, gtids=f"{UUID}:1-9"), False),
        (at(200, gtid=f"{UUID}:5"), offset(4, server=OTHER, gtids=f"{UUID}:1-5"), True),
        (at(200, gtid=f"{UUID}:7"), offset(4, gtids=f"{UUID}:1-6:8-9"), False),
        # What happened before the server had GTIDs, by coordinates, if they are of the same server.
        (at(200), offset(9999, gtids=f"{UUID}:1-9"), True),
        (at(200), offset(100, gtids=f"{UUID}:1-9"), False),
        (at(200), offset(9999, server=OTHER, gtids=f"{UUID}:1-9"), None),
        (between(9, gtids=f"{UUID}:1-5"), offset(4, gtids=f"{UUID}:1-9"), True),
        (between(9, gtids=f"{UUID}:1-9"), offset(9999, gtids=f"{UUID}:1-5"), False),
        (between(9), offset(9999, gtids=f"{UUID}:1-5"), True),
        # Or by coordinates since it has none any more.
        (at(200, gtid=f"{UUID}:5"), offset(201), True),
        (at(200, gtid=f"{UUID}:5"), offset(200), False),
        (between(9, gtids=f"{UUID}:1-5"), offset(201), True),
        (between(9), offset(9999, server=OTHER, gtids=f"{UUID}:1-5"), None),
        # Right after one transaction.
        (at(200, gtid=f"{UUID}:5"), AtGtid(f"{UUID}:5"), True),
        (at(200, gtid=f"{UUID}:10"), AtGtid(f"{UUID}:9"), False),
        (at(200, gtid=f"{UUID}:5"), AtGtid(f"{OTHER}:5"), None),
        (at(200), AtGtid(f"{UUID}:5"), None),
        (between(9, gtids=f"{UUID}:1-5"), AtGtid(f"{UUID}:6"), True),
        (between(9, gtids=f"{UUID}:1-5"), AtGtid(f"{UUID}:5"), True),
        (between(9, gtids=f"{UUID}:1-5"), AtGtid(f"{UUID}:4"), False),
        # By time.
        (at(200, ts_ms=70), AtTime(70), True),
        (at(200, ts_ms=70), AtTime(69), False),
        # Statements on different servers, by the origin of their GTIDs.
        (at(200, gtid=f"{UUID}:5"), at(4, server=OTHER, gtid=f"{UUID}:6"), True),
        (at(200, gtid=f"{UUID}:5"), at(4, server=OTHER, gtid=f"{OTHER}:6"), None),
        # MariaDB: numbers of a domain compare, whichever server gave them.
        (at(200, gtid="0-1-5"), mariadb("0-1-5"), True),
        (at(200, gtid="0-1-6"), mariadb("0-1-5"), False),
        (at(200, gtid="0-2-5"), mariadb("0-1-9"), True),
        (at(200, gtid="0-1-10"), mariadb("0-2-9"), False),
        (at(200, gtid="3-1-5"), mariadb("0-1-9"), False),
        (at(200, gtid="0-1-5"), AtGtid("0-1-6"), True),
        (at(200, gtid="0-1-5"), AtGtid("0-2-6"), True),
        (at(200, gtid="0-1-5"), AtGtid("0-2-4"), False),
        (at(200, gtid="0-1-5"), AtGtid("1-1-6"), None),
        (HistoryPosition.between(mariadb("0-1-5"), ts_ms=0), mariadb("0-1-7,1-1-1"), True),
        (HistoryPosition.between(mariadb("0-1-5,1-1-1"), ts_ms=0), mariadb("0-1-7"), False),
        (HistoryPosition.between(mariadb("0-1-5"), ts_ms=0), mariadb("0-2-7"), True),
        (HistoryPosition.between(mariadb("0-1-5"), ts_ms=0), AtGtid("0-1-4"), False),
        # Before the first transaction of all comes nothing.
        (between(4, gtids=""), offset(4, gtids=""), True),
        (between(4, gtids=""), mariadb("0-1-5"), True),
        (between(4, gtids=""), AtGtid(f"{UUID}:1"), True),
    ],
)
def test_what_has_happened_as_of_a_place(
    position: HistoryPosition, asked: PositionQuery, expected: bool | None
) -> None:
    assert reached(position, asked) is expected


def test_a_place_between_transactions_holds_all_before_it() -> None:
    assert reached(at(200), between(200)) is False
    assert reached(at(200), between(260)) is True
    assert reached(at(200, gtid=f"{UUID}:5"), between(4, gtids=f"{UUID}:1-5")) is True
    assert reached(at(200, gtid=f"{UUID}:6"), between(9999, gtids=f"{UUID}:1-5")) is False


def test_a_position_is_shown_as_an_operator_would_write_it() -> None:
    assert str(at(200)) == "b.000001:200"
    assert str(at(200, gtid=f"{UUID}:5")) == f"{UUID}:5"
