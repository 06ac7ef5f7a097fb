"""The sink with one of its guards broken, for ``tests/crash/sinking.py``.

Invariant: the guard is broken here, in a process of the tests; the product has no switch for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

applying: Any = importlib.import_module("spark_sink.batch.apply")


def sink_batch_lost() -> None:
    """The sink records one batch in its ledger without merging its rows."""
    real, calls = applying.Applier._merge_all, [0]

    def merge_all(self: Any, *given: Any, **more: Any) -> Any:
        calls[0] += 1
        return real(self, *given, **more) if calls[0] != 2 else {}

    applying.Applier._merge_all = merge_all


def sink_deletes_off() -> None:
    """The sink treats deletes as updates."""
    from pyspark.sql import functions as f

    merging: Any = importlib.import_module("spark_sink.batch.table_merge")
    real = merging.changes

    def changes(*given: Any, **more: Any) -> Any:
        return real(*given, **more).withColumn("__deleted", f.lit(False))

    merging.changes = changes


PATCHES: dict[str, Callable[[], None]] = {
    "sink-batch-lost": sink_batch_lost,
    "sink-deletes-off": sink_deletes_off,
}
