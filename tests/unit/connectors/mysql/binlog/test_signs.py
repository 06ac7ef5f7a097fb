"""Signs in a table map: since when YEAR has a bit of its own is not known, and not guessed."""

import pytest

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.types.registry import FieldType as T
from connectors.mysql.types.registry import MappedColumn, reader_for
from tests.unit.connectors.mysql.select.tables import CHARSETS

_SIGNEDNESS, _VISIBILITY = 1, 12


def mapped(kinds: list[T], signs: bytes, *, visible: bool = False) -> TableMap:
    """A table map with the columns' signs only."""
    fields = [(_SIGNEDNESS, signs)]
    if visible:
        fields.append((_VISIBILITY, b"\xff" * ((len(kinds) + 7) // 8)))
    body = b"\x01\0\0\0\0\0\x01\0" + b"\x01d\0" + b"\x01t\0" + bytes([len(kinds), *kinds]) + b"\0"
    body += b"\0" * ((len(kinds) + 7) // 8)
    return parse_table_map(body + b"".join(bytes([kind, len(raw)]) + raw for kind, raw in fields))


def signs(table_map: TableMap) -> list[bool | None]:
    return [column.unsigned for column in table_map.columns if column.type != T.YEAR]


def test_a_server_that_sends_visibility_has_a_bit_for_year() -> None:
    kinds = [T.YEAR, T.LONG, T.TINY]
    assert signs(mapped(kinds, b"\x40", visible=True)) == [True, False]
    assert signs(mapped(kinds, b"\xa0", visible=True)) == [False, True]


def test_the_size_of_the_bitmap_decides() -> None:
    eight = [T.YEAR, *[T.LONG] * 8]
    assert signs(mapped(eight, b"\x80")) == [True, *[False] * 7]
    assert signs(mapped(eight, b"\x00\x80")) == [*[False] * 7, True]


def test_a_bit_after_the_last_of_the_others_states_that_year_has_one() -> None:
    assert signs(mapped([T.YEAR, T.LONG, T.TINY], b"\x20")) == [False, True]


def test_columns_of_which_both_readings_agree_are_reported() -> None:
    assert signs(mapped([T.LONG, T.YEAR, T.TINY], b"\x80")) == [True, False]


def test_a_sign_that_could_be_either_is_left_open_and_not_read() -> None:
    table_map = mapped([T.YEAR, T.LONG, T.TINY], b"\x80")
    assert signs(table_map) == [None, False]
    with pytest.raises(UnsupportedEvent, match="unsigned"):
        reader_for(table_map.columns[1], CHARSETS)


def test_a_table_without_year_needs_no_guess() -> None:
    assert signs(mapped([T.LONG, T.TINY], b"\x40")) == [False, True]


def test_an_integer_of_a_table_map_without_signs_is_not_read() -> None:
    with pytest.raises(UnsupportedEvent, match="column 'n'"):
        reader_for(MappedColumn(type=T.LONG, metadata=0, nullable=False, name="n"), CHARSETS)
