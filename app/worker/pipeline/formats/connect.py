"""The envelope as a Debezium connector and Kafka Connect's JSON converter write it, for one run.

Source: records of Debezium 3.6.1 on Kafka Connect 4.1.2. The envelope has only milliseconds, so ``ts_us`` and
``ts_ns`` end with zeros.

With ``schemas.enable``, each record contains its schema, as Kafka Connect's JSON converter writes it in those
records. Defaults of columns are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from app.settings.connect_form import ConnectForm
from app.worker.pipeline.formats.envelope import Debezium
from app.worker.pipeline.formats.protocol import (
    DetachedImages,
    Emitted,
    Image,
    ReadRecord,
    Records,
    WrittenImage,
)
from app.worker.pipeline.formats.shape import Envelope, converted, exact_json
from app.worker.pipeline.formats.shaped import absent_images, envelope_of, version_of
from app.worker.pipeline.formats.transcoded import Encode, EncodeKey, TranscodedRecords
from app.worker.pipeline.rules import PublishingRules
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.types.registry import Form, Modes, Schema, ValueOf, kind_of, sql_type
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.records import HEADER_SCHEMA
from wire.table_version import Column, Definition

_IMAGES = ("before", "after")
_MORE = ("claim_check", "left_out")
_PAYLOAD = b',"payload":'


class ConnectFactory:
    """Makes the format for a run; see FormatFactory."""

    def __call__(self, rules: PublishingRules, *, connector: str, epoch: int) -> Connect:
        return Connect(rules, connector=connector, epoch=epoch)

    @staticmethod
    def keeps_tombstones(rules: PublishingRules) -> bool:
        form = rules.connect
        return (form.tombstones and not form.unwrap) or rules.compacted

    @staticmethod
    def form(rules: PublishingRules) -> ConnectRecords:
        return ConnectRecords(rules)

    @staticmethod
    def incomparable(rules: PublishingRules, definition: Definition) -> str:
        form = rules.connect
        if form.unwrap:
            return "records are the row alone (connect.unwrap)"
        keyed = [one for one in definition.columns if one.name in definition.primary_key]
        if form.key_schemas or any(form_of(one, form.modes).value for one in keyed):
            return "keys in the format connect have another form than in the envelope"
        return ""


class Connect:
    """See RecordFormat and Transcoder."""

    name = "connect"

    def __init__(self, rules: PublishingRules, *, connector: str, epoch: int) -> None:
        self.keeps_tombstones = ConnectFactory.keeps_tombstones(rules)
        self._form, self._connector = rules.connect, connector
        self._envelope = Debezium(rules, connector=connector, epoch=epoch)
        self._tables: dict[TableName, tuple[TableVersion, _Table]] = {}

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        return TranscodedRecords(self, self._envelope.records(emitted, now_ms), emitted)

    def rows(self, version: TableVersion) -> Encode:
        return self._table(version).message

    def keys(self, version: TableVersion) -> EncodeKey:
        return self._table(version).key

    def truncation(self, route: Route) -> Encode:
        head = b""
        if self._form.value_schemas:
            head = envelope_schema(route.topic, {}, self._connector)

        def truncation(envelope: Envelope) -> bytes:
            return _with_schema(head, orjson.dumps(_value(envelope, {}, self._form.name)))

        return truncation

    def detach_images(self, value: bytes) -> DetachedImages:
        head, middle, payload = (
            value.partition(_PAYLOAD) if self._form.value_schemas else (b"", b"", value)
        )
        if middle:
            payload = payload[:-1]
        found = self._envelope.detach_images(payload)

        def value_without_images(name: str, content: object) -> bytes:
            bare = found.value(name, content)
            return head + middle + bare + b"}" if middle else bare

        return DetachedImages(
            images=found.images,
            sizes=found.sizes,
            committed_ms=found.committed_ms,
            value=value_without_images,
        )

    def _table(self, version: TableVersion) -> _Table:
        name = (version.database, version.table)
        held = self._tables.get(name)
        if held is None or held[0] is not version:
            held = self._tables[name] = version, _Table(version, self._form, self._connector)
        return held[1]


class _Table:
    """The rows of one table version."""

    def __init__(self, version: TableVersion, form: ConnectForm, connector: str) -> None:
        forms = {one.name: form_of(one, form.modes) for one in version.definition.columns}
        keyed = replace(form.modes, decimal_format="base64")
        own = {
            one.name: form_of(one, keyed)
            for one in version.definition.columns
            if one.name in version.definition.primary_key
        }
        self._form = form
        self._values = _functions(forms)
        self._key_values = _functions(own)
        self._head = self._deleted_head = b""
        if form.value_schemas and form.unwrap:
            self._head = row_schema(version.topic, forms, optional=False)
            self._deleted_head = row_schema(version.topic, forms, optional=True)
        elif form.value_schemas:
            self._head = envelope_schema(version.topic, forms, connector)
        self._key_head = b""
        if form.key_schemas:
            ordered = {name: own[name] for name in version.definition.primary_key if name in own}
            self._key_head = key_schema(version.topic, ordered)

    def message(self, envelope: Envelope) -> bytes:
        """Return the value of a change."""
        if self._form.unwrap:
            after = envelope["after"]
            head = self._deleted_head if after is None else self._head
            return _with_schema(head, orjson.dumps(_image(after, self._values)))
        return _with_schema(
            self._head, orjson.dumps(_value(envelope, self._values, self._form.name))
        )

    def key(self, key: bytes) -> bytes:
        """Return the key of a row, from the envelope's key."""
        if not self._key_values and not self._key_head:
            return key
        own = key
        if self._key_values:
            own = orjson.dumps(converted(orjson.loads(key), self._key_values))
        return _with_schema(self._key_head, own)


