"""Options of tables and databases, and the partitions of a table.

Invariant: an option's value is parsed by its own rule; character sets and the options of a table's
definition are kept.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.token_reader import Reader, skip_value
from connectors.mysql.ddl.statement import Charset, TableOptions

_KEPT = frozenset({"ENGINE", "ROW_FORMAT", "KEY_BLOCK_SIZE", "COMMENT", "SEQUENCE"})
_KNOWN = _KEPT | {
    "AUTO_INCREMENT", "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "COMPRESSION", "CONNECTION", "DATA",
    "DELAY_KEY_WRITE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE_ATTRIBUTE", "IETF_QUOTES",
    "INDEX", "INSERT_METHOD", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PAGE_CHECKSUM", "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL", "PASSWORD", "SECONDARY_ENGINE", "SECONDARY_ENGINE_ATTRIBUTE",
    "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE", "TABLE_CHECKSUM", "TABLESPACE",
    "TRANSACTIONAL", "TYPE", "UNION",
}  # fmt: skip
_SELECT = frozenset({"SELECT", "AS", "IGNORE", "REPLACE", "WITH", "VALUES", "TABLE"})


class _Found:
    """Options during parsing."""

    __slots__ = ("charset", "collation", "names", "texts", "versioned")

    def __init__(self) -> None:
        self.charset: str | None = None
        self.collation: str | None = None
        self.names: list[str] = []
        self.texts: dict[str, str] = {}
        self.versioned = False

    def charsets(self) -> Charset:
        order = [name for name in self.names if name in ("CHARACTER SET", "COLLATE")]
        first = "COLLATE" in order and order[-1] == "CHARACTER SET"
        return Charset(charset=self.charset, collation=self.collation, collation_first=first)


def table_options(reader: Reader, *, commas: bool = True) -> TableOptions:
    """A table's options, as many as follow; without ``commas``, a comma is left for the caller."""
    found = _Found()
    while _table_option(reader, found):
        if commas and reader.key == ",":
            reader.at += 1
    return TableOptions(
        charset=found.charsets(),
        texts=tuple(found.texts.items()),
        names=tuple(found.names),
        versioned=found.versioned,
    )


def database_options(reader: Reader) -> Charset:
    """A database's options."""
    found = _Found()
    while _charset_option(reader, found) or _database_option(reader):
        pass
    return found.charsets()


def _database_option(reader: Reader) -> bool:
    begin = reader.at
    reader.take("DEFAULT")
    if reader.take("READ", "ONLY") or reader.take("ENCRYPTION") or reader.take("COMMENT"):
        reader.take("=")
        skip_value(reader)
        return True
    reader.at = begin
    return False


def charset_clause(reader: Reader) -> Charset:
    """The clause after CONVERT TO: a character set and an optional collation."""
    found = _Found()
    if not _charset_option(reader, found):
        raise reader.fault("expected CHARACTER SET")
    if reader.key == "COLLATE":
        _charset_option(reader, found)
    return found.charsets()


def _charset_option(reader: Reader, found: _Found) -> bool:
    begin = reader.at
    reader.take("DEFAULT")
    if reader.take("CHARACTER", "SET") or reader.take("CHARSET") or reader.take("CHAR", "SET"):
        reader.take("=")
        found.charset = reader.name_or_string().lower()
        found.names.append("CHARACTER SET")
        return True
    if reader.take("COLLATE"):
        reader.take("=")
        found.collation = reader.name_or_string().lower()
        found.names.append("COLLATE")
        return True
    reader.at = begin
    return False


def _table_option(reader: Reader, found: _Found) -> bool:
    if _charset_option(reader, found):
        return True
    if reader.take("WITH", "SYSTEM", "VERSIONING"):
        found.versioned = True
        found.names.append("SYSTEM VERSIONING")
        return True
    if reader.take("START", "TRANSACTION"):
        found.names.append("START TRANSACTION")
        return True
    name, following = reader.key, reader.keys[reader.at + 1]
    if name not in _KNOWN and not (reader.is_name() and following == "="):
        return False
    if name in ("DATA", "INDEX") and following != "DIRECTORY":
        return False
    reader.at += 1 + (following == "DIRECTORY")
    found.names.append(name)
    reader.take("=")
    begin = reader.at
    skip_value(reader)
    if name == "TABLESPACE" and reader.take("STORAGE"):
        reader.name()
    if name in _KEPT or name == "TYPE":
        found.texts["ENGINE" if name == "TYPE" else name] = reader.rendered(begin, reader.at)
    return True


def is_table_option(reader: Reader) -> bool:
    """Whether a table option begins here."""
    key, following = reader.key, reader.keys[reader.at + 1]
    if key in ("DATA", "INDEX"):
        return following == "DIRECTORY"
    if key in ("CHARACTER", "CHAR"):
        return following == "SET"
    if key == "WITH":
        return following == "SYSTEM"
    return (
        key in _KNOWN
        or key in ("DEFAULT", "CHARSET", "COLLATE")
        or (reader.is_name() and following == "=")
    )


def skip_partitions(reader: Reader, ends: Callable[[Reader], bool] | None = None) -> bool:
    """Skip PARTITION BY and all its clauses; no column depends on it."""
    if not reader.take("PARTITION", "BY"):
        return False
    while reader.key not in (lexer.END, ";") and not (ends and ends(reader)):
        if reader.key == "(":
            reader.skip_parentheses()
        else:
            reader.at += 1
    return True


def begins_query(reader: Reader) -> bool:
    """Whether CREATE TABLE continues with a query."""
    if reader.key == "WITH":
        return reader.keys[reader.at + 1] not in ("SYSTEM", "PARSER")
    if reader.key == "(":
        return reader.keys[reader.at + 1] in ("SELECT", "WITH", "VALUES", "TABLE", "(")
    return reader.key in _SELECT
