"""Random keys of a table, after which samples of its rows begin.

Invariant: each is the key of an existing row, as literals. The server counts rows by an index, so in a table
of millions of rows, each key takes only a moment.
"""

from __future__ import annotations

import random

import pymysql

from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.select.chunk_query import chunk_query, key_order
from connectors.mysql.select.chunk_reader import DefinitionChanged
from connectors.mysql.select.prepared_select import PreparedSelect
from connectors.mysql.select.read_labels import as_printed
from connectors.mysql.select.selected_table import SESSION, SelectedTable
from connectors.mysql.select.table_errors import (
    WITHOUT_TABLE,
    error_of_read,
    text_of,
    without_values,
)
from connectors.mysql.server.facts import SourceAddress, connection_to

_ANSWER_SECONDS = 600.0
_COUNT = (
    "SELECT COALESCE(MAX(table_rows), 0) FROM information_schema.tables"
    " WHERE table_schema = %s AND table_name = %s"
)


def random_keys(
    address: SourceAddress,
    name: TableName,
    table: Table,
    *,
    charsets: Charsets,
    server: Server,
    is_masked: bool = False,
    count: int,
    chance: random.Random,
) -> list[tuple[str, ...] | None]:
    """Return keys to read after, in the form of ``ReadChunk.last``, unordered; None: the table's beginning.

    ``is_masked``: see ChunkReader. Raise the errors of ChunkReader.
    """
    selected = SelectedTable(name, as_printed(table), charsets, server=server)
    query = chunk_query(name, selected.select_list, key=table.primary_key, after=None, limit=1)
    found: list[tuple[str, ...] | None] = []
    connection = connection_to(address, use_unicode=False, conv={}, read_timeout=_ANSWER_SECONDS)
    select = PreparedSelect(connection)

    def check(types: list[int]) -> None:
        if difference := selected.difference(types):
            raise DefinitionChanged(difference)

    try:
        with connection.cursor() as cursor:
            for statement in SESSION:
                cursor.execute(statement)
            cursor.execute(_COUNT, name)
            # The number is an estimate; the last of these rows may not exist.
            rows = int(cursor.fetchall()[0][0])
            for _ in range(count):
                number = chance.randrange(rows + 1)
                # A sample begins after the key of the previous row; the first row has no previous row.
                packets = select.packets(f"{query} OFFSET {max(0, number - 1)}", check)
                row = next(selected.values.rows(packets.last), None) if number else None
                if row is None:
                    found.append(None)
                else:
                    literals = selected.key_literals(row, table.primary_key)
                    found.append((key_order(table), *literals))
    except pymysql.MySQLError as raised:
        error = without_values(raised) if is_masked else raised
        if error.args and error.args[0] in WITHOUT_TABLE:
            raise DefinitionChanged(text_of(error)) from error
        raise error_of_read(error, name, address) from error
    finally:
        connection.close()
    return found
