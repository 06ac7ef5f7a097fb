"""The wire contract's names: topics, keys, ChangeIds. ``docs/wire.md`` is its text.

Invariant: names are injective, also under Kafka's rule that ``.`` and ``_`` are the same; the name of a change
never changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from urllib.parse import quote

WIRE_VERSION = 1
MAX_TOPIC_LENGTH = 249

HEADER_CHANGE_ID = "change_id"
HEADER_OLD_KEY = "__debezium.oldkey"
HEADER_NEW_KEY = "__debezium.newkey"
HEADER_CLAIM_CHECK = "claim_check"
HEADER_LEFT_OUT = "left_out"
HEADER_REPLACEMENT = "replacement"
"""Of the record that all rows of a table are gone, if its existing rows follow: ``begin``. Of a record without
a value, after the last of them: what it is of, as JSON."""
REPLACEMENT_BEGINS = b"begin"
HEADER_TAGS = "tags"
"""A mapped record's tags, joined by commas."""
HEADER_FORMAT = "format"
"""The format of a row record whose value is not the envelope; it has the following headers too."""
HEADER_DESTINATION = "destination"
HEADER_SEQ = "seq"
HEADER_EPOCH = "epoch"
HEADER_GTID = "gtid"
"""Of records of transactions with a GTID."""
HEADER_COMMITTED_MS = "ts_ms"
"""The time of the commit, as in the envelope's ``source``."""
HEADER_SCHEMA = "schema"
"""The version of the table's columns, as in the envelope's ``source``; records of earlier versions lack it."""
KEY_SHARD = "__shard"
"""The first member of a key that names the real table: a list of destination, database and table."""
SNAPSHOT = "snapshot"
"""The beginning of the transaction id of rows that existed before."""
TRUNCATE = "truncate"
"""The beginning of the transaction id of the deletes of all rows of a table."""

_PLAIN = re.compile(r"[a-zA-Z0-9]")


def change_key(change_id: bytes) -> bytes:
    """The key, in a compacted topic, of a record that has none: of a TRUNCATE, of a row without primary key."""
    return b'{"change_id":%b}' % json.dumps(change_id.decode(), ensure_ascii=False).encode()


def shard_head(shard: tuple[str, str, str] | None) -> str:
    """The text before a key's first column; ``shard``: destination, database and table, if it names them."""
    if shard is None:
        return "{"
    return f'{{"{KEY_SHARD}":{json.dumps(shard, ensure_ascii=False, separators=(",", ":"))},'


def row_topic(prefix: str, database: str, table: str) -> str:
    """The topic of a table's rows."""
    name = f"{prefix}.{_encoded(database, underscore='--')}.{_encoded(table, underscore='_')}"
    return _cut(name, database, table)


def tag_topic(prefix: str, topic: str, tag: str) -> str:
    """The topic of the records of a row topic, given with the prefix, that have a tag."""
    own = topic.removeprefix(f"{prefix}.")
    return _cut(f"{tag_topics(prefix)}{_encoded(tag, underscore='--')}.{own}", own, tag)


def tag_topics(prefix: str) -> str:
    """What the names of all such topics begin with."""
    return f"{prefix}.__tag."


def _cut(name: str, *parts: str) -> str:
    """A name, or its beginning and a digest of its parts if it is too long for Kafka."""
    if len(name) <= MAX_TOPIC_LENGTH:
        return name
    # No encoded character is "-x", so a cut name meets no whole one.
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return f"{name[: MAX_TOPIC_LENGTH - len(digest) - 2]}-x{digest}"


def _encoded(name: str, *, underscore: str) -> str:
    return "".join(
        char
        if _PLAIN.fullmatch(char)
        else underscore
        if char == "_"
        else "".join(f"-{byte:02x}" for byte in char.encode())
        for char in name
    )


def schemas_topic(prefix: str) -> str:
    """The compacted topic of all table versions."""
    return f"{prefix}.__schemas"


def logical_schemas_topic(prefix: str) -> str:
    """The compacted topic of the schemas of logical tables."""
    return f"{prefix}.__logical_schemas"


def journal_topic(prefix: str) -> str:
    """The topic of Aqueduct's own state."""
    return f"{prefix}.__journal"


def transactions_topic(prefix: str, destination: str) -> str:
    """The topic of a destination's transaction markers."""
    return f"{prefix}.__transactions.{destination}"


def ddl_topic(prefix: str, destination: str) -> str:
    """The topic of a destination's DDL."""
    return f"{prefix}.__ddl.{destination}"


def quarantine_topic(prefix: str, destination: str) -> str:
    """The topic where raw events of a destination's quarantined tables wait."""
    return f"{prefix}.__quarantine.{destination}"


def shard_topic(prefix: str, destination: str, topic: str) -> str:
    """The topic of one destination's share of a merged topic, given with the prefix."""
    return f"{shard_topics(prefix, destination)}{topic.removeprefix(f'{prefix}.')}"


def shard_topics(prefix: str, destination: str) -> str:
    """What the names of all such topics of a destination begin with."""
    return f"{prefix}.__shard.{destination}."


def merged_topic(prefix: str, destination: str, topic: str) -> str:
    """The topic that one destination's share is merged into."""
    return f"{prefix}.{topic.removeprefix(shard_topics(prefix, destination))}"


def progress_topic(prefix: str, destination: str) -> str:
    """The topic of the times up to which a merged destination is published."""
    return f"{prefix}.__progress.{destination}"


def dead_letters_topic(prefix: str, destination: str) -> str:
    """The topic of a destination's rows that cannot be decoded."""
    return f"{prefix}.__dead_letters.{destination}"


def reading_id(snapshot: str, table: tuple[str, str], chunk: int) -> str:
    """The transaction id of the existing rows that one SELECT returned; ``table``: database and name.

    Names are percent-encoded, so that no two tables of a snapshot share an id.
    """
    name = ".".join(quote(part, safe="$").replace(".", "%2E") for part in table)
    return f"{SNAPSHOT}:{snapshot}:{name}:{chunk}"


def change_id(transaction_id: str, ordinal: int, half: int | None = None) -> str:
    """The name of one change: unique in a topic and the same after any replay.

    ``half`` is 0 for the delete and 1 for the create of a key change.
    """
    name = f"{transaction_id}#{ordinal}"
    return name if half is None else f"{name}/{half}"
