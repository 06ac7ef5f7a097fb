"""The warehouse against records: each kind of difference is found, and equal tables give none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.audit.routes_in_force import RoutesInForce
from app.audit.topics.topics import Shares
from app.audit.verdict import TableVerdict, Verdict, table_lines
from app.audit.warehouse.check import Warehouse, different
from app.audit.warehouse.dump import Origin
from app.audit.warehouse.dump import lines as lines_of
from app.audit.warehouse.store import WarehouseStore
from connectors.kafka.reading import StoredRecord
from tables.history.present_columns import Described, Versions
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes

TOPIC = "aq.shop.t"
SHARE, MERGED = "aq.__shard.shop.t", "aq.t"
VERSION = Described(
    columns=("id", "v"),
    types=("int", "varchar(9)"),
    charsets=(None, "utf8mb4"),
    primary_key=("id",),
    topic=TOPIC,
)


def row(seq: int, *values: Any, **more: Any) -> dict[str, Any]:
    """A row as the sink dumps it."""
    result = {"destination": "shop", "epoch": 1, "seq": seq, "deleted": False, "version": 1}
    named = {f"c{at}": value for at, value in enumerate(values)}
    return {**result, "unrepresentable": None, "delta": 0, "values": named, **more}


def change(
    op: str, seq: int, image: dict[str, Any], *, keyed: bool = True, schema: int = 1
) -> dict[str, Any]:
    """A record's value."""
    source = {"db": "shop", "table": "t", "epoch": 1, "seq": seq, "schema": schema}
    images = {"before": image if op in "d" else None, "after": image if op in "cu" else None}
    return {**images, "op": op, "source": source, "keyed": keyed}


