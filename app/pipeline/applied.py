"""What became of a statement: what it did to tables by their history, and what that is to those who use them.

The law: it is found out once, where the statement stands, and travels with its chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.ddl.cut_over import Logical, Noise
from tables.schema_record import SchemaRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A statement that changed something, or that nobody could resolve."""

    record: SchemaRecord
    meaning: tuple[Logical, ...]
    """Its changes without the doings of tools that change tables online."""

    @property
    def is_noise(self) -> bool:
        """Whether only such a tool is concerned."""
        return bool(self.meaning) and all(isinstance(one, Noise) for one in self.meaning)
