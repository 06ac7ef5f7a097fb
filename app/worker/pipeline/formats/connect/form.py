"""The form of records in the format ``connect``, as validation compares them.

Invariant: see RecordForm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from app.settings.connect_form import ConnectForm
from app.worker.pipeline.formats.connect.format import Connect
from app.worker.pipeline.formats.connect.schemas import form_of
from app.worker.pipeline.formats.protocol import Image, ReadRecord, WrittenImage
from app.worker.pipeline.formats.shaped_form import absent_images, envelope_of, version_of
from app.worker.pipeline.rules import Rules
from connectors.mysql.ddl.definition import TableName
from wire.records import HEADER_SCHEMA
from wire.table_version import Definition


class ConnectRecords:
    """A connector's envelope; see RecordForm."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def written(self, table: TableName, definition: Definition) -> WrittenImage:
        """See RecordForm."""
        encode = Connect(self._rules, connector="mysql", epoch=0).rows(
            version_of(table, definition)
        )

        def image(values: Image) -> Image:
            found: Image = _payload(encode(envelope_of(table, values)))["after"]
            return found

        return image

    def read(self, key: bytes | None, value: bytes, headers: Mapping[str, bytes]) -> ReadRecord:  # noqa: ARG002
        """See RecordForm."""
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


def incomparable(form: ConnectForm, definition: Definition) -> str:
    """Return why the records of a table cannot be compared with its rows; empty if they can."""
    if form.unwrap:
        return "records are the row alone (connect.unwrap)"
    keyed = [one for one in definition.columns if one.name in definition.primary_key]
    if form.key_schemas or any(form_of(one, form.modes).value for one in keyed):
        return "keys in the format connect have another form than in the envelope"
    return ""


def _payload(value: bytes) -> dict[str, Any]:
    """A record without its schema; numbers stay as they are written."""
    found: dict[str, Any] = json.loads(
        value, parse_float=orjson.Fragment, parse_int=orjson.Fragment
    )
    return found["payload"] if "schema" in found and "payload" in found else found
