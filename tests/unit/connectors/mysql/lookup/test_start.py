"""The position at which reading begins, and the positions that are refused."""

import struct
import uuid

import pytest

from connectors.errors import (
    BinlogFileMissing,
    EndPositionUnknown,
    MalformedEvent,
    PositionGone,
    PositionPastEnd,
    PositionPurged,
    SourceDiverged,
)
from connectors.mysql.binlog.events import Event, EventType
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import start as module
from connectors.mysql.lookup.start import (
    AfterGtids,
    AtCoordinates,
    Earliest,
    Latest,
    Start,
    first_offset,
    in_current_terms,
)
from connectors.mysql.lookup.transaction_spans import previous_gtids
from connectors.mysql.position import Coordinates
from tests.unit.connectors.mysql.facts import ADDRESS, OFF, OTHER, PURGED, SERVER, facts, offset


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> GtidSet:
    """The binlog's record of the transactions before a position."""
    found = GtidSet.parse(f"{SERVER}:1-50")
    monkeypatch.setattr(module, "gtids_before", lambda *_: found)
    return found


def test_the_earliest_change_is_the_first_the_server_still_has() -> None:
    assert first_offset(Earliest(), facts(PURGED), ADDRESS) == offset(gtids=f"{SERVER}:1-40")
    assert first_offset(Earliest(), facts(OFF), ADDRESS) == offset()


def test_a_server_without_purged_transactions_begins_with_an_empty_set() -> None:
    assert first_offset(Earliest(), facts(), ADDRESS).gtid_set == GtidSet()


def test_the_latest_place_is_the_servers_end() -> None:
    assert first_offset(Latest(), facts(), ADDRESS) == offset(
        "b.000002", 500, gtids=f"{SERVER}:1-100"
    )
    assert first_offset(Latest(), facts(OFF), ADDRESS) == offset("b.000002", 500)


def test_a_position_in_a_file_is_taken_with_what_is_before_it(before: GtidSet) -> None:
    start = AtCoordinates(Coordinates("b.000002", 90))
    assert first_offset(start, facts(), ADDRESS) == offset("b.000002", 90, gtids=str(before))
    assert first_offset(start, facts(OFF), ADDRESS) == offset("b.000002", 90)


def test_a_set_of_gtids_is_where_the_settings_say() -> None:
    start = AfterGtids(GtidSet.parse(f"{SERVER}:1-60"))
    assert first_offset(start, facts(PURGED), ADDRESS).gtid_set == start.gtid_set


@pytest.mark.parametrize(
    ("held", "error", "gap"),
    [
        (
            "1-9:31-60",
            PositionPurged,
            "it has purged {}:10-30, which the cursor lacks (purged are {}:1-40,",
        ),
        ("1-103:109", PositionPastEnd, "the cursor holds {}:101-103:109, which the server lacks ("),
    ],
)
def test_what_is_missing_is_named_by_its_own_gtids(
    held: str, error: type[Exception], gap: str
) -> None:
    start = AfterGtids(GtidSet.parse(f"{SERVER}:{held}"))
    with pytest.raises(error) as caught:
        first_offset(start, facts(PURGED), ADDRESS)
    assert gap.format(SERVER, SERVER) in str(caught.value)


@pytest.mark.parametrize(
    ("start", "variables", "error"),
    [
        (AfterGtids(GtidSet.parse(f"{SERVER}:1-39")), PURGED, PositionPurged),
        (AfterGtids(GtidSet.parse(f"{SERVER}:1-101")), {}, PositionPastEnd),
        (AfterGtids(GtidSet.parse(f"{SERVER}:1-9")), OFF, PositionGone),
        (AtCoordinates(Coordinates("b.000002", 501)), OFF, PositionPastEnd),
        (AtCoordinates(Coordinates("b.000009", 4)), OFF, PositionPastEnd),
        (AtCoordinates(Coordinates("b.000009", 4)), {}, PositionPastEnd),
        (AtCoordinates(Coordinates("b.000000", 4)), OFF, PositionPurged),
        (AtCoordinates(Coordinates("c.000001", 4)), OFF, BinlogFileMissing),
    ],
)
def test_a_start_that_the_server_does_not_have_is_refused(
    start: Start, variables: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        first_offset(start, facts(variables), ADDRESS)


@pytest.mark.parametrize("start", [Earliest(), Latest()])
def test_a_server_that_lists_no_binlog_has_no_place_to_begin(start: Start) -> None:
    with pytest.raises(EndPositionUnknown):
        first_offset(start, facts(binlogs=()), ADDRESS)


def test_a_server_that_gained_gtids_gives_the_cursor_its_set(before: GtidSet) -> None:
    now = in_current_terms(offset("b.000002", 90), facts(), ADDRESS)
    assert now == offset("b.000002", 90, gtids=str(before))


def test_a_server_that_lost_gtids_is_read_by_coordinates() -> None:
    now = in_current_terms(offset("b.000002", 90, gtids=f"{SERVER}:1-9"), facts(OFF), ADDRESS)
    assert now == offset("b.000002", 90)


@pytest.mark.usefixtures("before")
def test_gained_gtids_do_not_make_another_servers_cursor_ours() -> None:
    with pytest.raises(SourceDiverged):
        in_current_terms(offset(server=OTHER), facts(), ADDRESS)


def test_a_cursor_in_the_servers_own_words_stays_as_it_is() -> None:
    for cursor, variables in ((offset(gtids=f"{SERVER}:1"), {}), (offset(), OFF)):
        assert in_current_terms(cursor, facts(variables), ADDRESS) is cursor


def previous(body: bytes) -> Event:
    return Event(1, EventType.PREVIOUS_GTIDS, 1, 200, 0, 19 + len(body), body)


def test_what_earlier_files_held_is_read_with_intervals_that_end_before_their_end() -> None:
    body = struct.pack("<Q", 2)
    for server, intervals in ((SERVER, [(1, 6), (8, 9)]), (OTHER, [(3, 4)])):
        body += uuid.UUID(server).bytes + struct.pack("<Q", len(intervals))
        body += b"".join(struct.pack("<QQ", *interval) for interval in intervals)
    assert previous_gtids(previous(body)) == GtidSet.parse(f"{SERVER}:1-5:8,{OTHER}:3")


def test_the_first_file_of_a_server_has_none_before_it() -> None:
    assert previous_gtids(previous(bytes(8))) == GtidSet()


def test_what_earlier_files_held_is_read_with_its_tags() -> None:
    held = GtidSet.parse(f"{SERVER}:1-5:backup:3,{OTHER}:backup:1")
    assert previous_gtids(previous(held.encode())) == held


def test_a_head_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(MalformedEvent, match="form, 2"):
        previous_gtids(previous(bytes(7) + b"\2"))
