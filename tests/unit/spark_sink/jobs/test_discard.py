"""Rows of a source table that is gone, removed from a table of several by the command that status prints."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_sink.__main__ import _parser
from spark_sink.batch.drops_and_renames.following import Ddl
from spark_sink.errors import KeyChanged, ReloadRefused
from spark_sink.jobs.reload_command import requests_of
from spark_sink.settings.model import Settings, TableRule
from spark_sink.warehouse.history import history
from spark_sink.warehouse.opening import Format
from spark_sink.warehouse.table_rules import TableRules
from spark_sink.warehouse.table_status import status_lines
from spark_sink.warehouse.waiting_tables import Waits
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic, create, drop
from tests.unit.spark_sink.batch.test_shards import COLUMNS, TABLES, held, row, shards
from tests.unit.spark_sink.conftest import FORMATS_LONG, Warehouse
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
SETTINGS = {"prefix": "aq", "bootstrap_servers": "127.0.0.1:1", "warehouse": "/wh"}


def following(warehouse: Warehouse, *, has_history: bool = False) -> Topic:
    """The DDL topic that the sink follows from now on."""
    topic = Topic(warehouse)

    def follows(waits: Waits) -> Ddl:
        return Ddl(
            topics=topic,
            warehouse=warehouse.kept,
            waits=waits,
            on_drop="rename",
            on_rename="move",
            earlier=lambda *of: warehouse.applier.book.placed(*of),
        )

    warehouse.follows = follows
    warehouse.rules = TableRules([TableRule(match=r"shop\.t", history=has_history)])
    warehouse.restart()
    return topic


def effects(*kinds: str, table: str = "t_0", logical: bool = True) -> list[dict[str, Any]]:
    """The effects of a statement on a mapped table, as a worker states them."""
    place = {"database": "shop", "table": "t"} if logical else None
    return [{"kind": kind, "database": "shop", "table": table, "logical": place} for kind in kinds]


QUARANTINED = effects("table dropped", "truncate omitted")


def commands(text: str) -> list[str]:
    """The commands that a text prints, without `python -m spark_sink`."""
    return re.findall(
        r"python -m spark_sink (reload [^;]*?--source [^ ;.]+\.[^ ;.]+(?: --[a-z-]+)?)", text
    )


def noted(warehouse: Warehouse) -> list[str]:
    """What status says of the table's statements."""
    return [one for one in status_lines(warehouse.kept) if one.startswith("  ddl: ")]


def run(warehouse: Warehouse, command: str) -> None:
    """Ask for what a command asks for, and do what a running sink does; raise its refusal."""
    options = _parser().parse_args(shlex.split(command))
    (request,) = requests_of(options, Settings.model_validate(SETTINGS))
    waits = warehouse.applier.waits
    waits.ask(request)
    warehouse.meet_requests()
    answer = waits.tables[request.name]
    assert answer.answered == request.number
    if answer.error:
        raise ReloadRefused(answer.reason, advice=answer.action)


class Killed(BaseException):
    """The process is gone at this point."""


