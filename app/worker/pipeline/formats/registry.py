"""The record formats by the names used in routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.worker.pipeline.formats import connect
from app.worker.pipeline.formats.avro import Avro, AvroFactory, AvroForm
from app.worker.pipeline.formats.canal import CANAL
from app.worker.pipeline.formats.connect import Connect, ConnectFactory
from app.worker.pipeline.formats.debezium import Debezium
from app.worker.pipeline.formats.maxwell import MAXWELL
from app.worker.pipeline.formats.protocol import FormatFactory, RecordForm
from app.worker.pipeline.formats.shaped import ShapedFactory, ShapedForm
from app.worker.pipeline.rules import PublishingRules
from connectors.mysql.rows.compiled.generate import Row
from connectors.store.registry import ConfluentRegistry
from tables.rules.mapping.rules import DEBEZIUM
from wire.table_version import Definition

_SHAPES = (CANAL, MAXWELL)
FORMATS: Mapping[str, FormatFactory] = {
    DEBEZIUM: Debezium,
    Avro.name: AvroFactory(),
    Connect.name: ConnectFactory(),
    **{shape.name: ShapedFactory(shape) for shape in _SHAPES},
}


def format_named(name: str) -> FormatFactory:
    """Return a format by name; raise KeyError if there is none."""
    return FORMATS[name]


def value_counter(name: str) -> Callable[[list[Row], int], int]:
    """Return the ``values_of`` function of a format by name."""
    return format_named(name).values_of


def keeps_tombstones(name: str, rules: PublishingRules) -> bool:
    """Return whether records in a format by name have tombstones after deletes."""
    return format_named(name).keeps_tombstones(rules)


def form_named(name: str, rules: PublishingRules) -> RecordForm:
    """Return the form of a format other than the envelope by name; raise KeyError if there is none."""
    if name == Avro.name:
        return AvroForm(rules, ConfluentRegistry(rules.registry))
    if name == Connect.name:
        return connect.ConnectRecords(rules)
    return {shape.name: ShapedForm(shape) for shape in _SHAPES}[name]


def incomparable(name: str, rules: PublishingRules, definition: Definition) -> str:
    """Return why records in a format by name cannot be compared with a table's rows; empty if they can."""
    return connect.incomparable(rules.connect, definition) if name == Connect.name else ""


def names_real_table(name: str) -> bool:
    """Return whether each record in a format by name states its real table, whatever its key."""
    return name not in {shape.name for shape in _SHAPES}
