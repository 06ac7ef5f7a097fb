"""The steps of a golden binlog as JSON: rows by name, statements and the ends of transactions."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.rows.decoder import ABSENT, Image, RowDecoder
from connectors.mysql.schema.server_columns import ColumnDefinition
from connectors.mysql.schema.table_map_completion import described, has_full_metadata
from tests.steps import End, Rows, Statement, Step

Definition = dict[str, Any]
"""``{at, table, columns}``: a table's columns from an offset of the file on."""


def definition(at: int, table: str, columns: tuple[ColumnDefinition, ...]) -> Definition:
    """A table's columns as they are stored."""
    return {"at": at, "table": table, "columns": [asdict(column) for column in columns]}


def events_of(steps: list[Step], definitions: list[Definition], charsets: Charsets) -> list[Any]:
    """Every step in the form that is stored."""
    return [one for step in steps for one in _events_of(step, definitions, charsets)]


def _events_of(step: Step, definitions: list[Definition], charsets: Charsets) -> Iterator[Any]:
    if isinstance(step, Rows):
        table_map = _complete(step, definitions, charsets)
        names = [column.name or "" for column in table_map.columns]
        for change in RowDecoder(table_map, charsets).decode(step.event_type, step.body):
            yield {
                "table": f"{table_map.database}.{table_map.table}",
                "before": _named(names, change.before),
                "after": _named(names, change.after),
            }
    elif isinstance(step, Statement):
        yield {"statement": step.query.sql, "kind": step.kind.name}
    elif isinstance(step, End):
        who = step.transaction
        yield {"end": str(step.end), "gtid": who.gtid, "committed_ms": who.committed_ms}


def _complete(step: Rows, definitions: list[Definition], charsets: Charsets) -> TableMap:
    if has_full_metadata(step.table_map):
        return step.table_map
    name = f"{step.table_map.database}.{step.table_map.table}"
    held = [one for one in definitions if one["table"] == name and one["at"] <= step.start.pos]
    columns = [ColumnDefinition(**column) for column in held[-1]["columns"]]
    return described(step.table_map, columns, charsets)


def _named(names: list[str], image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    return {name: value for name, value in zip(names, image, strict=True) if value is not ABSENT}