def _functions(forms: dict[str, Form]) -> dict[str, ValueOf]:
    return {name: one.value for name, one in forms.items() if one.value is not None}


def _with_schema(head: bytes, payload: bytes) -> bytes:
    return b'{"schema":' + head + _PAYLOAD + payload + b"}" if head else payload


def _value(envelope: Envelope, values: dict[str, ValueOf], name: str) -> dict[str, Any]:
    source = envelope["source"]
    committed, written = source["ts_ms"], envelope["ts_ms"]
    images = {one: _image(envelope[one], values) for one in _IMAGES}
    return {
        **images,
        "source": {
            "version": source["version"],
            "connector": source["connector"],
            "name": name or source["name"],
            "ts_ms": committed,
            "snapshot": source["snapshot"],
            "db": source["db"],
            "sequence": None,
            "ts_us": committed * 1000,
            "ts_ns": committed * 1_000_000,
            "table": source["table"],
            "server_id": source["server_id"],
            "gtid": source["gtid"],
            "file": source["file"],
            "pos": source["pos"],
            "row": source["row"],
            "thread": source["thread"],
            "query": source.get("query"),
        },
        "transaction": None,
        "op": envelope["op"],
        "ts_ms": written,
        "ts_us": written * 1000,
        "ts_ns": written * 1_000_000,
        **{one: envelope[one] for one in _MORE if one in envelope},
    }


def _image(image: dict[str, Any] | None, values: dict[str, ValueOf]) -> dict[str, Any] | None:
    return None if image is None else converted(image, values)


class ConnectRecords:
    """A connector's envelope; see RecordForm.

    Invariant: see RecordForm.
    """

    def __init__(self, rules: PublishingRules) -> None:
        self._rules = rules

    def written(self, table: TableName, definition: Definition) -> WrittenImage:
        encode = Connect(self._rules, connector="mysql", epoch=0).rows(
            version_of(table, definition)
        )

        def image(values: Image) -> Image:
            found: Image = _payload(encode(envelope_of(table, values)))["after"]
            return found

        return image

    def read(self, key: bytes | None, value: bytes, headers: Mapping[str, bytes]) -> ReadRecord:  # noqa: ARG002
        content, schema = _payload(value), headers.get(HEADER_SCHEMA)
        op, source, absent = content["op"], content["source"], absent_images(content)
        op = op if op in ("d", "t") else "u"
        return ReadRecord(
            op=op,
            table=(source["db"], source["table"]),
            is_real=True,
            schema=None if schema is None else int(schema),
            image=content["after"] if op == "u" and absent is None else None,
            absent=absent,
        )

    def restored(self, definition: Definition) -> None:
        """See RecordForm; the modes that a record was written with are not known."""


