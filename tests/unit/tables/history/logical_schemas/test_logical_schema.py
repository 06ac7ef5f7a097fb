"""The schema of a logical table after each kind of DDL on its shards, in any order."""

from __future__ import annotations

import itertools

import pytest

from tables.history.logical_schemas.decisions import Verb
from tables.history.logical_schemas.logical_schema import State, logical_schema
from tests.unit.tables.history.logical_schemas.made import NAME, Shards, lacking, text_of
from wire.table_version import Column

ID = "id int not null"


def test_equal_shards_have_the_columns_of_each() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; note varchar(80)")
    assert shards.schema.state is State.EQUAL
    assert text_of(shards.schema) == ["id int not null", "note varchar(80)"]
    assert shards.schema.primary_key == ("id",)
    assert shards.schema.changes == ()


def test_an_added_column_is_united_until_all_shards_have_it() -> None:
    shards = Shards("a1", "b1", columns=ID)
    schema = shards.alter("b1", f"{ID}; note varchar(80) not null")
    assert schema.state is State.CONVERGING
    assert lacking(schema) == {"add note varchar(80) utf8mb4 not null": ["a1"]}
    # A row of the other shard has no such column.
    assert text_of(schema) == ["id int not null", "note varchar(80)"]
    schema = shards.alter("a1", f"{ID}; note varchar(80) not null")
    assert schema.state is State.EQUAL
    assert text_of(schema) == ["id int not null", "note varchar(80) not null"]


def test_a_dropped_column_stays_until_no_shard_has_it() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int not null; y int")
    schema = shards.alter("a2", f"{ID}; y int")
    assert schema.state is State.CONVERGING
    assert lacking(schema) == {"drop x": ["a1", "b1"]}
    assert text_of(schema) == ["id int not null", "x int", "y int"]
    shards.alter("a1", f"{ID}; y int")
    schema = shards.alter("b1", f"{ID}; y int")
    assert (schema.state, text_of(schema)) == (State.EQUAL, ["id int not null", "y int"])


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("int", "bigint"),
        ("int unsigned", "bigint"),
        ("varchar(80)", "varchar(200)"),
        ("varchar(80)", "text"),
        ("decimal(10,2)", "decimal(12,2)"),
        ("enum('a','b')", "enum('a','b','c')"),
        ("varbinary(8)", "blob"),
        ("float", "double"),
        ("varchar(80) latin1", "varchar(80) utf8mb4"),
        ("varchar(80) utf8mb3", "varchar(80) utf8mb4"),
        ("int not null", "int"),
    ],
)
@pytest.mark.parametrize("widens", [True, False])
def test_a_wider_or_narrower_column_converges_with_the_wider_one_in_between(
    narrow: str, wide: str, *, widens: bool
) -> None:
    old, new = (narrow, wide) if widens else (wide, narrow)
    shards = Shards("a1", "b1", columns=f"{ID}; x {old}")
    schema = shards.alter("b1", f"{ID}; x {new}")
    assert schema.state is State.CONVERGING
    (change,) = schema.changes
    assert [str(one) for one in change.lacking] == ["a:shop.orders_1"]
    wider = Shards("a1", columns=f"{ID}; x {wide}").schema.columns[1]
    found = schema.columns[1]
    assert (found.type, found.charset, found.nullable) == (
        wider.type,
        wider.charset,
        wider.nullable,
    )
    schema = shards.alter("a1", f"{ID}; x {new}")
    assert schema == logical_schema(NAME, shards.shards)
    assert schema.state is State.EQUAL
    assert text_of(schema) == text_of(Shards("a1", columns=f"{ID}; x {new}").schema)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "varchar(80)"),
        ("int", "int unsigned"),
        ("decimal(10,2)", "decimal(10,4)"),
        ("datetime", "datetime(6)"),
        ("enum('a','b')", "enum('a','c')"),
        ("varchar(80) latin1", "varchar(80) gbk"),
        ("varchar(80)", "varbinary(80)"),
    ],
)
def test_types_of_which_none_contains_the_other_are_a_conflict(one: str, other: str) -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x {one}")
    schema = shards.alter("b1", f"{ID}; x {other}")
    assert schema.state is State.CONFLICT
    assert schema.columns[1].type is None
    assert shards.alter("a1", f"{ID}; x {other}").state is State.EQUAL


def test_a_renamed_column_is_a_conflict_until_all_shards_renamed_it() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int; y int")
    schema = shards.alter("a1", f"{ID}; z int; y int")
    assert schema.state is State.CONFLICT
    assert lacking(schema) == {"rename x to z": ["a2", "b1"]}
    assert text_of(schema) == ["id int not null", "x int", "z int", "y int"]
    shards.alter("a2", f"{ID}; z int; y int")
    assert shards.alter("b1", f"{ID}; z int; y int").state is State.EQUAL


def test_a_column_renamed_and_renamed_back_is_no_difference() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int")
    shards.alter("a1", f"{ID}; z int")
    assert shards.alter("a1", f"{ID}; x int").state is State.EQUAL


