"""Messages in Confluent's wire format: a zero byte, the schema's id in four bytes, and the Avro value.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

import fastavro
import orjson

from connectors.mysql.types.registry import Schema

_HEAD = struct.Struct(">bI")
_MAGIC = 0


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id; ``parsed`` is fastavro's."""

    number: int
    parsed: Any

    @classmethod
    def of(cls, number: int, schema: Schema) -> RegisteredSchema:
        """Parse a schema."""
        return cls(number, fastavro.parse_schema(schema))

    def message(self, value: dict[str, Any]) -> bytes:
        """Return the message of a value."""
        into = io.BytesIO()
        into.write(_HEAD.pack(_MAGIC, self.number))
        fastavro.schemaless_writer(into, self.parsed, value)
        return into.getvalue()

    def value(self, message: bytes) -> dict[str, Any]:
        """Return the value of a message with this schema."""
        found = fastavro.schemaless_reader(io.BytesIO(message[_HEAD.size :]), self.parsed, None)
        assert isinstance(found, dict)
        return found


def schema_number(message: bytes) -> int:
    """Return the id of a message's schema."""
    _, number = _HEAD.unpack_from(message)
    return int(number)


def schema_text(schema: Schema) -> str:
    """Return a schema as the registry gets it; equal ones are equal texts."""
    return orjson.dumps(schema).decode()
