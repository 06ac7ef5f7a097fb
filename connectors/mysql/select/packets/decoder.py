"""Decoder of the rows of packets, with generated code.

Invariant: rows are those that the binlog's decoder makes of the same values. What is rare, such as characters
that Unicode lacks, raises an error: such rows take the long way, through the binlog's form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.rows.column_rule import ColumnRule
from connectors.mysql.rows.compiled.generate import Change, Row, RowsFunction, Table
from connectors.mysql.rows.compiled.patterns import Patterns
from connectors.mysql.select.packets.layout import FIRST_BIT, HEAD_SIZE
from connectors.mysql.types.registry import packet_field


class PacketDecoder:
    """Decodes packets for a table whose rows in the binlog have the same names and key."""

    def __init__(
        self,
        table: Table,
        table_map: TableMap,
        charsets: Charsets,
        *,
        rules: Mapping[str, ColumnRule],
    ) -> None:
        """``table``: as for the binlog; ``rules``: by column. Raises UnsupportedEvent as ``packet_field``."""
        fields = [
            packet_field(column, charsets, rules.get(column.name or ""))
            for column in table_map.columns
        ]
        self._patterns = Patterns(
            replace(table, fields=fields, head_size=HEAD_SIZE, first_bit=FIRST_BIT)
        )
        self._runs: dict[bytes, RowsFunction] = {}

    def rows(self, packets: bytes) -> list[Row]:
        """The rows of packets, in order, as those of an insert; raises an error of Python's if any is rare."""
        found: list[Row] = []
        at, end, patterns = 0, len(packets), self._patterns
        while at < end:
            run = patterns.run(self._runs, b"", patterns.nulls(packets, at), Change.INSERT)
            end_of_run = run(packets, at, end, found, patterns)
            if end_of_run == at:
                break
            at = end_of_run
        if at != end:
            raise IndexError("a row ends past the end of its packets")
        return found
