"""Formats in JSON other than the envelope, each the shape of a finished envelope."""

from __future__ import annotations

import json
from dataclasses import dataclass

import orjson

from app.worker.pipeline.formats.debezium.format import Debezium
from app.worker.pipeline.formats.protocol import DetachedImages, Emitted, Records
from app.worker.pipeline.formats.shape import IMAGES, Envelope, Shape
from app.worker.pipeline.formats.transcoded import Encode, TranscodedRecords
from app.worker.pipeline.rules import Rules
from connectors.mysql.rows.compiled.generate import Row
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion


@dataclass(frozen=True, slots=True)
class ShapedFactory:
    """Makes the format of a shape for a run; see FormatFactory."""

    shape: Shape

    def __call__(self, rules: Rules, *, connector: str, epoch: int) -> Shaped:
        """See FormatFactory."""
        return Shaped(self.shape, rules, connector=connector, epoch=epoch)

    @staticmethod
    def values_of(rows: list[Row], event_type: int) -> int:
        """See FormatFactory."""
        return Debezium.values_of(rows, event_type)

    @staticmethod
    def keeps_tombstones(rules: Rules) -> bool:
        """See FormatFactory; in any other topic they mean nothing to readers of the shape."""
        return rules.compacted


class Shaped:
    """A format for one run; see RecordFormat and Transcoder."""

    def __init__(self, shape: Shape, rules: Rules, *, connector: str, epoch: int) -> None:
        self._shape = shape
        self.name = shape.name
        self.keeps_tombstones = ShapedFactory.keeps_tombstones(rules)
        self._envelope = Debezium(rules, connector=connector, epoch=epoch)
        self._rows: dict[tuple[str, str], tuple[TableVersion, Encode]] = {}

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        """See RecordFormat."""
        return TranscodedRecords(self, self._envelope.records(emitted, now_ms), emitted)

    def rows(self, version: TableVersion) -> Encode:
        """See Transcoder."""
        name = (version.database, version.table)
        held = self._rows.get(name)
        if held is None or held[0] is not version:
            row = self._shape.rows(version)
            held = self._rows[name] = version, lambda envelope: orjson.dumps(row(envelope))
        return held[1]

    def keys(self, version: TableVersion) -> None:
        """See Transcoder; keys are the envelope's."""

    def truncation(self, route: Route) -> Encode:
        """See Transcoder."""
        # Under the logical name, a reader would empty the tables of the other shards too.
        table = route.logical if route.shard is None else route.table

        def truncation(envelope: Envelope) -> bytes:
            return orjson.dumps(self._shape.truncation(envelope, table))

        return truncation

    def detach_images(self, value: bytes) -> DetachedImages:
        """See RecordFormat."""
        # Numbers stay as they are written: a decimal has more digits than a float.
        whole = json.loads(value, parse_float=orjson.Fragment, parse_int=orjson.Fragment)
        images = {name: whole[name] for name in IMAGES if whole.get(name) is not None}
        rest = {**whole, **dict.fromkeys(images)}

        def value_without_images(name: str, content: object) -> bytes:
            return orjson.dumps({**rest, name: content})

        return DetachedImages(
            images=orjson.dumps(images),
            sizes={name: len(orjson.dumps(image)) for name, image in images.items()},
            committed_ms=self._shape.committed_ms(orjson.loads(value)),
            value=value_without_images,
        )
