"""Keys and constraints: PRIMARY KEY, UNIQUE, INDEX, FULLTEXT, SPATIAL, FOREIGN KEY, CHECK.

Invariant: a key's columns are kept, because they identify rows. A foreign key becomes the index that it
needs; a check is skipped.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import SPECIAL_KINDS, Server
from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.token_reader import Reader, skip_value
from connectors.mysql.ddl.statement import ColumnSpec, IndexKind, IndexSpec, Part
from connectors.mysql.server_version import since

_PLAIN = frozenset({"INDEX", "KEY"})
_METHOD = frozenset({"USING", "TYPE"})
_ORDER = frozenset({"ASC", "DESC"})
_RULES = frozenset({"CASCADE", "RESTRICT"})
STARTS = frozenset(
    {"PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "CHECK"}
)


def is_key(reader: Reader) -> bool:
    """Whether a key or constraint begins here, not a column."""
    key = reader.key
    return key in STARTS or (key == "VECTOR" and reader.keys[reader.at + 1] in _PLAIN)


def key(reader: Reader) -> IndexSpec | None:
    """A key; None for a check, which no column depends on."""
    symbol = _symbol(reader)
    if reader.take("CHECK"):
        skip_check(reader)
        return None
    if reader.take("FOREIGN", "KEY"):
        return _foreign(reader, symbol)
    kind: IndexKind
    if reader.take("PRIMARY", "KEY"):
        kind = "PRIMARY"
    elif reader.take("UNIQUE"):
        kind = "UNIQUE"
        reader.take_one(_PLAIN)
    elif word := reader.take_one(frozenset(SPECIAL_KINDS)):
        kind = SPECIAL_KINDS[word]
        reader.take_one(_PLAIN)
    elif reader.take_one(_PLAIN):
        kind = "KEY"
    else:
        raise reader.fault("expected a key")
    return _index(reader, kind, symbol)


def of_column(spec: ColumnSpec, server: Server) -> list[IndexSpec]:
    """The keys that a column's own definition creates."""
    found: list[IndexSpec] = []
    parts = (Part(column=spec.name),)
    if spec.attributes.primary:
        found.append(IndexSpec(kind="PRIMARY", parts=parts))
    # MariaDB leaves out a unique key of a column that is the primary key.
    if spec.attributes.unique and not (server.mariadb and spec.attributes.primary):
        found.append(IndexSpec(kind="UNIQUE", parts=parts))
    # In earlier versions REFERENCES after a column was parsed and ignored.
    if spec.attributes.references and since(server, mysql=(9, 0, 0), mariadb=(10, 5, 0)):
        found.append(IndexSpec(kind="FOREIGN", parts=parts))
    return found


def _symbol(reader: Reader) -> str | None:
    if not reader.take("CONSTRAINT"):
        return None
    if reader.key in STARTS:
        return None
    reader.take("IF", "NOT", "EXISTS")
    return reader.name()


def _index(reader: Reader, kind: IndexKind, symbol: str | None) -> IndexSpec:
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = None
    if reader.key != "(" and not _begins_method(reader):
        name = reader.name()
    method = _method(reader)
    parts = reader.enclosed(lambda: part(reader))
    return IndexSpec(
        kind=kind,
        name=name or symbol,
        parts=parts,
        if_not_exists=if_not_exists,
        options=" ".join(filter(None, (method, key_options(reader)))),
    )


def _begins_method(reader: Reader) -> bool:
    """Whether a method comes first, and not a name; TYPE may begin either."""
    return reader.key == "USING" or (
        reader.key == "TYPE" and reader.keys[reader.at + 1] not in ("(", *_METHOD)
    )


def _method(reader: Reader) -> str:
    return f"USING {reader.name().upper()}" if reader.take_one(_METHOD) else ""


def part(reader: Reader) -> Part:
    """One part of a key."""
    if reader.key == "(":
        begin = reader.at
        reader.skip_parentheses()
        text = reader.rendered(begin, reader.at)
        return Part(expression=text, descending=reader.take_one(_ORDER) == "DESC")
    column = reader.column()
    if reader.take("WITHOUT", "OVERLAPS"):
        return Part(column=column, without_overlaps=True)
    length = None
    if reader.take("("):
        length = reader.integer()
        reader.need(")")
    return Part(column=column, length=length, descending=reader.take_one(_ORDER) == "DESC")


def key_options(reader: Reader) -> str:
    """The options after a key's columns that are part of the key's definition."""
    found: list[str] = []
    while True:
        begin = reader.at
        if reader.key in _METHOD:
            found.append(_method(reader))
        elif reader.take("COMMENT"):
            reader.string()
            found.append(reader.rendered(begin, reader.at))
        elif reader.take("WITH", "PARSER"):
            reader.name()
            found.append(reader.rendered(begin, reader.at))
        elif reader.take_one(frozenset({"INVISIBLE", "IGNORED"})):
            found.append(reader.rendered(begin, reader.at))
        elif not (reader.take("VISIBLE") or reader.take("NOT", "IGNORED") or _skip_option(reader)):
            return " ".join(found)


_SKIPPED_OPTIONS = frozenset(
    {"KEY_BLOCK_SIZE", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "CLUSTERING", "M", "DISTANCE"}
)  # fmt: skip
_STATEMENT_OPTIONS = frozenset({"ALGORITHM", "LOCK"})


def _skip_option(reader: Reader) -> bool:
    """Skip an option that concerns storage: a known option, or an engine's own."""
    following = reader.keys[reader.at + 1]
    assigned = reader.is_name() and following == "=" and reader.key not in _STATEMENT_OPTIONS
    if reader.key not in _SKIPPED_OPTIONS and not assigned:
        return False
    reader.at += 1
    reader.take("=")
    skip_value(reader)
    return True


# --- constraints that are no keys -------------------------------------------------------------------


def skip_check(reader: Reader) -> None:
    """Skip the rest of CHECK."""
    reader.skip_parentheses()
    _ = reader.take("NOT", "ENFORCED") or reader.take("ENFORCED")


def _foreign(reader: Reader, symbol: str | None) -> IndexSpec:
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = None if reader.key == "(" else reader.name()
    parts = reader.enclosed(lambda: part(reader))
    reader.need("REFERENCES")
    skip_references(reader)
    return IndexSpec(kind="FOREIGN", name=symbol or name, parts=parts, if_not_exists=if_not_exists)


def skip_references(reader: Reader) -> None:
    """Skip the rest of REFERENCES."""
    reader.table()
    if reader.key == "(":
        reader.skip_parentheses()
    if reader.take("MATCH"):
        reader.name()
    while reader.take("ON"):
        if not (reader.take("DELETE") or reader.take("UPDATE")):
            raise reader.fault("expected DELETE or UPDATE")
        if not (
            reader.take_one(_RULES)
            or reader.take("SET", "NULL")
            or reader.take("SET", "DEFAULT")
            or reader.take("NO", "ACTION")
        ):
            raise reader.fault("expected a referential action")


def skip_wait(reader: Reader) -> None:
    """Skip MariaDB's WAIT n and NOWAIT."""
    if reader.take("NOWAIT"):
        return
    if reader.key == "WAIT" and reader.keys[reader.at + 1] == lexer.NUMBER:
        reader.at += 2
