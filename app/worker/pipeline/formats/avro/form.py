"""The form of records in Avro, as validation compares them.

Invariant: see RecordForm. A registry is asked for the schemas of records, and given none.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import fastavro
import orjson

from app.worker.pipeline.formats.avro.format import Avro
from app.worker.pipeline.formats.avro.message import RegisteredSchema, schema_number
from app.worker.pipeline.formats.protocol import Image, ReadRecord, RestoredImage, WrittenImage
from app.worker.pipeline.formats.shaped_form import absent_images, envelope_of, version_of
from app.worker.pipeline.rules import Rules
from connectors.mysql.ddl.definition import TableName
from connectors.store.registry import MemoryRegistry, SchemaRegistry
from wire.table_version import Definition


class AvroForm:
    """The envelope in Avro; see RecordForm."""

    def __init__(self, rules: Rules, registry: SchemaRegistry) -> None:
        self._rules, self._registry = rules, registry
        self._schemas: dict[int, tuple[RegisteredSchema, dict[str, str]]] = {}

    def written(self, table: TableName, definition: Definition) -> WrittenImage:
        """See RecordForm."""
        own = MemoryRegistry()
        encode = Avro(own, self._rules, connector="mysql", epoch=0).rows(
            version_of(table, definition)
        )
        known = AvroForm(self._rules, own)

        def image(values: Image) -> Image:
            found = known.read(None, encode(envelope_of(table, values)), {}).image
            assert found is not None
            return {name: found[name] for name in values}

        return image

    def read(self, key: bytes | None, value: bytes, headers: Mapping[str, bytes]) -> ReadRecord:  # noqa: ARG002
        """See RecordForm."""
        schema, columns = self._schema(schema_number(value))
        content = schema.value(value)
        source = content["source"]
        after, absent = content.get("after"), absent_images(content)
        lacks = set(content.get("absent") or ())
        image = None
        if after is not None and absent is None:
            image = {
                columns[name]: _plain(one)
                for name, one in after.items()
                if columns[name] not in lacks
            }
        op = content["op"]
        return ReadRecord(
            op=op if op in ("d", "t") else "u",
            table=(source["db"], source["table"]),
            is_real=True,
            schema=source["schema"],
            image=image,
            absent=absent,
        )

    def restored(self, definition: Definition) -> RestoredImage:  # noqa: ARG002
        """See RecordForm; images are read in the envelope's form."""
        return lambda image: image

    def _schema(self, number: int) -> tuple[RegisteredSchema, dict[str, str]]:
        """Return a schema, and the column of each field of its images."""
        found = self._schemas.get(number)
        if found is None:
            text = self._registry.schema(number)
            if text is None:
                raise ValueError(f"the registry has no schema with the id {number} of a record")
            schema = orjson.loads(text)
            found = RegisteredSchema(number, fastavro.parse_schema(schema)), _columns(schema)
            self._schemas[number] = found
        return found


def _columns(schema: Mapping[str, Any]) -> dict[str, str]:
    """The column of each field, by the first mention of an image's schema."""
    for field in schema["fields"]:
        if field["name"] == "before":
            image = next(one for one in field["type"] if isinstance(one, dict))
            return {one["name"]: one.get("doc", one["name"]) for one in image["fields"]}
    return {}


def _plain(value: Any) -> Any:
    """A value of Avro as JSON that differs for different ones of a type."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
