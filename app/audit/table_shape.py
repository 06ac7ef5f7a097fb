"""A table as mysqlbinlog prints its TABLE_MAP: names, types, the primary key.

Invariant: a shape lacks what the server did not write into its binlog (``binlog_row_metadata = MINIMAL``); a
comparison takes the missing parts from elsewhere and reports this.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

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
class BinlogColumn:
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
    columns: tuple[BinlogColumn, ...]
    primary_key: tuple[str, ...] | None
    """None if the table has no primary key, or the binlog does not contain it."""

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
    """Parse a TABLE_MAP: the line with the table's name, with no backtick doubled, and the lines after it."""
    database, _, table = lines[0].decode().partition("`.`")
    # Labels are printed in the bytes of their columns' character sets, so each byte is one character here.
    text = [line.decode("latin-1") for line in lines[1:]]
    columns: list[BinlogColumn] = []
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


def _column(text: str) -> BinlogColumn:
    name = None
    if named := _NAME.match(text):
        name, text = _utf8(_plain(named[1]).replace("``", "`")), text[named.end() :]
    charset = _CHARSET.search(text)
    if charset:
        text = text[: charset.start()] + text[charset.end() :]
    found = _TYPE.match(text)
    if found is None:
        return BinlogColumn(name, text, None, False, None, None)
    size = found[2]
    is_labelled = found[1] in ("ENUM", "SET") and size is not None
    return BinlogColumn(
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
    # A label without a character set is from a server that prints all labels in its own, UTF-8.
    return _utf8(raw.decode("latin-1")) if charset is None else label_text(raw, charset)


def column_of_type(name: str, column_type: str, charset: str | None) -> BinlogColumn:
    """Return a column from its type in the form of MySQL's ``column_type``, such as ``bigint(20) unsigned``."""
    found = _COLUMN_TYPE.match(column_type)
    kind, size, more = (
        (found[1].upper(), found[2], found[3]) if found else (column_type.upper(), None, "")
    )
    labels = None
    if kind in ("ENUM", "SET"):
        labels = tuple(label[1].replace("''", "'") for label in _TYPE_LABEL.finditer(size or ""))
        size = None
    return BinlogColumn(name, kind, size, "unsigned" in more, charset, labels)


def _plain(text: str) -> str:
    """A label, or the name of a column, without the program's escapes."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def _unescaped(label: str) -> str:
    text = _plain(label)
    return text.replace("''", "'") if "''" in label else text


def _key(text: str | None, columns: list[BinlogColumn]) -> tuple[str, ...] | None:
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


# Character sets as the audit reads them: by Python's codecs and two tables of its own.
#
# Invariant: none of the worker's decoding is used here, and only character sets that Python decodes as MySQL
# does are listed.


_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "latin1-mysql",
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13", "cp1250": "cp1250",
    "cp1251": "cp1251", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "koi8r": "koi8-r",
    "swe7": "swe7-mysql",
    "gbk": "gbk", "gb2312": "gb2312", "euckr": "cp949", "cp932": "cp932",
}  # fmt: skip
"""Only character sets that Python decodes as MySQL does; text in others is not compared, but reported."""


def decoder_of(charset: str | None) -> Callable[[bytes], str] | None:
    """Return the function that decodes bytes, which raises UnicodeDecodeError; None without a codec."""
    codec = _CODECS.get(charset or "")
    if codec is None:
        return None
    return {"latin1-mysql": _latin1, "swe7-mysql": _swe7}.get(codec) or (
        lambda raw: raw.decode(codec)
    )


def label_text(raw: bytes, charset: str | None) -> str:
    """Return a label decoded by its column's character set, with U+FFFD for bytes that cannot be decoded."""
    decode = decoder_of(charset)
    if decode is None:
        # All character sets without a codec here have ASCII's bytes for ASCII.
        return raw.decode("ascii", "replace")
    try:
        return decode(raw)
    except UnicodeDecodeError:
        return "\ufffd"


_SWE7 = str.maketrans(dict(zip("@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True)))


def _swe7(content: bytes) -> str:
    """ASCII with Swedish letters in place of ten characters."""
    text = content.decode("ascii")
    if "\x7f" in text:
        raise UnicodeDecodeError("swe7", content, 0, len(content), "no such character")
    return text.translate(_SWE7)


def _latin1(content: bytes) -> str:
    """MySQL's latin1 is cp1252, with control characters for its five undefined bytes."""
    return "".join(
        chr(byte) if byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes([byte]).decode("cp1252")
        for byte in content
    )
