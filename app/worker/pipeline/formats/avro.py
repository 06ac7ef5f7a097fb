"""The envelope in Avro, for one run.

Invariant: a schema is registered before the first record that has its id. The subject of a topic with one
logical table is ``<topic>-value``, else ``<topic>-<name of the schema>``, so that tables do not share one.

Invariant of schemas: equal columns make equal schemas, in other shards and on other workers too. Each column
may be null, with null as default, so that adding or removing a column is compatible. Names have only characters
that Avro allows; if a field's name differs from its column's, ``doc`` has the column's.
Source: https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import base64
import io
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import orjson

from app.worker.pipeline.decoder_progress import report_progress
from app.worker.pipeline.formats.envelope import Debezium
from app.worker.pipeline.formats.protocol import (
    DetachedImages,
    Emitted,
    Image,
    ReadRecord,
    Records,
    RestoredImage,
    WrittenImage,
)
from app.worker.pipeline.formats.shape import Envelope
from app.worker.pipeline.formats.shaped import absent_images, envelope_of, version_of
from app.worker.pipeline.formats.transcoded import Encode, TranscodedRecords
from app.worker.pipeline.rules import PublishingRules
from connectors.errors import SchemaRefused
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.types.registry import Schema, ValueOf, kind_of, sql_type
from connectors.store.registry import (
    ConfluentRegistry,
    MemoryRegistry,
    RegistryAccess,
    SchemaRegistry,
)
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.records import SOURCE, TRANSACTION, Field
from wire.table_version import Column, Definition
from wire.topics import merged_topic, shard_topics

_IMAGES = ("before", "after")
_OF_RUN = {"seq": 0, "epoch": 0}


@dataclass(frozen=True, slots=True)
class AvroFactory:
    """Makes the format for a run; see FormatFactory."""

    opened: Callable[[RegistryAccess], SchemaRegistry] = ConfluentRegistry

    def __call__(self, rules: PublishingRules, *, connector: str, epoch: int) -> Avro:
        return Avro(self.opened(rules.registry), rules, connector=connector, epoch=epoch)

    @staticmethod
    def keeps_tombstones(_rules: PublishingRules) -> bool:
        return True

    def form(self, rules: PublishingRules) -> AvroForm:
        return AvroForm(rules, self.opened(rules.registry))

    @staticmethod
    def incomparable(_rules: PublishingRules, _definition: Definition) -> str:
        return ""


class Avro:
    """See RecordFormat and Transcoder."""

    name = "avro"

    def __init__(
        self, registry: SchemaRegistry, rules: PublishingRules, *, connector: str, epoch: int
    ) -> None:
        self.keeps_tombstones = AvroFactory.keeps_tombstones(rules)
        self._registry, self._rules = registry, rules
        self._envelope = Debezium(rules, connector=connector, epoch=epoch)
        self._rows: dict[TableName, tuple[TableVersion, Encode]] = {}
        self._schemas: dict[int, RegisteredSchema] = {}

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        return TranscodedRecords(self, self._envelope.records(emitted, now_ms), emitted)

    def rows(self, version: TableVersion) -> Encode:
        name = (version.database, version.table)
        held = self._rows.get(name)
        if held is None or held[0] is not version:
            held = self._rows[name] = version, self._table(version)
        return held[1]

    def _table(self, version: TableVersion) -> Encode:
        columns = version.definition.columns
        route = self._rules.routes.of((version.database, version.table))
        logical = route.logical if route is not None else (version.database, version.table)
        subject = self._subject(version.topic, logical, route)
        name = version.database, version.table
        schema = self._registered(name, subject, envelope_schema(logical, columns))
        kinds = {one.name: kind_of(one.type) for one in columns}
        found = {name: sql_type(kind.base).avro_value(kind) for name, kind in kinds.items()}
        values = {name: one for name, one in found.items() if one}
        image = f"{namespace_of(logical)}.Value"
        return _Table(schema, field_names(columns), values, image).message

    def keys(self, version: TableVersion) -> None:
        """See Transcoder; keys are the envelope's."""

    def truncation(self, route: Route) -> Encode:
        subject = f"{self._topic(route.topic)}-{namespace_of(route.logical)}.Truncation"
        schema = self._registered(route.table, subject, truncation_schema(route.logical))
        return schema.message

    def _subject(self, topic: str, logical: TableName, route: Route | None) -> str:
        own = self._topic(topic)
        if route is None or route.mapped is None or not route.mapped.topic:
            return f"{own}-value"
        return f"{own}-{namespace_of(logical)}.Envelope"

    def _topic(self, topic: str) -> str:
        """The topic that consumers read: the merged topic, if this destination publishes a share of it."""
        prefix, destination = self._rules.prefix, self._rules.destination
        is_share = topic.startswith(shard_topics(prefix, destination))
        return merged_topic(prefix, destination, topic) if is_share else topic

    def _registered(self, table: TableName, subject: str, schema: Schema) -> RegisteredSchema:
        """Return a table's schema with its id; raise SchemaRefused, which names the table."""
        # A registry may take long to answer, and many schemas may be registered one after the other.
        report_progress()
        try:
            number = self._registry.register(subject, orjson.dumps(schema).decode())
        except SchemaRefused as error:
            error.name_of_table = table
            error.context["table"] = ".".join(table)
            raise
        report_progress()
        return self._schemas.setdefault(number, RegisteredSchema.of(number, schema))

    def detach_images(self, value: bytes) -> DetachedImages:
        """See RecordFormat; the images are stored as a message that is the same in any run."""
        schema = self._schemas[schema_number(value)]
        whole = schema.value(value)
        stored = schema.message({**whole, "ts_ms": 0, "source": {**whole["source"], **_OF_RUN}})
        bare = {**whole, **dict.fromkeys(_IMAGES)}
        empty = len(schema.message(bare))
        sizes = {
            name: len(schema.message({**bare, name: whole[name]})) - empty
            for name in _IMAGES
            if whole.get(name) is not None
        }

        def value_without_images(name: str, content: object) -> bytes:
            return schema.message({**bare, name: orjson.dumps(content).decode()})

        return DetachedImages(
            images=stored,
            sizes=sizes,
            committed_ms=whole["source"]["ts_ms"],
            value=value_without_images,
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of one table version."""

    schema: RegisteredSchema
    fields: dict[str, str]
    """The field of each column."""
    values: dict[str, ValueOf]
    image: str
    """The full name of an image's schema: given it, fastavro need not determine a value's schema."""

    def message(self, envelope: Envelope) -> bytes:
        """Return the message of a change."""
        images = {name: self._written(envelope[name]) for name in _IMAGES}
        return self.schema.message({**envelope, **images})

    def _written(self, image: dict[str, Any] | None) -> tuple[str, dict[str, Any]] | None:
        if image is None:
            return None
        values, fields = self.values, self.fields
        return self.image, {
            fields[name]: values[name](value) if value is not None and name in values else value
            for name, value in image.items()
        }


_HEAD = struct.Struct(">bI")
_MAGIC = 0


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id; ``parsed`` is fastavro's.

    Source:
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format
    """

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


_FOREIGN = re.compile(r"[^A-Za-z0-9_]")
_TEXTS: Schema = {"type": "array", "items": "string"}
_KINDS: Mapping[str, Any] = {"text": "string", "texts": _TEXTS, "int": "int", "long": "long"}


def namespace_of(table: TableName) -> str:
    """Return the namespace of a table's schemas: its database and name."""
    return ".".join(map(avro_name, table))


def avro_name(name: str) -> str:
    """Return a name as Avro allows it; different names may become equal."""
    found = _FOREIGN.sub("_", name)
    return found if found and not found[0].isdigit() else f"_{found}"


def field_names(columns: Iterable[Column]) -> dict[str, str]:
    """Return the field of each column; a field whose name is already taken gets a number."""
    found: dict[str, str] = {}
    for number, column in enumerate(columns, 1):
        name = avro_name(column.name)
        while name in found.values():
            name = f"{name}_{number}"
        found[column.name] = name
    return found


def row_schema(table: TableName, columns: tuple[Column, ...]) -> Schema:
    """Return the schema of an image."""
    names = field_names(columns)
    kinds = _column_types(columns)
    fields = [
        {
            "name": names[one.name],
            "type": ["null", kind],
            "default": None,
            **({} if names[one.name] == one.name else {"doc": one.name}),
        }
        for one, kind in zip(columns, kinds, strict=True)
    ]
    return {"type": "record", "name": "Value", "namespace": namespace_of(table), "fields": fields}


def envelope_schema(table: TableName, columns: tuple[Column, ...]) -> Schema:
    """Return the schema of the envelope of a table's rows."""
    images = [
        _optional("before", row_schema(table, columns)),
        _optional("after", f"{namespace_of(table)}.Value"),
    ]
    more = [_optional(name, _TEXTS) for name in ("absent", "replaced")]
    more += [_optional(name, "string") for name in ("claim_check", "left_out")]
    return _record("Envelope", table, [*images, *_common(), *more])


def truncation_schema(table: TableName) -> Schema:
    """Return the schema of the record of a TRUNCATE, which has no images."""
    return _record("Truncation", table, _common())


def _record(name: str, table: TableName, fields: list[Schema]) -> Schema:
    return {"type": "record", "name": name, "namespace": namespace_of(table), "fields": fields}


def _common() -> list[Schema]:
    return [
        {
            "name": "source",
            "type": {"type": "record", "name": "Source", "fields": _members(SOURCE)},
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {
            "name": "transaction",
            "type": {"type": "record", "name": "Transaction", "fields": _members(TRANSACTION)},
        },
    ]


def _members(fields: Mapping[str, Field]) -> list[Schema]:
    return [
        _optional(name, _KINDS[one.kind])
        if one.optional
        else {"name": name, "type": _KINDS[one.kind]}
        for name, one in fields.items()
    ]


def _optional(name: str, kind: Any) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None}


def _column_types(columns: Iterable[Column]) -> list[Any]:
    """Return the types of columns; a named type is defined at its first use."""
    found: list[Any] = []
    for one in columns:
        kind = kind_of(one.type)
        made = sql_type(kind.base).avro(kind)
        is_defined = made in found and isinstance(made, dict) and "name" in made
        found.append(made["name"] if is_defined else made)
    return found


class AvroForm:
    """The envelope in Avro; see RecordForm.

    Invariant: see RecordForm. Schemas are read from a registry, and never registered there.
    """

    def __init__(self, rules: PublishingRules, registry: SchemaRegistry) -> None:
        self._rules, self._registry = rules, registry
        self._schemas: dict[int, tuple[RegisteredSchema, dict[str, str]]] = {}

    def written(self, table: TableName, definition: Definition) -> WrittenImage:
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
    """The column of each field, from the first occurrence of the image's schema."""
    for field in schema["fields"]:
        if field["name"] == "before":
            image = next(one for one in field["type"] if isinstance(one, dict))
            return {one["name"]: one.get("doc", one["name"]) for one in image["fields"]}
    return {}


def _plain(value: Any) -> Any:
    """An Avro value as JSON; different values of a type stay different."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