def _payload(value: bytes) -> dict[str, Any]:
    """A record without its schema; numbers stay as they are written."""
    found = exact_json(value)
    return found["payload"] if "schema" in found and "payload" in found else found


_SNAPSHOTS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_SOURCE = {
    "version": ("string", False), "connector": ("string", False), "name": ("string", False),
    "ts_ms": ("int64", False), "snapshot": ("string", True), "db": ("string", False),
    "sequence": ("string", True), "ts_us": ("int64", True), "ts_ns": ("int64", True),
    "table": ("string", True), "server_id": ("int64", False),
    "gtid": ("string", True), "file": ("string", False), "pos": ("int64", False), "row": ("int32", False),
    "thread": ("int64", True), "query": ("string", True),
}  # fmt: skip
"""The members of ``source``: the type, and whether it is optional."""
_ORDER = (
    "type", "fields", "items", "optional", "name", "version", "doc", "parameters", "default", "field",
)  # fmt: skip
"""The members of a schema as the converter orders them: a key's partition depends on its bytes."""
_BLOCK = ("id", "total_order", "data_collection_order")
_TIMES = ("ts_ms", "ts_us", "ts_ns")


def form_of(column: Column, modes: Modes) -> Form:
    """Return the form of a column in the modes of a connector; its function is not called for NULL."""
    kind = kind_of(column.type)
    found = sql_type(kind.base).connect(kind, column.nullable, modes)
    return Form({**found.schema, "optional": column.nullable}, found.value)


def key_schema(topic: str, forms: Mapping[str, Form]) -> bytes:
    """Return the schema of a key, as JSON."""
    return _json(_struct(f"{topic}.Key", _columns(forms), optional=False))


def row_schema(topic: str, forms: Mapping[str, Form], *, optional: bool) -> bytes:
    """Return the schema of a row alone, as JSON; after a delete it is ``optional``."""
    return _json(_struct(f"{topic}.Value", _columns(forms), optional=optional))


def envelope_schema(topic: str, forms: Mapping[str, Form], connector: str) -> bytes:
    """Return the schema of a value, as JSON."""
    row = _struct(f"{topic}.Value", _columns(forms), optional=True)
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {**_source(connector), "field": "source"},
        {**_block(), "field": "transaction"},
        _field("op", "string", optional=False),
        *(_field(name, "int64", optional=True) for name in _TIMES),
    ]
    return _json({**_struct(f"{topic}.Envelope", fields, optional=False), "version": 2})


def _json(schema: Schema) -> bytes:
    return orjson.dumps(_ordered(schema))


def _ordered(schema: Schema) -> Schema:
    found = {name: schema[name] for name in _ORDER if name in schema}
    if "fields" in found:
        found["fields"] = [_ordered(one) for one in found["fields"]]
    if "items" in found:
        found["items"] = _ordered(found["items"])
    return found


def _columns(forms: Mapping[str, Form]) -> list[Schema]:
    return [{**form.schema, "field": name} for name, form in forms.items()]


def _source(connector: str) -> Schema:
    fields = [_field(name, kind, optional=optional) for name, (kind, optional) in _SOURCE.items()]
    snapshot = {
        "name": "io.debezium.data.Enum", "version": 1, "parameters": {"allowed": _SNAPSHOTS},
        "default": "false",
    }  # fmt: skip
    fields = [{**one, **snapshot} if one["field"] == "snapshot" else one for one in fields]
    name = f"io.debezium.connector.{connector}.Source"
    return {**_struct(name, fields, optional=False), "version": 1}


def _block() -> Schema:
    fields = [
        _field(name, "string" if name == "id" else "int64", optional=False) for name in _BLOCK
    ]
    return {**_struct("event.block", fields, optional=True), "version": 1}


def _struct(name: str, fields: list[Schema], *, optional: bool) -> Schema:
    return {"type": "struct", "fields": fields, "optional": optional, "name": name}


def _field(name: str, kind: str, *, optional: bool) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}
