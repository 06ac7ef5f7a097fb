"""The value that existing rows have in a column that ALTER TABLE adds.

It is JSON: ``{"value": …}``, encoded as in a row record, or ``{"unknown": …}`` with the part of the column's
definition on which the value depends.

Invariant: a value is given only if MySQL gives the same value to every row.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from connectors.mysql.ddl.definition import Column, Execution, Server
from connectors.mysql.ddl.initial_value.by_type import implicit, value_in
from connectors.mysql.ddl.initial_value.literal import NotConstant, Text, literal_of
from connectors.mysql.ddl.statement.column_spec import Attributes
from connectors.mysql.types.integers import INTEGERS

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


def initial_after(
    old: Column, new: Column, execution: Execution | None, server: Server, *, is_computed: bool
) -> str:
    """Return the JSON after ``old`` is redefined as ``new``, with the value as MySQL converts it.

    ``is_computed``: the server computes the new column's values, by an expression or with AUTO_INCREMENT.
    """
    found = json.loads(old.initial, parse_float=str) if old.initial else {"unknown": ""}
    if "unknown" in found:
        return old.initial
    if is_computed:
        return _unknown(new.definition)
    value = found["value"]
    is_same = (old.type, old.exact_type, old.charset) == (new.type, new.exact_type, new.charset)
    if is_same and (new.nullable or value is not None):
        return old.initial
    try:
        return _known(_converted(value, old, new, execution, server))
    except NotConstant:
        before = "NULL" if value is None else old.type
        return _unknown(f"converted from {before} to {new.type}")


def _converted(
    value: Any, old: Column, new: Column, execution: Execution | None, server: Server
) -> Any:
    if value is None and new.nullable:
        return None
    if value is None and not new.type.startswith(_FILLED_OTHERWISE):
        return implicit(new)
    if value is None or execution is None or not _is_converted_as_text(old, new):
        raise NotConstant("a conversion")
    text = str(value).replace("T", " ") if old.type.startswith("d") else str(value)
    # MariaDB reads a text's leading digits into an integer, and does not round.
    is_cut = server.mariadb and old.charset is not None and _INTEGER.match(new.type) is not None
    if is_cut and not text.strip().lstrip("+-").isdecimal():
        raise NotConstant("a conversion")
    return value_in(new, Text(text), execution, server)


_INTEGER = re.compile(rf"({'|'.join(INTEGERS)})\b")
_FILLED_OTHERWISE = ("bit", "date", "enum", "json", "time")
"""Types in which the value in place of NULL depends on the server, the session's mode or the time."""
_OPAQUE = ("bit", "binary", "varbinary", "timestamp", "year", "float", "double")


def _is_converted_as_text(old: Column, new: Column) -> bool:
    """Whether the text of a value on the wire is the text through which MySQL converts the value."""
    kinds = old.type, new.type
    if any(kind.startswith(_OPAQUE) or "blob" in kind for kind in kinds):
        return False
    # Between a label and anything but text, MySQL converts the label's number.
    has_label = any(kind.startswith(("enum", "set")) for kind in kinds)
    is_padded = "zerofill" in old.type and new.charset is not None
    return not is_padded and not (has_label and None in (old.charset, new.charset))


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
