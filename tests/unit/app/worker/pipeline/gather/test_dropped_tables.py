"""Which drops have a record on the row topic: of real tables of which a logical one has several."""

from __future__ import annotations

from typing import Any

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.gather.gather import dropped_routes
from connectors.mysql.ddl.definition import Change, Server, Table, TableChange
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.history import CHARSETS

BOTH = "{databases: {trade: {from: [s1, s2]}}, tables: {trade.a: {from: ['a.*']%s}}}"
SERVER = Server(version=(9, 7, 4))
OLD: Any = object.__new__(Table)


def dropped(
    rules: str, *changes: Change, mapping: str = BOTH, **more: Any
) -> list[tuple[str, str]]:
    routes = Routes(prefix="aq", mapping=from_yaml(mapping % rules) if mapping else None)
    tables = CapturedTables(routes, CHARSETS, server=SERVER)
    resolved = ResolvedStatement(type="DROP TABLE", changes=changes, **more)
    return [one.table for one in dropped_routes(resolved, tables)]


def gone(database: str, table: str, **more: Any) -> TableChange:
    return TableChange(name=(database, table), old=OLD, new=None, **more)


TWO = gone("s1", "a1"), gone("s2", "a2")


def test_each_dropped_table_of_a_logical_one_is_emptied_in_the_order_of_the_drops() -> None:
    assert dropped("", *TWO) == [("s1", "a1"), ("s2", "a2")]
    assert dropped("", gone("s9", "a1")) == []
    assert dropped("", *TWO, is_noise=True) == []
    assert dropped_routes(None, CapturedTables(Routes(prefix="aq"), CHARSETS, server=SERVER)) == ()


def test_a_table_that_is_renamed_or_replaced_is_not_dropped() -> None:
    replaced = TableChange(name=("s1", "a1"), old=OLD, new=OLD)
    assert dropped("", gone("s1", "a1", renamed_to=("s1", "x")), replaced) == []


@pytest.mark.parametrize(
    ("rules", "is_deleted"),
    [
        (", on_drop: keep", False),
        (", on_drop: delete", True),
        (", shard_in_key: never", False),
        (", shard_in_key: never, on_drop: delete", True),
        (", operations: [insert]", False),
        (", on_drop: delete, operations: [insert, update]", False),
        (", truncates: omit", False),
    ],
)
def test_rules_decide(rules: str, *, is_deleted: bool) -> None:
    assert bool(dropped(rules, *TWO)) is is_deleted


def test_a_table_of_its_own_keeps_its_rows() -> None:
    assert dropped("", gone("s1", "a1"), mapping="") == []
    assert dropped("", gone("s1", "a"), mapping="{tables: {s1.a: {topic: t}}}%s") == []


def test_the_routes_of_tables_that_were_met_are_kept_up_to_a_bound() -> None:
    tables = CapturedTables(
        Routes(prefix="aq", include=r"shop\..*"),
        CHARSETS,
        server=SERVER,
        known={("shop", "t"): OLD},
    )
    for number in range(50_000):
        assert tables.route(("crm", f"t{number}")) is None
    assert len(tables._wanted) <= 20_000
    assert tables.captures(("shop", "t0"))
