"""The record formats by the names used in routes."""

from __future__ import annotations

from collections.abc import Mapping

from app.worker.pipeline.formats.avro import Avro, AvroFactory
from app.worker.pipeline.formats.canal import CANAL
from app.worker.pipeline.formats.connect import Connect, ConnectFactory
from app.worker.pipeline.formats.envelope import Debezium
from app.worker.pipeline.formats.maxwell import MAXWELL
from app.worker.pipeline.formats.protocol import FormatFactory, RecordForm
from app.worker.pipeline.formats.shaped import ShapedFactory
from app.worker.pipeline.rules import PublishingRules
from tables.rules.mapping.rules import DEBEZIUM

FORMATS: Mapping[str, FormatFactory] = {
    DEBEZIUM: Debezium,
    Avro.name: AvroFactory(),
    Connect.name: ConnectFactory(),
    **{shape.name: ShapedFactory(shape) for shape in (CANAL, MAXWELL)},
}


def format_named(name: str) -> FormatFactory:
    """Return a format by name; raise KeyError if there is none."""
    return FORMATS[name]


def keeps_tombstones(name: str, rules: PublishingRules) -> bool:
    """Return whether records in a format by name have tombstones after deletes."""
    return format_named(name).keeps_tombstones(rules)


def form_named(name: str, rules: PublishingRules) -> RecordForm:
    """Return the form of a format other than the envelope by name; raise KeyError if there is none."""
    form = format_named(name).form(rules)
    if form is None:
        raise KeyError(name)
    return form
