"""The keys of changed rows, by which a row that a SELECT returned is recognized.

Invariant: two rows have one key only if they are one row; where the records' key does not ensure that, there
are no keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.worker.pipeline.gather.captured_tables import CapturedTable
from connectors.kafka.record_batches import PLACE
from connectors.mysql.rows.compiled.generate import Row


def changed_keys(table: CapturedTable, rows: list[Row]) -> list[str] | None:
    """Return the keys that rows have or had; None if they do not identify rows."""
    if not table.identifies_rows:
        return None
    keys = [row[3] if row[2] is None else row[2] for row in rows]
    keys += [row[3] for row in rows if row[2] is not None and row[3] != row[2]]
    return [key for key in keys if key is not None]


def bare_keys(keys: Iterable[str]) -> set[str]:
    """Return keys as their records have them, without what chooses the partition."""
    return {key.partition(PLACE)[0] for key in keys}
