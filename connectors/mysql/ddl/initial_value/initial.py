"""The value that existing rows have in a column that ALTER TABLE adds.

It is JSON: ``{"value": …}``, encoded as in a row record, or ``{"unknown": …}`` with the part of the column's
definition on which the value depends.

Invariant: a value is given only if MySQL gives the same value to every row.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from connectors.mysql.ddl.definition import Column, Execution, Server
from connectors.mysql.ddl.initial_value.by_type import implicit, value_in
from connectors.mysql.ddl.initial_value.literal import Literal, NotConstant, Text, literal_of
from connectors.mysql.ddl.statement.column_spec import Attributes

UNKNOWN = '{"unknown":""}'
"""A value that is not known, or must not be stored or published."""


def initial(column: Column, attributes: Attributes, execution: Execution, server: Server) -> str:
    """The JSON of a column that a statement adds."""
    if attributes.generated or attributes.auto_increment or attributes.row_period:
        return _unknown(column.definition)
    try:
        if attributes.default is not None:
            literal = literal_of(attributes.default)
            if literal is None and not column.nullable:
                raise NotConstant("NULL")
            return _known(value_in(column, literal, execution, server))
        return _known(None if column.nullable else implicit(column))
    except NotConstant:
        return _unknown(column.definition)


def initial_after(old: Column, new: Column, execution: Execution | None, server: Server) -> str:
    """Return the JSON after ``old`` is redefined as ``new``, with the value as MySQL converts it."""
    same = (old.type, old.exact_type, old.charset) == (new.type, new.exact_type, new.charset)
    if not old.initial or same:
        return old.initial
    found = json.loads(old.initial, parse_float=str)
    if "unknown" in found:
        return old.initial
    try:
        return _known(_converted(found["value"], old, new, execution, server))
    except NotConstant:
        return _unknown(f"converted from {old.type} to {new.type}")


def _converted(
    value: Any, old: Column, new: Column, execution: Execution | None, server: Server
) -> Any:
    if value is None:
        if not new.nullable:
            raise NotConstant("NULL")
        return None
    if execution is None or _is_opaque(old.type) or _is_opaque(new.type):
        raise NotConstant("a conversion")
    text: Literal = Text(str(value).replace("T", " ") if old.type.startswith("d") else str(value))
    return value_in(new, text, execution, server)


_OPAQUE = ("bit", "binary", "varbinary", "timestamp", "year", "float", "double")


def _is_opaque(kind: str) -> bool:
    """Whether the text of a value on the wire is not the text through which MySQL converts the value."""
    return kind.startswith(_OPAQUE) or "blob" in kind


def hidden_initial(initial_json: str, attributes: Attributes | None) -> str:
    """Return the JSON for a store that must not have literals: only values that no literal gave are kept."""
    if not initial_json or "unknown" in json.loads(initial_json):
        return UNKNOWN if initial_json else ""
    is_implicit = attributes is not None and (attributes.default or "NULL").upper() == "NULL"
    return initial_json if is_implicit else UNKNOWN


def _known(value: Any) -> str:
    return orjson.dumps({"value": value}).decode()


def _unknown(definition: str) -> str:
    return orjson.dumps({"unknown": definition}).decode()
