"""Which drops and renames have a record on the row topic: those of mapped tables."""

from __future__ import annotations

from typing import Any

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.gather.gather import dropped_routes
from connectors.mysql.ddl.definition import Change, Server, Table, TableChange
from connectors.mysql.ddl.online import ShadowRules, logical
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


def moves(*pairs: tuple[str, str]) -> list[TableChange]:
    """The changes of a RENAME TABLE, as they happen."""
    found = []
    for old, new in pairs:
        found.append(gone("s1", old, renamed_to=("s1", new)))
        found.append(TableChange(name=("s1", new), old=None, new=OLD, renamed_from=("s1", old)))
    return found


def left(*pairs: tuple[str, str], is_reduced: bool) -> list[str]:
    """The tables whose rows a RENAME removes; `is_reduced`: steps of tools are looked for."""
    changes = moves(*pairs)
    known = {new for _, new in pairs}
    reduced = logical(
        changes, ShadowRules(), known={("s1", name) for name in known}, before=lambda _: OLD
    )
    found = dropped("", *changes, logical=reduced if is_reduced else ())
    return [table for _, table in found]


@pytest.mark.parametrize("is_reduced", [False, True])
def test_a_renamed_table_has_its_rows_no_more_unless_it_keeps_its_name(*, is_reduced: bool) -> None:
    def gone_from(*pairs: tuple[str, str]) -> list[str]:
        return left(*pairs, is_reduced=is_reduced)

    assert gone_from(("a1", "x")) == ["a1"]
    assert gone_from(("b", "a1")) == ["b"]
    assert gone_from(("a1", "a_old"), ("a_load", "a1")) == ["a1", "a_load"]
    assert gone_from(("a1", "t"), ("a2", "a1"), ("t", "a2")) == ["a1", "a2"]
    assert gone_from(("a1", "t"), ("t", "a1")) == []
    replaced = TableChange(name=("s1", "a1"), old=OLD, new=OLD)
    assert dropped("", replaced) == []


def test_the_cut_over_of_a_schema_change_tool_removes_no_rows() -> None:
    assert left(("a1", "_a1_del"), ("_a1_gho", "a1"), is_reduced=True) == []


@pytest.mark.parametrize(
    ("rules", "is_deleted"),
    [
        (", on_drop: keep", False),
        (", on_drop: delete", True),
        (", shard_in_key: never", True),
        (", shard_in_key: never, on_drop: delete", True),
        (", operations: [insert]", False),
        (", on_drop: delete, operations: [insert, update]", False),
        (", truncates: omit", False),
    ],
)
def test_rules_decide(rules: str, *, is_deleted: bool) -> None:
    assert bool(dropped(rules, *TWO)) is is_deleted


def test_only_a_table_that_no_mapping_names_is_left_to_the_statement_s_record() -> None:
    """The sink gives its rows a name of their own, which it cannot where they are known by a logical name."""
    assert dropped("", gone("s1", "a1"), mapping="") == []
    assert dropped("", gone("s1", "a"), mapping="{tables: {s1.a: {topic: t}}}%s") == [("s1", "a")]
    masked = "{tables: {s1.a: {column_actions: {mail: redact}}}}%s"
    assert dropped("", gone("s1", "a"), mapping=masked) == [("s1", "a")]


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