@pytest.mark.parametrize("table_format", FORMATS_LONG)
def test_the_rows_of_a_table_that_is_gone_are_removed_by_the_command_of_its_note(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: Format
) -> None:
    warehouse = Warehouse(spark, tmp_path / "wh", table_format=table_format)
    topic = following(warehouse, has_history=True)
    a, b = shards(warehouse, TABLES)
    other = Change(
        op="c", seq=4, after=row(1, 40), table="t_0", destination="crm", logical=("shop", "t")
    )
    warehouse.schemas.append(schema(*COLUMNS, table="t_0", destination="crm"))
    warehouse.take(a("c", 1, row(1, 10)), a("c", 2, row(2, 20)), b("c", 3, row(1, 30)), other)
    topic.values.append(drop(6, "t_0", effects=QUARANTINED))
    warehouse.take(b("c", 7, row(2, 70)))
    left = {("shop", "t_1", 1): 30, ("shop", "t_1", 2): 70, ("crm", "t_0", 1): 40}
    assert held(warehouse) == {("shop", "t_0", 1): 10, ("shop", "t_0", 2): 20, **left}
    (note,) = noted(warehouse)
    assert "dropped or renamed at the source" in note
    (command,) = commands(note)
    # A process that is killed when the truncate is recorded, and no row removed.
    with monkeypatch.context() as broken:
        tables = type(warehouse.kept.tables)
        broken.setattr(tables, "truncate", killed)
        with pytest.raises(Killed):
            run(warehouse, command)
    warehouse.restart()
    warehouse.meet_requests()
    assert (warehouse.applier.waits.requests, warehouse.waiting()) == ([], None)
    assert held(warehouse) == left
    assert noted(warehouse) == []
    # Once more, it changes nothing.
    run(warehouse, command)
    # What comes late stays out, also from a reload that reads it again.
    warehouse.take(a("c", 5, row(5, 50)), b("u", 8, row(2, 80), before=row(2, 70)))
    left["shop", "t_1", 2] = 80
    assert held(warehouse) == left
    warehouse.restart()
    warehouse.reload(from_beginning=True)
    assert held(warehouse) == left
    rows = history(spark, warehouse.path, "shop", "t").where("__source_table = 't_0'")
    changes = sorted(
        (one["__destination"], one["__seq"], one["__op"], one["v"]) for one in rows.collect()
    )
    assert changes == [
        ("crm", 4, "c", 40),
        ("shop", 1, "c", 10), ("shop", 2, "c", 20), ("shop", 5, "c", 50), ("shop", 6, "t", None),
    ]  # fmt: skip


def killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.remedy("sink.ReloadRefused")
def test_rows_from_after_the_statement_are_removed_only_by_a_command_that_says_so(
    warehouse: Warehouse,
) -> None:
    topic = following(warehouse)
    a, b = shards(warehouse, TABLES)
    topic.values.append(drop(3, "t_0", effects=QUARANTINED))
    warehouse.take(a("c", 1, row(1, 10)), b("c", 2, row(1, 20)), a("c", 5, row(2, 50)))
    (command,) = commands(noted(warehouse)[0])
    with pytest.raises(ReloadRefused, match=r"1 row\(s\) of shop:shop\.t_0 are from after") as late:
        run(warehouse, command)
    assert "python -m app snapshot start shop shop.t_0 --replace, which replaces" in str(late.value)
    (confirmed,) = commands(str(late.value))
    assert confirmed == f"{command} --yes-lose-rows"
    assert len(held(warehouse)) == 3
    run(warehouse, confirmed)
    assert held(warehouse) == {("shop", "t_1", 1): 20}
    assert noted(warehouse) == []


def test_rows_of_a_table_that_has_the_name_since_stay(warehouse: Warehouse) -> None:
    topic = following(warehouse)
    a, b = shards(warehouse, TABLES)
    topic.values.append(drop(3, "t_0", effects=QUARANTINED))
    warehouse.take(a("c", 1, row(1, 10)), b("c", 2, row(1, 20)), a("c", 5, row(2, 50)))
    topic.values.append(create(6, "t_0", effects=effects("table created")))
    warehouse.take(a("c", 7, row(1, 70)))
    (note,) = noted(warehouse)
    assert "the source has another shop.t_0 since" in note
    (command,) = commands(note)
    run(warehouse, command)
    assert held(warehouse) == {("shop", "t_0", 1): 70, ("shop", "t_1", 1): 20}
    assert noted(warehouse) == []


