"""A change as Canal's FlatMessage.

Source: ``FlatMessage`` and ``MQMessageUtils.messageConverter`` of Canal 1.1.9, whose members come in the order
of their names; for values ``RowsLogBuffer.fetchValue`` and ``LogEventConvert.parseOneRow``. One record has one
row, so ``data`` and ``old`` are lists of one object. An ENUM is the number of its label, a SET a number with a
bit for each label, and bytes are text in ISO 8859-1.
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
from connectors.mysql.types.registry import Kind, ValueOf, kind_of, sql_type
from tables.rules.table_version import TableVersion
from wire.records import subscribers_name

_TYPES = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}


class _Table:
    """The rows of one table version."""

    def __init__(self, version: TableVersion) -> None:
        columns = version.definition.columns
        kinds = {one.name: kind_of(one.type) for one in columns}
        texts = {name: sql_type(kind.base).canal_text(kind) for name, kind in kinds.items()}
        self._texts: dict[str, ValueOf] = {name: one for name, one in texts.items() if one}
        self._unsigned: dict[str, Kind] = {
            name: kind for name, kind in kinds.items() if kind.is_unsigned
        }
        """The columns whose JDBC type depends on the value."""
        self._sql_types = {name: sql_type(kind.base).jdbc for name, kind in kinds.items()}
        self._mysql_types = {one.name: one.column_type or one.type for one in columns}
        self._key = frozenset(version.definition.primary_key)

    def message(self, envelope: Envelope) -> Shaped:
        """Return the message of a row's change."""
        before, after = envelope["before"], envelope["after"]
        image = before if after is None else after
        data = converted(image, self._texts)
        old = None
        if envelope["op"] == "u":
            was = converted(before, self._texts)
            old = [{name: was[name] for name in data if was.get(name, data[name]) != data[name]}]
        found = _of_columns(self._sql_types, image)
        larger = {
            name: _jdbc(kind, image[name]) for name, kind in self._unsigned.items() if name in image
        }
        return _message(
            envelope,
            subscribers_name(envelope["source"]),
            kind=_TYPES[envelope["op"]],
            data=[data],
            mysqlType=_of_columns(self._mysql_types, image),
            old=old,
            pkNames=[name for name in image if name in self._key] or None,
            sqlType={**found, **larger},
        )


def _jdbc(kind: Kind, value: Any) -> int:
    """The JDBC type of an unsigned column's value."""
    made = sql_type(kind.base)
    if value is not None and made.jdbc_of_large is not None:
        least, larger = made.jdbc_of_large
        if value >= least:
            return larger
    return made.jdbc


def _of_columns(types: dict[str, Any], image: dict[str, Any]) -> dict[str, Any]:
    """The types of the columns that an image has, in its order."""
    return types if types.keys() == image.keys() else {name: types[name] for name in image}


def _rows(version: TableVersion) -> ShapeRow:
    return _Table(version).message


def _truncation(envelope: Envelope, table: TableName) -> Shaped:
    """Return the message of a TRUNCATE, which is DDL to Canal."""
    return _message(envelope, table, kind="TRUNCATE", sql=truncate_statement(table), isDdl=True)


def _message(envelope: Envelope, table: TableName, *, kind: str, **more: Any) -> Shaped:
    source = envelope["source"]
    found = {
        "data": None,
        "database": table[0],
        "es": source["ts_ms"],
        "gtid": source["gtid"] or "",
        "id": source["seq"],
        "isDdl": False,
        "mysqlType": None,
        "old": None,
        "pkNames": None,
        "sql": "",
        "sqlType": None,
        "table": table[1],
        "ts": envelope["ts_ms"],
        "type": kind,
    }
    return {**found, **more}


def _committed_ms(value: Shaped) -> int:
    return int(value["es"])


CANAL = Shape(
    name="canal",
    rows=_rows,
    values=lambda kind: sql_type(kind.base).canal_value(kind),
    truncation=_truncation,
    committed_ms=_committed_ms,
    op=lambda value: {"TRUNCATE": "t", "DELETE": "d"}.get(value["type"], "u"),
    table=lambda value: (value["database"], value["table"]),
    image=lambda value: value["data"][0],
)
