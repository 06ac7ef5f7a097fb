"""A column's definition: its type and its attributes.

Invariant: an unknown attribute is left for the caller, which reports it as a fault. A known attribute is
kept, if only as text for the column's definition, unless it concerns only storage or checks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

from connectors.mysql.ddl import column_types
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.keys import skip_check, skip_references
from connectors.mysql.ddl.grammar.token_reader import Reader, default_value, skip_value
from connectors.mysql.ddl.statement import Attributes, ColumnSpec
from connectors.mysql.types.type_spec import Label, TypeSpec

_LABELLED = frozenset({"enum", "set"})
_LITERALS = frozenset({lexer.STRING, lexer.HEX, lexer.BITS})


class _Draft:
    """A column being parsed: the fields of its type, the fields of its attributes, and other text."""

    __slots__ = ("attributes", "others", "type")

    def __init__(self) -> None:
        self.type: dict[str, Any] = {}
        self.attributes: dict[str, Any] = {}
        self.others: list[str] = []


def column(reader: Reader) -> ColumnSpec:
    """A column's name and definition."""
    name = reader.column()
    draft = _Draft()
    _read_type(reader, draft)
    _read_attributes(reader, draft)
    return ColumnSpec(name=name, type=TypeSpec(**draft.type), attributes=_attributes(draft))


def attributes(reader: Reader) -> Attributes:
    """Attributes without a name and type, as in ``Column.definition``."""
    draft = _Draft()
    _read_attributes(reader, draft)
    return _attributes(draft)


def _attributes(draft: _Draft) -> Attributes:
    return Attributes(others=" ".join(draft.others), **draft.attributes)


# --- the type ---------------------------------------------------------------------------------------


@cache
def _names() -> dict[str, list[tuple[str, ...]]]:
    """The types' names by their first word, names of more words first."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for name in sorted(column_types.NAMES, key=lambda name: -name.count(" ")):
        words = tuple(name.upper().split())
        found[words[0]].append(words)
    return dict(found)


_QUALIFIERS = frozenset({"MARIADB_SCHEMA", "ORACLE_SCHEMA", "MAXDB_SCHEMA"})


def _read_type(reader: Reader, draft: _Draft) -> None:
    if reader.key in _QUALIFIERS and reader.keys[reader.at + 1] == ".":
        draft.type["qualifier"] = reader.key.lower()
        reader.at += 2
    words = next((words for words in _names().get(reader.key, ()) if reader.take(*words)), None)
    if words is None:
        raise reader.fault("expected a type")
    name = draft.type["name"] = " ".join(words).lower()
    if name == "serial":
        draft.attributes.update(nullable=False, auto_increment=True, unique=True)
    if reader.key != "(":
        return
    if name in _LABELLED:
        draft.type["labels"] = reader.enclosed(lambda: _label(reader))
    elif reader.keys[reader.at + 1] == ")":
        reader.at += 2
    else:
        draft.type["arguments"] = _arguments(reader)


_DECIMAL = re.compile(r"([0-9]*)\.[0-9]*")


def _arguments(reader: Reader) -> tuple[int, ...]:
    """A type's numbers; of a single number with a point, the server uses the part before the point."""
    if reader.keys[reader.at + 2] == ")" and (
        found := _DECIMAL.fullmatch(reader.texts[reader.at + 1])
    ):
        reader.at += 3
        return (int(found[1] or 0),)
    return reader.enclosed(reader.integer)


