"""The plan of a load, as the worker's command prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sink.errors import BadSettings, LoadRefused
from spark_sink.jobs.load.plan import read_plan, read_plans

TABLE = {
    "database": "trade_07",
    "table": "orders",
    "logical": ["trade", "orders"],
    "is_mapped": True,
    "topic": "aq.trade.orders",
    "version": 2,
    "key": ["id"],
    "columns": [{"name": "id", "source": "order_id", "column_type": "int"}],
}
PLAN: dict[str, Any] = {
    "what": "aqueduct load plan",
    "form": 1,
    "destination": "shop",
    "prefix": "aq",
    "server_uuid": "u",
    "made_ms": 5,
    "tables": [TABLE, {**TABLE, "database": "trade_08"}, {**TABLE, "logical": ["trade", "items"]}],
}


def written(folder: Path, body: Any) -> Path:
    file = folder / "plan.json"
    file.write_text(body if isinstance(body, str) else json.dumps(body))
    return file


def test_real_tables_are_grouped_by_the_table_that_they_fill(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, PLAN), "aq")
    assert [(name, len(own)) for name, own in plan.tables.items()] == [
        (("trade", "orders"), 2),
        (("trade", "items"), 1),
    ]
    (first, second) = plan.tables["trade", "orders"]
    assert first.columns == (("id", "order_id", "int"),)
    assert second.source(("trade", "orders")).database == "trade_08"
    assert list(plan.only([("trade", "items")]).tables) == [("trade", "items")]
    with pytest.raises(BadSettings, match=r"no table trade\.x, but: trade\.orders, trade\.items"):
        plan.only([("trade", "x")])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "is no load plan: Expecting value"),
        ({**PLAN, "what": "aqueduct cursor"}, "it is 'aqueduct cursor'"),
        ({**PLAN, "form": 3}, "it has form 3, and this version reads 2"),
        ({**PLAN, "tables": []}, "it has no tables"),
        ({**PLAN, "tables": [{"database": "x"}]}, "'logical' is missing"),
        ({**PLAN, "prefix": "bq"}, "is for the prefix 'bq', not 'aq'"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, body: Any, reason: str) -> None:
    with pytest.raises(BadSettings, match=reason):
        read_plan(written(tmp_path, body), "aq")


def test_plans_of_several_destinations_are_one(tmp_path: Path) -> None:
    (tmp_path / "west").mkdir()
    east = written(tmp_path, PLAN)
    west = written(tmp_path / "west", {**PLAN, "destination": "west", "tables": [TABLE]})
    plan = read_plans([east, west], "aq")
    assert plan.destinations == ("shop", "west")
    orders = plan.tables["trade", "orders"]
    assert [(one.destination, one.database) for one in orders] == [
        ("shop", "trade_07"),
        ("shop", "trade_08"),
        ("west", "trade_07"),
    ]
    assert len(plan.tables["trade", "items"]) == 1
    # A plan has all real tables of its destination.
    with pytest.raises(BadSettings, match=r"another plan has trade\.orders of west too"):
        read_plans([east, west, west], "aq")


def test_a_table_that_a_plan_refuses_is_kept_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "west").mkdir()
    refused = [{"logical": ["trade", "orders"], "why": "it has no primary key. Let the worker …"}]
    east = written(tmp_path, PLAN)
    west = written(
        tmp_path / "west",
        {**PLAN, "form": 2, "destination": "west", "tables": [], "refused": refused},
    )
    plan = read_plans([east, west], "aq")
    # Without the rows of one destination a table would differ.
    assert list(plan.tables) == [("trade", "items")]
    assert plan.refused == {("trade", "orders"): "it has no primary key. Let the worker …"}
    assert plan.destinations == ("shop", "west")
    plan.only([("trade", "items")]).check_none_refused()
    orders = plan.only([("trade", "orders")])
    assert not orders.tables
    with pytest.raises(LoadRefused, match=r"trade\.orders: it has no primary key\. Let the"):
        orders.check_none_refused()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="No such file"):
        read_plan(tmp_path / "none.json", "aq")
