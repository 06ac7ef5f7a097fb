"""ChangeIds, and the ids of transactions that Aqueduct itself names.

A ChangeId is ``<transaction>#<ordinal>``; a key change adds ``/0`` for its delete and ``/1`` for its create.
Transaction ids begin with ``snapshot:`` for existing rows, with ``truncate:`` for the deletes of all rows of a
table, and with ``versions:`` for a record that only announces a version of a table's columns. Changes of a
destination are ordered by ``(epoch, seq)``, never by their ids or times.

Invariant: a ChangeId never changes: it is the same after any replay.
"""

from __future__ import annotations

import json
from urllib.parse import quote

SNAPSHOT = "snapshot:"
"""The prefix of the transaction ids of existing rows, and so of their ChangeIds."""
TRUNCATE = "truncate:"
"""The prefix for the deletes of all rows of a table, which are published in place of a TRUNCATE's record."""
REPLACED = f"{TRUNCATE}{SNAPSHOT}"
"""The prefix for the deletes of the rows that a snapshot replaces."""
ANNOUNCED = "versions:"
"""The prefix for a record that only announces a version of a table's columns."""
DDL_ORDINAL = "ddl"
"""Replaces the ordinal in the ChangeId of a statement's record."""
END_ORDINAL = "end"
"""Replaces the ordinal in the ChangeId of the record after the last row of a replacement."""


def change_id(transaction: str, ordinal: int | str, half: int | None = None) -> str:
    """The name of one change; ``half`` is 0 for the delete and 1 for the create of a key change."""
    name = f"{transaction}#{ordinal}"
    return name if half is None else f"{name}/{half}"


def parts_of(change_id: str) -> tuple[str, str, str]:
    """The transaction, the ordinal and the half of a ChangeId, each as text; a missing part is empty."""
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
    """The snapshot and table of an existing row as text, and the number of its chunk; None for a change."""
    if not change_id.startswith(SNAPSHOT):
        return None
    read, _, chunk = parts_of(change_id)[0].rpartition(":")
    return read, int(chunk) if chunk.isdigit() else 0


def transaction_of(change_id: str) -> str | None:
    """The transaction of the source that a change belongs to; None for what Aqueduct itself publishes.

    The deletes of all rows of a table belong to the transaction of the TRUNCATE.
    """
    if change_id.startswith((SNAPSHOT, REPLACED, ANNOUNCED)):
        return None
    return emptied_by(change_id) or parts_of(change_id)[0]


def emptied_by(change_id: str) -> str | None:
    """The transaction that emptied the table of a deleted row; None for any other record."""
    if not change_id.startswith(TRUNCATE) or change_id.startswith(REPLACED):
        return None
    return change_id.removeprefix(TRUNCATE).rpartition(":")[0]


def change_key(change_id: bytes) -> bytes:
    """The key in a compacted topic for a record without a key: a TRUNCATE, or a row without a primary key."""
    return b'{"change_id":%b}' % json.dumps(change_id.decode(), ensure_ascii=False).encode()
