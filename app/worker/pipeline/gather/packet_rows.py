"""The rows of packets of one captured table, as the rules publish them.

Invariant: they are those that its decoder of the binlog makes of the same values; where that is not certain,
there are none, and the packets take the long way through that decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import orjson

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.charset.unmapped import Replaced
from connectors.mysql.rows.column_rule import ColumnRule
from connectors.mysql.rows.compiled.decoder import CompiledDecoder
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.select.packets.decoder import PacketDecoder

_RARE = (
    UnicodeDecodeError, Replaced, IndexError, ValueError, KeyError, TypeError, struct.error,
    orjson.JSONEncodeError,
)  # fmt: skip


class PacketRows:
    """Reads packets of one table, with a decoder that is made when it is first needed."""

    def __init__(
        self,
        decoder: CompiledDecoder,
        table_map: TableMap,
        charsets: Charsets,
        rules: Mapping[str, ColumnRule],
        *,
        is_direct: bool,
    ) -> None:
        """``decoder``: that of the table's rows in the binlog; ``is_direct``: whether that reads all that is
        needed of a row."""
        self._table, self._map, self._charsets = decoder.table, table_map, charsets
        self._rules, self._is_direct = rules, is_direct
        self._decoder: PacketDecoder | None = None

    def rows(self, packets: bytes) -> list[Row] | None:
        """Return the rows of packets; None if they have to take the long way."""
        if not self._is_direct:
            return None
        try:
            if self._decoder is None:
                self._decoder = PacketDecoder(
                    self._table, self._map, self._charsets, rules=self._rules
                )
            return self._decoder.rows(packets)
        except UnsupportedEvent:
            self._is_direct = False
        except _RARE:
            pass
        return None
