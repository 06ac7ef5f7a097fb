"""Formats in JSON other than the envelope, each the shape of a finished envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

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
from app.worker.pipeline.formats.shape import Envelope, Shape, exact_json
from app.worker.pipeline.formats.transcoded import Encode, TranscodedRecords
from app.worker.pipeline.rules import PublishingRules
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import Coordinates
from connectors.mysql.types.registry import kind_of
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.records import HEADER_SCHEMA, KEY_SHARD, SOURCE, TRANSACTION, WIRE_VERSION, Field
from wire.table_version import Definition


@dataclass(frozen=True, slots=True)
class ShapedFactory:
    """Makes the format of a shape for a run; see FormatFactory."""

    shape: Shape

    def __call__(self, rules: PublishingRules, *, connector: str, epoch: int) -> Shaped:
        return Shaped(self.shape, rules, connector=connector, epoch=epoch)

    @staticmethod
    def keeps_tombstones(rules: PublishingRules) -> bool:
        """See FormatFactory; without compaction, tombstones mean nothing to readers of the shape."""
        return rules.compacted

    def form(self, _rules: PublishingRules) -> ShapedForm:
        return ShapedForm(self.shape)

    @staticmethod
    def incomparable(_rules: PublishingRules, _definition: Definition) -> str:
        return ""


class Shaped:
    """A format for one run; see RecordFormat and Transcoder."""

    def __init__(self, shape: Shape, rules: PublishingRules, *, connector: str, epoch: int) -> None:
        self._shape = shape
        self.name = shape.name
        self.keeps_tombstones = ShapedFactory.keeps_tombstones(rules)
        self._envelope = Debezium(rules, connector=connector, epoch=epoch)
        self._rows: dict[tuple[str, str], tuple[TableVersion, Encode]] = {}

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        return TranscodedRecords(self, self._envelope.records(emitted, now_ms), emitted)

    def rows(self, version: TableVersion) -> Encode:
        name = (version.database, version.table)
        held = self._rows.get(name)
        if held is None or held[0] is not version:
            row = self._shape.rows(version)
            held = self._rows[name] = version, lambda envelope: orjson.dumps(row(envelope))
        return held[1]

    def keys(self, version: TableVersion) -> None:
        """See Transcoder; keys are the envelope's."""

    def truncation(self, route: Route) -> Encode:
        # Under the logical name, a reader would empty the tables of the other shards too.
        table = route.logical if route.shard is None else route.table

        def truncation(envelope: Envelope) -> bytes:
            return orjson.dumps(self._shape.truncation(envelope, table))

        return truncation

    def detach_images(self, value: bytes) -> DetachedImages:
        whole = exact_json(value)
        images = {name: whole[name] for name in self._shape.images if whole.get(name) is not None}
        rest = {**whole, **dict.fromkeys(images)}

        def value_without_images(name: str, content: object) -> bytes:
            return orjson.dumps({**rest, name: content})

        return DetachedImages(
            images=orjson.dumps(images),
            sizes={name: len(orjson.dumps(image)) for name, image in images.items()},
            committed_ms=self._shape.committed_ms(orjson.loads(value)),
            value=value_without_images,
        )


_SHARD_HEAD = f'{{"{KEY_SHARD}":'.encode()
_NO_POSITION = Coordinates("", 0)
_WITHOUT = "rows without their images"
_CLAIMED = "rows whose images are in the claim store, which are not read in this format"


class ShapedForm:
    """A format in JSON; see RecordForm.

    A row's record is made from its envelope, as the worker makes it, and read like a record of a topic. So both
    sides of a comparison have the format's own values, whatever the format cannot distinguish.

    Invariant: see RecordForm.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def written(self, table: TableName, definition: Definition) -> WrittenImage:
        row = self._shape.rows(version_of(table, definition))

        def image(values: Image) -> Image:
            return self._shape.image(exact_json(orjson.dumps(row(envelope_of(table, values)))))

        return image

    def read(self, key: bytes | None, value: bytes, headers: Mapping[str, bytes]) -> ReadRecord:
        content, schema = exact_json(value), headers.get(HEADER_SCHEMA)
        op, real = self._shape.op(content), _real_table(key)
        absent = absent_images(content)
        return ReadRecord(
            op=op,
            table=real or self._shape.table(content),
            is_real=real is not None,
            schema=None if schema is None else int(schema),
            image=self._shape.image(content) if op == "u" and absent is None else None,
            absent=absent,
        )

    def restored(self, definition: Definition) -> RestoredImage:
        kinds = {one.name: kind_of(one.type) for one in definition.columns}
        values = {name: self._shape.values(kind) for name, kind in kinds.items()}

        def image(found: Image) -> Image:
            return {
                name: one if one is None or (value := values.get(name)) is None else value(one)
                for name, one in found.items()
            }

        return image


def version_of(table: TableName, definition: Definition) -> TableVersion:
    """Return a version of a table, for uses that depend only on its columns."""
    return TableVersion(
        destination="",
        database=table[0],
        table=table[1],
        version=0,
        topic="",
        definition=definition,
        gtid=None,
        coordinates=_NO_POSITION,
        ts_ms=0,
    )


def envelope_of(table: TableName, image: Image) -> Envelope:
    """Return an envelope with this image of a row that existed already."""
    source = {
        **_empty(SOURCE), "connector": "mysql", "gtid": None, "row": 0, "thread": None, "db": table[0],
        "table": table[1], "snapshot": "incremental", "schema": 0, "wire": WIRE_VERSION,
    }  # fmt: skip
    return {
        "before": None, "after": image, "source": source, "op": "r", "ts_ms": 0,
        "transaction": _empty(TRANSACTION),
    }  # fmt: skip


def _empty(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The members that no envelope lacks, each with a value of its kind."""
    values = {"text": "", "texts": [], "int": 0, "long": 0}
    return {name: values[one.kind] for name, one in fields.items() if not one.optional}


def _real_table(key: bytes | None) -> TableName | None:
    """The real table, if a record's key names it."""
    if not key or not key.startswith(_SHARD_HEAD):
        return None
    shard = orjson.loads(key)[KEY_SHARD]
    return (shard[1], shard[2]) if isinstance(shard, list) else None


def absent_images(content: Mapping[str, Any]) -> str | None:
    """Return why a record has no images though it is of a row; None if it has them."""
    if content.get("left_out") is not None:
        return _WITHOUT
    return None if content.get("claim_check") is None else _CLAIMED