def test_columns_added_by_two_shards_in_different_order_are_no_rename() -> None:
    shards = Shards("a1", "b1", columns=ID)
    shards.alter("a1", f"{ID}; x int")
    schema = shards.alter("b1", f"{ID}; y int")
    assert schema.state is State.CONVERGING
    assert lacking(schema) == {"add x int": ["b1"], "add y int": ["a1"]}
    shards.alter("a1", f"{ID}; x int; y int")
    schema = shards.alter("b1", f"{ID}; y int; x int")
    assert schema.state is State.EQUAL
    assert text_of(schema) == ["id int not null", "x int", "y int"]


def test_what_a_shard_changed_last_is_what_the_others_lack() -> None:
    shards = Shards("a1", "b1", "b2", columns=ID)
    for name in ("a1", "b1", "b2"):
        shards.alter(name, f"{ID}; x int")
    assert lacking(shards.alter("a1", ID)) == {"drop x": ["b1", "b2"]}
    shards.alter("b1", ID)
    # It was withdrawn there.
    assert lacking(shards.alter("a1", f"{ID}; x int")) == {"add x int": ["b1"]}
    shards.alter("b1", f"{ID}; x bigint")
    assert lacking(shards.alter("b2", f"{ID}; x bigint")) == {"modify x to bigint": ["a1"]}
    assert lacking(shards.alter("b2", f"{ID}; x int")) == {"modify x to int": ["b1"]}


def test_another_key_is_a_conflict() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; region int not null")
    schema = shards.alter("b1", f"{ID}; region int not null", key="id,region")
    assert schema.state is State.CONFLICT
    assert lacking(schema) == {"key (id, region)": ["a1"]}
    assert schema.primary_key is None
    schema = shards.alter("a1", f"{ID}; region int not null", key="id,region")
    assert (schema.state, schema.primary_key) == (State.EQUAL, ("id", "region"))


def test_a_key_in_one_shard_only_is_a_conflict() -> None:
    shards = Shards("a1", columns=ID)
    assert shards.alter("b1", ID, key="").state is State.CONFLICT


def test_comments_defaults_and_display_widths_are_no_difference() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int")
    before = shards.schema
    newest = shards.real["b1"].versions[1]
    columns = newest.definition.columns
    widened = Column(name="x", type="int", nullable=True, charset=None, column_type="int(11)")
    object.__setattr__(newest.definition, "columns", (columns[0], widened))
    assert shards.schema.state is State.EQUAL
    assert shards.schema.columns == before.columns
    bare = Column(name="x", type="int", nullable=True, charset=None, column_type="int(5)")
    object.__setattr__(newest.definition, "columns", (columns[0], bare))
    assert shards.schema.state is State.EQUAL
    assert shards.schema.columns[1].column_type is None


def test_a_column_in_another_case_is_the_same() -> None:
    shards = Shards("a1", columns=f"{ID}; Note int")
    assert shards.alter("b1", f"{ID}; note int", key="ID").state is State.EQUAL


def test_a_new_shard_that_lacks_a_column_converges() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int; y int")
    schema = shards.alter("b2", f"{ID}; x int")
    assert schema.state is State.CONVERGING
    assert lacking(schema) == {"add y int": ["b2"]}
    assert shards.alter("b2", f"{ID}; x int; y int").state is State.EQUAL


def test_a_shard_that_no_rule_names_any_more_does_not_count() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int")
    assert shards.alter("b1", ID).state is State.CONVERGING
    shards.drop("a1")
    assert (shards.schema.state, text_of(shards.schema)) == (State.EQUAL, ["id int not null"])


def test_a_dropped_shard_does_not_count_and_is_listed() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int")
    shards.alter("a1", ID)
    shards.alter("a2", ID)
    shards.dropped["b1"] = 5
    assert (shards.schema.state, text_of(shards.schema)) == (State.EQUAL, ["id int not null"])
    found = {one["name"]: one["dropped_ms"] for one in shards.schema.to_json()["shards"]}
    assert found == {"a:shop.orders_1": None, "a:shop.orders_2": None, "b:shop.orders_1": 5}
    assert shards.decide(Verb.EXCLUDE, "a1") == ""
    assert "the last real table" in shards.decide(Verb.EXCLUDE, "a2")
    shards.dropped |= {"a1": 6, "a2": 7}
    # Nothing is left to compare; the columns stay.
    assert [one.name for one in shards.schema.columns] == ["id", "x"]


def test_the_shards_may_be_given_in_any_order() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int")
    shards.alter("a2", f"{ID}; x bigint; y int")
    shards.alter("b1", ID)
    found = {
        repr(logical_schema(NAME, each).to_json()) for each in itertools.permutations(shards.shards)
    }
    assert len(found) == 1


def test_an_excluded_shard_does_not_count_until_it_is_included() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int")
    shards.alter("b1", f"{ID}; x varchar(9)")
    assert shards.decide(Verb.EXCLUDE, "b1") == ""
    assert (shards.schema.state, shards.schema.columns[1].type) == (State.ACCEPTED, "int")
    # A difference among the others is one still.
    assert shards.alter("a2", ID).state is State.CONVERGING
    shards.alter("a2", f"{ID}; x int")
    assert shards.decide(Verb.INCLUDE, "b1") == ""
    assert shards.schema.state is State.CONFLICT


