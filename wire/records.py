"""Records: the contract's number, headers, members of keys, and the fields of the envelope.

Invariant: within a version of the contract, fields and headers may be added but never change their meaning. The
row encoder contains the envelope as text; tests compare that text and ``docs/wire.md`` with these fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

WIRE_VERSION = 1

# --- headers ---

HEADER_CHANGE_ID = "change_id"
HEADER_OLD_KEY = "__debezium.oldkey"
HEADER_NEW_KEY = "__debezium.newkey"
HEADER_CLAIM_CHECK = "claim_check"
HEADER_LEFT_OUT = "left_out"
HEADER_REPLACEMENT = "replacement"
"""``begin`` on the record which states that all rows of a table are gone, if its existing rows follow. On the
record without a value after the last of these rows: the source, operation and transaction, as JSON."""
REPLACEMENT_BEGINS = b"begin"
HEADER_TAGS = "tags"
"""A mapped record's tags, UTF-8 text joined by commas."""
HEADER_FORMAT = "format"
"""The format of a row record that is not the envelope; it also has the headers below, up to ``schema``."""
HEADER_DESTINATION = "destination"
HEADER_SEQ = "seq"
HEADER_EPOCH = "epoch"
HEADER_GTID = "gtid"
"""Only on records of transactions with a GTID."""
HEADER_COMMITTED_MS = "ts_ms"
"""The time of the commit, as in the envelope's ``source``."""
HEADER_SCHEMA = "schema"
"""The version of the table's columns, as in the envelope's ``source``; older records lack it."""
HEADER_META = "meta"
"""On a quarantined event and on a dead letter: the event's type, transaction, position and ordinal, as JSON."""
HEADER_TABLE_MAP = "table_map"
"""On the same records, if they hold a rows event: the body of its TABLE_MAP event."""
HEADER_SEALED = "sealed"
"""On the same records, if the table has or may have masked columns: the id of the key that seals the value."""


class Origin(NamedTuple):
    """The destination of a record, and the record's epoch and number there."""

    destination: str
    epoch: int
    seq: int

    @property
    def order(self) -> tuple[int, int]:
        """The value by which records of a destination are compared."""
        return self.epoch, self.seq


def origin_in(headers: Mapping[str, bytes]) -> Origin:
    """The origin of a record in another format than the envelope; raise KeyError or ValueError without it."""
    destination = headers[HEADER_DESTINATION].decode()
    return Origin(destination, int(headers[HEADER_EPOCH]), int(headers[HEADER_SEQ]))


# --- keys ---

KEY_SHARD = "__shard"
"""The first member of a key that names the real table: a list of destination, database and table."""


def shard_head(shard: tuple[str, str, str] | None) -> str:
    """The text before a key's first column; ``shard``: destination, database and table, if the key has them."""
    if shard is None:
        return "{"
    return f'{{"{KEY_SHARD}":{json.dumps(shard, ensure_ascii=False, separators=(",", ":"))},'


# --- the envelope ---


class Op(Enum):
    """The kind of a change."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"
    """An existing row, read by a snapshot."""
    TRUNCATE = "t"
    """It applies to every row of the table with a smaller ``(epoch, seq)``."""


class Field(NamedTuple):
    """A field of the envelope: the kind of its values, and whether it may be null or missing."""

    kind: str
    """``text``, ``texts``, ``int`` for 32 bits or ``long`` for 64."""
    optional: bool = False


SOURCE: Mapping[str, Field] = {
    "version": Field("text"),
    "connector": Field("text"),
    "name": Field("text"),
    "server_id": Field("long"),
    "gtid": Field("text", optional=True),
    "file": Field("text"),
    "pos": Field("long"),
    "row": Field("int", optional=True),
    "thread": Field("long", optional=True),
    "db": Field("text"),
    "table": Field("text"),
    "logical_db": Field("text", optional=True),
    "logical_table": Field("text", optional=True),
    "tags": Field("texts", optional=True),
    "ts_ms": Field("long"),
    # Directly follows ``ts_ms`` in the text: a merge finds the commit time by it, without parsing the rest.
    "snapshot": Field("text"),
    "query": Field("text", optional=True),
    "seq": Field("long"),
    "epoch": Field("long"),
    "schema": Field("int", optional=True),
    "wire": Field("int"),
}
"""The members of ``source``, in the order of a row's record."""
TRANSACTION: Mapping[str, Field] = {"id": Field("text"), "total_order": Field("long")}
"""The members of ``transaction``."""


def subscribers_name(source: Mapping[str, Any]) -> tuple[str, str]:
    """The database and the table by which subscribers know a record's table."""
    database, table = ("logical_db", "logical_table") if "logical_db" in source else ("db", "table")
    return str(source[database]), str(source[table])


def is_claimed(claim: Mapping[str, Any], stored: bytes) -> bool:
    """Whether stored bytes are the images that a claim check names, by their size and SHA-256."""
    found = {"size": len(stored), "sha256": hashlib.sha256(stored).hexdigest()}
    return found == {name: claim.get(name) for name in found}


# --- effects of a statement, in the records of the DDL topic ---

TABLE_QUARANTINED = "table quarantined"
TABLE_COMES_IN = "table comes in"
"""The table's earlier rows are in no row record."""
TRUNCATE_OMITTED = "truncate omitted"
"""The row topic has neither a record of the TRUNCATE nor deletes for it."""
ROWS_CHANGED = "rows changed"
"""The statement itself changed rows; no row record has the change."""
COLUMN_GENERATED = "column generated"
"""A column's values are computed from now on; no row record has the new values of existing rows."""
