"""Columns that the source adds, renames, drops and adds again: the rows are as MySQL has them."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from spark_sink.errors import SparkFailed, TypeConflict, ValuesChanged
from spark_sink.warehouse.coverage import Step
from spark_sink.warehouse.table_status import status_lines
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.history import Change, Image, schema

pytestmark = [
    pytest.mark.spark,
    # pyspark leaves the sockets of collect() to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def added(value: Any, mark: str) -> Image:
    return {"id": mark, "initial": {"value": value}}


@dataclass
class Source:
    """A model of a MySQL table: its rows, the versions of its columns, and what the topic has of it."""

    columns: dict[str, Image] = field(default_factory=lambda: {"id": {}, "a": {}, "b": {}})
    """With what the schemas topic says of each."""
    key: tuple[str, ...] = ("id",)
    rows: dict[int, Image] = field(default_factory=dict)
    schemas: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    marks: int = 0
    is_altered: bool = True

    def add(self, name: str, value: int | None) -> None:
        """ALTER TABLE ADD COLUMN, perhaps after a DROP COLUMN in the same statement."""
        self.marks += 1
        self.columns[name] = added(value, f"{name}@{self.marks}")
        self.rows = {key: {**row, name: value} for key, row in self.rows.items()}
        self.is_altered = True

    def drop(self, name: str) -> None:
        del self.columns[name]
        self.rows = {
            key: {n: v for n, v in row.items() if n != name} for key, row in self.rows.items()
        }
        self.is_altered = True

    def rename(self, names: dict[str, str]) -> None:
        def of(found: Image) -> Image:
            return {names.get(name, name): value for name, value in found.items()}

        columns = {
            name: {"id": name, **more} if name in names else more
            for name, more in self.columns.items()
        }
        self.columns, self.key = of(columns), tuple(names.get(name, name) for name in self.key)
        self.rows = {key: of(row) for key, row in self.rows.items()}
        self.is_altered = True

    def put(self, key: int, **values: int | None) -> None:
        """INSERT or UPDATE."""
        image = {name: values.get(name) for name in self.columns} | {self.key[0]: key}
        before = self.rows.get(key)
        self.rows[key] = image
        self.write("u" if before else "c", before=before, after=image)

    def remove(self, key: int) -> None:
        self.write("d", before=self.rows.pop(key))

    def write(self, op: str, *, before: Image | None = None, after: Image | None = None) -> None:
        if self.is_altered:
            self.schemas.append(
                schema(
                    *((name, "int") for name in self.columns),
                    key=self.key,
                    version=len(self.schemas) + 1,
                    more=self.columns,
                )
            )
            self.is_altered = False
        at = len(self.changes) + 1
        self.changes.append(
            Change(op=op, seq=at, version=len(self.schemas), before=before, after=after)
        )

    def present(self, rows: list[Image]) -> dict[int, Image]:
        """The warehouse's rows with the columns that the source has now."""
        return {row[self.key[0]]: {name: row[name] for name in self.columns} for row in rows}