def statement(seq: int, *tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record of the DDL topic."""
    result = [{"database": "shop", "renamed_to": None, **one} for one in tables]
    return {"ddl": "…", "source": {"epoch": 1, "seq": seq}, "tables": result, **more}


HEAD = {"format": 2, "prefix": "aq", "cluster": "c", "warehouse": "/wh"}
WHOSE = Origin("aq", "c")


class Case:
    """A dump and the records that it is compared with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.applied = 100
        self.applied_topic = TOPIC
        self.topic = TOPIC
        """The topic of the records; of a share, ``merged`` has what the sink reads."""
        self.merged: list[StoredRecord] = []
        self.is_merged_cut = False
        self.floors: list[list[Any]] = []
        self.moved: list[list[Any]] = []
        self.cut: set[str] = set()
        self.columns = ["id", "v"]
        self.types = ["int", "string"]
        self.key = ["id"]
        self.followed: list[list[Any]] = []
        self.versions: Versions = {("shop", "t", 1): VERSION}
        self.routes = Routes(prefix="aq")

    def dump(self, rows: Iterable[dict[str, Any]]) -> Path:
        head = {**HEAD, "applied": [[self.applied_topic, 0, self.applied]], "moved": self.moved}
        name = {"database": "shop", "table": "t"}
        columns = {"columns": self.columns, "types": self.types, "key": self.key}
        table = {**name, **columns, "followed": self.followed}
        rows = list(rows)
        end = {"end": True, "tables": 1, "rows": len(rows), "floors": self.floors}
        file = self.folder / "dump.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in (head, table, *rows, end)))
        return file

    def verdict(
        self, rows: Iterable[dict[str, Any]], changes: Iterable[dict[str, Any]]
    ) -> TableVerdict:
        """Records have their number as their offset."""
        seen = set()
        with WarehouseStore() as store:
            result = lines_of(self.dump(rows), WHOSE)
            warehouse = Warehouse(
                store,
                result,
                "shop",
                versions=self.versions,
                routes=RoutesInForce.always(self.routes),
                shares=Shares(prefix="aq", destination="shop"),
            )
            if self.is_merged_cut:
                warehouse.applied.cut((MERGED, 0))
            for one in self.merged:
                warehouse.applied.take(MERGED, 0, one)
            for value in changes:
                seq = value["source"]["seq"]
                seen.add(seq)
                record = StoredRecord(self.key_of(value), orjson.dumps(value), seq)
                warehouse.take("ddl" if "ddl" in value else self.topic, 0, record, value)
            (found,) = warehouse.judge(seen.__contains__, cut=self.cut)
        return found

    def key_of(self, value: dict[str, Any]) -> bytes:
        """As the worker writes it."""
        if not value.get("keyed"):
            return b""
        image = value["after"] or value["before"] or value.pop("gone")
        version = self.versions["shop", "t", value["source"]["schema"]]
        return orjson.dumps({name: image[name] for name in version.primary_key})


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


HISTORY = [
    change("c", 1, {"id": 1, "v": "a"}),
    change("c", 2, {"id": 2, "v": "b"}),
    change("u", 3, {"id": 1, "v": "c"}),
    change("c", 4, {"id": 3, "v": "d"}),
    change("d", 5, {"id": 3, "v": "d"}),
]
RIGHT = [row(2, 2, "b"), row(3, 1, "c"), row(5, 3, None, deleted=True)]


def counted(found: TableVerdict) -> tuple[int, int, int]:
    return found.missing, found.extra, found.different


def test_a_table_that_is_equal_has_no_fault(case: Case) -> None:
    found = case.verdict(RIGHT, HISTORY)
    assert found.line().startswith("shop.t: rows=2 missing=0 extra=0 different=0 ")
    assert found.behind == 0
    assert counted(case.verdict(RIGHT[:2], HISTORY)) == (0, 0, 0)  # the marker may be gone


@pytest.mark.parametrize(
    ("rows", "counts", "described"),
    [
        (RIGHT[1:], (1, 0, 0), "missing: seq 2 [0]@2"),
        ([RIGHT[0] | {"deleted": True}, *RIGHT[1:]], (1, 0, 0), "missing: seq 2"),
        ([*RIGHT[:2], row(4, 3, "d")], (0, 1, 0), "extra: seq 4"),
        ([*RIGHT, row(9, 9, "z")], (0, 1, 0), "extra: seq 9"),
        ([*RIGHT, RIGHT[0]], (0, 1, 0), "extra: seq 2: this row exists 2 times"),
        ([row(2, 2, "B"), *RIGHT[1:]], (0, 0, 1), "different: seq 2 [0]@2: v has another value"),
        ([row(2, 2, None), *RIGHT[1:]], (0, 0, 1), "v has another value"),
        (
            [RIGHT[0], row(1, 1, "a")],
            (0, 0, 1),
            "different: seq 3 [0]@3: the row is in the state of seq 1",
        ),
        ([row(2, 2, "b", version=2), *RIGHT[1:]], (0, 0, 1), "version 2"),
        ([row(2, 2, "b", epoch=2), *RIGHT[1:]], (0, 0, 1), "the row is in the state of seq 2"),
    ],
)
def test_each_difference_is_found_and_named_by_its_change(
    case: Case, rows: list[dict[str, Any]], counts: tuple[int, int, int], described: str
) -> None:
    found = case.verdict(rows, HISTORY)
    assert counted(found) == counts
    assert any(described in line for line in found.shown), found.shown
    assert found.faults == 1
    verdict = Verdict(destination="shop", tables=[found])
    assert not verdict.is_clean
    assert verdict.to_json()["warehouse"][0]["findings"] == found.shown
    assert verdict.lines()[-2].startswith("warehouse: tables=1 rows=2 ")
    assert table_lines([found])[1].startswith("  ")


def foreign(*values: Any, **more: Any) -> dict[str, Any]:
    """A row that another program has inserted: it has no bookkeeping."""
    bookkeeping = dict.fromkeys(("destination", "epoch", "seq", "deleted", "version", "delta"))
    return row(0, *values) | bookkeeping | more


def test_a_row_of_no_destination_is_one_too_many_and_hides_none_that_is_missing(case: Case) -> None:
    found = case.verdict([*RIGHT, foreign(9, "z", delta=0)], HISTORY)
    assert counted(found) == (0, 1, 0)
    assert found.shown == [
        "extra: 1 row(s) that another program wrote, as the sink's columns in them are NULL"
    ]
    assert counted(case.verdict([*RIGHT[1:], foreign(2, "z", delta=0)], HISTORY)) == (1, 1, 0)
    half = [foreign(key, "z", delta=0, destination="shop") for key in (2, 9)]
    assert counted(case.verdict([*RIGHT[1:], *half], HISTORY)) == (1, 2, 0)
    marker = foreign(9, None, delta=0, deleted=True)
    assert counted(case.verdict([*RIGHT, marker], HISTORY)) == (0, 0, 0)


def test_an_image_of_no_destination_in_a_log_without_key_is_one_too_many(case: Case) -> None:
    case.key = []
    history = [change("c", 1, {"id": 1, "v": "a"}, keyed=False)]
    log = [row(1, 1, "a", delta=1), foreign(1, "a")]
    assert counted(case.verdict(log, history)) == (0, 1, 0)


def test_a_column_that_a_change_does_not_hold_is_as_it_was_and_no_fault(case: Case) -> None:
    partial = {**change("u", 6, {"id": 1}), "absent": ["v"]}
    found = case.verdict([row(2, 2, "b"), row(6, 1, "c")], [*HISTORY, partial])
    assert counted(found) == (0, 0, 0)
    assert found.unjudged == {"columns that the last change of their row does not contain": 1}
    late = case.verdict([row(2, 2, "b"), row(3, 1, "c")], [*HISTORY, partial])
    assert counted(late) == (0, 0, 1)


def test_records_that_the_sink_has_not_applied_yet_are_lag_and_no_fault(case: Case) -> None:
    case.applied = 3
    found = case.verdict([row(1, 1, "a"), row(2, 2, "b")], HISTORY)
    assert counted(found) == (0, 0, 0)
    assert found.behind == 3


def test_rows_that_a_running_sink_has_merged_past_its_ledger_are_no_fault(case: Case) -> None:
    case.applied = 2
    assert counted(case.verdict(RIGHT, HISTORY)) == (0, 0, 0)
    ahead = [row(3, 1, "wrong"), *RIGHT[:1]]
    assert counted(case.verdict(ahead, HISTORY)) == (0, 0, 1)


def test_a_truncate_leaves_nothing_of_what_came_before_it(case: Case) -> None:
    history = [*HISTORY, change("t", 6, {}, keyed=False), change("c", 7, {"id": 1, "v": "n"})]
    emptied = [row(6, 2, None, deleted=True), row(6, 3, None, deleted=True), row(7, 1, "n")]
    assert counted(case.verdict(emptied, history)) == (0, 0, 0)
    assert counted(case.verdict([*emptied, row(2, 2, "b")], history)) == (0, 1, 0)
    # While a sink is about to apply it, its rows may be there or not.
    case.applied, case.floors = 6, [["shop", "t", "shop", 1, 6]]
    for rows in (RIGHT, RIGHT[:1], emptied[:2]):
        assert counted(case.verdict(rows, history)) == (0, 0, 0)


def test_a_truncate_of_one_shard_leaves_the_rows_of_the_others(case: Case) -> None:
    case.routes = Routes(
        prefix="aq", mapping=from_yaml("tables: {shop.t: {from: [t, t2], topic: t}}")
    )
    case.versions["shop", "t2", 1] = VERSION
    of_other = [change("c", 6, {"id": 7, "v": "x"}), change("c", 7, {"id": 8, "v": "y"})]
    truncated = change("t", 8, {}, keyed=False)
    for one in (*of_other, truncated):
        one["source"]["table"] = "t2"
    emptied = [row(8, 7, None, deleted=True), row(8, 8, None, deleted=True)]
    history = [*HISTORY, *of_other, truncated]
    assert counted(case.verdict([*RIGHT, *emptied], history)) == (0, 0, 0)
    assert counted(case.verdict(emptied, history)) == (2, 0, 0)
    assert counted(case.verdict([*RIGHT, row(6, 7, "x")], history)) == (0, 1, 0)


def merge(case: Case, history: list[dict[str, Any]], *, applied: int) -> None:
    """Merge the share's records with those of another destination; so many of the former are applied."""
    case.topic, case.applied_topic = SHARE, MERGED
    mapping = from_yaml("tables: {shop.t: {topic: t}}")
    case.routes = Routes(prefix="aq", destination="shop", merged=True, mapping=mapping)
    case.versions["shop", "t", 1] = replace(VERSION, topic=SHARE)
    case.merged, case.applied = [], 50
    for number, value in enumerate(history):
        case.merged.append(copied(value, "shop", 50 + 2 * number))
        # Of another destination, with any number.
        case.merged.append(copied(value, "other", 51 + 2 * number))
        if number < applied:
            case.applied = 52 + 2 * number


def copied(value: dict[str, Any], destination: str, offset: int) -> StoredRecord:
    source = value["source"] | {"name": destination}
    if destination != "shop":
        source["seq"] += 1000
    return StoredRecord(b"", orjson.dumps(value | {"source": source}), offset)


def test_a_share_is_applied_as_far_as_the_topic_that_it_is_merged_into(case: Case) -> None:
    merge(case, HISTORY, applied=5)
    found = case.verdict(RIGHT, HISTORY)
    assert found.line().startswith("shop.t: rows=2 missing=0 extra=0 different=0 ")
    assert found.behind == 0
    assert counted(case.verdict([], HISTORY)) == (2, 0, 0)
    # A lost update and a lost delete.
    assert counted(case.verdict([RIGHT[0], row(1, 1, "a"), RIGHT[2]], HISTORY)) == (0, 0, 1)
    assert counted(case.verdict([*RIGHT[:2], row(4, 3, "d")], HISTORY)) == (0, 1, 0)
    merge(case, HISTORY, applied=2)
    found = case.verdict([row(1, 1, "a"), row(2, 2, "b")], HISTORY)
    assert (counted(found), found.behind) == ((0, 0, 0), 3)
    assert counted(case.verdict([row(2, 2, "b")], HISTORY)) == (1, 0, 0)
    merge(case, HISTORY, applied=0)
    found = case.verdict([], HISTORY)
    assert (counted(found), found.behind) == ((0, 0, 0), 5)


def test_a_truncate_of_a_share_leaves_nothing_of_what_came_before_it(case: Case) -> None:
    history = [*HISTORY, change("t", 6, {}, keyed=False)]
    emptied = [row(6, 1, None, deleted=True), row(6, 2, None, deleted=True)]
    merge(case, history, applied=6)
    assert counted(case.verdict(emptied, history)) == (0, 0, 0)
    assert counted(case.verdict(RIGHT, history)) == (0, 2, 0)


def test_a_share_whose_merged_records_are_gone_is_not_judged_and_the_audit_incomplete(
    case: Case,
) -> None:
    merge(case, HISTORY, applied=5)
    case.merged, case.is_merged_cut = [], True
    found = case.verdict([], HISTORY)
    assert (counted(found), found.behind, found.unjudged.total()) == ((0, 0, 0), 0, 5)
    verdict = Verdict(destination="shop", tables=[found])
    assert verdict.is_clean
    assert not verdict.is_complete
    assert not verdict.to_json()["complete"]
    assert any(line.startswith("incomplete: ") and "shop.t" in line for line in verdict.lines())
    # Without a ledger of the topic, the sink has applied nothing.
    case.applied = 0
    found = case.verdict([], HISTORY)
    assert (found.behind, found.is_complete) == (5, True)


def test_a_log_without_key_has_each_image_once(case: Case) -> None:
    history = [
        change("c", 1, {"id": 1, "v": "a"}, keyed=False),
        change("c", 2, {"id": 1, "v": "a"}, keyed=False),
        change("d", 3, {"id": 1, "v": "a"}, keyed=False),
    ]
    log = [row(1, 1, "a", delta=1), row(2, 1, "a", delta=1), row(3, 1, "a", delta=-1)]
    assert counted(case.verdict(log, history)) == (0, 0, 0)
    assert counted(case.verdict(log[1:], history)) == (1, 0, 0)
    assert counted(case.verdict([*log, row(3, 1, "a", delta=1)], history)) == (0, 1, 0)


def test_a_dropped_column_of_a_log_without_key_is_not_looked_for(case: Case) -> None:
    first = replace(VERSION, primary_key=(), ids=("id", "v"), initial=(None, None))
    gone = replace(
        first, columns=("id",), types=("int",), charsets=(None,), ids=("id",), initial=(None,)
    )
    case.versions = {("shop", "t", 1): first, ("shop", "t", 2): gone}
    case.key, case.followed = [], [["shop", "shop", "t", 2]]
    history = [
        change("c", 1, {"id": 1, "v": "a"}, keyed=False),
        change("d", 2, {"id": 1}, keyed=False, schema=2),
        change("c", 3, {"id": 3}, keyed=False, schema=2),
    ]
    # As after a batch that had rows of both versions, and as after one of each.
    for columns, values in ((["id"], ()), (["id", "v"], (None,))):
        case.columns, case.types = columns, ["int", "string"][: len(columns)]
        held = [
            row(1, 1, *values, delta=1),
            row(2, 1, *values, delta=-1, version=2),
            row(3, 3, *values, delta=1, version=2),
        ]
        found = case.verdict(held, history)
        assert (counted(found), found.rows) == ((0, 0, 0), 3)
        assert found.unjudged == {"columns that a later ALTER TABLE has changed": 1}
    # A column that is not dropped is looked for.
    case.versions = {("shop", "t", 1): first}
    case.columns, case.types, case.followed = ["id"], ["int"], [["shop", "shop", "t", 1]]
    assert counted(case.verdict([row(1, 1, delta=1)], history[:1])) == (0, 0, 1)


def test_a_truncate_that_the_sink_began_while_it_listed_its_tables_is_no_fault(case: Case) -> None:
    history = [*HISTORY, change("t", 6, {}, keyed=False)]
    emptied = [row(6, 1, None, deleted=True), row(6, 2, None, deleted=True)]
    case.applied = 6
    assert counted(case.verdict(emptied, history)) == (2, 0, 0)
    case.floors = [["shop", "t", "shop", 1, 6]]
    found = case.verdict(emptied, history)
    assert counted(found) == (0, 0, 0)
    assert found.unjudged == {"rows of a table that is being truncated": 2}
    assert found.rows == 0


def test_a_truncate_whose_record_is_gone_excuses_only_where_the_topic_is_cut(case: Case) -> None:
    case.floors = [["shop", "t", "shop", 1, 6]]
    emptied = [row(6, 1, None, deleted=True), row(6, 2, None, deleted=True)]
    assert counted(case.verdict(emptied, HISTORY)) == (2, 0, 0)
    case.cut = {TOPIC}
    assert counted(case.verdict(emptied, HISTORY)) == (0, 0, 0)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_row_that_another_destination_has_made_its_own_is_excused_and_no_other(
    case: Case, deleted: bool
) -> None:
    theirs = row(2, 2, None if deleted else "theirs", destination="other", deleted=deleted)
    found = case.verdict([theirs, *RIGHT[1:]], HISTORY)
    assert counted(found) == (0, 0, 0)
    assert found.unjudged == {"rows whose key another destination has taken over": 1}
    assert found.rows == 1
    # A row of another key, as where the shard is in the key, excuses nothing.
    elsewhere = theirs | {"values": {"c0": 9, "c1": None}}
    assert counted(case.verdict([elsewhere, *RIGHT[1:]], HISTORY)) == (1, 0, 0)


def test_rows_of_records_that_are_gone_are_not_judged(case: Case) -> None:
    case.cut = {TOPIC}
    found = case.verdict([*RIGHT, row(9, 9, "older")], HISTORY)
    assert counted(found) == (0, 0, 0)
    assert found.unjudged.total() == 1


def test_a_key_is_the_same_however_its_columns_are_spelled_and_ordered(case: Case) -> None:
    first = replace(VERSION, columns=("ID", "v"), primary_key=("ID", "v"))
    second = replace(VERSION, columns=("id", "v"), primary_key=("v", "id"))
    case.versions = {("shop", "t", 1): first, ("shop", "t", 2): second}
    case.columns, case.key = ["ID", "v"], ["ID", "v"]
    history = [
        change("c", 1, {"ID": 1, "v": "a"}),
        change("c", 2, {"ID": 2, "v": "b"}),
        change("u", 3, {"id": 1, "v": "a"}, schema=2),
        change("d", 4, {"id": 2, "v": "b"}, schema=2),
    ]
    rows = [row(3, 1, "a", version=2), row(4, 2, "b", deleted=True, version=2)]
    found = case.verdict(rows, history)
    assert (counted(found), found.rows) == ((0, 0, 0), 1)
    older = case.verdict([row(1, 1, "a"), rows[1]], history)
    assert counted(older) == (0, 0, 1)
    assert "the row is in the state of seq 1" in older.shown[0]


def test_rows_are_distinguished_by_the_key_that_their_table_has_now(case: Case) -> None:
    first = replace(VERSION, columns=("id", "v"), primary_key=("id", "v"))
    case.versions = {("shop", "t", 1): first, ("shop", "t", 2): VERSION}
    history = [
        change("c", 1, {"id": 1, "v": "a"}),
        change("c", 2, {"id": 2, "v": "b"}),
        # The key is that of `id` alone from here on.
        change("u", 3, {"id": 1, "v": "x"}, schema=2),
        change("c", 4, {"id": 3, "v": "c"}, schema=2),
    ]
    rows = [row(3, 1, "x", version=2), row(2, 2, "b"), row(4, 3, "c", version=2)]
    found = case.verdict(rows, history)
    assert (counted(found), found.rows) == ((0, 0, 0), 3)
    assert counted(case.verdict(rows[1:], history)) == (1, 0, 0)
    older = case.verdict([row(1, 1, "a"), *rows[1:]], history)
    assert counted(older) == (0, 0, 1)


WIDE = replace(
    VERSION, columns=("id", "v", "d"), types=("int", "varchar(9)", "int"), charsets=(None, "utf8mb4", None)
)  # fmt: skip


def rekeyed(case: Case, *keys: tuple[str, ...]) -> None:
    """Give the table these keys in turn, in versions from 1 on."""
    case.columns, case.types = ["id", "v", "d"], ["int", "string", "int"]
    case.key = list(keys[-1])
    case.versions = {
        ("shop", "t", at): replace(WIDE, primary_key=key) for at, key in enumerate(keys, 1)
    }


def test_a_column_that_comes_into_the_key_may_have_been_changed_before(case: Case) -> None:
    rekeyed(case, ("id",), ("id", "d"))
    history = [
        change("c", 1, {"id": 1, "v": "a", "d": 0}),
        change("u", 2, {"id": 1, "v": "b", "d": 5}),
        change("c", 3, {"id": 2, "v": "c", "d": 0}),
        change("u", 4, {"id": 2, "v": "d", "d": 6}),
        change("u", 5, {"id": 2, "v": "e", "d": 6}, schema=2),
    ]
    right = [row(2, 1, "b", 5), row(5, 2, "e", 6, version=2)]
    assert counted(case.verdict(right, history)) == (0, 0, 0)
    assert counted(case.verdict(right[1:], history)) == (1, 0, 0)
    kept = [*right, row(1, 1, "a", 0)]
    assert counted(case.verdict(kept, history)) == (0, 1, 0)


def test_rows_that_only_an_earlier_key_distinguished_are_judged_by_it(case: Case) -> None:
    rekeyed(case, ("id", "d"), ("id",), ("id", "d"), ("id",))
    history = [
        change("c", 1, {"id": 1, "v": "a", "d": 0}),
        change("c", 2, {"id": 1, "v": "b", "d": 1}),
        change("d", 3, {"id": 1, "v": "a", "d": 0}),
        # By id alone from here on.
        change("c", 4, {"id": 2, "v": "c", "d": 7}, schema=2),
        change("d", 5, {"id": 2, "v": "c", "d": 7}, schema=2),
        # And by both again.
        change("c", 6, {"id": 2, "v": "d", "d": 8}, schema=3),
        change("c", 7, {"id": 2, "v": "e", "d": 9}, schema=3),
        change("d", 8, {"id": 2, "v": "d", "d": 8}, schema=3),
    ]
    right = [row(2, 1, "b", 1), row(7, 2, "e", 9, version=3)]
    found = case.verdict(right, history)
    assert (counted(found), found.rows) == ((0, 0, 0), 2)
    assert counted(case.verdict(right[:1], history)) == (1, 0, 0)
    older = case.verdict([right[0], row(6, 2, "d", 8, version=3)], history)
    assert counted(older) == (0, 0, 1)


def test_keys_that_another_table_of_the_name_had_are_not_the_tables(case: Case) -> None:
    rekeyed(case, ("id",), ("d",), ("id",))
    # Those versions were of a table that had the name meanwhile.
    history = [change("c", at, {"id": at, "v": "a", "d": 0}) for at in (1, 2)]
    rows = [row(at, at, "a", 0) for at in (1, 2)]
    found = case.verdict(rows, history)
    assert (counted(found), found.rows) == ((0, 0, 0), 2)


@pytest.mark.parametrize("later", [(), ("v",), ("d",), ("v", "d")])
def test_nor_those_of_tables_that_had_any_of_its_names_later(
    case: Case, later: tuple[str, ...]
) -> None:
    rekeyed(case, ("id",), later, ("id",))
    for version in (1, 2, 3):
        described = replace(
            case.versions["shop", "t", version], ids=(None,) * 3, initial=(None,) * 3
        )
        case.versions |= {("shop", name, version): described for name in "tu"}
    case.followed = [["shop", "shop", "u", 1, 1, -1, -1], ["shop", "shop", "t", 1, 1, 1, 4]]
    case.moved = [["shop", "shop", "u", [[1, 4, ["shop", "t"]]]]]
    earlier = [change("c", at, {"id": at, "v": "a", "d": 0}) for at in (1, 2, 3)]
    for one in earlier:
        one["source"]["table"] = "u"
    history = [
        *earlier,
        change("u", 5, {"id": 1, "v": "b", "d": 0}),
        change("d", 6, {"id": 2, "v": "a", "d": 0}),
    ]
    right = [row(5, 1, "b", 0), row(3, 3, "a", 0, version=0)]
    found = case.verdict(right, history)
    assert (counted(found), found.rows, found.unjudged) == ((0, 0, 0), 2, {})
    assert counted(case.verdict(right[:1], history)) == (1, 0, 0)


def test_a_row_is_not_judged_of_which_no_key_is_known(case: Case) -> None:
    rekeyed(case, ("id",), ("id", "d"))
    history = [
        {**change("c", 1, {"id": 1, "v": "a", "d": None}), "absent": ["d"]},
        change("c", 2, {"id": 2, "v": "b", "d": 0}),
    ]
    rows = [row(1, 1, "a", 4), row(2, 2, "b", 0)]
    found = case.verdict(rows, history)
    assert (counted(found), found.rows) == ((0, 0, 0), 1)
    assert sum(found.unjudged.values()) == 1


def test_a_row_from_before_its_table_was_dropped_is_named_by_its_own_name(case: Case) -> None:
    dropped = statement(6, {"table": "t", "change": "dropped"})
    history = [*HISTORY, dropped, change("c", 7, {"id": 1, "v": "n"})]
    rows = [RIGHT[0], row(7, 1, "n")]
    found = case.verdict(rows, history)
    assert (counted(found), found.rows) == ((0, 0, 0), 1)
    assert found.unjudged == {"rows from before their table was dropped or renamed": 1}
    # What came since is judged as ever, and other tables' statements are not this one's.
    assert counted(case.verdict(rows[:1], history)) == (1, 0, 0)
    for other in (
        statement(6, {"table": "u", "change": "dropped"}),
        statement(6, {"table": "t", "change": "altered"}),
    ):
        found = case.verdict(rows[1:], [*HISTORY, other, history[-1]])
        assert counted(found) == (1, 0, 0)


def test_rows_of_a_renamed_table_are_expected_where_the_sink_has_moved_them(case: Case) -> None:
    away = {"table": "u", "change": "renamed", "renamed_to": {"database": "shop", "table": "t"}}
    before = [change("c", 1, {"id": 1, "v": "a"}), change("c", 2, {"id": 2, "v": "b"})]
    for one in before:
        one["source"]["table"] = "u"
    case.versions["shop", "u", 1] = VERSION
    history = [*before, statement(3, away), change("u", 4, {"id": 1, "v": "c"})]
    case.moved = [["shop", "shop", "u", [[1, 3, ["shop", "t"]]]]]
    rows = [row(4, 1, "c"), row(2, 2, "b")]
    found = case.verdict(rows, history)
    assert (counted(found), found.rows, found.unjudged) == ((0, 0, 0), 2, {})
    assert counted(case.verdict(rows[:1], history)) == (1, 0, 0)
    # Another destination's statement moves nothing of this one's.
    case.moved[0][0] = "crm"
    with pytest.raises(ValueError, match="too many values"):
        case.verdict(rows, history)


def test_a_row_of_a_dropped_table_that_the_sink_has_emptied_is_one_too_many(case: Case) -> None:
    case.moved = [["shop", "shop", "t", [[1, 6, None]]]]
    dropped = statement(6, {"table": "t", "change": "dropped"})
    history = [*HISTORY, dropped, change("c", 7, {"id": 1, "v": "n"})]
    found = case.verdict([row(7, 1, "n")], history)
    assert (counted(found), found.unjudged) == ((0, 0, 0), {})
    assert counted(case.verdict([RIGHT[0], row(7, 1, "n")], history)) == (0, 1, 0)


def test_a_table_that_a_tool_replaced_by_its_copy_is_not_taken_for_dropped(case: Case) -> None:
    away = statement(6, {"table": "t", "change": "renamed", "renamed_to": {"table": "t_del"}})
    copied = statement(7, {"table": "t", "change": "altered"}, online=[_named("t")])
    assert counted(case.verdict(RIGHT[1:], [*HISTORY, away])) == (0, 0, 0)
    assert counted(case.verdict(RIGHT[1:], [*HISTORY, away, copied])) == (1, 0, 0)


def _named(table: str) -> dict[str, str]:
    return {"database": "shop", "table": table}


def test_a_row_whose_images_are_not_stored_is_looked_for_all_the_same(case: Case) -> None:
    pointer = change("c", 6, {"id": 4, "v": "x"}) | {"after": None, "gone": {"id": 4}}
    found = case.verdict([*RIGHT, row(6, 4, "x")], [*HISTORY, pointer])
    assert counted(found) == (0, 0, 0)
    assert found.unjudged.total() == 1
    assert found.rows == 2  # it was not compared
    pointer["gone"] = {"id": 4}
    assert counted(case.verdict(RIGHT, [*HISTORY, pointer])) == (1, 0, 0)


@pytest.mark.parametrize(("op", "signs"), [("c", [1]), ("u", [-1, 1]), ("d", [-1])])
def test_images_of_a_log_that_are_not_stored_are_looked_for_too(
    case: Case, op: str, signs: list[int]
) -> None:
    case.key = []
    pointer = change(op, 6, {}, keyed=False) | {"before": None, "after": None}
    log = [row(6, 1, "x", delta=sign) for sign in signs]
    found = case.verdict(log, [pointer])
    assert (counted(found), found.rows) == ((0, 0, 0), 0)
    assert found.unjudged == {"rows whose images are not available": len(signs)}
    assert counted(case.verdict(log[1:], [pointer])) == (1, 0, 0)
    assert counted(case.verdict([*log, row(6, 1, "x", delta=0)], [pointer])) == (0, 1, 0)


@pytest.mark.parametrize(
    ("kind", "wire", "held", "same"),
    [
        ("bigint unsigned", 18446744073709551615, "18446744073709551615", True),
        ("bigint unsigned", 18446744073709551615, "18446744073709551614", False),
        ("decimal(5,2)", "12.50", "12.5000", True),
        ("decimal(5,2)", "12.50", "12.51", False),
        ("float", 0.1, 0.10000000149011612, True),
        ("double", 0.1, 0.10000000149011612, False),
        ("date", "2026-01-01", "2026-01-01 00:00:00", True),
        ("datetime(6)", "2026-01-01T10:00:00.120000", "2026-01-01 10:00:00.12", True),
        ("datetime", "2026-01-01T10:00:01", "2026-01-01 10:00:00", False),
        ("timestamp", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00", True),
        ("varchar(9)", "12.50", "12.5", False),
        ("vector(2)", [0.5, 0.1], [0.5, 0.10000000149011612], True),
        ("geometry", {"srid": 0, "wkb": "AQ=="}, {"srid": 0, "wkb": "AQ=="}, True),
        ("int", 5, "five", False),
    ],
)
def test_values_are_equal_by_value_and_not_by_form(
    kind: str, wire: Any, held: Any, same: bool
) -> None:
    assert (different({"V": wire}, {"V": kind}, {"v": held}, {}) is None) is same


def test_a_zero_date_is_what_stands_beside_and_no_null() -> None:
    zero, types = {"d": "0000-00-00"}, {"d": "date"}
    assert different(zero, types, {"d": None}, {"d": "0000-00-00"}) is None
    assert different(zero, types, {"d": None}, {}) == "d"
    assert different({"d": None}, types, {"d": None}, {"d": "0000-00-00"}) == "d"
    assert different({"d": None}, types, {"d": None}, {}) is None


def test_a_column_that_a_version_does_not_have_is_empty_in_its_rows() -> None:
    assert different({"a": 1}, {"a": "int"}, {"a": 1, "dropped": None}, {}) is None
    assert different({"a": 1}, {"a": "int"}, {"a": 1, "dropped": 2}, {}) == "dropped"
    assert different({"a": 1, "b": 2}, {"a": "int"}, {"a": 1}, {}) == "b"
