"""The format of the journal's keys and values.

Invariant: each value is whole and has its format's number; an older format stays readable, a newer
format is refused by name. A removed record has a value too, so the journal has no Kafka tombstones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import orjson

from connectors.errors import JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord

FORMAT = 1

Entry = tuple[bytes, bytes]
"""A key and a value, for the journal."""
Read = TypeVar("Read")


def quoted(name: str) -> str:
    """A name quoted for a key."""
    return quote(name, safe="")


def unquoted(text: str) -> str:
    """The name from its quoted form in a key."""
    return unquote(text)


def encoded(value: dict[str, Any]) -> bytes:
    """A journal value: the content, and the number of this format."""
    return orjson.dumps({"format": FORMAT, **value})


TOMBSTONE = encoded({"gone": True})
"""The value of a removed record."""


def tombstone(key: bytes) -> Entry:
    """A record that removes a key: compaction keeps only this record of the key."""
    return key, TOMBSTONE


def is_tombstone(record: StoredRecord) -> bool:
    """Whether a record only removes its key."""
    return record.value == TOMBSTONE or (
        len(record.value) < 64 and decoded(record) == {"gone": True}
    )


def decoded(record: StoredRecord) -> dict[str, Any]:
    """The content of a journal value; raise JournalTooNew or JournalUnreadable."""
    key, offset = record.key.decode("utf-8", "replace"), record.offset
    if not record.value:
        raise JournalUnreadable("it is a tombstone: its key was deleted", key=key, offset=offset)
    try:
        value = orjson.loads(record.value)
        number = value.pop("format")
    except (orjson.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
        raise JournalUnreadable(
            f"a record cannot be read: {error!r}", key=key, offset=offset
        ) from error
    if number != FORMAT:
        raise JournalTooNew(f"format {number}, this version reads {FORMAT}", key=key, offset=offset)
    assert isinstance(value, dict)
    return value


def damaged(what: str, record: StoredRecord, error: Exception) -> JournalUnreadable:
    """The error of a record of a known key whose value has an unexpected form."""
    key = record.key.decode("utf-8", "replace")
    return JournalUnreadable(f"{what} cannot be read: {error!r}", key=key, offset=record.offset)


def read_as(what: str, record: StoredRecord, read: Callable[[dict[str, Any]], Read]) -> Read:
    """The content of a record as an object.

    ``read`` raises KeyError, TypeError, ValueError or AttributeError for a value of another form. Raise
    JournalTooNew, or JournalUnreadable with ``what`` as the record's name.
    """
    value = decoded(record)
    try:
        return read(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(what, record, error) from error
