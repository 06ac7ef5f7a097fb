"""The protocol of record formats: one format for a run, and a record writer for each piece.

Invariant: a format decides the content of a record, never whether it exists, its topic or its number. A
statement and a TRUNCATE are one record with a value each; ``values_of_rows`` returns the count for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.worker.pipeline.gather.items import Ddl, Rows
from app.worker.pipeline.rules import PublishingRules
from connectors.kafka.record_batches import RecordWriter
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.ddl.definition import TableName
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.table_version import Definition

WriteRows = Callable[[Rows, int, int], int]
"""Writes the rows of one event. Takes the ordinal of the first row and the ``order`` of the last record before
it; returns the ``order`` of the last record."""
Image = Mapping[str, Any]
"""Values by the names of columns."""
WrittenImage = Callable[[Image], Image]
"""Converts an image of the envelope to that of a record in another format; columns may be missing in both."""
RestoredImage = Callable[[Image], Image]
"""Converts an image that was read from a record to an image of the envelope; columns may be missing in both."""
Marker = tuple[bytes, bytes]
"""Key and value of a BEGIN or END record."""


class Emitted:
    """The numbers of one piece, for all formats."""

    __slots__ = ("seq", "size")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        """The last ``seq`` that was assigned."""
        self.size = 0
        """Bytes of keys and values so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedImages:
    """The images of an oversize row's value, and the value without them."""

    images: bytes
    """The images, as the claim store keeps them."""
    sizes: Mapping[str, int]
    """Bytes of each image present, by name."""
    committed_ms: int
    value: Callable[[str, object], bytes]
    """Returns the value without its images; takes the name and content of the member that replaces them."""


class Records(Protocol):
    """Writes the records of one piece."""

    def rows(self, version: TableVersion, writer: RecordWriter) -> WriteRows:
        """Return the writer of the rows of a table version."""

    def ddl(self, item: Ddl, writer: RecordWriter) -> None:
        """Write a statement, and its effect where that is known."""

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
        """Write the truncation of a table; ``schema`` is the table's latest version, if any."""

    def replaced(self, item: Ddl, route: Route, writer: RecordWriter) -> None:
        """Write the record without a value that ends a replacement: all rows after its truncation have come."""

    def begin(self, transaction: Transaction) -> Marker:
        """Return the BEGIN record of a transaction."""

    def end(
        self, transaction: Transaction, counts: Mapping[str, int], *, part: int, last: bool
    ) -> Marker:
        """Return the END record of a transaction or a part; ``counts``: published values by topic."""


class RecordFormat(Protocol):
    """A format, for one run of a destination."""

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        """Return the record writer of a piece."""

    def detach_images(self, value: bytes) -> DetachedImages:
        """Take the images out of a row's value."""


class FormatFactory(Protocol):
    """A format independent of a run."""

    def __call__(self, rules: PublishingRules, *, connector: str, epoch: int) -> RecordFormat:
        """Return the format for a run; ``connector``: the kind of the source server."""

    @staticmethod
    def keeps_tombstones(rules: PublishingRules) -> bool:
        """Return whether a delete is followed by a tombstone."""

    def form(self, rules: PublishingRules) -> RecordForm | None:
        """Return how records are read and compared; None: as envelopes."""

    @staticmethod
    def incomparable(rules: PublishingRules, definition: Definition) -> str:
        """Return why records cannot be compared with a table's rows; empty if they can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """The parts of a record that are compared."""

    op: str
    """``u`` for any image of a row; ``d``; or ``t`` for a TRUNCATE."""
    table: TableName
    is_real: bool
    """Whether ``table`` is certainly the real table; if not, it is the table for subscribers, for a TRUNCATE
    either of the two."""
    schema: int | None
    """The version of its columns; None if the record does not state it."""
    image: Image | None = None
    absent: str | None = None
    """Why there is no image."""


class RecordForm(Protocol):
    """The form of records in a format other than the envelope, as they are read and compared.

    Only a record's image is compared, and nothing that depends on when the record was written. Numbers keep all
    their digits. Nothing is registered with a schema registry.
    """

    def written(self, table: TableName, definition: Definition) -> WrittenImage:
        """Return the function that converts a table's images to this format."""

    def read(self, key: bytes | None, value: bytes, headers: Mapping[str, bytes]) -> ReadRecord:
        """Read a record with a value; raise ValueError if that is not possible."""

    def restored(self, definition: Definition) -> RestoredImage | None:
        """Return the inverse of ``written``; its result, written in this format again, is what was read.

        Values that the format cannot distinguish may differ. None: records cannot be read back.
        """
