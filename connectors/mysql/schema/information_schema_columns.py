"""A column definition from a row of ``information_schema.columns``.

Invariant: everything a statement needs to create the same column again is in ``definition``, in
MySQL's or MariaDB's own syntax; expressions are the server's text. Source: MySQL's manual, "The
INFORMATION_SCHEMA COLUMNS Table"; MariaDB's, "Information Schema COLUMNS Table".
"""

from __future__ import annotations

import re
from typing import Literal

from connectors.mysql.ddl.definition import Column, Server

Row = tuple[str, str | None, str, str | None, str | None, str, str, str, str | None, int | None]
"""Name, default, nullable, character set, collation, type, extra, comment, expression, spatial reference."""

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "''", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_ON_UPDATE = re.compile(r"on update (\S+)", re.IGNORECASE)
_NOW = re.compile(r"CURRENT_TIMESTAMP(\(\d*\))?", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(['\\])")
_HEX_DEFAULTS = (8, 0)
"""Since this version the default of binary columns is shown in hexadecimal digits."""


def column(row: Row, server: Server) -> Column:
    """The column of one row."""
    name, _, nullable, charset, collation, kind, extra, *_ = row
    words = extra.upper()
    is_text = charset is not None and charset != "binary"
    return Column(
        name=name,
        type=kind,
        nullable=nullable == "YES",
        charset=charset if is_text else None,
        collation=collation if is_text else None,
        generated=_generated(words),
        invisible="INVISIBLE" in words,
        definition=" ".join(_definition(row, server)),
    )


def _generated(words: str) -> Literal["virtual", "stored"] | None:
    if "STORED GENERATED" in words or "PERSISTENT" in words:
        return "stored"
    # DEFAULT_GENERATED means that a default is an expression.
    return "virtual" if "VIRTUAL" in words else None


def quoted(text: str) -> str:
    """A string literal, valid in any sql_mode except NO_BACKSLASH_ESCAPES."""
    return f"'{text.translate(_ESCAPES)}'"


def _definition(row: Row, server: Server) -> list[str]:
    _, default, _, _, _, kind, extra, comment, expression, srid = row
    words, parts = extra.upper(), list[str]()
    if kept := _generated(words):
        parts += _expression(expression or "", kept, server)
    elif default is not None:
        parts += _default(default, kind.lower(), words, server)
    if on_update := _ON_UPDATE.search(extra):
        parts.append(f"ON UPDATE {on_update[1].upper()}")
    if "AUTO_INCREMENT" in words:
        parts.append("AUTO_INCREMENT")
    if "WITHOUT SYSTEM VERSIONING" in words:
        parts.append("WITHOUT SYSTEM VERSIONING")
    if comment:
        parts.append(f"COMMENT {quoted(comment)}")
    if srid is not None:
        parts.append(f"SRID {srid}")
    return parts


def _expression(text: str, kept: str, server: Server) -> list[str]:
    if text in ("ROW START", "ROW END"):
        # MariaDB's columns for the start and the end of a row's validity.
        return [f"GENERATED ALWAYS AS {text}"]
    return [f"GENERATED ALWAYS AS ({plain_expression(text, server)}) {kept.upper()}"]


def _default(text: str, kind: str, words: str, server: Server) -> list[str]:
    if server.mariadb:
        # MariaDB shows the default as a statement has it.
        return [] if text == "NULL" else [f"DEFAULT {text}"]
    if _NOW.fullmatch(text) and kind.startswith(("timestamp", "datetime")):
        return [f"DEFAULT {text}"]
    if "DEFAULT_GENERATED" in words:
        return [f"DEFAULT ({plain_expression(text, server)})"]
    is_hex = server.version >= _HEX_DEFAULTS and kind.startswith(("binary", "varbinary"))
    if kind.startswith("bit") or (is_hex and text.startswith("0x")):
        return [f"DEFAULT {text}"]
    return [f"DEFAULT {quoted(text)}"]


def plain_expression(expression: str, server: Server) -> str:
    """An expression in its original form; MySQL 8.0 and later show quotes and backslashes escaped."""
    if server.mariadb or server.version < _HEX_DEFAULTS:
        return expression
    return _ESCAPED.sub(r"\1", expression)
