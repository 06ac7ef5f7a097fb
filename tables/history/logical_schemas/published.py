"""A logical schema as it was published: its content, its number and times.

Invariant: a record is published only if its content differs from the last record of its table, so the version
counts changes. The topic, read back, shows what was published last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.logical_schema import LogicalSchema, State
from tables.history.logical_schemas.shard import ShardName

_NOT_CONTENT = ("version", "since_ms", "ts_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSchema:
    """The last record of a logical table."""

    name: TableName
    version: int
    since_ms: int
    """The time since which the table is in its state, in milliseconds since 1970."""
    ts_ms: int
    content: dict[str, Any]
    """See ``LogicalSchema.to_json``."""

    @property
    def state(self) -> State:
        """The table's state."""
        return State(self.content["state"])

    @property
    def open_changes(self) -> list[str]:
        """The differences of the shards as text, each with the shards that lack it."""
        return [
            f"{one['text']}: lacking on {', '.join(one['lacking'])}"
            for one in self.content["changes"]
        ]

    @property
    def dropped(self) -> dict[ShardName, int]:
        """The real tables that were dropped, with the time of each in milliseconds since 1970."""
        return {
            ShardName(one["destination"], one["database"], one["table"]): one["dropped_ms"]
            for one in self.content["shards"]
            if one["dropped_ms"] is not None
        }

    @property
    def replaced(self) -> PublishedSchema:
        """The same schema with a content that no schema has, so that it is published again."""
        return replace(self, content={**self.content, "wire": None})

    def to_record(self) -> tuple[bytes, bytes]:
        """The key and the value of its record."""
        key = {"database": self.name[0], "table": self.name[1]}
        numbers = {"version": self.version, "since_ms": self.since_ms, "ts_ms": self.ts_ms}
        return orjson.dumps(key), orjson.dumps({**self.content, **numbers})

    @classmethod
    def from_record(cls, value: bytes) -> PublishedSchema:
        """Read a value; raise ValueError if it is no such record."""
        try:
            content = orjson.loads(value)
            numbers = {name: content.pop(name) for name in _NOT_CONTENT}
            found = cls(name=(content["database"], content["table"]), content=content, **numbers)
            # Fields that are read later raise here if they have another form.
            State(content["state"]), found.open_changes
            names = [*found.name, *(name for one in found.dropped for name in one)]
            counts = [*numbers.values(), *found.dropped.values()]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no logical schema: {error!r}") from error
        if not all(isinstance(one, str) for one in names):
            raise ValueError("no logical schema: a name is no text")
        if not all(isinstance(one, int) for one in counts):
            raise ValueError("no logical schema: a number or a time is none")
        return found


def next_published(
    schema: LogicalSchema, last: PublishedSchema | None, now_ms: int
) -> PublishedSchema | None:
    """The record to publish after the last one; None if nothing has changed."""
    # In the form in which it is read back: lists for tuples.
    content = orjson.loads(orjson.dumps(schema.to_json()))
    if last is not None and last.content == content:
        return None
    is_same_state = last is not None and last.state is schema.state
    return PublishedSchema(
        name=schema.name,
        version=1 if last is None else last.version + 1,
        since_ms=last.since_ms if last is not None and is_same_state else now_ms,
        ts_ms=now_ms,
        content=content,
    )


def key_name(key: bytes) -> TableName:
    """The logical table that a record's key names; raise ValueError."""
    try:
        found = orjson.loads(key)
        name = found["database"], found["table"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no key of a logical schema: {error!r}") from error
    if not all(isinstance(one, str) for one in name):
        raise ValueError("no key of a logical schema: a name is no text")
    return name