def random_source(rng: random.Random, length: int) -> Source:
    source = Source()
    while len(source.changes) < length:
        names = [name for name in source.columns if name not in source.key]
        free = [name for name in "abcde" if name not in source.columns]
        roll = rng.random()
        if roll < 0.06 and free:
            source.add(rng.choice(free), rng.choice([None, 7, 8]))
        elif roll < 0.09 and len(names) > 1:
            source.drop(rng.choice(names))
        elif roll < 0.11 and names:
            name = rng.choice(names)
            source.drop(name)
            source.add(name, 9)
        elif roll < 0.15 and len(names) > 1:
            one, other = rng.sample(names, 2)
            source.rename({one: other, other: one})
        elif roll < 0.19 and names and free:
            source.rename({rng.choice(names): rng.choice(free)})
        elif roll < 0.21:
            source.rename({source.key[0]: "id" if source.key[0] != "id" else "number"})
        elif roll < 0.3 and source.rows:
            source.remove(rng.choice(list(source.rows)))
        else:
            source.put(rng.randrange(12), **{name: rng.randrange(100) for name in names})
    return source


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=pytest.mark.long("the tests below, and test_columns_random.py"))
        for n in range(1, 8)
    ],
)
def test_batches_in_any_order_give_the_rows_that_the_source_has(
    warehouse: Warehouse, seed: int
) -> None:
    rng = random.Random(seed)
    source = random_source(rng, 60)
    assert len(source.schemas) > 8
    warehouse.schemas = source.schemas
    # Later rows may come first, and older ones in a batch of their own.
    mixed = sorted(source.changes, key=lambda one: one.seq + rng.randrange(30))
    for at in range(0, len(mixed), 15):
        warehouse.take(*mixed[at : at + 15])
        warehouse.restart()
    assert source.present(warehouse.rows()) == source.rows
    warehouse.take(*rng.sample(source.changes, 10))
    assert source.present(warehouse.rows()) == source.rows


def test_rows_from_before_have_the_default_and_an_explicit_null_stays(
    warehouse: Warehouse,
) -> None:
    columns = (("id", "int"), ("v", "int"))
    more = {
        "n": added(5, "n@1"),
        "day": added("0000-00-00", "day@1"),
        "t": added("2020-01-02", "t@1"),
    }
    new = schema(*columns, ("n", "int"), ("day", "date"), ("t", "date"), version=2, more=more)
    warehouse.schemas = [schema(*columns), new]
    warehouse.take(
        Change(op="c", seq=1, after={"id": 1, "v": 1}),
        Change(op="c", seq=2, after={"id": 2, "v": 1}),
        Change(op="c", seq=3, after={"id": 3, "v": 1}),
        Change(op="d", seq=4, before={"id": 3, "v": 1}),
    )
    null: Image = {"id": 2, "v": 2, "n": None, "day": None, "t": None}
    warehouse.write(Change(op="u", seq=6, before=null, after=null, version=2))
    warehouse.write(Change(op="c", seq=5, after={"id": 4, "v": 1}))
    start = {("aq.shop.t", 0): 4}
    warehouse.store(start, Step.BEGIN)
    day = datetime.date(2020, 1, 2)
    filled = {
        1: (5, None, day, "0000-00-00"),
        2: (None, None, None, None),
        4: (5, None, day, "0000-00-00"),
    }

    def seen(rows: list[Image]) -> dict[int, tuple[Any, ...]]:
        return {
            row["id"]: (row["n"], row["day"], row["t"], (row["__unrepresentable"] or {}).get("day"))
            for row in rows
        }

    # Not merged yet: readers of recent changes find the same.
    assert {row["id"]: (row["n"], row["t"]) for row in warehouse.fresh()} == {
        key: (one[0], one[2]) for key, one in filled.items()
    }
    warehouse.catch_up(start)
    assert seen(warehouse.rows(bookkeeping=True)) == filled
    # One that was read late.
    warehouse.restart()
    warehouse.take(Change(op="c", seq=4, after={"id": 9, "v": 1}))
    assert seen(warehouse.rows(bookkeeping=True)) == {**filled, 9: filled[1]}


def test_a_kill_before_or_after_the_rows_are_written_again_is_repaired(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.schemas = [
        schema(("id", "int"), ("a", "int"), ("b", "int")),
        schema(
            *(("id", "int"), ("a", "int"), ("b", "int"), ("c", "int")),
            version=2,
            more={"a": {"id": "b"}, "b": {"id": "a"}, "c": added(3, "c@1")},
        ),
    ]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "a": 1, "b": 2}))
    start = warehouse.ends()
    warehouse.write(Change(op="c", seq=2, after={"id": 2, "a": 5, "b": 6, "c": 7}, version=2))
    wanted = {1: (2, 1, 3), 2: (5, 6, 7)}

    for step in ("replace", "merge"):
        with monkeypatch.context() as patch:

            def killed(*_: object, **__: object) -> None:
                raise RuntimeError("killed")

            patch.setattr(type(warehouse.kept.tables), step, killed)
            with pytest.raises(SparkFailed, match="killed"):
                warehouse.catch_up(start)
        warehouse.restart()
    for _ in range(2):
        warehouse.catch_up(start)
        warehouse.restart()
        assert {row["id"]: (row["a"], row["b"], row["c"]) for row in warehouse.rows()} == wanted


