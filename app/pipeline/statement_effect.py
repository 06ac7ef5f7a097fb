"""What became of a statement: what it did to tables by their history, and what that is to those who use them.

The law: it is found out once, where the statement stands, and travels with its chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.ddl.online.cut_over import Logical
from tables.schema_history.record import SchemaRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A statement that concerns tables or databases."""

    record: SchemaRecord | None
    """What its history keeps of it; None where no definition changed."""
    type: str
    """Such as ``ALTER TABLE``."""
    meaning: tuple[Logical, ...] = ()
    """Its changes without the doings of tools that change tables online."""
    renames: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    """Of the tables that it alters, the columns' old names to their new ones."""
    emptied: tuple[TableName, ...] = ()
    """The tables that it empties."""
    is_noise: bool = False
    """Whether it only serves such a tool, and concerns nobody else."""
