"""A table as mysqlbinlog prints its TABLE_MAP: names, types, the primary key.

Invariant: what the server did not write into its binlog (``binlog_row_metadata = MINIMAL``) is not
here; a comparison takes it from elsewhere and reports that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from app.audit.character_sets import label_text

_NAME = re.compile(r"`((?:[^`]|``)*)` ")
_TYPE = re.compile(
    r"([A-Z][A-Z ]*?)(?:\((.*)\))?((?: (?:UNSIGNED|NOT NULL|INVISIBLE))*)$", re.DOTALL
)
_CHARSET = re.compile(r" CHARSET (\w+) COLLATE \w+")
_LABEL = re.compile(r"'((?:[^'\\]|\\.|'')*)'", re.DOTALL)
_COLUMN_TYPE = re.compile(r"([a-z]+)(?:\((.*)\))?(.*)$", re.DOTALL)
_TYPE_LABEL = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column; fields missing in the binlog are None."""

    name: str | None
    type: str
    """In upper case, without its length, such as ``INT`` or ``VARCHAR``."""
    size: str | None
    """The text in parentheses after the type."""
    unsigned: bool
    charset: str | None
    labels: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Shape:
    """A table at one TABLE_MAP."""

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] | None
    """None if it has none, or the binlog does not contain it."""

    @property
    def name(self) -> tuple[str, str]:
        """Database and table."""
        return self.database, self.table

    @property
    def has_names(self) -> bool:
        """Whether the binlog contains the columns' names."""
        return bool(self.columns) and self.columns[0].name is not None


@lru_cache(maxsize=4096)
def shape_of(lines: tuple[bytes, ...]) -> Shape:
    """Parse the table's name, with no backtick doubled, and the lines that follow it."""
    database, _, table = lines[0].decode().partition("`.`")
    # Labels are printed in the bytes of their columns' character sets, so each byte is one character here.
    text = [line.decode("latin-1") for line in lines[1:]]
    columns: list[Column] = []
    key: str | None = None
    for number, line in enumerate(text):
        if line.startswith("# Columns("):
            columns = [_column(each) for each in _listed(text[number:])]
        elif line.startswith("# Primary Key("):
            key = _utf8(line.strip(" \n")[len("# Primary Key(") : -1])
    return Shape(database, table, tuple(columns), _key(key, columns))


def line_ends_in_names(lines: list[bytes]) -> int:
    """The number of line ends in the columns' names."""
    if not any(b"\\n" in line for line in lines):
        return 0
    columns = shape_of((b"`.`", *lines)).columns
    return sum((column.name or "").count("\n") for column in columns)


def _listed(lines: list[str]) -> list[str]:
    """The lines of one list of columns, without their frame."""
    found = []
    for line in lines:
        stripped = line.rstrip("\n")[10:]
        if stripped.endswith(","):
            found.append(stripped[:-1])
        else:
            found.append(stripped[:-1])
            break
    return found


def _column(text: str) -> Column:
    name = None
    if named := _NAME.match(text):
        name, text = _utf8(_plain(named[1]).replace("``", "`")), text[named.end() :]
    charset = _CHARSET.search(text)
    if charset:
        text = text[: charset.start()] + text[charset.end() :]
    found = _TYPE.match(text)
    if found is None:
        return Column(name, text, None, False, None, None)
    size = found[2]
    is_labelled = found[1] in ("ENUM", "SET") and size is not None
    return Column(
        name,
        found[1],
        None if is_labelled else size,
        "UNSIGNED" in found[3],
        charset[1] if charset else None,
        tuple(_label(found[1], charset[1] if charset else None) for found in _LABEL.finditer(size))
        if is_labelled
        else None,
    )


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


def _label(text: str, charset: str | None) -> str:
    raw = _unescaped(text).encode("latin-1")
    # Without a character set the label is from a server that prints all of them in its own.
    return _utf8(raw.decode("latin-1")) if charset is None else label_text(raw, charset)


def column_of_type(name: str, column_type: str, charset: str | None) -> Column:
    """A column for consumers: ``column_type`` is MySQL's ``column_type``, such as ``bigint(20) unsigned``."""
    found = _COLUMN_TYPE.match(column_type)
    kind, size, more = (
        (found[1].upper(), found[2], found[3]) if found else (column_type.upper(), None, "")
    )
    labels = None
    if kind in ("ENUM", "SET"):
        labels = tuple(label[1].replace("''", "'") for label in _TYPE_LABEL.finditer(size or ""))
        size = None
    return Column(name, kind, size, "unsigned" in more, charset, labels)


def _plain(text: str) -> str:
    """A label, or the name of a column, without the program's escapes."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def _unescaped(label: str) -> str:
    text = _plain(label)
    return text.replace("''", "'") if "''" in label else text


def _key(text: str | None, columns: list[Column]) -> tuple[str, ...] | None:
    """The key's columns; a name may contain a comma, and a prefix of a column is followed by its length."""
    if text is None:
        return None
    names = {column.name for column in columns}
    found: list[str] = []
    held = ""
    for part in text.split(", "):
        held = f"{held}, {part}" if held else part
        plain = held if held in names else re.sub(r"\(\d+\)$", "", held)
        if plain in names:
            found.append(plain)
            held = ""
    return tuple(found) if not held else None
