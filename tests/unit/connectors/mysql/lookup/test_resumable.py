"""The offsets from which a server can resume, and those that are refused."""

import pytest

from connectors.errors import (
    BinlogFileMissing,
    PositionGone,
    PositionPastEnd,
    SourceDiverged,
    SourceReset,
)
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import resumable
from connectors.mysql.lookup.resumable import check
from tests.unit.connectors.mysql.facts import ADDRESS, OFF, OTHER, PURGED, SERVER, facts, offset


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> GtidSet:
    """The binlog's record of the transactions before a position."""
    found = GtidSet.parse(f"{SERVER}:1-50")
    monkeypatch.setattr(resumable, "gtids_before", lambda *_: found)
    return found


def test_with_gtids_a_cursor_may_resume_at_any_server_that_has_all_of_them() -> None:
    cursor = offset("gone.000009", 77, gtids=f"{SERVER}:1-60", server=OTHER)
    check(cursor, facts(PURGED), ADDRESS)


def test_a_cursor_that_lacks_purged_transactions_is_refused() -> None:
    with pytest.raises(PositionGone, match=f"purged {SERVER}:40, which the cursor lacks"):
        check(offset(gtids=f"{SERVER}:1-39"), facts(PURGED), ADDRESS)


def test_a_server_that_lacks_what_was_published_is_refused() -> None:
    for gtids in (f"{SERVER}:1-101", f"{OTHER}:1"):
        with pytest.raises(SourceDiverged, match="the cursor holds"):
            check(offset(gtids=gtids), facts(), ADDRESS)


def test_without_gtids_another_server_is_refused_though_it_has_such_a_file() -> None:
    with pytest.raises(SourceDiverged, match=OTHER):
        check(offset(server=OTHER), facts(OFF), ADDRESS)


@pytest.mark.parametrize(("pos", "file"), [(501, "b.000002"), (4, "b.000003")])
def test_a_place_beyond_the_end_is_refused(pos: int, file: str) -> None:
    with pytest.raises(PositionPastEnd, match="is not in its binlogs"):
        check(offset(file, pos), facts(OFF), ADDRESS)


def test_a_server_that_was_reset_is_distinguished_from_one_that_lost_its_last_transactions() -> (
    None
):
    with pytest.raises(SourceReset):
        check(offset(gtids=f"{SERVER}:1-60"), facts({"gtid_executed": ""}), ADDRESS)
    with pytest.raises(PositionPastEnd):
        check(offset(gtids=f"{SERVER}:1-101"), facts(), ADDRESS)


def test_a_server_that_continued_from_before_what_was_published_has_diverged() -> None:
    executed = {"gtid_executed": f"{SERVER}:1-50:61-70"}
    with pytest.raises(SourceDiverged) as raised:
        check(offset(gtids=f"{SERVER}:1-60"), facts(executed), ADDRESS)
    assert raised.type is SourceDiverged


WITH_A_GAP = (("b.000001", 100), ("b.000003", 100), ("b.000004", 100))


def test_a_file_that_is_not_listed_any_more_is_missed_before_the_server_passes_over_it() -> None:
    listed = facts(OFF, binlogs=WITH_A_GAP)
    with pytest.raises(BinlogFileMissing, match=r"none is between b\.000001 and b\.000003"):
        check(offset("b.000001", 50), listed, ADDRESS)
    check(offset("b.000003", 50), listed, ADDRESS)


def test_with_gtids_a_missing_file_matters_where_its_transactions_are_still_to_be_read(
    before: GtidSet,
) -> None:
    listed = facts(binlogs=WITH_A_GAP)
    check(offset(gtids=str(before)), listed, ADDRESS)
    with pytest.raises(BinlogFileMissing, match="the cursor is at"):
        check(offset(gtids=f"{SERVER}:1-49"), listed, ADDRESS)


def test_the_very_end_of_the_binlog_is_a_place() -> None:
    check(offset("b.000002", 500), facts(OFF), ADDRESS)