@pytest.mark.parametrize("own", ["t_0", "t"])
def test_rows_from_before_a_mapping_was_removed_go_once_their_table_is_dropped(
    warehouse: Warehouse, own: str
) -> None:
    topic = following(warehouse)
    a, b = shards(warehouse, [("shop", own), TABLES[1]])
    for version, of in enumerate(({"logical": ["shop", "t"]}, {}), 1):
        body = json.loads(schema(*COLUMNS, table=own, version=version))
        warehouse.schemas.append(json.dumps({**body, **of}))
    warehouse.take(a("c", 1, row(1, 10)), b("c", 2, row(1, 20)))
    unmapped = Change(op="c", seq=3, after=row(9, 90), table=own, version=2)
    topic.values.append(drop(5, own, effects=effects("table dropped", table=own, logical=False)))
    warehouse.take(unmapped, b("c", 6, row(2, 60)))
    (note,) = (
        noted(warehouse) if own == "t" else [one for one in noted(warehouse) if "mapping" in one]
    )
    assert f"shop.{own} was dropped at the source" in note
    (command,) = commands(note)
    run(warehouse, command)
    assert held(warehouse) == {("shop", "t_1", 1): 20, ("shop", "t_1", 2): 60}
    assert not any("mapping" in one for one in noted(warehouse))
    # Rows under the table's own name have one of their own since.
    aside = [table for _, table in warehouse.kept.tables.names() if "__dropped_" in table]
    assert [warehouse.rows(one)[0]["v"] for one in aside] == ([90] if own == "t_0" else [])


@pytest.mark.remedy("sink.ReloadRefused")
def test_a_table_that_may_still_publish_or_is_not_known_loses_no_row_unasked(
    warehouse: Warehouse,
) -> None:
    following(warehouse)
    a, b = shards(warehouse, TABLES)
    warehouse.take(a("c", 1, row(1, 10)), b("c", 2, row(1, 20)), a("c", 3, row(2, 30)))
    command = "reload shop.t --discard --source shop:shop.t_0"
    with pytest.raises(ReloadRefused, match=r"nothing states that shop:shop\.t_0 is gone") as live:
        run(warehouse, command)
    (confirmed,) = commands(str(live.value))
    wrong = confirmed.replace("shop:", "other:")
    with pytest.raises(ReloadRefused, match=r"shop\.t has no row of other:shop\.t_0"):
        run(warehouse, wrong)
    assert len(held(warehouse)) == 3
    run(warehouse, confirmed)
    assert held(warehouse) == {("shop", "t_1", 1): 20}
    warehouse.take(a("c", 4, row(2, 40)))
    assert held(warehouse) == {("shop", "t_1", 1): 20, ("shop", "t_0", 2): 40}


@pytest.mark.remedy("sink.ReloadRefused")
def test_tables_that_wait_or_do_not_know_the_sources_of_their_rows_are_left_as_they_are(
    warehouse: Warehouse,
) -> None:
    topic = following(warehouse)
    warehouse.schemas = [schema(*COLUMNS, table="own")]
    warehouse.take(Change(op="c", seq=1, after=row(1, 1), table="own"))
    with pytest.raises(ReloadRefused, match=r"no mapping fills shop\.own") as plain:
        run(warehouse, "reload shop.own --discard --source shop:shop.own --yes-lose-rows")
    assert "python -m app snapshot start shop shop.own --replace" in str(plain.value)
    with pytest.raises(ReloadRefused, match=r"there is no table shop\.none"):
        run(warehouse, "reload shop.none --discard --source shop:shop.own")
    a, b = shards(warehouse, TABLES)
    topic.values.append(drop(4, "t_0", effects=QUARANTINED))
    warehouse.take(a("c", 2, row(1, 10)), b("c", 3, row(1, 20)))
    warehouse.schemas += [schema(*COLUMNS, table=t, key=("v",), version=2) for _, t in TABLES]
    with pytest.raises(KeyChanged):
        warehouse.take(b("u", 5, row(1, 20), before=row(1, 20), version=2))
    (command,) = commands(noted(warehouse)[0])
    with pytest.raises(ReloadRefused, match=r"shop\.t waits for KeyChanged") as waits:
        run(warehouse, command)
    assert "Run: python -m spark_sink reload shop.t" in str(waits.value)
    warehouse.reload()
    run(warehouse, command)
    assert held(warehouse) == {("shop", "t_1", 1): 20}
