from typing import Any

from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import UpdateRowsEvent, WriteRowsEvent

from demo.truth import truth_of


class SimpleGtid(GtidEvent):  # type: ignore[misc]  # the library has no types
    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def gtid(self) -> str:
        return self._text


class SimpleRows(WriteRowsEvent):  # type: ignore[misc]  # as above
    rows: Any = None  # a property in the library

    def __init__(self, schema: str, table: str, rows: list[Any]) -> None:
        self.schema, self.table, self.rows, self.primary_key = schema, table, rows, "id"


class SimpleUpdate(UpdateRowsEvent):  # type: ignore[misc]  # as above
    rows: Any = None  # a property in the library

    def __init__(self, table: str, rows: list[Any], key: str | tuple[str, ...] = "id") -> None:
        self.schema, self.table, self.rows, self.primary_key = "shop", table, rows, key


def test_rows_are_numbered_from_0_in_each_transaction() -> None:
    truth = truth_of(
        [
            SimpleGtid("s:1"),
            SimpleRows("shop", "orders", [{}, {}]),
            SimpleRows("shop", "customers", [{}]),
            SimpleGtid("s:2"),
            SimpleRows("shop", "orders", [{}]),
        ],
        "shop",
    )
    assert truth.change_ids == {"orders": {"s:1#0", "s:1#1", "s:2#0"}, "customers": {"s:1#2"}}
    assert truth.changes == {"orders": 3, "customers": 1}


def test_rows_of_other_databases_are_numbered_but_not_expected() -> None:
    truth = truth_of(
        [SimpleGtid("s:1"), SimpleRows("other", "x", [{}]), SimpleRows("shop", "orders", [{}])],
        "shop",
    )
    assert truth.change_ids == {"orders": {"s:1#1"}}


def test_a_change_of_the_key_is_one_change_and_two_records() -> None:
    row = {"before_values": {"a": 1, "b": 1, "c": 0}, "after_values": {"a": 1, "b": 2, "c": 0}}
    truth = truth_of([SimpleGtid("s:1"), SimpleUpdate("order_items", [row], ("a", "b"))], "shop")
    assert truth.change_ids == {"order_items": {"s:1#0/0", "s:1#0/1"}}
    assert truth.changes == {"order_items": 1}


def test_a_change_of_other_columns_is_one_record() -> None:
    row = {"before_values": {"id": 1, "c": 0}, "after_values": {"id": 1, "c": 9}}
    truth = truth_of([SimpleGtid("s:1"), SimpleUpdate("orders", [row])], "shop")
    assert truth.change_ids == {"orders": {"s:1#0"}}
