"""Writers of records as formats see them: a plain one, and one that chooses partitions by more than the key.

Invariant: a format passes keys on as the row decoder made them; what chooses a partition is in no record.
"""

from __future__ import annotations

from typing import Final, Protocol

from connectors.kafka.record_batches import BatchWriter, Headers

PLACE: Final = "\0"
"""The separator of a key and what chooses the partition in its place: no JSON contains it."""
_PLACE: Final = PLACE.encode()


class RecordWriter(Protocol):
    """Takes the records of one topic, in their order."""

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record."""


class PlacedWriter:
    """A writer for keys that state what chooses their partition."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record, without that statement in its key and headers."""
        own, separator, place = (key or b"").partition(_PLACE)
        if not separator:
            self._writer.append(key, value, headers)
            return
        bare = [(name, text.partition(_PLACE)[0]) for name, text in headers]
        self._writer.append_placed(place, own, value, bare)
