"""The envelope as a Debezium connector and Kafka Connect's JSON converter write it, for one run.

Source: records of Debezium 3.6.1 on Kafka Connect 4.1.2. The envelope has milliseconds alone, so ``ts_us`` and
``ts_ns`` end with zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from app.settings.connect_form import ConnectForm
from app.worker.pipeline.formats.connect.schemas import (
    envelope_schema,
    form_of,
    key_schema,
    row_schema,
)
from app.worker.pipeline.formats.debezium.format import Debezium
from app.worker.pipeline.formats.protocol import DetachedImages, Emitted, Records
from app.worker.pipeline.formats.shape import Envelope
from app.worker.pipeline.formats.transcoded import Encode, EncodeKey, TranscodedRecords
from app.worker.pipeline.rules import Rules
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.types.registry import Form, ValueOf
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion

_IMAGES = ("before", "after")
_MORE = ("claim_check", "left_out")
_PAYLOAD = b',"payload":'


class ConnectFactory:
    """Makes the format for a run; see FormatFactory."""

    def __call__(self, rules: Rules, *, connector: str, epoch: int) -> Connect:
        """See FormatFactory."""
        return Connect(rules, connector=connector, epoch=epoch)

    @staticmethod
    def values_of(rows: list[Row], event_type: int) -> int:
        """See FormatFactory."""
        return Debezium.values_of(rows, event_type)

    @staticmethod
    def keeps_tombstones(rules: Rules) -> bool:
        """See FormatFactory."""
        form = rules.connect
        return (form.tombstones and not form.unwrap) or rules.compacted


class Connect:
    """See RecordFormat and Transcoder."""

    name = "connect"

    def __init__(self, rules: Rules, *, connector: str, epoch: int) -> None:
        self.keeps_tombstones = ConnectFactory.keeps_tombstones(rules)
        self._form, self._connector = rules.connect, connector
        self._envelope = Debezium(rules, connector=connector, epoch=epoch)
        self._tables: dict[TableName, tuple[TableVersion, _Table]] = {}

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        """See RecordFormat."""
        return TranscodedRecords(self, self._envelope.records(emitted, now_ms), emitted)

    def rows(self, version: TableVersion) -> Encode:
        """See Transcoder."""
        return self._table(version).message

    def keys(self, version: TableVersion) -> EncodeKey:
        """See Transcoder."""
        return self._table(version).key

    def truncation(self, route: Route) -> Encode:
        """See Transcoder."""
        head = b""
        if self._form.value_schemas:
            head = envelope_schema(route.topic, {}, self._connector)

        def truncation(envelope: Envelope) -> bytes:
            return _with_schema(head, orjson.dumps(_value(envelope, {}, self._form.name)))

        return truncation

    def detach_images(self, value: bytes) -> DetachedImages:
        """See RecordFormat."""
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
        """Return the key of a row for the envelope's."""
        if not self._key_values and not self._key_head:
            return key
        own = key
        if self._key_values:
            own = orjson.dumps(_written(orjson.loads(key), self._key_values))
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
    return None if image is None else _written(image, values)


def _written(image: dict[str, Any], values: dict[str, ValueOf]) -> dict[str, Any]:
    return {
        name: values[name](value) if value is not None and name in values else value
        for name, value in image.items()
    }
