"""Records of row changes, typed; the value is parsed when a field of it is first read.

Invariant: key, headers and offset are known without parsing, so that a record can be dropped by its tags at
no cost. ``docs/wire.md`` is the contract of all fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aqueduct_client.errors import ForeignFormat, ImagesElsewhere, MalformedRecord, WireTooNew
from wire.records import (
    HEADER_CHANGE_ID,
    HEADER_FORMAT,
    HEADER_TAGS,
    WIRE_VERSION,
    Op,
    is_claimed,
    subscribers_name,
)

Row = Mapping[str, Any]


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """A record as Kafka has it."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    """None: a tombstone, which follows each delete."""
    headers: tuple[tuple[str, bytes], ...] = ()
    written_ms: int = 0
    """When it was published, milliseconds since 1970 UTC."""

    def header(self, name: str) -> bytes | None:
        """Return a header; None without it."""
        return next((value for key, value in self.headers if key == name), None)

    def check_format(self) -> None:
        """Raise ForeignFormat if the value is not the envelope, as its header states."""
        name = self.header(HEADER_FORMAT)
        if name is not None:
            topic, number = self.partition
            raise ForeignFormat(
                f"it is in the format {name.decode()}",
                topic=topic,
                partition=number,
                offset=self.offset,
            )

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the record, from its header."""
        text = (self.header(HEADER_TAGS) or b"").decode()
        return frozenset(filter(None, text.split(",")))


class Record:
    """A change of a row."""

    __slots__ = ("_value", "raw")

    def __init__(self, raw: RawRecord) -> None:
        self.raw = raw
        self._value: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Record({self.raw.partition.topic}:{self.raw.partition.number}@{self.raw.offset})"

    # --- known without parsing ---

    @property
    def change_id(self) -> str:
        """The name of the change, the same after any replay."""
        found = self.raw.header(HEADER_CHANGE_ID)
        if found is None:
            raise MalformedRecord("it has no header change_id", **self._where())
        return found.decode()

    @property
    def tags(self) -> frozenset[str]:
        """Its tags."""
        return self.raw.tags

    @property
    def key(self) -> Row | None:
        """The row's key columns; None for a table without a key."""
        return None if self.raw.key is None else self._object(self.raw.key)

    # --- parsed ---

    @property
    def value(self) -> dict[str, Any]:
        """The whole envelope."""
        if self._value is None:
            self.raw.check_format()
            value = self._object(self.raw.value or b"")
            source = value.get("source")
            if not isinstance(source, dict) or "op" not in value:
                raise MalformedRecord("its value has no op and source", **self._where())
            if source.get("wire", 0) > WIRE_VERSION:
                raise WireTooNew(f"it is version {source['wire']}", **self._where())
            self._value = value
        return self._value

    @property
    def source(self) -> dict[str, Any]:
        """The position of the change in its source, and its number."""
        source: dict[str, Any] = self.value["source"]
        return source

    @property
    def op(self) -> Op:
        """The kind of change."""
        try:
            return Op(self.value["op"])
        except ValueError:
            raise MalformedRecord(f"op is {self.value['op']!r}", **self._where()) from None

    @property
    def before(self) -> Row | None:
        """The row before the change; None for a create, a read and a truncate."""
        return self._image("before")

    @property
    def after(self) -> Row | None:
        """The row after the change; None for a delete and a truncate."""
        return self._image("after")

    @property
    def absent(self) -> tuple[str, ...]:
        """The columns that the images lack: keep the values that you have for them."""
        return tuple(self.value.get("absent", ()))

    @property
    def destination(self) -> str:
        """The captured MySQL source; ``seq`` and ``epoch`` are numbered within it."""
        return str(self._source("name"))

    @property
    def seq(self) -> int:
        """The number of the change in its destination."""
        return int(self._source("seq"))

    @property
    def epoch(self) -> int:
        """The epoch of the worker that published it; compare changes by ``(epoch, seq)``."""
        return int(self._source("epoch"))

    @property
    def ordinal(self) -> int:
        """The number of the row in its transaction, from 0."""
        return int(self._source("row"))

    @property
    def gtid(self) -> str | None:
        """The GTID of its transaction; None if the source writes none."""
        found = self.source.get("gtid")
        return None if found is None else str(found)

    @property
    def ts_ms(self) -> int:
        """The time of the commit in the source, milliseconds since 1970 UTC."""
        return int(self._source("ts_ms"))

    @property
    def database(self) -> str:
        """The real database."""
        return str(self._source("db"))

    @property
    def table(self) -> str:
        """The real table."""
        return str(self._source("table"))

    @property
    def logical_table(self) -> str:
        """``database.table`` as subscribers name it; the real names where no mapping applies."""
        try:
            return ".".join(subscribers_name(self.source))
        except KeyError as missing:
            raise MalformedRecord(f"source has no {missing.args[0]}", **self._where()) from None

    @property
    def transaction_id(self) -> str:
        """The GTID of the transaction, or its position."""
        return str((self.value.get("transaction") or {}).get("id", self.gtid))

    @property
    def schema_version(self) -> int:
        """The version of the table's columns; ``schema_of`` of the subscriber returns them."""
        return int(self._source("schema"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the record has values of."""
        return tuple(self.after or self.before or ())

    @property
    def claim_check(self) -> Row | None:
        """The location of the images of a row that was too large for its topic."""
        found: Row | None = self.value.get("claim_check")
        return found

    @property
    def left_out(self) -> Row | None:
        """The sizes of images that were not published at all."""
        found: Row | None = self.value.get("left_out")
        return found

    def with_images(self, stored: bytes) -> Record:
        """Return the record with the images that its ``claim_check`` names, verified."""
        if not is_claimed(self.claim_check or {}, stored):
            raise MalformedRecord("the stored images have another SHA-256", **self._where())
        whole = Record(self.raw)
        whole._value = {**self.value, "claim_check": None, **json.loads(stored)}
        return whole

    def _image(self, name: str) -> Row | None:
        if self.claim_check is not None or self.left_out is not None:
            raise ImagesElsewhere(**self._where())
        found: Row | None = self.value.get(name)
        return found

    def _source(self, name: str) -> Any:
        try:
            return self.source[name]
        except KeyError:
            raise MalformedRecord(f"source has no {name}", **self._where()) from None

    def _object(self, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise MalformedRecord(f"it is no JSON: {error}", **self._where()) from None
        if not isinstance(found, dict):
            raise MalformedRecord("it is no JSON object", **self._where())
        return found

    def _where(self) -> dict[str, object]:
        topic, number = self.raw.partition
        return {"topic": topic, "partition": number, "offset": self.raw.offset}
