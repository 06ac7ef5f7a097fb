"""A writer that publishes records again on the topics of their tags.

Invariant: a copy is the record byte for byte, in the partition of the same number and in the same Kafka
transaction. A record with several of the tags is on the topic of each, once.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.worker.pipeline.formats.protocol import Emitted
from connectors.kafka.record_batches import Headers, RecordWriter
from wire.records import HEADER_TAGS


class TaggedWriter:
    """A writer of one table's records and of their copies."""

    def __init__(
        self, writer: RecordWriter, tagged: Mapping[str, RecordWriter], emitted: Emitted
    ) -> None:
        """``tagged``: the writers of copies, by tag; ``emitted`` counts the bytes of copies too."""
        self._writer, self._tagged, self._emitted = writer, tagged, emitted

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record, also to the topics of its tags."""
        self._writer.append(key, value, headers)
        for name, text in headers:
            if name == HEADER_TAGS:
                for tag in text.decode().split(","):
                    if (copies := self._tagged.get(tag)) is not None:
                        copies.append(key, value, headers)
                        self._emitted.size += len(key or b"") + len(value or b"")
