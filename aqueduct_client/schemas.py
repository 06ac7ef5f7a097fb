"""Table versions: the columns and the key of a record's table, from the schemas topic.

Invariant: a version is written before the first row that uses it, in the same Kafka transaction; so it is found
once the row was read. The rest of the topic is read when a version is asked for that is not known.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

from aqueduct_client.errors import SchemaUnknown
from aqueduct_client.protocol import Consumer, OpensLog
from aqueduct_client.records import Partition, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table version."""

    name: str
    type: str
    """The type of its values, as ``docs/wire.md`` defines it."""
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """The columns of a table from a position on."""

    database: str
    table: str
    version: int
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]


_Name = tuple[str, str, str, int]


@dataclass(slots=True)
class Schemas:
    """All table versions that were read so far."""

    logs: OpensLog
    topic: str
    _known: dict[_Name, TableVersion] = field(default_factory=dict)
    _next: int = 0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def of(self, record: Record) -> TableVersion:
        """Return the version of a record's table; raise SchemaUnknown if the topic lacks it."""
        name = record.destination, record.database, record.table, record.schema_version
        async with self._lock:
            if name not in self._known:
                await self._read_on()
        if name not in self._known:
            destination, database, table, version = name
            raise SchemaUnknown(
                f"version {version} of {database}.{table} of {destination}", topic=self.topic
            )
        return self._known[name]

    async def tables(self, consumer: Consumer) -> tuple[frozenset[str], bool]:
        """Return the names of all published tables, real and logical, and whether there are logical ones."""
        logical = f"{self.topic.removesuffix('schemas')}logical_schemas"
        existing = await consumer.topics([self.topic, logical])
        found: set[str] = set()
        if logical in existing:
            async with self.logs() as reader:
                at = 0
                while records := await reader.read(Partition(logical, 0), at):
                    for raw in records:
                        key = json.loads(raw.key or b"{}")
                        found.add(f"{key['database']}.{key['table']}")
                    at = records[-1].offset + 1
        has_logical = bool(found)
        if self.topic in existing:
            async with self._lock:
                await self._read_on()
            found |= {f"{database}.{table}" for _, database, table, _ in self._known}
        return frozenset(found), has_logical

    async def _read_on(self) -> None:
        async with self.logs() as reader:
            while found := await reader.read(Partition(self.topic, 0), self._next):
                for raw in found:
                    value = json.loads(raw.value or b"{}")
                    name = value["destination"], value["database"], value["table"], value["version"]
                    self._known[name] = _version(value)
                self._next = found[-1].offset + 1


def _version(value: dict[str, object]) -> TableVersion:
    columns = value["columns"]
    key = value["primary_key"]
    assert isinstance(columns, list)
    assert isinstance(key, list)
    return TableVersion(
        database=str(value["database"]),
        table=str(value["table"]),
        version=int(str(value["version"])),
        columns=tuple(
            Column(name=each["name"], type=each["type"], nullable=each["nullable"])
            for each in columns
        ),
        primary_key=tuple(key),
    )
