"""The log of waiting tables as a Delta table: the sink writes states, commands add requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_sink.warehouse.delta.own_table import OwnTable

_COLUMNS: Final = (
    "number BIGINT, kind STRING, database STRING, `table` STRING, since_ms BIGINT, at_ms BIGINT, "
    "error STRING, reason STRING, action STRING, offsets STRING, request STRING"
)


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

    def append(self, row: Mapping[str, Any]) -> None:
        """See protocol.WaitLog."""
        self._table.append(_COLUMNS, [row])
