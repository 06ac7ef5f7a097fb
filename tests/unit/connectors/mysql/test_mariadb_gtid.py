"""MariaDB's positions: parsed, printed, advanced, and compared only if that is defined."""

import pytest

from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList, MariadbGtidState, split_gtid
from connectors.mysql.position import parse_gtids


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("0-1-100", "0-1-100"),
        ("10-2-7, 0-1-100\n,2-1-1", "0-1-100,2-1-1,10-2-7"),
        ("4294967295-4294967295-18446744073709551615",) * 2,
    ],
)
def test_a_position_is_printed_by_domain(text: str, printed: str) -> None:
    assert str(MariadbGtidList.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    ["0-1", "0-1-x", "0-1-2-3", "0-1--2", "0-1-100,0-2-101", "4294967296-1-1", f"0-1-{1 << 64}"],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"GTID"):
        MariadbGtidList.parse(text)


def test_the_last_transaction_of_a_domain_is_its_position_whatever_its_number() -> None:
    position = MariadbGtidList.parse("0-1-100,1-1-5")
    earlier = position.copy()
    position.update(["0-2-90", "3-1-1"])
    assert str(position) == "0-2-90,1-1-5,3-1-1"
    assert str(earlier) == "0-1-100,1-1-5"
    assert position != earlier
    assert earlier == MariadbGtidList.parse("1-1-5,0-1-100")
    assert not MariadbGtidList()


def test_a_list_of_the_binlog_ends_in_the_last_transaction_of_each_domain() -> None:
    assert str(MariadbGtidList.ending([(0, 2, 9), (5, 1, 1), (0, 1, 8)])) == "0-1-8,5-1-1"


@pytest.mark.parametrize(
    ("position", "other", "lacking"),
    [
        ("0-1-100", "0-1-100", []),
        ("0-1-100", "0-1-99", []),
        ("0-1-100", "0-1-101", ["0-1-101"]),
        ("0-1-100", "0-1-1,7-1-1", ["7-1-1"]),
        ("", "0-1-1", ["0-1-1"]),
        ("0-1-9", "0-1-10", ["0-1-10"]),
        # Which comes first cannot be known from numbers of different servers.
        ("0-2-50", "0-1-100", []),
    ],
)
def test_a_position_lacks_what_it_is_certainly_before(
    position: str, other: str, lacking: list[str]
) -> None:
    assert MariadbGtidList.parse(position).lacking(MariadbGtidList.parse(other)) == lacking


@pytest.mark.parametrize(
    ("position", "unknown"),
    [
        ("0-1-100", []),
        ("0-2-50", []),
        ("0-2-51", ["0-2-51"]),
        ("0-3-1", ["0-3-1"]),
        ("9-1-1", ["9-1-1"]),
    ],
)
def test_a_server_knows_what_its_state_reaches(position: str, unknown: list[str]) -> None:
    state = MariadbGtidState.parse("0-1-80,0-2-50,5-1-1", "0-1-100", "")
    assert MariadbGtidList.parse(position).unknown_to(state) == unknown


def test_a_gtid_is_three_numbers() -> None:
    assert split_gtid("3-12-7") == (3, 12, 7)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", GtidSet),
        ("0-1-100", MariadbGtidList),
        (" 0-1-100 , 1-1-1", MariadbGtidList),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", GtidSet),
        ("12345678-1111-1111-1111-111111111111:1-5", GtidSet),
    ],
)
def test_the_text_shows_whose_gtids_they_are(text: str, kind: type) -> None:
    found = parse_gtids(text)
    assert isinstance(found, kind)
    assert str(found) == text.replace(" ", "")
