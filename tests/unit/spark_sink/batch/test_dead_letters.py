"""Records that cannot be used become dead letters under a limit; the tables are those of the others."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from spark_sink.batch import apply, table_merge
from spark_sink.errors import UnusableLimitReached
from spark_sink.spark.error_mapping import place
from spark_sink.warehouse.common.own_tables import TableLetters
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.table_status import letter_lines, status_lines
from tests.unit.spark_sink.conftest import TOPIC, Warehouse
from tests.unit.spark_sink.history import Change, Image, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SCHEMAS = [schema(("id", "int"), ("v", "int"), table=table) for table in ("t", "u", "other")]
OWN: dict[str, Any] = {
    "key": b"\x00\xff",
    "headers": [{"key": "h", "value": b"\x80"}, {"key": "h", "value": None}],
    "timestamp": 1_790_000_000_123,
}


def put(seq: int, table: str = "t", *, v: Any = 1, **more: Any) -> Change:
    return Change(op="c", seq=seq, table=table, after={"id": seq, "v": v}, **more)


def lacking(seq: int) -> Change:
    return Change(op="c", seq=seq, after={"id": seq}, more={"absent": ["v"]})


class Killed(BaseException):
    """The process is gone at this point."""


def killed(*_: Any, **__: Any) -> None:
    raise Killed


def ids(warehouse: Warehouse, table: str = "t") -> list[int]:
    return sorted(row["id"] for row in warehouse.rows(table))


def letters(warehouse: Warehouse) -> dict[int, dict[str, Any]]:
    """The rows of the dead letters, by offset."""
    assert isinstance(warehouse.kept.letters, TableLetters)
    held = warehouse.kept.letters.table.read()
    found = [row.asDict(recursive=True) for row in held.collect()] if held else []
    assert len({row["offset"] for row in found}) == len(found)
    return {row["offset"]: row for row in found}


UNUSABLE: list[tuple[str | bytes, str | None, str, str]] = [
    (b'{"before": \xff\xfe', None, "MalformedRecord", "not a JSON object"),
    (b"[1]", None, "MalformedRecord", "not a JSON object"),
    (put(1).value() + "x", "t", "MalformedRecord", "not a JSON object"),
    (put(2).value().replace('"op":"c"', '"op":"d"'), "t", "MalformedRecord", "do not fit op"),
    (put(3, v="x").value(), "t", "MalformedRecord", "column v holds no int"),
    (put(4, v="2.5").value(), "t", "MalformedRecord", "column v holds no int"),
    (lacking(5).value(), "t", "UnsupportedPartialImage", "lacks columns"),
    (put(6, "u", v="z\x00\u20ac").value(), "u", "MalformedRecord", "column v holds no int"),
    (
        Change(op="c", seq=7, table="u", more={"left_out": "2000000"}).value(),
        "u",
        "RowNotInRecord",
        "bytes omitted: 2000000",
    ),
]
"""Each with the table that it names, and its error and reason."""


@pytest.mark.long(
    "half of a move; test_dead_letters_limit.py has the limit, the contract what is stored"
)
def test_unusable_records_become_dead_letters_byte_for_byte_whatever_is_killed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.schemas = SCHEMAS
    warehouse.unusable_limit = len(UNUSABLE)
    warehouse.restart()
    warehouse.take(put(1), put(3), put(11, "u"))
    start = warehouse.ends()
    for value, *_ in UNUSABLE:
        warehouse.write(value, **OWN)
    for good in (put(21), None, put(22, "u"), put(23, "other")):
        warehouse.write(good)
    # After the first dead letters, then before the ledger moves.
    for what, name in (
        (type(warehouse.kept.tables), "merge"),
        (type(warehouse.kept.log), "append"),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(what, name, killed)
            with pytest.raises(Killed):
                warehouse.catch_up(start)
        assert letters(warehouse)
        warehouse.restart()
    tries: list[str] = []

    def counted(*arguments: Any, **more: Any) -> None:
        tries.append(arguments[2].name[1])
        table_merge.merged(*arguments, **more)

    monkeypatch.setattr(apply, "merged", counted)
    with caplog.at_level(logging.WARNING, "spark_sink"):
        warehouse.catch_up(start)
    lines = [one for one in map(logging.LogRecord.getMessage, caplog.records) if "dead" in one]
    # That of the batch that was killed before the ledger moved, and of the one that repeats it.
    assert [f" number={len(UNUSABLE)} new=" in line for line in lines] == [True, True]
    assert " new=0 first=topic " in lines[1]
    # One for all records of which a value is none, one for those that lack a column, one for the rest.
    assert tries.count("t") == 3

    found = letters(warehouse)
    first = start[TOPIC]
    assert found.keys() == {first + number for number in range(len(UNUSABLE))}
    for number, (value, table, error, reason) in enumerate(UNUSABLE):
        letter = found[first + number]
        assert bytes(letter["value"]) == (value if isinstance(value, bytes) else value.encode())
        assert bytes(letter["key"]) == OWN["key"]
        assert [(one["key"], one["value"]) for one in letter["headers"]] == [
            ("h", bytearray(b"\x80")),
            ("h", None),
        ]
        assert letter["timestamp"].timestamp() == 1_790_000_000.123
        assert (letter["database"], letter["table"]) == (table and "shop", table)
        assert letter["error"] == error
        assert reason in letter["reason"]
        assert abs(letter["at"].timestamp() - time.time()) < 3600
    assert [ids(warehouse, table) for table in ("t", "u", "other")] == [[1, 3, 21], [11, 22], [23]]
    assert all(warehouse.waiting(table) is None for table in ("t", "u"))
    assert warehouse.kept.log.applied() == warehouse.ends()
    sample = warehouse.metrics.registry.get_sample_value
    labels = {"table": "shop.t", "error": "MalformedRecord"}
    assert sample("aqueduct_sink_dead_letters_total", labels) == 4
    assert (
        sample("aqueduct_sink_dead_letters_total", {"table": "", "error": "MalformedRecord"}) == 2
    )
    assert sample("aqueduct_sink_rows_total", {"table": "shop.u", "op": "c"}) == 2
    newest, *_ = letter_lines(warehouse.kept, 1, ("shop", "u"))
    assert newest.endswith(
        f"Z shop.u: {place(*TOPIC, first + 7)}: MalformedRecord: column v holds no int"
    )
    listed = list(letter_lines(warehouse.kept, 99))
    expected = f"names no table: {place(*TOPIC, first)}: MalformedRecord: not a JSON object"
    assert sum(line.endswith(expected) for line in listed) == 1
    assert f"dead letters in the last hour: {len(UNUSABLE)}; " in "\n".join(
        status_lines(warehouse.kept)
    )


@pytest.mark.long("test_dead_letters_limit.py has the limit; reloads are in test_waiting_tables.py")
def test_a_table_past_the_limit_waits_the_others_continue_and_a_reload_repairs_it(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.schemas = SCHEMAS
    warehouse.unusable_limit = 2
    warehouse.restart()
    with caplog.at_level(logging.WARNING, "spark_sink"), pytest.raises(UnusableLimitReached):
        warehouse.take(
            *(put(seq, v="x") for seq in (1, 2, 3)),
            put(4),
            put(5, "u", v="x"),
            put(6, "u"),
            put(7, "other"),
        )
    held = warehouse.waiting()
    assert held is not None
    assert held.error == "UnusableLimitReached"
    assert "MalformedRecord: column v holds no int" in held.reason
    assert "unusable_limit is 2" in held.reason
    assert "reload shop.t --skip-unusable" in held.action
    assert letters(warehouse).keys() == {4}
    assert (ids(warehouse, "u"), ids(warehouse, "other")) == ([6], [7])
    lines = [record.getMessage() for record in caplog.records]
    why = "MalformedRecord: column v holds no int"
    assert [line for line in lines if line.startswith("dead letters")] == [
        f"dead letters batch=0 number=1 new=1 first={place(*TOPIC, 4, why)}"
    ]

    # Of the same hour, in another process; those of the waiting table do not count.
    warehouse.restart()
    warehouse.take(put(8, v="x"), put(9), put(10, "u", v="x"), put(11, "u"))
    assert letters(warehouse).keys() == {4, 9}
    warehouse.restart()
    warehouse.take(b"{")
    # It may be a change of any table, as their versions name no topic.
    held = warehouse.waiting("u")
    assert held is not None
    assert held.error == "UnusableLimitReached"
    assert "that name no table" in held.reason
    for table in ("t", "u", "other"):
        warehouse.reload(table, skip_unusable=True)
        assert warehouse.waiting(table) is None
    assert ids(warehouse) == [4, 9]
    # An hour later.
    warehouse.restart()
    warehouse.applier.clock = lambda: time.time() + 3601
    warehouse.catch_up({TOPIC: 11})
    assert letters(warehouse).keys() == {4, 9, 11}


@pytest.mark.long("test_reading.py reads a table with an unusable change as merged")
def test_a_reader_sees_the_table_as_merged_until_an_unusable_value_is_a_dead_letter(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = SCHEMAS
    warehouse.unusable_limit = 1
    warehouse.restart()
    warehouse.take(put(1))
    start = warehouse.ends()
    for change in (put(2, v="x"), put(3)):
        warehouse.write(change)
    warehouse.store(start, Step.BEGIN)
    assert [row["id"] for row in warehouse.fresh()] == [1]
    warehouse.catch_up(start)
    assert sorted(row["id"] for row in warehouse.fresh()) == [1, 3]


def test_half_of_a_move_is_a_dead_letter_only_with_its_other_half(warehouse: Warehouse) -> None:
    warehouse.schemas = SCHEMAS
    warehouse.unusable_limit = 9
    warehouse.restart()

    def half(op: str, seq: int, table: str, *, header: str, image: Image) -> Change:
        return Change(
            op=op,
            seq=seq,
            table=table,
            before=image if op == "d" else None,
            after=image if op == "c" else None,
            headers=(f"__debezium.{header}",),
            more={"absent": ["v"]},
        )

    warehouse.take(put(1), put(2, "u"))
    # The create of `t` has no key; that of `u` may be in another partition, not to be seen yet.
    warehouse.take(
        half("d", 3, "t", header="newkey", image={"id": 1}),
        half("c", 4, "t", header="oldkey", image={"id": None}),
        half("d", 5, "u", header="newkey", image={"id": 2}),
        put(7),
    )
    held = warehouse.waiting("u")
    assert held is not None
    assert held.error == "UnsupportedPartialImage"
    assert warehouse.waiting() is None
    assert {row["error"] for row in letters(warehouse).values()} == {
        "MalformedRecord",
        "UnsupportedPartialImage",
    }
    assert letters(warehouse).keys() == {2, 3}
    assert (ids(warehouse), ids(warehouse, "u")) == ([1, 7], [2])


@pytest.mark.long("test_dead_letters_limit.py has the limit; reloads are in test_waiting_tables.py")
def test_a_reload_skips_dead_letters_that_nothing_replaces_and_no_other_record(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [SCHEMAS[0], schema(("id", "int"), ("v", "int"), key=("v",), version=2)]
    warehouse.unusable_limit = 1
    warehouse.restart()
    warehouse.take(put(1), put(2, v="x"))
    warehouse.reload(from_beginning=True)
    assert ids(warehouse) == [1]
    with pytest.raises(UnusableLimitReached):
        warehouse.take(put(3, v="x"))
    with pytest.raises(Exception, match=r"offset 2.*1 record\(s\) not replaced"):
        warehouse.reload()