def _label(reader: Reader) -> Label:
    """A label of an ENUM or SET; an introducer before it only determines how its bytes are read."""
    if reader.key.startswith("_") and reader.keys[reader.at + 1] in _LITERALS:
        reader.at += 1
    text = reader.texts[reader.at]
    if reader.key == lexer.HEX:
        reader.at += 1
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)
    if reader.key == lexer.BITS:
        reader.at += 1
        return int(text or "0", 2).to_bytes((len(text) + 7) // 8)
    return reader.string()


# --- attributes -------------------------------------------------------------------------------------


def _read_attributes(reader: Reader, draft: _Draft) -> None:
    while True:
        begin = reader.at
        if attribute := _ATTRIBUTES.get(reader.key):
            reader.at += 1
            attribute(reader, draft)
        elif reader.is_name() and reader.keys[begin + 1] == "=":
            # An attribute that only an engine knows: an assignment.
            reader.at += 2
            skip_value(reader)
        else:
            return


_Attribute = Callable[[Reader, _Draft], None]


def _kept(**fields: object) -> _Attribute:
    """A single-word attribute."""

    def keep(_reader: Reader, draft: _Draft) -> None:
        draft.attributes.update(fields)

    return keep


def _of_type(**fields: object) -> _Attribute:
    """A word that belongs to the type."""

    def keep(_reader: Reader, draft: _Draft) -> None:
        draft.type.update(fields)

    return keep


def _not(reader: Reader, draft: _Draft) -> None:
    if reader.take("SECONDARY"):
        draft.others.append("NOT SECONDARY")
        return
    reader.need("NULL")
    draft.attributes["nullable"] = False


def _default(reader: Reader, draft: _Draft) -> None:
    draft.attributes["default"] = default_value(reader)


def _on(reader: Reader, draft: _Draft) -> None:
    reader.need("UPDATE")
    draft.attributes["on_update"] = default_value(reader)


def _serial(reader: Reader, draft: _Draft) -> None:
    reader.need("DEFAULT", "VALUE")
    draft.attributes.update(nullable=False, auto_increment=True, unique=True)


def _unique(reader: Reader, draft: _Draft) -> None:
    reader.take("KEY")
    draft.attributes["unique"] = True


def _primary(reader: Reader, draft: _Draft) -> None:
    reader.take("KEY")
    draft.attributes.update(primary=True, nullable=False)


def _key(_reader: Reader, draft: _Draft) -> None:
    # KEY alone in a column definition means PRIMARY KEY.
    draft.attributes.update(primary=True, nullable=False)


def _comment(reader: Reader, draft: _Draft) -> None:
    reader.take("=")
    draft.attributes["comment"] = reader.string()


def _charset(reader: Reader, draft: _Draft) -> None:
    reader.take("=")
    draft.type["charset"] = reader.name_or_string().lower()


def _character(reader: Reader, draft: _Draft) -> None:
    reader.need("SET")
    _charset(reader, draft)


def _collate(reader: Reader, draft: _Draft) -> None:
    reader.take("=")
    draft.type["collation"] = reader.name_or_string().lower()


def _srid(reader: Reader, draft: _Draft) -> None:
    reader.take("=")
    draft.type["srid"] = srid = reader.integer()
    draft.others.append(f"SRID {srid}")


def _reference_system(reader: Reader, draft: _Draft) -> None:
    reader.take("=")
    draft.type["srid"] = srid = reader.integer()
    draft.others.append(f"REF_SYSTEM_ID={srid}")


def _compressed(reader: Reader, draft: _Draft) -> None:
    if reader.take("="):
        reader.name()
    draft.type["compressed"] = True


def _generated(reader: Reader, draft: _Draft) -> None:
    reader.need("ALWAYS", "AS")
    _as(reader, draft)


def _as(reader: Reader, draft: _Draft) -> None:
    if reader.take("ROW"):
        if not (reader.take("START") or reader.take("END")):
            raise reader.fault("expected START or END")
        draft.attributes["row_period"] = reader.keys[reader.at - 1].lower()
        return
    begin = reader.at
    reader.skip_parentheses()
    draft.attributes["expression"] = reader.rendered(begin, reader.at)
    stored = reader.take_one(frozenset({"STORED", "PERSISTENT", "VIRTUAL"})) or "VIRTUAL"
    draft.attributes["generated"] = "virtual" if stored == "VIRTUAL" else "stored"


def _constraint(reader: Reader, _draft: _Draft) -> None:
    if reader.key != "CHECK":
        reader.name()
    reader.need("CHECK")
    skip_check(reader)


def _check(reader: Reader, _draft: _Draft) -> None:
    skip_check(reader)


def _references(reader: Reader, draft: _Draft) -> None:
    skip_references(reader)
    draft.attributes["references"] = True


def _storage(reader: Reader, _draft: _Draft) -> None:
    reader.take("=")
    skip_value(reader)


def _versioned(value: bool) -> _Attribute:
    def keep(reader: Reader, draft: _Draft) -> None:
        reader.need("SYSTEM", "VERSIONING")
        draft.attributes["versioned"] = value

    return keep


_ATTRIBUTES: dict[str, _Attribute] = {
    "NULL": _kept(nullable=True),
    "NOT": _not,
    "DEFAULT": _default,
    "ON": _on,
    "AUTO_INCREMENT": _kept(auto_increment=True, nullable=False),
    "SERIAL": _serial,
    "PRIMARY": _primary,
    "KEY": _key,
    "UNIQUE": _unique,
    "COMMENT": _comment,
    "COLLATE": _collate,
    "CHARACTER": _character,
    "CHAR": _character,
    "CHARSET": _charset,
    "ASCII": _of_type(charset="latin1", by_word=True),
    "UNICODE": _of_type(charset="unicode", by_word=True),
    "BYTE": _of_type(charset="byte"),
    "BINARY": _of_type(binary=True),
    "UNSIGNED": _of_type(unsigned=True),
    "SIGNED": _of_type(),
    "ZEROFILL": _of_type(zerofill=True),
    "COMPRESSED": _compressed,
    "SRID": _srid,
    "REF_SYSTEM_ID": _reference_system,
    "GENERATED": _generated,
    "AS": _as,
    "VISIBLE": _kept(invisible=False),
    "INVISIBLE": _kept(invisible=True),
    "CONSTRAINT": _constraint,
    "CHECK": _check,
    "REFERENCES": _references,
    "COLUMN_FORMAT": _storage,
    "STORAGE": _storage,
    "ENGINE_ATTRIBUTE": _storage,
    "SECONDARY_ENGINE_ATTRIBUTE": _storage,
    "WITH": _versioned(True),
    "WITHOUT": _versioned(False),
}
