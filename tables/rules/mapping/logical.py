"""Logical databases and tables, and their tags, as a mapping's entries state them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tables.rules.mapping.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Tag:
    """A tag of a logical table's records."""

    name: str
    column: str = ""
    """The column whose change gives a record the tag; empty: each record has it."""

    @property
    def label(self) -> str:
        """The name, with the column if it has one."""
        return f"{self.name} ({self.column})" if self.column else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalDatabase:
    """A logical database and the real ones it stands for."""

    name: str
    real: tuple[str, ...] = ()
    """Names and patterns of real databases; none: the database of the same name."""
    topic: str = ""
    """The topic of all its tables; empty: each table has its own."""
    share_topic: bool = False
    """Whether another logical name may have the same topic."""
    format: str = ""
    """The record format of its tables whose rules name none; empty: the envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTable:
    """A logical table and the real ones it stands for."""

    name: str
    database: str = ""
    """Its logical database; empty: any."""
    real: tuple[str, ...] = ()
    """Names and patterns, each ``table`` or ``database.table``; none: the table of the same name."""
    topic: str = ""
    share_topic: bool = False
    tags: tuple[Tag, ...] = ()
    rules: Rules = field(default_factory=Rules)

    @property
    def label(self) -> str:
        """The name with the database if it has one."""
        return f"{self.database}.{self.name}" if self.database else self.name
