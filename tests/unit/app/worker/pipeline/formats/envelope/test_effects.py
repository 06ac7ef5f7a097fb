"""The effects of a statement on subscribers, as the record of the statement has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.formats.ddl_record import effect_fields
from connectors.mysql.ddl.definition import TableChange
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.tables.made import table

NAME = ("shop", "orders")


@pytest.mark.parametrize("mapping", ["{tables: {shop.orders: {topic: t}}}", ""])
@pytest.mark.parametrize("is_quarantined", [False, True])
def test_rows_of_a_mapped_table_stay_if_it_is_dropped_in_quarantine(
    mapping: str, *, is_quarantined: bool
) -> None:
    change = TableChange(name=NAME, old=table(), new=None)
    dropped = ResolvedStatement(type="DROP TABLE", changes=(change,), logical=(change,))
    routes = Routes(prefix="aq", mapping=from_yaml(mapping) if mapping else None)
    rules = replace(RULES, routes=routes)
    parks = (NAME,) if is_quarantined else ()
    fields = effect_fields(dropped, rules, {}, parks=parks)
    kinds = [one["kind"] for one in fields["effects"]]
    kept = ["truncate omitted"] if is_quarantined and mapping else []
    assert kinds == ["table dropped", *kept]