def test_an_excluded_shard_that_differs_no_more_leaves_the_table_equal() -> None:
    shards = Shards("a1", "b1", columns=ID)
    shards.alter("b1", f"{ID}; x int")
    assert shards.decide(Verb.EXCLUDE, "b1") == ""
    assert shards.schema.state is State.ACCEPTED
    assert shards.alter("b1", ID).state is State.EQUAL


def test_the_last_shard_cannot_be_excluded_nor_an_unknown_one() -> None:
    shards = Shards("a1", "b1", columns=ID)
    assert "no real table c:shop.orders_1" in shards.decide(Verb.EXCLUDE, "c1")
    assert shards.decide(Verb.EXCLUDE, "a1") == ""
    assert "the last real table" in shards.decide(Verb.EXCLUDE, "b1")
    assert "no real table" in shards.decide(Verb.INCLUDE, "c1")


def test_an_accepted_difference_is_accepted_until_there_is_another() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int")
    shards.alter("b1", f"{ID}; x int; y int")
    assert shards.decide(Verb.ACCEPT) == ""
    assert shards.schema.state is State.ACCEPTED
    # The same difference, on another shard too.
    assert shards.alter("a2", f"{ID}; x int; y int").state is State.ACCEPTED
    assert shards.alter("a2", f"{ID}; x varchar(9); y int").state is State.CONFLICT
    assert shards.alter("a2", f"{ID}; x int; y int").state is State.ACCEPTED
    assert shards.alter("a1", f"{ID}; x int; y int").state is State.EQUAL


def test_only_the_difference_that_an_operator_saw_is_accepted() -> None:
    shards = Shards("a1", "b1", columns=ID)
    assert "do not differ" in shards.decide(Verb.ACCEPT, value="0123456789abcdef")
    shards.alter("b1", f"{ID}; y int")
    assert "in another way" in shards.decide(Verb.ACCEPT, value="0123456789abcdef")
    assert shards.schema.state is State.CONVERGING


def test_a_taken_type_settles_a_conflict_of_the_types_that_it_was_taken_for() -> None:
    shards = Shards("a1", "a2", "b1", columns=f"{ID}; x int")
    shards.alter("b1", f"{ID}; x varchar(9)")
    assert shards.decide(Verb.TAKE_TYPE, "x", "varchar(9)") == ""
    found = shards.schema.columns[1]
    assert (shards.schema.state, found.type, found.charset) == (
        State.ACCEPTED,
        "varchar(9)",
        "utf8mb4",
    )
    # Another column that differs is not settled by it.
    assert shards.alter("b1", f"{ID}; x varchar(9); y int").state is State.CONVERGING
    shards.alter("b1", f"{ID}; x varchar(9)")
    assert shards.alter("a2", f"{ID}; x datetime").state is State.CONFLICT
    shards.alter("a2", f"{ID}; x varchar(9)")
    assert shards.alter("a1", f"{ID}; x varchar(9)").state is State.EQUAL


def test_a_type_that_is_neither_a_shards_nor_wider_is_refused() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int; y int")
    shards.alter("b1", f"{ID}; x int unsigned; y int")
    assert "neither is a type" in shards.decide(Verb.TAKE_TYPE, "x", "smallint")
    assert "neither is a type" in shards.decide(Verb.TAKE_TYPE, "x", "bigint, y int")
    assert "neither is a type" in shards.decide(Verb.TAKE_TYPE, "x", "decimal")
    assert "no column z" in shards.decide(Verb.TAKE_TYPE, "z", "bigint")
    assert "all real tables have y as int" in shards.decide(Verb.TAKE_TYPE, "y", "bigint")
    assert shards.schema.state is State.CONFLICT
    assert shards.decide(Verb.TAKE_TYPE, "x", "bigint") == ""
    assert (shards.schema.state, shards.schema.columns[1].type) == (State.ACCEPTED, "bigint")


def test_what_was_accepted_or_taken_can_be_opened_again() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int")
    shards.alter("b1", f"{ID}; x varchar(9); y int")
    shards.decide(Verb.TAKE_TYPE, "x", "varchar(9)")
    shards.decide(Verb.ACCEPT)
    found = [shards.schema.state]
    assert shards.decide(Verb.REOPEN) == ""
    found.append(shards.schema.state)
    shards.decide(Verb.ACCEPT)
    found.append(shards.schema.state)
    assert found == [State.ACCEPTED, State.CONFLICT, State.ACCEPTED]


def test_what_each_shard_lacks_is_in_the_record() -> None:
    shards = Shards("a1", "b1", columns=f"{ID}; x int")
    found = shards.alter("b1", f"{ID}; x bigint; y int").to_json()
    lacks = {one["name"]: one["lacks"] for one in found["shards"]}
    assert lacks == {
        "a:shop.orders_1": ["modify x to bigint", "add y int"],
        "b:shop.orders_1": [],
    }
    assert found["state"] == "converging"
    assert [one["done"] for one in found["changes"]] == [["b:shop.orders_1"]] * 2
