"""Positions are text to users, and numbers to compare."""

import pytest

from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_the_file_after_999999_is_after_it() -> None:
    assert Coordinates("binlog.999999", 900).order < Coordinates("binlog.1000000", 4).order
    assert Coordinates("binlog.000009", 900).order < Coordinates("binlog.000010", 4).order


def test_offsets_in_a_file_compare_by_number() -> None:
    assert Coordinates("binlog.000001", 999).order < Coordinates("binlog.000001", 1000).order


@pytest.mark.parametrize("text", ["", "binlog.000001", ":4", "binlog.000001:", "b.1:x", "b.1:-4"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not binlog coordinates"):
        Coordinates.parse(text)


def test_an_offset_shows_gtids_where_there_are_any() -> None:
    position = Coordinates("b.000001", 4)
    gtids = GtidSet.parse(f"{UUID}:1-3")
    assert (
        str(SourceOffset(server_uuid=UUID, coordinates=position, gtid_set=gtids)) == f"{UUID}:1-3"
    )
    assert str(SourceOffset(server_uuid=UUID, coordinates=position)) == "b.000001:4"
