"""The envelope in Avro, for one run.

Invariant: a schema is registered before the first record that has its id. The subject of a topic with one
logical table is ``<topic>-value``, else ``<topic>-<name of the schema>``, so that tables do not share one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from app.worker.pipeline.decoder_progress import report_progress
from app.worker.pipeline.formats.avro.message import RegisteredSchema, schema_number, schema_text
from app.worker.pipeline.formats.avro.schema import (
    envelope_schema,
    field_names,
    namespace_of,
    truncation_schema,
)
from app.worker.pipeline.formats.debezium.format import Debezium
from app.worker.pipeline.formats.protocol import DetachedImages, Emitted, Records
from app.worker.pipeline.formats.shape import Envelope
from app.worker.pipeline.formats.transcoded import Encode, TranscodedRecords
from app.worker.pipeline.rules import Rules
from connectors.errors import SchemaRefused
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.types.registry import Schema, ValueOf, kind_of, sql_type
from connectors.store.registry import ConfluentRegistry, RegistryAccess, SchemaRegistry
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.topics import merged_topic, shard_topics

_IMAGES = ("before", "after")
_OF_RUN = {"seq": 0, "epoch": 0}


@dataclass(frozen=True, slots=True)
class AvroFactory:
    """Makes the format for a run; see FormatFactory."""

    opened: Callable[[RegistryAccess], SchemaRegistry] = ConfluentRegistry

    def __call__(self, rules: Rules, *, connector: str, epoch: int) -> Avro:
        """See FormatFactory."""
        return Avro(self.opened(rules.registry), rules, connector=connector, epoch=epoch)

    @staticmethod
    def values_of(rows: list[Row], event_type: int) -> int:
        """See FormatFactory."""
        return Debezium.values_of(rows, event_type)

    @staticmethod
    def keeps_tombstones(_rules: Rules) -> bool:
        """See FormatFactory."""
        return True


class Avro:
    """See RecordFormat and Transcoder."""

    name = "avro"

    def __init__(
        self, registry: SchemaRegistry, rules: Rules, *, connector: str, epoch: int
    ) -> None:
        self.keeps_tombstones = AvroFactory.keeps_tombstones(rules)
        self._registry, self._rules = registry, rules
        self._envelope = Debezium(rules, connector=connector, epoch=epoch)
        self._rows: dict[TableName, tuple[TableVersion, Encode]] = {}
        self._schemas: dict[int, RegisteredSchema] = {}

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        """See RecordFormat."""
        return TranscodedRecords(self, self._envelope.records(emitted, now_ms), emitted)

    def rows(self, version: TableVersion) -> Encode:
        """See Transcoder."""
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
        """See Transcoder."""
        subject = f"{self._topic(route.topic)}-{namespace_of(route.logical)}.Truncation"
        schema = self._registered(route.table, subject, truncation_schema(route.logical))
        return schema.message

    def _subject(self, topic: str, logical: TableName, route: Route | None) -> str:
        own = self._topic(topic)
        if route is None or route.mapped is None or not route.mapped.topic:
            return f"{own}-value"
        return f"{own}-{namespace_of(logical)}.Envelope"

    def _topic(self, topic: str) -> str:
        """The topic that consumers read, of which this destination may publish a share."""
        prefix, destination = self._rules.prefix, self._rules.destination
        is_share = topic.startswith(shard_topics(prefix, destination))
        return merged_topic(prefix, destination, topic) if is_share else topic

    def _registered(self, table: TableName, subject: str, schema: Schema) -> RegisteredSchema:
        """Return a table's schema with its id; raise SchemaRefused with the table."""
        # A registry may take long to answer, of many schemas in turn.
        report_progress()
        try:
            number = self._registry.register(subject, schema_text(schema))
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
    """The full name of an image's schema: with it, fastavro need not find out that a value is one."""

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
