"""Names of changes, built and read."""

import pytest

from wire.changes import (
    DDL_ORDINAL,
    change_id,
    emptied_by,
    parts_of,
    reading_id,
    reading_of,
)

GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"


def test_a_change_is_named_as_the_contract_shows() -> None:
    assert change_id("u:23", 0) == "u:23#0"
    assert change_id("u:23", 4, 1) == "u:23#4/1"
    assert change_id("u:23", DDL_ORDINAL) == "u:23#ddl"


@pytest.mark.parametrize(
    "parts", [(GTID, 0, None), (GTID, 12, 1), ("u:binlog.000001:4", "end", None)]
)
def test_a_name_is_read_as_it_was_built(parts: tuple[str, int | str, int | None]) -> None:
    transaction, ordinal, half = parts
    read = (transaction, str(ordinal), "" if half is None else str(half))
    assert parts_of(change_id(*parts)) == read


def test_what_is_no_name_has_no_transaction() -> None:
    assert parts_of("") == ("", "", "")
    assert parts_of("x")[0] == ""


def test_the_reading_and_the_chunk_are_in_a_rows_id() -> None:
    name = change_id(reading_id("one", ("shop", "a.b:c"), 12), 7)
    assert name == "snapshot:one:shop.a%2Eb%3Ac:12#7"
    assert reading_of(name) == ("snapshot:one:shop.a%2Eb%3Ac", 12)
    assert reading_of(change_id(GTID, 7)) is None


def test_the_transaction_that_emptied_a_table_is_in_the_ids_of_its_deletes() -> None:
    assert emptied_by(f"truncate:{GTID}:0#5") == GTID
    assert emptied_by("truncate:snapshot:one:shop.a:3#5") is None
    assert emptied_by(change_id(GTID, 5)) is None
