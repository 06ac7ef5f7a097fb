"""Formats other than the envelope: each finished envelope is parsed and written in another shape.

Invariant: keys, headers, order and numbers are the envelope's, but a format may write keys in its own form.
Headers add what the shape cannot state, so that any reader sees a record's format, destination, number and time
without parsing it. Statements, transaction markers and table versions keep their form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from app.worker.pipeline.formats.protocol import Emitted, Marker, Records, WriteRows
from app.worker.pipeline.formats.shape import Envelope
from app.worker.pipeline.gather.items import Ddl
from connectors.errors import AqueductError, RecordNotEncodable
from connectors.kafka.record_batches import PLACE, Headers, RecordWriter
from connectors.mysql.binlog.changes import Transaction
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.records import (
    HEADER_COMMITTED_MS,
    HEADER_DESTINATION,
    HEADER_EPOCH,
    HEADER_FORMAT,
    HEADER_GTID,
    HEADER_NEW_KEY,
    HEADER_OLD_KEY,
    HEADER_SCHEMA,
    HEADER_SEQ,
)

Encode = Callable[[Envelope], bytes]
"""Returns a record's value for its envelope."""
EncodeKey = Callable[[bytes], bytes]
"""Returns a record's key for the key of its envelope."""
_PLACE = PLACE.encode()


class Transcoder(Protocol):
    """A format as functions of envelopes."""

    @property
    def name(self) -> str:
        """The name in rules of the mapping, and in the header ``format``."""

    @property
    def keeps_tombstones(self) -> bool:
        """Whether deletes have tombstones."""

    def rows(self, version: TableVersion) -> Encode:
        """Return the function for the rows of a table version."""

    def keys(self, version: TableVersion) -> EncodeKey | None:
        """Return the function for the keys of a table version; None: they stay as they are."""

    def truncation(self, route: Route) -> Encode:
        """Return the function for a TRUNCATE of a table."""


class TranscodedRecords:
    """Writes the records of one piece; see Records."""

    def __init__(self, format_: Transcoder, envelopes: Records, emitted: Emitted) -> None:
        self._format, self._envelopes, self._emitted = format_, envelopes, emitted

    def rows(self, version: TableVersion, writer: RecordWriter) -> WriteRows:
        own = self._writer(writer, self._format.rows(version), self._format.keys(version))
        return self._envelopes.rows(version, own)

    def ddl(self, item: Ddl, writer: RecordWriter) -> None:
        self._envelopes.ddl(item, writer)

    def truncate(
        self,
        item: Ddl,
        route: Route,
        writer: RecordWriter,
        *,
        schema: int | None,
        ordinal: int,
        order: int,
    ) -> None:
        own = self._writer(writer, self._format.truncation(route))
        self._envelopes.truncate(item, route, own, schema=schema, ordinal=ordinal, order=order)

    def replaced(self, item: Ddl, route: Route, writer: RecordWriter) -> None:
        """See Records; readers of other formats do not know such a record."""

    def begin(self, transaction: Transaction) -> Marker:
        return self._envelopes.begin(transaction)

    def end(
        self, transaction: Transaction, counts: Mapping[str, int], *, part: int, last: bool
    ) -> Marker:
        return self._envelopes.end(transaction, counts, part=part, last=last)

    def _writer(
        self, writer: RecordWriter, encode: Encode, keys: EncodeKey | None = None
    ) -> TranscodingWriter:
        return TranscodingWriter(writer, encode, keys, format_=self._format, emitted=self._emitted)


class TranscodingWriter:
    """Takes the records of one table as envelopes, and passes them on in another shape; see RecordWriter."""

    def __init__(
        self,
        writer: RecordWriter,
        encode: Encode,
        keys: EncodeKey | None,
        *,
        format_: Transcoder,
        emitted: Emitted,
    ) -> None:
        self._writer, self._encode, self._emitted = writer, encode, emitted
        self._keys = keys
        self._name = format_.name.encode()
        self._keeps_tombstones = format_.keeps_tombstones

    def append(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Add a record; ``value`` is an envelope."""
        if self._keys is not None and key is not None:
            key, headers = self._keyed(self._keys, key, headers)
        if value is not None:
            envelope = orjson.loads(value)
            encoded = self._encoded(envelope)
            self._emitted.size += len(encoded) - len(value)
            self._writer.append(key, encoded, [*headers, *self._headers(envelope["source"])])
        elif self._keeps_tombstones:
            self._writer.append(key, None, [*headers, (HEADER_FORMAT, self._name)])
        else:
            self._emitted.size -= len(key or b"")

    def _keyed(self, keys: EncodeKey, key: bytes, headers: Headers) -> tuple[bytes, Headers]:
        """The format's own key, and the headers with its old and new key; what chooses a partition stays."""

        def own(found: bytes) -> bytes:
            plain, separator, place = found.partition(_PLACE)
            return keys(plain) + separator + place

        found = own(key)
        self._emitted.size += len(found) - len(key)
        return found, [
            (name, own(text) if name in (HEADER_OLD_KEY, HEADER_NEW_KEY) else text)
            for name, text in headers
        ]

    def _encoded(self, envelope: Envelope) -> bytes:
        """Return the value; raise RecordNotEncodable without the failure's text, which may contain values."""
        try:
            return self._encode(envelope)
        except (AqueductError, MemoryError):
            raise
        except Exception as error:
            source = envelope["source"]
            raise RecordNotEncodable(
                type(error).__name__,
                format=self._name.decode(),
                table=f"{source['db']}.{source['table']}",
                gtid=source["gtid"],
                coordinates=f"{source['file']}:{source['pos']}",
            ) from None

    def _headers(self, source: Mapping[str, Any]) -> Headers:
        """The facts of an envelope that a reader needs and the shape may lack."""
        gtid, schema = source["gtid"], source["schema"]
        return [
            (HEADER_FORMAT, self._name),
            (HEADER_DESTINATION, source["name"].encode()),
            (HEADER_SEQ, b"%d" % source["seq"]),
            (HEADER_EPOCH, b"%d" % source["epoch"]),
            (HEADER_COMMITTED_MS, b"%d" % source["ts_ms"]),
            *([] if gtid is None else [(HEADER_GTID, gtid.encode())]),
            *([] if schema is None else [(HEADER_SCHEMA, b"%d" % schema)]),
        ]