@pytest.mark.long("rows without a key go below, once their columns have changed")
def test_in_a_table_without_a_key_old_images_match_those_that_delete_them(
    warehouse: Warehouse,
) -> None:
    more = {"c": added(5, "c@1"), "w": {"id": "v"}}
    warehouse.schemas = [
        schema(("v", "int"), key=()),
        schema(("w", "int"), ("c", "int"), key=(), version=2, more=more),
    ]
    warehouse.take(*(Change(op="c", seq=n, after={"v": 1}) for n in (1, 2)))
    warehouse.take(Change(op="d", seq=3, before={"w": 1, "c": 5}, version=2))
    assert warehouse.rows() == [{"w": 1, "c": 5}]


def test_a_value_that_is_not_known_is_null_and_logged(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"c": {"id": "c@1", "initial": {"unknown": "DEFAULT (uuid())"}}}
    warehouse.schemas = [
        schema(("id", "int")),
        schema(("id", "int"), ("c", "text"), version=2, more=more),
    ]
    warehouse.take(Change(op="c", seq=1, after={"id": 1}))
    warehouse.take(Change(op="c", seq=2, after={"id": 2, "c": "x"}, version=2))
    assert {row["id"]: row["c"] for row in warehouse.rows()} == {1: None, 2: "x"}
    assert "column=c: DEFAULT (uuid())" in caplog.text
    (line,) = [one for one in status_lines(warehouse.kept) if "column" in one]
    assert line.startswith("  column: c is NULL in 1 row(s) from before it was added")
    assert line.endswith("run: python -m app snapshot start shop shop.t")
    rows = ({"id": 1, "c": "y"}, {"id": 2, "c": "x"})
    warehouse.take(*(Change(op="r", seq=3, after=row, version=2) for row in rows))
    assert "column" not in "".join(status_lines(warehouse.kept))


def test_nothing_stays_of_what_a_mask_covers_from_a_version_on(warehouse: Warehouse) -> None:
    columns = (("id", "int"), ("mail", "text"), ("note", "text"), ("x", "int"))
    hmac = {"id": "mail@masked:2", "initial": {"unknown": "masked by the mapping"}}
    warehouse.schemas = [
        schema(*columns, masked={}),
        schema(
            *(columns[0], ("mail", "varchar(67)"), columns[3]),
            version=2,
            more={"mail": hmac},
            masked={"mail": {"hmac": "k1"}, "note": "drop"},
        ),
    ]
    clear = {"mail": "clear@x", "note": "clear", "x": 5}
    warehouse.take(*(Change(op="c", seq=n, after={"id": n, **clear}) for n in (1, 2, 3)))
    hidden = {"id": 1, "mail": "k1:0f", "x": 6}
    warehouse.take(Change(op="u", seq=4, before={**hidden, "x": 5}, after=hidden, version=2))

    def shown() -> list[Image]:
        return sorted(warehouse.rows(), key=lambda row: int(row["id"]))

    wanted = [{"id": 1, "mail": "k1:0f", "x": 6}]
    wanted += [{"id": n, "mail": None, "x": 5} for n in (2, 3)]
    assert shown() == wanted
    # The topic still has the values.
    warehouse.reload(from_beginning=True)
    assert shown() == wanted


