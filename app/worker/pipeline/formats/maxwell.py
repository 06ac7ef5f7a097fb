"""A change as Maxwell's row.

Source: ``RowMap.toJSON`` and ``BinlogConnectorEvent`` of Maxwell 1.45, with the options output_binlog_position,
output_gtid_position, output_server_id and output_thread_id; for values its ``schema/columndef``. Maxwell's
``xid`` is InnoDB's, and its ``commit`` is on the last row of a transaction; the envelope has neither. Here
``xid`` is the ``seq`` of the transaction's first record: all rows of a transaction share it, no other
transaction has it, and it grows.
"""

from __future__ import annotations

from typing import Any

from app.worker.pipeline.formats.shape import (
    Envelope,
    Shape,
    Shaped,
    ShapeRow,
    converted,
    truncate_statement,
)
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.types.registry import ValueOf, kind_of, sql_type
from tables.rules.table_version import TableVersion
from wire.records import subscribers_name

_TYPES = {"c": "insert", "r": "insert", "u": "update", "d": "delete"}


class _Table:
    """The rows of one table version."""

    def __init__(self, version: TableVersion) -> None:
        columns = version.definition.columns
        kinds = {one.name: kind_of(one.type) for one in columns}
        found = {name: sql_type(kind.base).maxwell(kind) for name, kind in kinds.items()}
        self._values: dict[str, ValueOf] = {name: one for name, one in found.items() if one}

    def row(self, envelope: Envelope) -> Shaped:
        """Return the row of a change."""
        before, after = envelope["before"] or {}, envelope["after"] or {}
        # The before image has columns that the after image lacks only if row images are partial.
        data = {**after, **{name: value for name, value in before.items() if name not in after}}
        changed = {name: value for name, value in before.items() if _differs(name, value, after)}
        shaped = _head(envelope, subscribers_name(envelope["source"]), _TYPES[envelope["op"]])
        shaped["data"] = converted(data, self._values)
        if changed:
            shaped["old"] = converted(changed, self._values)
        return shaped


def _differs(name: str, value: Any, after: dict[str, Any]) -> bool:
    # 0.0 and -0.0 are equal numbers and different values.
    return name in after and repr(value) != repr(after[name])


def _rows(version: TableVersion) -> ShapeRow:
    return _Table(version).row


def _truncation(envelope: Envelope, table: TableName) -> Shaped:
    """Return the record of a TRUNCATE, which Maxwell does not have."""
    return {**_head(envelope, table, "table-truncate"), "sql": truncate_statement(table)}


def _head(envelope: Envelope, table: TableName, kind: str) -> Shaped:
    source = envelope["source"]
    optional = {
        "gtid": source["gtid"],
        "server_id": source["server_id"],
        "thread_id": source["thread"],
    }
    query = {"query": source["query"]} if "query" in source else {}
    return {
        "database": table[0],
        "table": table[1],
        **query,
        "type": kind,
        "ts": source["ts_ms"] // 1000,
        "xid": source["seq"] - envelope["transaction"]["total_order"] + 1,
        "position": f"{source['file']}:{source['pos']}",
        **{name: value for name, value in optional.items() if value is not None},
    }


def _committed_ms(value: Shaped) -> int:
    return int(value["ts"]) * 1000


MAXWELL = Shape(
    name="maxwell",
    rows=_rows,
    values=lambda kind: sql_type(kind.base).maxwell_value(kind),
    truncation=_truncation,
    committed_ms=_committed_ms,
    op=lambda value: {"table-truncate": "t", "delete": "d"}.get(value["type"], "u"),
    table=lambda value: (value["database"], value["table"]),
    image=lambda value: value["data"],
)
