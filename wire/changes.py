"""ChangeIds, and the ids of transactions that the source did not commit: of existing rows, emptied tables and
announced versions.

A ChangeId is ``<transaction>#<ordinal>``, with ``/0`` and ``/1`` for the delete and the create of a key change.
Rows that existed already are of a transaction ``snapshot:…``, the deletes of all rows of a table of one
``truncate:…``, and a version of a table's columns that no statement made of one ``versions:…``. Changes of a
destination are ordered by ``(epoch, seq)``, never by their ids or times.

Invariant: the name of a change never changes: it is the same after any replay.
"""

from __future__ import annotations

import json
from urllib.parse import quote

SNAPSHOT = "snapshot:"
"""The beginning of the transaction id of rows that existed already, and so of their ChangeIds."""
TRUNCATE = "truncate:"
"""That of the deletes of all rows of a table, where no record of a TRUNCATE is published."""
REPLACED = f"{TRUNCATE}{SNAPSHOT}"
"""That of the deletes of the rows that a reading of existing rows replaces."""
ANNOUNCED = "versions:"
"""That of a record that announces a version of a table's columns, where no statement made it."""
DDL_ORDINAL = "ddl"
"""In place of the ordinal: the record of a statement."""
END_ORDINAL = "end"
"""In place of the ordinal: the record after the last row of a replacement."""


def change_id(transaction: str, ordinal: int | str, half: int | None = None) -> str:
    """The name of one change; ``half`` is 0 for the delete and 1 for the create of a key change."""
    name = f"{transaction}#{ordinal}"
    return name if half is None else f"{name}/{half}"


def parts_of(change_id: str) -> tuple[str, str, str]:
    """The transaction, the ordinal and the half of a change, each as text; empty where the name has none."""
    transaction, _, rest = change_id.rpartition("#")
    ordinal, _, half = rest.partition("/")
    return transaction, ordinal, half


def reading_id(snapshot: str, table: tuple[str, str], chunk: int) -> str:
    """The transaction id of the existing rows that one SELECT returned; ``table``: database and name.

    Names are percent-encoded, so that no two tables of a snapshot share an id.
    """
    name = ".".join(quote(part, safe="$").replace(".", "%2E") for part in table)
    return f"{SNAPSHOT}{snapshot}:{name}:{chunk}"


def reading_of(change_id: str) -> tuple[str, int] | None:
    """The reading that returned a row that existed already, and the number of its chunk; None for a change."""
    if not change_id.startswith(SNAPSHOT):
        return None
    read, _, chunk = parts_of(change_id)[0].rpartition(":")
    return read, int(chunk) if chunk.isdigit() else 0


def emptied_by(change_id: str) -> str | None:
    """The transaction that emptied the table of a deleted row; None for any other record."""
    if not change_id.startswith(TRUNCATE) or change_id.startswith(REPLACED):
        return None
    return change_id.removeprefix(TRUNCATE).rpartition(":")[0]


def change_key(change_id: bytes) -> bytes:
    """The key, in a compacted topic, of a record that has none: of a TRUNCATE, of a row without primary key."""
    return b'{"change_id":%b}' % json.dumps(change_id.decode(), ensure_ascii=False).encode()
