"""What the settings say about what is published, and how.

The law: plain values, since they travel to the processes of decoders; nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.ddl.online import ShadowRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Of one destination."""

    prefix: str
    destination: str
    include: str
    """Tables that are captured: expressions over ``database.table``, with commas."""
    black: str = ""
    """Tables that are not, whatever ``include`` says."""
    borders: bool
    """Whether transactions' borders are published."""
    statements: bool = False
    """Whether the statement that changed rows is published with each of them."""
    partitions: int
    """Of a topic of rows."""
    compression: str | None
    max_bytes: int
    """Bytes of row images above which a transaction is published in parts."""
    max_batch_bytes: int
    """Bytes of one record batch, before compression."""
    ddl_include: frozenset[str] = frozenset()
    """Types of statements that are published, such as ``ALTER TABLE``; empty: all."""
    ddl_exclude: frozenset[str] = frozenset()
    """Types that are not, whatever ``ddl_include`` says."""
    never_shadows: tuple[str, ...] = ()
    """Expressions over ``database.table`` for tables that no tool for online schema changes has made."""

    def shadow_rules(self) -> ShadowRules:
        """Which tables such tools make beside the real ones."""
        return ShadowRules(never=self.never_shadows)

    def tells(self, kind: str) -> bool:
        """Whether statements of a type are published."""
        return kind not in self.ddl_exclude and (not self.ddl_include or kind in self.ddl_include)
