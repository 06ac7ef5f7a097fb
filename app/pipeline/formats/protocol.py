"""The record format as the encode step knows it: one for a run, and for each chunk what writes its records.

Invariant: a format decides what a record looks like, never whether there is one, where it goes or which number
it has. A statement and a TRUNCATE are one record with a value each; ``values_of`` says it of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from app.pipeline.gather.items import Ddl, Rows
from app.pipeline.rules import Rules
from connectors.kafka.record_batches import BatchWriter
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.rows.compiled.generate import Row
from tables.routes.routes import Route
from tables.table_version import TableVersion

WriteRows = Callable[[Rows, int, int], int]
"""Writes the rows of one event. Takes the ordinal of the first row and the ``order`` of the last record before
it; returns the ``order`` of the last record."""
Marker = tuple[bytes, bytes]
"""Key and value of a BEGIN or END record."""


class Emitted:
    """What all formats have written of one chunk: they share its numbers."""

    __slots__ = ("seq", "size")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        """The last number given."""
        self.size = 0
        """Bytes of keys and values so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """A row's value whose images are taken out, since it is too large for its topic."""

    images: bytes
    """The images, as the claim store keeps them."""
    sizes: Mapping[str, int]
    """Bytes of each image that there is, by its name."""
    committed_ms: int
    value: Callable[[str, object], bytes]
    """The value without them, given the name and the content of the member that stands for them."""


class Records(Protocol):
    """Writes the records of one chunk."""

    def rows(self, version: TableVersion, writer: BatchWriter) -> WriteRows:
        """What writes the rows of a table version."""

    def ddl(self, item: Ddl, writer: BatchWriter) -> None:
        """Write a statement, and what it did where that is known."""

    def truncate(
        self,
        item: Ddl,
        route: Route,
        writer: BatchWriter,
        *,
        schema: int | None,
        ordinal: int,
        order: int,
    ) -> None:
        """Write that all rows of a table are gone; ``schema``: its latest version, if it has any."""

    def begin(self, transaction: Transaction) -> Marker:
        """The record of a transaction's begin."""

    def end(
        self, transaction: Transaction, counts: Mapping[str, int], *, part: int, last: bool
    ) -> Marker:
        """The record of its end, or of a part's: ``counts`` are the values that were published, by topic."""


class RecordFormat(Protocol):
    """A format, for one run of a destination."""

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        """What writes the records of a chunk."""

    def lighten(self, value: bytes) -> Light:
        """Take the images out of a row's value."""


class Form(Protocol):
    """A format by itself."""

    def __call__(self, rules: Rules, *, connector: str, epoch: int) -> RecordFormat:
        """The format for a run; ``connector``: what kind of server the source is."""

    @staticmethod
    def values_of(rows: list[Row], event_type: int) -> int:
        """How many records with a value the rows of an event make."""
