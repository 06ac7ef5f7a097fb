"""Tables that are dropped, renamed and swapped, on a real Spark: whatever arrives when, the source's tables."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_sink.batch.drops_and_renames.following import Ddl, routed
from spark_sink.errors import (
    KeyChanged,
    ReloadRefused,
    RenamedWhileWaiting,
    RenameFailed,
    UnknownTable,
    ValuesChanged,
)
from spark_sink.settings.model import OnDrop
from spark_sink.source.envelope import of_table
from spark_sink.text.quoting import OR_DISCARD
from spark_sink.warehouse import spark_failures
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.moves import Event, belongs, pieces
from spark_sink.warehouse.table_status import status_lines
from spark_sink.warehouse.waiting_tables import Waits
from tests.unit.spark_sink.batch.drops_and_renames.source import NAMES, Rows, Source, arrivals
from tests.unit.spark_sink.batch.drops_and_renames.statements import Topic, create, drop, rename
from tests.unit.spark_sink.conftest import Warehouse, of_delta
from tests.unit.spark_sink.history import Change, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COLUMNS = (("id", "int"), ("v", "int"))


def following(warehouse: Warehouse, *, on_drop: OnDrop, **more: Any) -> Topic:
    topic = Topic(warehouse)

    def follows(waits: Waits) -> Ddl:
        return Ddl(
            topics=topic,
            warehouse=warehouse.kept,
            waits=waits,
            on_drop=on_drop,
            on_rename="move",
            **more,
        )

    warehouse.follows = follows
    warehouse.restart()
    return topic


def found(warehouse: Warehouse, name: str) -> Rows | None:
    try:
        rows = warehouse.rows(name)
    except UnknownTable:
        return None
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.parametrize(
    ("seed", "key", "steps"),
    [
        (26, ("id",), 12),  # A RENAME, a DROP and a swap, each with rows.
        pytest.param(2, (), 30, marks=pytest.mark.long("the other parameter has a key")),
        *(
            pytest.param(
                seed, ("id",), 30, marks=pytest.mark.long("another seed has some of the steps")
            )
            for seed in (1, *range(3, 9))
        ),
    ],
)
def test_batches_in_any_order_and_repeated_give_the_tables_of_the_source(
    warehouse: Warehouse, seed: int, key: tuple[str, ...], steps: int
) -> None:
    source = Source(random.Random(seed))
    source.play(steps)
    warehouse.schemas = [schema(*COLUMNS, table=name, key=key) for name in NAMES]
    on_drop = "drop" if seed % 2 or steps < 30 else "truncate"
    topic = following(warehouse, on_drop=on_drop)  # type: ignore[arg-type]
    topic.all_rows = sum(isinstance(one, Change) for _, _, one in source.written)
    for statements, changes in arrivals(source, batches=2 if steps < 30 else 3):
        topic.values += statements
        start = warehouse.ends()
        for change in changes:
            warehouse.write(change)
        warehouse.catch_up(start)
        if changes:
            warehouse.restart()
            warehouse.catch_up(start)
    for name in NAMES:
        wanted = source.tables.get(name)
        there = found(warehouse, name)
        assert (there or {}) == (wanted or {}), name
        if wanted is None and on_drop == "drop":
            assert there is None
    assert topic.reads <= 5


@pytest.mark.parametrize(
    "copy", [pytest.param("older", marks=pytest.mark.long("the log is gone")), ""]
)
def test_statements_of_which_the_log_is_gone_or_an_older_copy_are_not_carried_out_twice(
    warehouse: Warehouse, tmp_path: Path, copy: str
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    topic = following(warehouse, on_drop="truncate")
    warehouse.take(insert(1, "a", 1, 10))
    log = Path(warehouse.path) / "__log"
    older = shutil.copytree(log, tmp_path / "older")
    topic.values.append(rename(2, ("a", "b")))
    warehouse.take(insert(3, "a", 2, 20))
    shutil.rmtree(log)
    if copy:
        shutil.copytree(older, log)
    # While the sink is stopped.
    topic.values.append(rename(4, ("b", "c")))
    warehouse.restart()
    ddl = warehouse.applier.ddl
    assert ddl is not None
    ddl.is_lost = not copy
    # The first row comes again.
    warehouse.take(insert(1, "a", 1, 10), insert(5, "b", 3, 30))
    reason = "its rows were moved already" if copy else "the sink's log is gone"
    for name in NAMES:
        held = warehouse.waiting(name)
        assert held is not None
        assert f"shop.{name}: {reason}" in held.reason
        assert f"reload shop.{name} --from-beginning" in held.action
        warehouse.reload(name, from_beginning=True)
    assert found(warehouse, "a") == {2: 20}
    assert found(warehouse, "b") == {3: 30}
    assert found(warehouse, "c") == {1: 10}


def test_rows_are_placed_by_any_number_of_statements_with_one_expression(
    spark: SparkSession,
) -> None:
    rng = random.Random(3)
    names = [("shop", f"it's `{number}`\\") for number in range(12)]
    events = [
        Event(
            destination=rng.choice(("shop", "crm")),
            epoch=1 + seq // 200,
            seq=seq,
            ts_ms=seq,
            moves={rng.choice(names): rng.choice([*names, None, None])},
        )
        for seq in range(1, 600)
    ]
    known = pieces(events)
    rows: list[dict[str, Any]] = [
        {"destination": rng.choice(("shop", "crm", "x")), "source_database": "shop"}
        | {"source_table": rng.choice(names)[1], "routed": rng.random() < 0.1}
        | {"epoch": rng.choice((None, *range(1, 5))), "seq": rng.randrange(700)}
        for _ in range(800)
    ]
    expected = []
    for nth, row in enumerate(rows):
        own = "shop", row["source_table"]
        found = known.get((row["destination"], own))
        if row["routed"] or found is None:
            expected.append((nth, *own))
        elif (to := belongs(found, (row["epoch"] or 99, row["seq"]))) is not None:
            expected.append((nth, *to))
    kinds = dict.fromkeys(rows[0], "string") | {
        "routed": "boolean",
        "epoch": "bigint",
        "seq": "bigint",
    }
    kind = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    texts = json.dumps([json.dumps(row) for row in rows])
    read = spark.range(1).select(f.posexplode(f.from_json(f.lit(texts), "array<string>")))
    batch = read.selectExpr("pos", f"from_json(col, '{kind}') AS v").selectExpr(
        "pos",
        *(f"v.{name} AS {name}" for name in kinds),
        "v.source_database AS database",
        "v.source_table AS `table`",
    )
    placed = routed(batch, known)
    held = sorted((row.pos, row.database, row.table) for row in placed.collect())
    assert held == expected
    # Also where it is asked for each of many tables, of records that Spark has yet to parse.
    some = placed.where(" OR ".join(map(of_table, names)))
    assert sorted(row.pos for row in some.collect()) == [nth for nth, *_ in expected]
    plan: Any = some._jdf
    assert plan.queryExecution().optimizedPlan().toString().count("from_json(") < 1000


class Killed(Exception):
    """In place of a kill."""


def insert(seq: int, table: str, key: int, value: int, **more: Any) -> Change:
    return Change(op="c", seq=seq, table=table, after={"id": key, "v": value}, **more)


STEPS = ("add", "moving b", "note", "tables b", "done", "end")
"""What a swap of a and b does in the warehouse, in this order."""
FEW = ("moving b", "tables b", "done")
"""During the copying, during the replacing, and after both."""


def killing(monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse, step: str) -> None:
    """Raises Killed in place of a step."""
    kept = warehouse.kept

    def at(label: str) -> None:
        if label == step:
            monkeypatch.undo()
            raise Killed("Killed")

    def before(owner: Any, method: str, label: Callable[..., str]) -> None:
        act = getattr(type(owner), method)

        def acting(self: Any, *given: Any, **more: Any) -> Any:
            if self is owner:
                at(label(*given))
            return act(self, *given, **more)

        monkeypatch.setattr(type(owner), method, acting)

    before(kept.log, "add_ddl", lambda events, _: "add" if events else "")
    before(kept.moving, "replace", lambda shape, _: f"moving {shape.table}")
    before(kept.tables, "replace", lambda shape, _: f"tables {shape.table}")
    before(kept.notes, "write", lambda _, text: "end" if text == "{}" else "note")
    before(kept.log, "done", lambda _: "done")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(FEW, id="few"),
        pytest.param(STEPS, id="each", marks=pytest.mark.long("some of the steps")),
    ],
)
def test_a_swap_that_is_killed_in_any_step_is_finished_and_a_new_table_may_have_another_key(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    topic = following(warehouse, on_drop="truncate")
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 1, 20), insert(3, "b", 2, 21))
    topic.all_rows = 5
    topic.values.append(rename(5, ("a", "t"), ("b", "a"), ("t", "b")))
    late, after = insert(4, "a", 3, 11), insert(6, "a", 9, 29)
    start = warehouse.ends()
    warehouse.write(after)
    for step in steps:
        killing(monkeypatch, warehouse, step)
        with pytest.raises(Exception, match="Killed"):
            warehouse.catch_up(start)
        warehouse.restart()
    warehouse.catch_up(start)
    # A row from before the swap, in a later batch.
    warehouse.take(late)
    assert found(warehouse, "a") == {1: 20, 2: 21, 9: 29}
    assert found(warehouse, "b") == {1: 10, 3: 11}

    topic.values += [drop(7, "a"), create(8, "a")]
    warehouse.schemas.append(schema(*COLUMNS, table="a", key=("v",), version=2))
    warehouse.take(insert(9, "a", 5, 30, version=2))
    assert found(warehouse, "a") == {5: 30}
    shape = warehouse.kept.tables.shape("shop", "a")
    assert shape is not None
    assert shape.key == ("v",)
    assert found(warehouse, "b") == {1: 10, 3: 11}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.long("the next test has a swap, a DROP and a RENAME of a table that waits")
def test_tables_that_wait_while_they_come_and_go_are_the_sources_once_they_were_reloaded(
    warehouse: Warehouse, seed: int
) -> None:
    source = Source(random.Random(seed))
    source.play(40)
    warehouse.schemas = [schema(*COLUMNS, table=name, key=("id",)) for name in NAMES]
    topic = following(warehouse, on_drop="rename")
    topic.all_rows = sum(isinstance(one, Change) for _, _, one in source.written)
    for statements, changes in arrivals(source, batches=4):
        there = [name for name in NAMES if found(warehouse, name) is not None]
        if there:
            name = source.rng.choice(there)
            warehouse.applier.waits.begin(("shop", name), KeyChanged(name), {})
        topic.values += statements
        start = warehouse.ends()
        for change in changes:
            warehouse.write(change)
        warehouse.catch_up(start)
        warehouse.restart()
    waits = warehouse.applier.waits
    waits.refresh()
    waiting = [name for _, name in sorted(waits.tables) if waits.waiting(("shop", name))]
    for name in NAMES:
        if name not in waiting:
            assert (found(warehouse, name) or {}) == source.tables.get(name, {}), name
    assert waiting
    for name in waiting:
        warehouse.reload(name, from_beginning=True)
    for name in NAMES:
        assert (found(warehouse, name) or {}) == source.tables.get(name, {}), name


@pytest.mark.remedy("sink.RenamedWhileWaiting")
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((), id="whole"),
        pytest.param(("tables b", "end"), id="killed"),
    ],
)
@pytest.mark.long("the next test has such a wait, and its end")
def test_a_waiting_table_that_is_renamed_waits_by_its_new_name_and_no_other_does(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    warehouse.schemas.append(schema(*COLUMNS, table="a", key=("v",), version=2))
    topic = following(warehouse, on_drop="rename")
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 1, 20), insert(3, "c", 1, 30))
    # One more row of it comes after the rename.
    topic.all_rows = 6
    warehouse.take(insert(4, "a", 2, 11, version=2))
    assert warehouse.waiting("a") is not None
    topic.values.append(rename(6, ("a", "t"), ("b", "a"), ("t", "b")))
    start = warehouse.ends()
    for change in (insert(5, "a", 3, 12, version=2), insert(7, "a", 2, 21)):
        warehouse.write(change)
    for step in steps:
        killing(monkeypatch, warehouse, step)
        with pytest.raises(Exception, match="Killed"):
            warehouse.catch_up(start)
        warehouse.restart()
    warehouse.catch_up(start)
    assert (warehouse.waiting("a"), found(warehouse, "a")) == (None, {1: 20, 2: 21})
    held = warehouse.waiting("b")
    assert held is not None
    assert (held.error, found(warehouse, "b")) == ("RenamedWhileWaiting", {1: 10})
    assert held.action == "Run: python -m spark_sink reload shop.b --from-beginning"
    # It is dropped and its name is taken, in one batch and after a restart: what was dropped waits.
    warehouse.restart()
    topic.all_rows = 7
    topic.values += [drop(8, "b"), rename(9, ("c", "b"))]
    warehouse.take(insert(10, "b", 2, 31))
    assert (warehouse.waiting("b"), found(warehouse, "b")) == (None, {1: 30, 2: 31})
    (dropped,) = (one for one in warehouse.kept.tables.names() if "__dropped_" in one[1])
    (waiting,) = (name for name, one in warehouse.applier.waits.tables.items() if one.waits)
    assert waiting == dropped
    with pytest.raises(RenamedWhileWaiting, match=r"has rows of shop\.b, which waited") as refused:
        warehouse.reload(dropped[1])
    command = f"python -m spark_sink reload {'.'.join(dropped)}"
    assert refused.value.advice == (
        f"Run: {command} --from-beginning; or, if its rows are not wanted, run: {command} --discard"
    )
    warehouse.reload(dropped[1], from_beginning=True)
    assert found(warehouse, dropped[1]) == {1: 10, 2: 11, 3: 12}
    assert found(warehouse, "a") == {1: 20, 2: 21}
    # The RENAME would keep apart what the DROP has: such a name without a row need not wait for good.
    ddl = warehouse.applier.ddl
    assert ddl is not None
    names = {new for event in ddl.history.events.values() for new in event.moves.values() if new}
    (empty,) = names - {*warehouse.kept.tables.names()}
    warehouse.applier.waits.begin(empty, RenamedWhileWaiting(empty[1]), {})
    warehouse.reload(empty[1], from_beginning=True)
    assert (warehouse.waiting(empty[1]), found(warehouse, empty[1])) == (None, None)


@pytest.mark.remedy("sink.RenamedWhileWaiting")
def test_the_rows_of_a_dropped_table_can_be_given_up_and_none_of_it_comes_back(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    warehouse.schemas.append(schema(*COLUMNS, table="a", key=("v",), version=2))
    topic = following(warehouse, on_drop="rename")
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 1, 20))
    topic.all_rows = 6
    warehouse.take(insert(3, "a", 2, 11, version=2))
    topic.values += [drop(5, "a"), create(6, "a")]
    start = warehouse.ends()
    warehouse.write(insert(7, "a", 5, 50))
    warehouse.catch_up(start)
    waits = warehouse.applier.waits
    (name,) = (one for one, held in waits.tables.items() if held.waits)
    held = waits.tables[name]
    assert (held.error, found(warehouse, "a")) == ("RenamedWhileWaiting", {5: 50})
    command = f"python -m spark_sink reload {'.'.join(name)}"
    lines = "\n".join(status_lines(warehouse.kept))
    assert (
        f"action: Run: {command} --from-beginning; or, if its rows are not wanted, run: {command} --discard"
        in lines
    )
    # Tables of which the source still has the rows.
    for other in ("a", "b"):
        with pytest.raises(ReloadRefused, match="has other rows"):
            warehouse.reload(other, discard=True)
    log = type(warehouse.kept.log)
    for step in ("add_ddl", "wait"):
        with monkeypatch.context() as broken:
            broken.setattr(log, step, killed_at(getattr(log, step), step))
            with pytest.raises(KilledAt):
                warehouse.reload(name[1], discard=True)
        warehouse.restart()
    # Each of the two requests.
    for _ in range(2):
        warehouse.meet_requests()
    waits = warehouse.applier.waits
    assert (waits.waiting(name), waits.requests, found(warehouse, name[1])) == (None, [], None)
    assert ".".join(name) not in "\n".join(status_lines(warehouse.kept))
    # Of what comes later, nothing is kept; nor by a reload of the table that has the name now.
    warehouse.take(insert(4, "a", 3, 12, version=2), insert(8, "a", 6, 60))
    warehouse.reload("a", from_beginning=True)
    warehouse.restart()
    warehouse.take(insert(9, "a", 7, 70))
    assert found(warehouse, "a") == {5: 50, 6: 60, 7: 70}
    assert {one for _, one in warehouse.kept.tables.names()} == {"a", "b"}


class KilledAt(BaseException):
    """The process is gone at this point."""


def killed_at(act: Callable[..., Any], step: str) -> Callable[..., Any]:
    """The same, but for what `--discard` stores."""

    def acting(self: Any, what: Any, *more: Any, **others: Any) -> Any:
        if step == "add_ddl" or what.get("kind") == "loaded":
            raise KilledAt
        return act(self, what, *more, **others)

    return acting


@pytest.mark.remedy("sink.ReloadRefused")
@pytest.mark.long("the test above has the wait of a renamed table, and its end")
def test_where_another_destination_has_rows_in_it_too_both_tables_of_a_rename_wait(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    warehouse.schemas.append(schema(*COLUMNS, table="a", key=("v",), version=2))
    topic = following(warehouse, on_drop="keep", sources=lambda _: {"shop", "other"})
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 1, 20))
    warehouse.take(insert(3, "a", 2, 11, version=2))
    topic.values.append(rename(4, ("a", "t"), ("b", "a"), ("t", "b")))
    warehouse.take(insert(5, "b", 3, 12))
    for name in ("a", "b"):
        held = warehouse.waiting(name)
        assert held is not None
        assert held.error == "RenamedWhileWaiting"
        assert held.action == f"Run: python -m spark_sink reload shop.{name} --from-beginning"
    with pytest.raises(RenamedWhileWaiting):
        warehouse.reload("a")
    warehouse.reload("a", from_beginning=True)
    assert found(warehouse, "a") == {1: 20}
    # Once Kafka has removed the beginning of the topics, the rows must be published again.
    warehouse.first = 1
    with pytest.raises(ReloadRefused, match="begins at offset 1") as refused:
        warehouse.reload("b", from_beginning=True)
    assert "with --replace" in refused.value.advice
    assert "--only-new" in refused.value.advice
    warehouse.take(Change(op="t", seq=6, table="b"), insert(7, "b", 2, 11), insert(8, "b", 3, 12))
    warehouse.take(insert(9, "b", 4, 13))
    warehouse.reload("b", only_new=True)
    assert warehouse.waiting("b") is None
    assert found(warehouse, "b") == {2: 11, 3: 12, 4: 13}


@pytest.mark.remedy("sink.RenameFailed")
@of_delta
def test_tables_whose_rows_cannot_be_moved_wait_together_until_they_are_reloaded(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_failures, "_SECONDS", 0)
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    topic = following(warehouse, on_drop="truncate")
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 2, 20), insert(3, "c", 3, 30))
    # It cannot be read, so nothing of the two is moved.
    (file,) = (Path(warehouse.path) / "shop/b").glob("*.parquet")
    file.rename(file.with_suffix(".gone"))
    warehouse.restart()
    topic.values.append(rename(4, ("a", "t"), ("b", "a"), ("t", "b")))
    warehouse.take(insert(5, "b", 4, 14), insert(6, "a", 5, 25), insert(7, "c", 6, 36))
    for name in ("a", "b"):
        held = warehouse.waiting(name)
        assert held is not None
        assert held.error == "RenameFailed"
        assert held.reason.startswith(f"shop.{name}: TableFailed: ")
        assert file.name in held.reason
        assert held.action == f"Run: python -m spark_sink reload shop.{name} --from-beginning"
    assert found(warehouse, "a") == {1: 10}
    assert found(warehouse, "c") == {3: 30, 6: 36}
    warehouse.restart()
    warehouse.take(insert(8, "c", 7, 37))
    with pytest.raises(RenameFailed):
        warehouse.reload("a")
    warehouse.reload("a", from_beginning=True)
    warehouse.reload("b", from_beginning=True)
    assert (found(warehouse, "a"), found(warehouse, "b")) == ({2: 20, 5: 25}, {1: 10, 4: 14})


@pytest.mark.remedy("sink.RenameFailed")
@pytest.mark.long("the test above has the wait of both tables, and its end")
@of_delta
def test_a_table_whose_rows_were_built_or_moved_before_the_failure_is_reloaded_from_them(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_failures, "_SECONDS", 0)
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    topic = following(warehouse, on_drop="truncate")
    warehouse.take(insert(1, "a", 2, 20), insert(2, "b", 1, 10), insert(3, "c", 3, 30))
    warehouse.take(insert(4, "b", 4, 14), insert(5, "a", 5, 25))

    # One can be built and not put in place; what was built for it is what its reload begins with.
    allow = "ALTER TABLE delta.`{}/shop/b` SET TBLPROPERTIES ('delta.appendOnly' = '{}')"
    warehouse.spark.sql(allow.format(warehouse.path, "true"))
    topic.values.append(rename(9, ("a", "t"), ("b", "a"), ("t", "b")))
    killing(monkeypatch, warehouse, "done")
    start = warehouse.ends()
    warehouse.write(insert(10, "b", 8, 28))
    with pytest.raises(Exception, match="Killed"):
        warehouse.catch_up(start)
    warehouse.restart()
    warehouse.catch_up(start)
    held = warehouse.waiting("b")
    assert held is not None
    assert (held.error, warehouse.waiting("a")) == ("RenameFailed", None)
    assert "append" in held.reason
    assert "then run: python -m spark_sink reload shop.b;" in held.action
    assert found(warehouse, "a") == {1: 10, 4: 14}
    warehouse.spark.sql(allow.format(warehouse.path, "false"))
    warehouse.first = 5
    warehouse.reload("b")
    warehouse.first = 0
    assert (warehouse.waiting("b"), found(warehouse, "b")) == (None, {2: 20, 5: 25, 8: 28})

    # The note is gone between the two tables.
    topic.values.append(rename(11, ("a", "t"), ("b", "a"), ("t", "b")))
    start = warehouse.ends()
    warehouse.write(insert(12, "c", 9, 39))
    killing(monkeypatch, warehouse, "tables b")
    with pytest.raises(Exception, match="Killed"):
        warehouse.catch_up(start)
    (Path(warehouse.path) / "__moved.json").unlink()
    warehouse.restart()
    warehouse.catch_up(start)
    for name in ("a", "b"):
        held = warehouse.waiting(name)
        assert held is not None
        assert "its rows were moved already" in held.reason
        warehouse.reload(name)
    assert (found(warehouse, "b"), found(warehouse, "c")) == (
        {1: 10, 4: 14},
        {3: 30, 9: 39},
    )
    assert found(warehouse, "a") == {2: 20, 5: 25, 8: 28}


@pytest.mark.parametrize("key", [("id",), ()])
@pytest.mark.long("a dropped table whose rows are given up")
def test_the_rows_of_a_dropped_table_are_kept_though_only_the_source_had_some_values(
    warehouse: Warehouse, key: tuple[str, ...]
) -> None:
    text = (("id", "int"), ("v", "varchar(9)"), ("w", "int"))
    warehouse.schemas = [
        schema(*text, table="a", key=key),
        schema(text[0], ("v", "json"), text[2], table="a", key=key, version=2),
    ]
    topic = following(warehouse, on_drop="rename")

    def row(op: str, seq: int, version: int, *, before: Any = None, after: Any = None) -> Change:
        images = [one and dict(zip(("id", "v", "w"), one, strict=True)) for one in (before, after)]
        return Change(op=op, seq=seq, table="a", version=version, before=images[0], after=images[1])

    warehouse.take(*(row("c", n, 1, after=(n, f"{n} ", n)) for n in (1, 2, 3)))
    start = warehouse.ends()
    warehouse.write(row("d", 4, 2, before=(3, "3", 3)))
    warehouse.write(row("u", 5, 2, before=(2, "2", 2), after=(2, "[2]", 20)))
    warehouse.write(row("c", 6, 2, after=(4, "4", 4)))
    topic.values.append(drop(7, "a"))
    warehouse.catch_up(start)
    (name,) = {name for _, name in warehouse.applier.waits.tables}
    assert name.startswith("a__dropped_")
    held = warehouse.waiting(name)
    assert held is not None
    assert held.error == "ValuesChanged"
    command = f"python -m spark_sink reload shop.{name} --unknown-as-null"
    keep, _, give_up = held.action.partition(OR_DISCARD)
    assert keep.endswith(f"run: {command}")
    assert give_up == f"python -m spark_sink reload shop.{name} --discard"
    with pytest.raises(ValuesChanged, match="--unknown-as-null"):
        warehouse.reload(name)
    warehouse.reload(name, unknown_as_null=True)
    assert warehouse.waiting(name) is None
    # The images of a table without a key must match each other.
    known = {2: "[2]", 4: "4"} if key else {}
    found = sorted((one["id"], one["v"], one["w"]) for one in warehouse.rows(name))
    assert found == [(1, None, 1), (2, known.get(2), 20), (4, known.get(4), 4)]


def fresh(warehouse: Warehouse, name: str) -> Rows:
    return {row["id"]: row["v"] for row in warehouse.fresh(name)}


@pytest.mark.long("cuts/test_renames.py reads recent changes around a rename")
def test_recent_changes_are_read_where_their_rows_belong_once_a_rename_is_merged(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse.schemas = [schema(*COLUMNS, table=name) for name in NAMES]
    topic = following(warehouse, on_drop="keep")
    warehouse.take(insert(1, "a", 1, 10), insert(2, "b", 1, 20))
    topic.all_rows = 4
    swap = rename(4, ("a", "t"), ("b", "a"), ("t", "b"))
    start = warehouse.ends()
    warehouse.write(insert(5, "a", 9, 29))
    statement = {"topic": "aq.__ddl.shop", "partition": 0, "offset": 0, "key": None, "value": swap}
    warehouse.records.append(statement)
    warehouse.store(start, Step.BEGIN)
    warehouse.records.remove(statement)
    assert fresh(warehouse, "a") == {1: 10}
    assert "dropped or renamed, so read as last merged table=shop.a" in caplog.text
    topic.values.append(swap)
    warehouse.catch_up(start)
    assert fresh(warehouse, "a") == {1: 20, 9: 29}
    # From before the swap, and not merged.
    start = warehouse.ends()
    warehouse.write(insert(3, "a", 3, 11))
    warehouse.store(start)
    assert fresh(warehouse, "a") == {1: 20, 9: 29}
    assert fresh(warehouse, "b") == {1: 10, 3: 11}
