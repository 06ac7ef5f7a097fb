"""Dead letters: records that cannot be used, byte for byte as Kafka had them, and why.

Invariant: a record is stored at most once, by topic, partition and offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOUR_MS: Final = 3_600_000
"""How long a dead letter counts."""
COLUMNS: Final = (
    ("topic", "STRING"),
    ("partition", "INT"),
    ("offset", "BIGINT"),
    ("key", "BINARY"),
    ("value", "BINARY"),
    ("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    ("timestamp", "TIMESTAMP"),
    ("database", "STRING"),
    ("table", "STRING"),
    ("error", "STRING"),
    ("reason", "STRING"),
    ("at", "TIMESTAMP"),
)
"""The columns up to `timestamp` are the record's own, as in Spark's Kafka source; `at` is the time at which the
record became a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter without its bytes."""

    topic: str
    partition: int
    offset: int
    database: str | None
    table: str | None
    """None if the record does not name its table."""
    error: str
    """The class of the error."""
    reason: str
    at_ms: int
