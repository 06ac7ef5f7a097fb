"""The record formats by the names used in routes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.pipeline.formats.debezium.format import Debezium
from app.pipeline.formats.protocol import Form
from connectors.mysql.rows.compiled.generate import Row
from tables.routes.routes import DEBEZIUM

FORMS: Mapping[str, Form] = {DEBEZIUM: Debezium}


def form_named(name: str) -> Form:
    """Return a format by name; raises KeyError if there is none."""
    return FORMS[name]


def value_counter(name: str) -> Callable[[list[Row], int], int]:
    """Return the ``values_of`` function of a format by name."""
    return form_named(name).values_of