@pytest.mark.remedy("sink.TypeConflict")
@pytest.mark.parametrize(
    "from_beginning",
    [False, pytest.param(True, marks=pytest.mark.long("the other parameter"))],
)
def test_a_column_that_is_renamed_to_another_type_is_converted_by_a_reload(
    warehouse: Warehouse, *, from_beginning: bool
) -> None:
    more = {"w": {"id": "v"}, "c": added("x", "c@1")}
    warehouse.schemas = [
        schema(("id", "int"), ("v", "int")),
        schema(("id", "int"), ("w", "text"), ("c", "text"), version=2, more=more),
    ]
    warehouse.take(Change(op="c", seq=1, after={"id": 1, "v": 5}))
    with pytest.raises(TypeConflict, match=r"w is int"):
        warehouse.take(Change(op="c", seq=2, after={"id": 2, "w": "a", "c": "b"}, version=2))
    warehouse.reload(from_beginning=from_beginning)
    wanted = [{"id": 1, "w": "5", "c": "x"}, {"id": 2, "w": "a", "c": "b"}]
    assert sorted(warehouse.rows(), key=lambda row: row["id"]) == wanted


def test_a_source_table_fills_and_renames_only_in_its_own_rows(warehouse: Warehouse) -> None:
    old = (("id", "int"), ("a", "int"))
    warehouse.schemas = [
        schema(*old, table="t_0"),
        schema(*old, table="t_1"),
        schema(("id", "int"), ("b", "int"), ("c", "int"), table="t_0", version=2,
               more={"b": {"id": "a"}, "c": added(3, "c@1")}),
    ]  # fmt: skip

    def change(table: str, seq: int, version: int = 1, **image: int) -> Change:
        return Change(
            op="c", seq=seq, table=table, logical=("shop", "t"), version=version, after=image
        )

    warehouse.take(change("t_0", 1, id=1, a=10), change("t_1", 2, id=1, a=20))
    warehouse.take(change("t_0", 3, 2, id=2, b=11, c=4))
    warehouse.take(change("t_0", 4, id=3, a=12), change("t_1", 5, id=2, a=21))
    found = {
        (row["__source_table"], row["id"]): (row["a"], row["b"], row["c"])
        for row in warehouse.rows(bookkeeping=True)
    }
    assert found == {
        ("t_0", 1): (None, 10, 3), ("t_0", 2): (None, 11, 4), ("t_0", 3): (None, 12, 3),
        ("t_1", 1): (20, None, None), ("t_1", 2): (21, None, None),
    }  # fmt: skip


def versions_of(*kinds: str, key: tuple[str, ...] = ("id",), of: str = "v") -> list[str]:
    """Versions that differ in the type of one column; the empty type drops it."""
    found = []
    for number, kind in enumerate(kinds, 1):
        own = {"id": "int", "v": "int"} | {of: kind}
        columns = tuple((name, one) for name, one in own.items() if one)
        found.append(schema(*columns, key=key, version=number))
    return found


