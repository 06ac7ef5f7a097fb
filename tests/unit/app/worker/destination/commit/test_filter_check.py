"""A filter that matches no table is reported, with the nearest names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.destination.commit.filter_check import FilterCheck, warnings
from app.worker.pipeline.piece import TableChanges
from app.worker.status import DestinationStatus
from connectors.mysql.ddl.definition import TableName
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.destination.commit.made import AFTER, piece
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.tables.made import applied, begun

NAMES: set[TableName] = {("shop", "orders"), ("shop", "customers"), ("crm", "staff")}


@pytest.mark.parametrize(
    ("include", "black", "says"),
    [
        (r".*\..*", "", []),
        (r"shop\..*", r"shop\.orders", []),
        (r"shop\\..*", r"shop\\.orders", []),
        (r"shop\.order", "", ["captures none of", r"shop\.order matches no table; near it are shop.o"]),
        (r"shpo\..*", "", ["captures none of the 3", r"shpo\..* matches no table; near it are shop"]),
        (r"shop\..*", r"shop\.customer", [r"black: shop\.customer matches no table; near it are shop.c"]),
        (r"shop\..*,crn\.staff", "", [r"crn\.staff matches no table; near it are crm.staff"]),
        (r"zzz\..*", "", ["captures none", r"zzz\..* matches no table"]),
        (r"crm\..*", r"crm\..*", ["captures none"]),
        (r"mysql\.rds_.*", "", []),
    ],
)  # fmt: skip
def test_each_expression_that_matches_nothing_is_named_with_what_is_near(
    include: str, black: str, says: list[str]
) -> None:
    found = list(warnings(Routes(prefix="aq", include=include, black=black), NAMES))
    assert len(found) == len(says)
    for text, part in zip(found, says, strict=True):
        assert part in text


def test_a_server_without_tables_is_said_to_have_none() -> None:
    assert "no table that the account can see" in next(warnings(Routes(prefix="aq"), set()))


def test_the_warning_is_logged_once_and_ends_with_the_table_that_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status = DestinationStatus("late")
    rules = replace(RULES, routes=Routes(prefix="aq", include=r"shop\.late"))
    check = FilterCheck(rules, NAMES, status)
    assert len(status.to_json()["warnings"]) == 2
    FilterCheck(rules, NAMES, status)
    assert caplog.text.count("matches no table") == 1
    made = applied(begun(), 100, "CREATE TABLE late (id int)")
    check.committed(piece(tables=TableChanges(history=[made])), AFTER)
    assert status.to_json()["warnings"] == []
