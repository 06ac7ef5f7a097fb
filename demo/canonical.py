"""Comparison of MySQL's rows with the warehouse's, value by value, whatever types carry them.

A value becomes text that is the same on both sides exactly if the value is: numbers keep their
scale, times their microseconds, JSON its content but not its spacing, and NULL is no text at all.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

ABSENT = "(no such column)"

Key = tuple[str | None, ...]
Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that differs between the sides; None for a missing row."""

    table: str
    key: Key
    source: Row | None
    warehouse: Row | None

    def __str__(self) -> str:
        row_text = f"{self.table} ({', '.join(map(str, self.key))})"
        if self.source is None:
            return f"{row_text}: only the warehouse has it: {dict(self.warehouse or {})}"
        if self.warehouse is None:
            return f"{row_text}: only MySQL has it: {dict(self.source)}"
        return f"{row_text}: " + "; ".join(_columns(self.source, self.warehouse))


def differences(
    table: str, source: Mapping[Key, Row], warehouse: Mapping[Key, Row]
) -> Iterator[Difference]:
    """The rows that differ, or are on one side only."""
    for key in source.keys() | warehouse.keys():
        ours, theirs = source.get(key), warehouse.get(key)
        if ours != theirs:
            yield Difference(table, key, ours, theirs)


def row(values: Mapping[str, object], types: Mapping[str, str]) -> dict[str, str | None]:
    """A row as text: those columns that MySQL has, by its `data_type` of each."""
    return {
        column: canonical(values[column], data_type) if column in values else ABSENT
        for column, data_type in types.items()
    }


def canonical(value: object, data_type: str) -> str | None:
    """One value as text; `data_type` as information_schema names it."""
    if value is None:
        return None
    if data_type == "json":
        return _json(str(value))
    match value:
        case bool() | int():
            return str(int(value))
        case float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return f"0x{value.hex()}"
        case _:
            return repr(str(value))


def _json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return f"not JSON: {text!r}"


def _columns(source: Row, warehouse: Row) -> Iterator[str]:
    for column in source:
        if source[column] != warehouse.get(column):
            yield f"{column} is {source[column]} in MySQL, {warehouse.get(column)} in the warehouse"