def test_values_are_converted_as_the_source_did_it_also_those_that_come_late(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = versions_of("decimal(10,2)", "int", "tinyint")

    def put(seq: int, value: Any, version: int = 1, key: int | None = None) -> Change:
        return Change(op="c", seq=seq, version=version, after={"id": key or seq, "v": value})

    warehouse.take(put(1, "10.75"), put(2, "-10.75"), put(3, "7.00"), put(4, None))
    ends = warehouse.ends()
    # Both versions in one batch, and then a row from before that another partition had.
    warehouse.write(put(5, "0.50"))
    warehouse.write(put(6, 2000, version=2))
    warehouse.store(ends, Step.BEGIN)
    expected = {1: 11, 2: -11, 3: 7, 4: None, 5: 1, 6: 2000}
    assert {row["id"]: row["v"] for row in warehouse.fresh()} == expected
    warehouse.catch_up(ends)
    assert {row["id"]: row["v"] for row in warehouse.rows()} == expected
    warehouse.take(put(7, 5, version=3))
    warehouse.restart()
    warehouse.take(put(8, "-1.50"), put(9, "999.50"), partition=1)
    assert warehouse.waiting() is None
    assert {row["id"]: row["v"] for row in warehouse.rows()} == {
        1: 11, 2: -11, 3: 7, 4: None, 5: 1, 6: 127, 7: 5, 8: -2, 9: 127
    }  # fmt: skip


def test_a_narrower_text_leaves_a_table_as_it_is_unless_a_text_was_truncated(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = versions_of("varchar(9)", "varchar(4)", "enum('a','b')")
    warehouse.take(
        Change(op="c", seq=1, after={"id": 1, "v": "a"}),
        Change(op="c", seq=2, after={"id": 2, "v": "abcdef"}),
    )
    warehouse.take(Change(op="c", seq=3, version=2, after={"id": 3, "v": "b"}))
    assert {row["id"]: row["v"] for row in warehouse.rows()} == {1: "a", 2: "abcd", 3: "b"}
    with pytest.raises(ValuesChanged, match=r"v from varchar\(4\) to enum\('a','b'\)"):
        warehouse.take(Change(op="c", seq=4, version=3, after={"id": 4, "v": "b"}))
    assert {row["id"]: row["v"] for row in warehouse.rows()} == {1: "a", 2: "abcd", 3: "b"}


@pytest.mark.long("warehouse/test_waiting_tables.py has values that a snapshot brings")
def test_a_reload_does_not_look_at_values_that_a_snapshot_has_replaced(
    warehouse: Warehouse,
) -> None:
    # The type in the warehouse is the same.
    warehouse.schemas = versions_of("varchar(9)", "json")
    with pytest.raises(ValuesChanged, match=r"v \(varchar\(9\)\)"):
        warehouse.take(
            Change(op="c", seq=1, after={"id": 1, "v": "1 "}),
            Change(op="c", seq=2, version=2, after={"id": 2, "v": "2"}),
        )
    with pytest.raises(ValuesChanged):
        warehouse.reload()
    replaced = [
        Change(op="t", seq=3, version=None),
        *(Change(op="r", seq=3 + n, version=2, after={"id": n, "v": str(n)}) for n in (1, 2)),
    ]
    warehouse.take(*replaced)
    warehouse.reload()
    assert warehouse.waiting() is None
    assert {row["id"]: row["v"] for row in warehouse.rows()} == {1: "1", 2: "2"}


@pytest.mark.long("warehouse/test_waiting_tables.py reloads from partitions that are ahead")
def test_a_reload_takes_a_snapshot_in_partitions_that_the_stream_has_yet_to_come_to(
    warehouse: Warehouse,
) -> None:
    warehouse.schemas = versions_of("varchar(9)", "int")
    warehouse.take(*(Change(op="c", seq=n, after={"id": n, "v": f"{n} apples"}) for n in (1, 2)))
    with pytest.raises(TypeConflict):
        warehouse.take(Change(op="c", seq=3, version=2, after={"id": 3, "v": 3}), partition=1)
    start = warehouse.ends()
    warehouse.write(Change(op="t", seq=4, version=2))
    for n in (1, 2, 3):
        row = Change(op="r", seq=4 + n, version=2, after={"id": n, "v": n})
        warehouse.write(row, partition=n % 2)
    warehouse.reload()
    wanted = {1: 1, 2: 2, 3: 3}
    assert {row["id"]: row["v"] for row in warehouse.rows()} == wanted
    warehouse.catch_up(start)
    assert warehouse.waiting() is None
    assert {row["id"]: row["v"] for row in warehouse.rows()} == wanted


@pytest.mark.long("rows with a key")
def test_rows_without_a_key_go_once_their_columns_or_values_have_changed(
    warehouse: Warehouse,
) -> None:
    dropped = [schema(("id", "int"), ("v", "varchar(9)"), ("w", "int"), key=()),
               schema(("id", "int"), ("v", "varchar(9)"), key=(), version=2),
               schema(("id", "int"), ("v", "varchar(2)"), key=(), version=3)]  # fmt: skip
    warehouse.schemas = dropped
    warehouse.take(*(Change(op="c", seq=n, after={"id": n, "v": "abc", "w": 7}) for n in (1, 2, 3)))
    warehouse.take(Change(op="d", seq=4, version=2, before={"id": 1, "v": "abc"}))
    assert [row["id"] for row in warehouse.rows()] == [2, 3]
    # One from before that comes late, and its delete.
    warehouse.take(Change(op="c", seq=3, after={"id": 5, "v": "a", "w": 7}), partition=1)
    warehouse.take(
        Change(op="d", seq=6, version=2, before={"id": 5, "v": "a"}),
        Change(op="u", seq=7, version=3, before={"id": 2, "v": "ab"}, after={"id": 2, "v": "z"}),
    )
    assert sorted((row["id"], row["v"]) for row in warehouse.rows()) == [(2, "z"), (3, "ab")]


@pytest.mark.long("rows with a key")
def test_a_column_that_the_mapping_drops_goes_from_rows_without_a_key(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = (("id", "int"), ("v", "int"), ("w", "int"), ("mail", "text"))
    warehouse.schemas = [
        schema(*columns, key=(), masked={}),
        schema(*columns[:3], key=(), version=2, masked={"mail": "drop"}),
        schema(*columns[:2], key=(), version=3, masked={"mail": "drop"}),
    ]
    row = {"v": 5, "w": 7, "mail": "clear@x"}
    warehouse.take(*(Change(op="c", seq=n, after={"id": n, **row}) for n in (1, 2)))
    warehouse.take(Change(op="d", seq=3, version=2, before={"id": 1, "v": 5, "w": 7}))
    assert warehouse.rows() == [{"id": 2, "v": 5, "w": 7}]
    warehouse.take(Change(op="c", seq=4, version=3, after={"id": 4, "v": 6}))
    rows = sorted(warehouse.rows(), key=lambda row: int(row["id"]))
    assert rows == [{"id": 2, "v": 5, "w": None}, {"id": 4, "v": 6, "w": None}]

    def written(*_: object, **__: object) -> None:
        raise AssertionError("written again")

    # The rows are written once for each of these.
    monkeypatch.setattr(type(warehouse.kept.tables), "replace", written)
    warehouse.take(Change(op="d", seq=5, version=3, before={"id": 2, "v": 5}))
    assert [row["id"] for row in warehouse.rows()] == [4]


def test_a_table_without_a_key_waits_if_a_new_column_has_unknown_values(
    warehouse: Warehouse,
) -> None:
    more = {"u": {"id": "u@1", "initial": {"unknown": "DEFAULT (uuid())"}}}
    warehouse.schemas = [
        schema(("id", "int"), key=()),
        schema(("id", "int"), ("u", "varchar(36)"), key=(), version=2, more=more),
    ]
    warehouse.take(Change(op="c", seq=1, after={"id": 1}))
    with pytest.raises(ValuesChanged, match=r"u: DEFAULT \(uuid\(\)\)"):
        warehouse.take(Change(op="d", seq=2, version=2, before={"id": 1, "u": "0-1"}))


@pytest.mark.long("values of other columns are converted")
def test_a_key_that_was_converted_is_found_again_after_a_reload(warehouse: Warehouse) -> None:
    warehouse.schemas = versions_of("decimal(10,2)", "int", of="id")
    warehouse.take(
        Change(op="c", seq=1, after={"id": "10.75", "v": 1}),
        Change(op="c", seq=2, after={"id": "7.00", "v": 2}),
    )
    warehouse.take(Change(op="d", seq=3, before={"id": "7.00", "v": 2}))
    with pytest.raises(ValuesChanged, match="changed the keys"):
        warehouse.take(
            Change(op="u", seq=4, version=2, before={"id": 11, "v": 1}, after={"id": 11, "v": 3})
        )
    warehouse.reload()
    assert [(int(row["id"]), row["v"]) for row in warehouse.rows()] == [(11, 3)]
