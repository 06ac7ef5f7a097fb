import pytest

from connectors.mysql.binlog.query_session import DEFAULT, UnknownSqlMode, of_number, of_text


def test_a_number_has_a_name_for_each_bit() -> None:
    assert of_number(0) == frozenset()
    assert of_number(4 | 1 << 20) == {"ANSI_QUOTES", "NO_BACKSLASH_ESCAPES"}
    assert of_number(1 << 40 | 1 << 32 | 1) == {"REAL_AS_FLOAT"}
    assert of_number(1436549152) == DEFAULT | {"NO_AUTO_CREATE_USER"}  # of a 5.7


def test_names_are_taken_in_any_case_with_spaces_and_empty_places() -> None:
    assert of_text(" ansi_quotes,, Real_As_Float ") == {"ANSI_QUOTES", "REAL_AS_FLOAT"}
    assert of_text("") == frozenset()
    assert of_text("default") == DEFAULT


@pytest.mark.parametrize("name", ["ANSI", "ORACLE", "POSTGRESQL"])
def test_a_combination_stands_with_what_it_stands_for(name: str) -> None:
    assert of_text(name) >= {name, "ANSI_QUOTES", "PIPES_AS_CONCAT"}


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(UnknownSqlMode, match="ANSI_QUOTE"):
        of_text("ANSI_QUOTE")
