"""A data type as a statement writes it, before it is resolved for a server.

Invariant: these are the statement's own words; the resulting type depends on the server, its mode
and the table's character set, and only ``ddl/types`` resolves it.
"""

from __future__ import annotations

from dataclasses import dataclass

Label = str | bytes
"""A label of an ENUM or SET: text, or bytes if written as a hexadecimal or bit literal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSpec:
    """A data type and its attributes, whatever their order in the statement."""

    name: str
    """Its words in lower case with single blanks, one of ``ddl.types.resolution.NAMES``.

    For example ``int``, ``int4``, ``double precision``, ``national char varying``, ``long varchar``; synonyms
    are kept."""
    arguments: tuple[int, ...] = ()
    """Length, precision and scale, fractional digits, dimensions."""
    labels: tuple[Label, ...] = ()
    """For ENUM and SET, unquoted and unescaped."""
    unsigned: bool = False
    zerofill: bool = False
    charset: str | None = None
    """The name after CHARACTER SET, CHAR SET or CHARSET.

    For the attributes ASCII, UNICODE and BYTE it is ``latin1``, ``unicode`` and ``byte``."""
    by_word: bool = False
    """Whether the attribute ASCII or UNICODE gives the character set."""
    collation: str | None = None
    """The name after COLLATE; in MariaDB it may be ``default``."""
    binary: bool = False
    """The attribute BINARY: the character set's collation that ends in ``_bin``."""
    srid: int | None = None
    """After SRID, or MariaDB's REF_SYSTEM_ID."""
    compressed: bool = False
    """MariaDB's attribute COMPRESSED, with or without a method."""
    qualifier: str | None = None
    """MariaDB's ``mariadb_schema``, ``oracle_schema`` or ``maxdb_schema``, as in ``oracle_schema.date``."""


class Refused(ValueError):
    """The server would refuse the statement, or the known state contradicts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedType:
    """A type as the server stores it."""

    type: str
    """``column_type`` of ``information_schema``."""
    exact: str = ""
    """``type`` with the exact labels, if a label in ``type`` has a question mark; else empty."""
    charset: str | None = None
    """For text only; None for bytes, whose character set is ``binary``."""
    collation: str | None = None
    serial: bool = False
    """SERIAL: the column is NOT NULL, AUTO_INCREMENT and UNIQUE too."""
