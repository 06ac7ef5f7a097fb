"""What a server makes of a data type: its text in ``information_schema``, its character set and collation.

The law: the text is the server's own, digit for digit, for its version and mode; what it would refuse is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.ddl.definition import Column, Database, Server, Session
from connectors.mysql.ddl.type_spec import TypeRefused, TypeSpec

__all__ = ["NAMES", "ResolvedType", "TypeRefused", "TypeSpec", "converted", "resolved"]

NAMES: frozenset[str] = frozenset()
"""Every name that a TypeSpec may have; those of several words are to be read before their beginnings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedType:
    """A type as the server keeps it."""

    type: str
    """``column_type`` of ``information_schema``."""
    charset: str | None = None
    collation: str | None = None
    serial: bool = False
    """SERIAL: the column is NOT NULL, AUTO_INCREMENT and UNIQUE too."""


def resolved(
    spec: TypeSpec, inherited: Database, *, server: Server, session: Session
) -> ResolvedType:
    """What a server keeps of a type; ``inherited`` is the table's character set and collation.

    Raises TypeRefused, or CharsetRefused for an unknown character set or collation.
    """
    raise NotImplementedError


def converted(column: Column, to: Database, *, server: Server, session: Session) -> Column:
    """A column after ``ALTER TABLE … CONVERT TO CHARACTER SET``; raise TypeRefused where it does not fit."""
    raise NotImplementedError
