"""Table versions: the columns and the key of a record's table, from the schemas topic.

Invariant: a version is written before the first row that uses it, in the same Kafka transaction; so it is found
once the row has been read. A request for an unknown version reads the rest of the topic. A record that another
program wrote is passed over.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field

from aqueduct_client.errors import SchemaUnknown
from aqueduct_client.protocol import Consumer, OpensLog
from aqueduct_client.records import Partition, RawRecord, Record
from wire.table_version import Column, Definition, VersionKey
from wire.topics import logical_schemas_topic, schemas_topic

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """The columns of a table from a position on."""

    database: str
    table: str
    version: int
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]


@dataclass(slots=True)
class Schemas:
    """All table versions that were read so far."""

    logs: OpensLog
    prefix: str
    _known: dict[VersionKey, TableVersion] = field(default_factory=dict)
    _next: int = 0
    _reported: dict[str, int] = field(default_factory=dict)
    """By topic, the offset of the last skipped record in the log."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def _topic(self) -> str:
        return schemas_topic(self.prefix)

    async def of(self, record: Record) -> TableVersion:
        """Return the version of a record's table; raise SchemaUnknown if the topic lacks it."""
        key = VersionKey(record.destination, record.database, record.table, record.schema_version)
        async with self._lock:
            if key not in self._known:
                await self._read_on()
        if key not in self._known:
            raise SchemaUnknown(str(key), topic=self._topic)
        return self._known[key]

    async def tables(self, consumer: Consumer) -> tuple[frozenset[str], bool]:
        """Return the names of all published tables, real and logical, and whether there are logical tables."""
        logical = logical_schemas_topic(self.prefix)
        existing = await consumer.topics([self._topic, logical])
        found: set[str] = set()
        if logical in existing:
            async with self.logs() as reader:
                at = 0
                while records := await reader.read(Partition(logical, 0), at):
                    for raw in records:
                        try:
                            name = json.loads(raw.key or b"{}")
                            found.add(f"{name['database']}.{name['table']}")
                        except (ValueError, KeyError, TypeError) as error:
                            self._skip(logical, raw, error)
                    at = records[-1].offset + 1
        has_logical = bool(found)
        if self._topic in existing:
            async with self._lock:
                await self._read_on()
            found |= {f"{key.database}.{key.table}" for key in self._known}
        return frozenset(found), has_logical

    async def _read_on(self) -> None:
        async with self.logs() as reader:
            while found := await reader.read(Partition(self._topic, 0), self._next):
                for raw in found:
                    try:
                        self._take(raw)
                    except (ValueError, KeyError, TypeError, AttributeError) as error:
                        self._skip(self._topic, raw, error)
                self._next = found[-1].offset + 1

    def _take(self, raw: RawRecord) -> None:
        value = json.loads(raw.value or b"{}")
        key, definition = VersionKey.of(value), Definition.from_json(value)
        self._known[key] = TableVersion(
            database=key.database,
            table=key.table,
            version=key.version,
            columns=definition.columns,
            primary_key=definition.primary_key,
        )

    def _skip(self, topic: str, raw: RawRecord, error: Exception) -> None:
        """Log once a record that is passed over, as another program wrote it."""
        if raw.offset > self._reported.get(topic, -1):
            self._reported[topic] = raw.offset
            log.warning(
                "a record that is no schema is skipped [topic=%s, offset=%d, error=%r]",
                topic, raw.offset, error,
            )  # fmt: skip
