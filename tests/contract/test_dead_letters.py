"""What dead letters of every warehouse do alike: those in memory, and Delta's and Iceberg's on a real Spark."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import functions as f

from spark_sink.source.positions import At
from spark_sink.text.quoting import LETTERS
from spark_sink.warehouse.common.own_tables import TableLetters
from spark_sink.warehouse.delta.own_tables import DeltaLetters
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import LETTER_COLUMNS, DeadLetters, Letter
from tests.harness.memory_warehouse import MemoryLetters
from tests.unit.spark_sink.conftest import FORMATS_LONG, spark

__all__ = ["spark"]
Row = dict[str, Any]
AT = ("aq.shop.t", 0)
HEADERS = [{"key": "h", "value": b"\x80\x00"}, {"key": "h", "value": None}]
BYTES = (b"\x00\xff", b'{"a": \xfe\n', HEADERS)

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@dataclass(frozen=True, slots=True)
class Case:
    """Dead letters, whatever form their rows have."""

    letters: DeadLetters[Any]
    spark: Any = None

    def add(self, *rows: Row) -> None:
        self.letters.add(rows if self.spark is None else self._frame(rows))

    def _frame(self, rows: tuple[Row, ...]) -> Any:
        text = json.dumps(rows, default=_json)
        kinds = dict(LETTER_COLUMNS) | {"key": "STRING", "value": "STRING"}
        kinds |= {"headers": "ARRAY<STRUCT<key: STRING, value: STRING>>"}
        fields = ", ".join(f"`{name}`: {kind}" for name, kind in kinds.items())
        parsed = self.spark.range(1, numPartitions=1).select(
            f.inline(f.from_json(f.lit(text), f"array<struct<{fields}>>"))
        )
        changed = {name: f"unbase64({name}) AS {name}" for name in ("key", "value")}
        unpacked = "transform(headers, x -> struct(x.key AS key, unbase64(x.value) AS value))"
        changed["headers"] = f"{unpacked} AS headers"
        return parsed.selectExpr(*(changed.get(name, f"`{name}`") for name in kinds))

    def stored(self) -> dict[At, tuple[Any, ...]]:
        """Key, value and headers of each dead letter, by position."""
        if isinstance(self.letters, MemoryLetters):
            rows: list[Any] = list(self.letters.stored.values())
        else:
            assert isinstance(self.letters, TableLetters)
            held = self.letters.table.read()
            rows = [row.asDict(recursive=True) for row in held.collect()] if held else []
        return {
            (row["topic"], row["partition"], row["offset"]): (
                *(None if row[name] is None else bytes(row[name]) for name in ("key", "value")),
                row["headers"],
            )
            for row in rows
        }


def _json(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    assert isinstance(value, datetime.datetime)
    return value.isoformat()


def at(second: int) -> datetime.datetime:
    return datetime.datetime(2026, 11, 26, 5, 0, second, 250_000, datetime.UTC)


def letter(offset: int, *, second: int = 0, **other: Any) -> Row:
    key, value, headers = BYTES
    return {
        "topic": AT[0], "partition": AT[1], "offset": offset, "key": key, "value": value,
        "headers": headers, "timestamp": at(1), "database": "shop", "table": "t",
        "error": "MalformedRecord", "reason": f"reason {offset}", "at": at(second), **other,
    }  # fmt: skip


@pytest.fixture(params=["memory", *FORMATS_LONG])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    if request.param == "memory":
        yield Case(MemoryLetters())
        return
    session = request.getfixturevalue("spark")
    yield Case(open_warehouse(session, str(tmp_path), table_format=request.param).letters, session)


def test_a_record_is_stored_once_with_its_bytes_and_found_by_its_position(case: Case) -> None:
    letters = case.letters
    start, until = {AT: 4}, {AT: 7, ("other", 1): 9}
    assert (letters.within(start, until), letters.since(0), letters.newest(5)) == (set(), 0, [])
    nothing = letter(9, key=None, value=b"", headers=None, database=None, table=None, second=2)
    case.add(letter(3), letter(4), nothing)
    # A batch that is applied again, later, with another record.
    case.add(letter(4, second=3, value=b"other"), letter(7, second=3), letter(6, second=3))
    assert case.stored() == {
        **{(*AT, offset): BYTES for offset in (3, 4, 6, 7)},
        (*AT, 9): (None, b"", None),
    }
    assert letters.within(start, until) == {(*AT, 4), (*AT, 6)}
    assert letters.within({}, {AT: 4}) == {(*AT, 3)}
    assert letters.within({}, {}) == set()


def test_dead_letters_are_counted_by_time_and_listed_newest_first(case: Case) -> None:
    letters = case.letters
    case.add(letter(5, second=1), letter(2, second=4), letter(3, second=4, table="other"))
    case.add(letter(8, second=2, database=None, table=None, error="RowNotInRecord"))
    second = int(at(0).timestamp() * 1000)
    assert [letters.since(second + ms) for ms in (0, 1000, 1001, 4000, 4001)] == [4, 4, 3, 2, 0]
    assert [one.offset for one in letters.newest(9)] == [3, 2, 8, 5]
    assert [one.offset for one in letters.newest(3)] == [3, 2, 8]
    assert [one.offset for one in letters.newest(9, ("shop", "t"))] == [2, 5]
    assert letters.newest(9, ("shop", "none")) == []
    assert letters.newest(9)[2] == Letter(
        topic=AT[0],
        partition=AT[1],
        offset=8,
        database=None,
        table=None,
        error="RowNotInRecord",
        reason="reason 8",
        at_ms=second + 2000,
    )


@pytest.mark.spark
def test_deltas_files_are_compacted_and_an_operator_removes_rows(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    session, path = request.getfixturevalue("spark"), f"{tmp_path}/{LETTERS}"
    letters = TableLetters(DeltaLetters(session, path, retention_seconds=300), every=2)
    case = Case(letters, session)
    case.add(letter(1))
    case.add(letter(2))
    files = session.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0].numFiles
    assert files == 1
    session.sql(f"DELETE FROM delta.`{path}` WHERE offset = 1")
    case.add(letter(3))
    assert {offset for _, _, offset in case.stored()} == {2, 3}


@pytest.mark.spark
@pytest.mark.long("the test of Delta's has the rule")
def test_icebergs_files_are_compacted_and_an_operator_removes_rows(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    session = request.getfixturevalue("spark")
    held = open_warehouse(session, str(tmp_path), table_format="iceberg", every=2).letters
    assert isinstance(held, TableLetters)
    case = Case(held, session)
    case.add(letter(1))
    case.add(letter(2))
    rows = held.table.read()
    assert rows is not None
    assert rows.select(f.input_file_name()).distinct().count() == 1
    name = cast(Any, held.table)
    session.sql(f"DELETE FROM {name.catalog.sql_name(name.place)} WHERE offset = 1")
    case.add(letter(3))
    assert {offset for _, _, offset in case.stored()} == {2, 3}
