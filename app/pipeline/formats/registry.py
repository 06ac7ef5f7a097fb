"""The record formats by the names that routes give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.pipeline.formats.debezium.format import Debezium
from app.pipeline.formats.protocol import Form
from connectors.mysql.rows.compiled.generate import Row
from tables.routes.routes import DEBEZIUM

FORMS: Mapping[str, Form] = {DEBEZIUM: Debezium}


def form_named(name: str) -> Form:
    """A format by its name; raise KeyError where there is none."""
    return FORMS[name]


def value_counter(name: str) -> Callable[[list[Row], int], int]:
    """What counts the records with a value that the rows of an event make, by the name of their format."""
    return form_named(name).values_of
