"""The log of waiting tables as a Delta table: the sink writes states, commands add requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pyspark.sql import functions as f

from spark_sink.warehouse.delta.own_table import OwnTable

_COLUMNS: Final = (
    "number BIGINT, kind STRING, database STRING, `table` STRING, since_ms BIGINT, at_ms BIGINT, "
    "error STRING, reason STRING, action STRING, offsets STRING, request STRING"
)
_KEY: Final = ("kind", "number", "at_ms", "database", "table", "request")


class DeltaWaits:
    """See protocol.WaitLog."""

    def __init__(self, table: OwnTable) -> None:
        self._table = table

    def state(self) -> list[str]:
        """See protocol.WaitLog."""
        return self._table.log_files()

    def rows(self) -> list[dict[str, Any]]:
        """See protocol.WaitLog."""
        return [row.asDict() for row in self._table.rows().collect()]

    def append(self, *rows: Mapping[str, Any]) -> None:
        """See protocol.WaitLog."""
        self._table.append(_COLUMNS, rows)

    def prune(self, before_ms: int, keep: Collection[Mapping[str, Any]]) -> None:
        """See protocol.WaitLog."""
        texts = (f.coalesce(f.col(name).cast("string"), f.lit("None")) for name in _KEY)
        key, kept = (
            f.concat_ws("\0", *texts),
            ["\0".join(str(row[n]) for n in _KEY) for row in keep],
        )
        is_new = f.coalesce(f.col("at_ms") >= before_ms, f.lit(True))
        # Read by the commit itself: a command may add a request meanwhile.
        self._table.rewrite(self._table.rows().where(is_new | key.isin(*kept)))
