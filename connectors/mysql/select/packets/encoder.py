"""Rows of packets brought into the binlog's form: the long way, for what their own decoder does not read.

Invariant: as RowEncoder's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.select.packets.texts import PacketTexts
from connectors.mysql.select.row_encoder import RowEncoder


class PacketEncoder:
    """Encodes rows of one table; raises SnapshotUnsupported if they cannot be read exactly."""

    event_type = RowEncoder.event_type
    """The type of the events."""

    def __init__(self, table_map: TableMap) -> None:
        """``table_map``: that of the events, with all metadata."""
        self._name = f"{table_map.database}.{table_map.table}"
        self._texts = PacketTexts(table_map.columns)
        self._encoder = RowEncoder(table_map)

    def bodies(self, packets: bytes) -> Iterator[bytes]:
        """The bodies of events with the rows of packets, in order."""
        try:
            rows = list(self._texts.rows(packets))
        except (ValueError, IndexError, struct.error):
            # The error may contain row data.
            raise SnapshotUnsupported(
                "a row is not in the form of its columns", table=self._name
            ) from None
        yield from self._encoder.bodies(rows)
