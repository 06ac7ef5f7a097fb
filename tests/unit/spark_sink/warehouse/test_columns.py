"""What a table's rows get in new and renamed columns, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from spark_sink.batch.compact import ALTERED, reason_sql
from spark_sink.errors import KeyChanged, TypeConflict
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.columns import Asked, Move, Traced, converted, row_sql, traced
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.shape import Shape
from tests.unit.spark_sink.history import Image, schema
from wire.table_version import VersionKey

NAME = ("shop", "t")
SHOP = Source("shop", *NAME)
HELD = Shape(*NAME, (("id", "int"), ("a", "int")), ("id",))
FOLLOWED = (("shop", *NAME, 1),)
NO_ROWS = Asked(newest=lambda _: -1, is_only=lambda _: True)
ONLY = Asked(newest=lambda _: 1, is_only=lambda _: True)
SHARED = replace(ONLY, is_only=lambda _: False)


def added(name: str, value: object) -> Image:
    return {name: {"id": f"{name}@1", "initial": {"value": value}}}


def version(names: str, number: int, more: Image | None = None, **other: object) -> str:
    own = {"table": "t", "key": ("id",), **other}
    columns = ((name, "int") for name in names.split())
    return schema(*columns, version=number, more=more, **own)  # type: ignore[arg-type]


def brought(
    values: Sequence[str],
    *,
    held: Shape | None = HELD,
    asked: Asked = ONLY,
    of: Sequence[tuple[str, int]] = (("t", 2),),
    apart: bool = False,
) -> Traced:
    """What follows for the table from a batch with rows of some versions."""
    book = SchemaBook(lambda: values)
    keys = [VersionKey("shop", "shop", table, number) for table, number in of]
    versions = list(book.versions(keys).values())
    return traced(book, held, versions, asked, name=NAME, apart=apart)


def test_where_columns_have_only_names_nothing_is_asked_and_nothing_followed() -> None:
    found = brought([version("id a", 1), version("id a b", 2)], asked=NO_ROWS)
    assert (found.moves, found.followed) == ([], ())
    assert found.wanted.columns == (*HELD.columns, ("b", "int"))


def test_rows_up_to_the_version_that_is_followed_get_what_is_new_since() -> None:
    values = [version("id a", 1), version("id a b", 2, added("b", 5)), version("id a", 3)]
    held = replace(HELD, followed=FOLLOWED)
    found = brought(values, held=held)
    (move,) = found.moves
    assert (move.column, move.source, move.until) == ("b", SHOP, 1)
    assert found.wanted.followed == (("shop", *NAME, 2),)
    # What is followed already is not done again.
    assert brought(values, held=found.wanted).moves == []
    assert brought(values, held=found.wanted, of=[("t", 1)]).wanted == found.wanted


def test_rows_of_a_warehouse_of_an_earlier_version_say_up_to_where_they_are() -> None:
    values = [
        version("id a", 1),
        version("id a b", 2, added("b", 5)),
        version("id a b", 3, added("b", 5)),
    ]
    newer = replace(ONLY, newest=lambda _: 2)
    wide = replace(HELD, columns=(*HELD.columns, ("b", "int")))
    assert brought(values, held=wide, asked=newer, of=[("t", 3)]).moves == []
    assert [one.until for one in brought(values, held=wide, of=[("t", 1), ("t", 3)]).moves] == [1]
    assert brought(values, held=None, asked=NO_ROWS, of=[("t", 3)]).moves == []


def test_a_column_of_nulls_needs_no_write() -> None:
    values = [version("id a", 1), version("id a b", 2, added("b", None))]
    assert brought(values).writes() == []


def test_a_renamed_column_has_its_new_name_in_the_shape_and_the_key() -> None:
    values = [
        version("id a", 1),
        version("n b", 2, {"n": {"id": "id"}, "b": {"id": "a"}}, key=("n",)),
    ]
    found = brought(values)
    assert found.wanted.columns == (("n", "int"), ("b", "int"))
    assert found.wanted.key == ("n",)
    assert row_sql(found, found.wanted)[:2] == [
        "CAST(`id` AS int) AS `n`",
        "CAST(`a` AS int) AS `b`",
    ]
    with pytest.raises(KeyChanged):
        _ = brought(values, asked=SHARED).wanted


def test_where_others_fill_the_table_too_a_renamed_column_stays_for_them() -> None:
    values = [version("id a", 1), version("id b", 2, {"b": {"id": "a"}})]
    found = brought(values, asked=SHARED)
    assert found.wanted.columns == (*HELD.columns, ("b", "int"))
    assert found.moves == [Move(column="b", source=SHOP, until=1, taken_from="a", names=("b",))]
    _, a, b, *_ = row_sql(found, found.wanted)
    where = "__destination = 'shop' AND __schema <= 1"
    assert a == f"if({where}, NULL, CAST(`a` AS int)) AS `a`"
    assert b == f"if({where}, CAST(`a` AS int), CAST(NULL AS int)) AS `b`"


def test_a_rename_that_was_interrupted_is_finished_whatever_came_since() -> None:
    values = [
        version("id a", 1),
        version("n b", 2, {"n": {"id": "id"}, "b": {"id": "a"}}, key=("n",)),
        version("n c", 3, {"n": {"id": "id"}, "c": {"id": "a"}}, key=("n",)),
    ]
    # One column has its new name, the other and the key not yet.
    half = replace(HELD, columns=(("n", "int"), ("a", "int")), followed=FOLLOWED)
    found = brought(values, held=half)
    assert (found.begun, found.free_names()) == ({"id": "n"}, {"a": "b"})
    assert (found.wanted.columns, found.wanted.key) == ((("n", "int"), ("b", "int")), ("n",))
    # Both have, and a further version is known by now.
    both = replace(half, columns=(("n", "int"), ("b", "int")))
    assert brought(values, held=both).moves == []
    later = brought(values, held=both, of=[("t", 3)])
    assert (later.free_names(), later.wanted.columns) == ({"b": "c"}, (("n", "int"), ("c", "int")))


def test_a_column_that_takes_the_name_of_one_of_another_type_replaces_it() -> None:
    again = {"a": {"id": "a@2", "initial": {"value": "x"}, "type": "text"}}
    values = [version("id a", 1), version("id a", 2, again)]
    assert brought(values).wanted.columns == (("id", "int"), ("a", "string"))
    with pytest.raises(TypeConflict):
        _ = brought(values, asked=SHARED).wanted


def test_rows_from_before_a_rename_of_the_table_have_the_columns_of_its_earlier_name() -> None:
    b = added("b", 5)
    values = [
        version("id a", 1, table="old"), version("id a b", 2, b, table="old"),
        version("id", 1), version("id a b", 2, b), version("id a b c", 3, {**b, **added("c", 6)}),
    ]  # fmt: skip
    moved = replace(
        HELD, columns=(*HELD.columns, ("b", "int")), followed=(("shop", "shop", "old", 2),)
    )
    found = brought(values, held=moved, asked=replace(ONLY, newest=lambda _: 0))
    assert found.moves == []
    later = brought(values, held=found.wanted, of=[("t", 3)])
    assert [(one.column, one.until) for one in later.moves] == [("c", 2)]
    # A row of the earlier name that comes late.
    (late,) = brought(values, held=later.wanted, of=[("old", 1)]).versions
    assert [name for name, _ in late.present] == ["id", "a", "b", "c"]


def commented(names: str, number: int, table: str = "t", **comments: str) -> str:
    body = json.loads(
        version(names, number, {n: {"comment": c} for n, c in comments.items()}, table=table)
    )
    return json.dumps({**body, "comment": comments.get("own", "")})


def test_comments_are_those_of_the_newest_version_and_stay_in_a_batch_without_rows() -> None:
    values = [commented("id a", 1, a="old", own="a table"), commented("id a", 2, a="new")]
    found = brought(values, held=None, asked=NO_ROWS, of=[("t", 1)])
    assert found.wanted.comments == (("a", "new"),)
    held = replace(HELD, comments=(("", "a table"), ("a", "old")))
    assert brought(values, held=held).wanted.comments == (("a", "new"),)
    assert brought(values, held=held, of=[]).wanted == held


def test_a_comment_of_several_source_tables_stays_as_it_came_first() -> None:
    values = [
        commented("id a", 1, "t_0", a="first"),
        commented("id a", 1, "t_1", a="second", id="key"),
    ]
    held = replace(HELD, apart=True, comments=(("a", "first"),))
    found = brought(values, held=held, of=[("t_1", 1)], apart=True)
    assert found.wanted.comments == (("id", "key"), ("a", "first"))


def test_a_version_that_cannot_be_read_does_not_stop_the_others() -> None:
    odd = schema(("id", "int"), ("a", "nonsense"), version=1)
    assert [one.column for one in brought([odd, version("id a b", 2, added("b", 5))]).moves] == []


def of_kind(kind: str, number: int, table: str = "t", more: Image | None = None) -> str:
    """A version with a column `v` of that type; the empty type omits it."""
    columns = [("id", "int"), *([("v", kind)] if kind else [])]
    return schema(*columns, version=number, table=table, more=more and {"v": more})


def test_a_column_that_a_table_without_a_key_has_lost_is_emptied_once() -> None:
    values = [version("id a w", 1, key=()), version("id a", 2, key=())]
    held = replace(HELD, key=(), columns=(*HELD.columns, ("w", "int")), followed=FOLLOWED)
    found = brought(values, held=held)
    assert [(one.column, one.until, one.is_dropped) for one in found.moves] == [("w", 1, True)]
    again = brought(values, held=found.wanted)
    assert (again.moves, again.wanted) == ([], found.wanted)


def test_a_column_that_the_mapping_drops_is_no_unknown_value_of_images() -> None:
    values = [
        version("id a w", 1, key=(), masked={}),
        version("id a", 2, key=(), masked={"w": "drop"}),
    ]
    held = replace(HELD, key=(), columns=(*HELD.columns, ("w", "int")), followed=FOLLOWED)
    found = brought(values, held=held)
    assert [(one.column, one.is_hidden) for one in found.moves] == [("w", True)]
    assert dict(found.wanted.columns).keys() == {"id", "a"}
    assert brought(values, held=found.wanted).moves == []


def test_rows_that_a_rename_moved_are_altered_by_what_was_read_only_after_it() -> None:
    text = ("v", "string")
    values = [
        of_kind("time", 1, "o"), of_kind("time", 2, "o"),
        of_kind("time(3)", 3, "o"), of_kind("time(3)", 1),
    ]  # fmt: skip
    # The rows were moved before the last ones of the earlier name were read.
    moved = replace(HELD, columns=(HELD.columns[0], text), followed=(("shop", "shop", "o", 2),))
    zero = replace(ONLY, newest=lambda _: 0)
    found = brought(values, held=moved, asked=zero, of=[("o", 3), ("t", 1)])
    assert [(one.below, one.done, one.is_stored) for one in found.conversions] == [(1, 0, True)]
    # Those of the earlier name that come later still are converted by themselves.
    for batch in ([("o", 3)], [("o", 2)], [("t", 1)]):
        late = brought(values, held=found.wanted, asked=zero, of=batch)
        assert [one for one in late.conversions if one.is_stored] == []
    assert found.followed == (("shop", "shop", "o", 3), ("shop", *NAME, 1))
    # The same if nothing was to be followed before.
    first = values[1:]
    plain = replace(moved, followed=())
    found = brought(first, held=plain, asked=zero, of=[("o", 3), ("t", 1)])
    assert [(one.below, one.done, one.is_stored) for one in found.conversions] == [(1, 0, True)]
    # The same if only versions of the present name are known.
    values = [first[2], of_kind("time(6)", 2)]
    found = brought(values, held=plain, asked=zero, of=[("t", 1), ("t", 2)])
    assert [(one.below, one.done, one.is_stored) for one in found.conversions] == [(2, 0, True)]
    # A column that was added meanwhile is filled in the same way.
    b = added("b", 5)
    values = [version("id a", 1, table="o"), version("id a b", 2, b, table="o"),
              version("id a b", 1, b)]  # fmt: skip
    moved = replace(HELD, followed=(("shop", "shop", "o", 1),))
    found = brought(values, held=moved, asked=zero, of=[("o", 2), ("t", 1)])
    assert [(one.column, one.until) for one in found.moves] == [("b", 0)]
    assert brought(values, held=found.wanted, asked=zero, of=[("o", 2)]).moves == []


def test_rows_that_a_rename_moved_are_not_altered_as_an_earlier_table_of_that_name() -> None:
    values = [
        of_kind("varchar(9)", 1, "o"),
        of_kind("varchar(9)", 1), of_kind("varchar(2)", 2), of_kind("varchar(9)", 3),
    ]  # fmt: skip
    zero = replace(ONLY, newest=lambda _: 0)
    moved = replace(HELD, columns=(HELD.columns[0], ("v", "string")))
    for followed in ((), (("shop", "shop", "o", 1),)):
        held = replace(moved, followed=followed)
        found = brought(values, held=held, asked=zero, of=[("t", 3)])
        assert [one for one in found.conversions if one.is_stored] == []
    # What has happened since is done in one step.
    values[3] = of_kind("varchar(4)", 3)
    found = brought(values, held=held, asked=zero, of=[("t", 3)])
    stored = [(one.below, one.text()) for one in found.conversions if one.is_stored]
    assert stored == [(3, "v from varchar(9) to varchar(4)")]
    assert [one for one in brought(values, held=found.wanted).conversions if one.is_stored] == []


def test_a_column_that_was_added_and_altered_is_filled_with_the_altered_value() -> None:
    def t(value: str) -> Image:
        return {"id": "v@1", "initial": {"value": value}}

    values = [
        of_kind("", 1),
        of_kind("time", 2, more=t("12:00:00")),
        of_kind("time(3)", 3, more=t("12:00:00.000")),
    ]
    held = replace(HELD, columns=(HELD.columns[0],), followed=FOLLOWED)
    found = brought(values, held=held, of=[("t", 2), ("t", 3)])
    (move,) = found.moves
    assert move.constant is not None
    assert move.constant.text == "12:00:00.000"
    assert [one for one in found.conversions if one.is_stored] == []
    # Rows that have the column already are converted.
    wide = replace(HELD, columns=(HELD.columns[0], ("v", "string")), followed=(("shop", *NAME, 2),))
    found = brought(values, held=wide, of=[("t", 3)])
    assert [one.is_stored for one in found.conversions] == [True]


def test_rows_that_are_at_a_version_do_not_take_the_steps_to_it() -> None:
    def size(steps: int, *, merged: int = 1) -> int:
        kinds = ("int", "bigint")
        values = [
            schema(("id", "int"), ("a", kinds[number % 2]), version=number)
            for number in range(1, 2 * steps + 1)
        ]
        followed = (("shop", *NAME, merged),)
        held = replace(HELD, columns=(("id", "int"), ("a", "bigint")), followed=followed)
        found = brought(values, held=held, of=[("t", 2 * steps)])
        assert len(found.conversions) == steps
        return len(converted(found, held, held)["a"])

    # Of one step the numbers of versions have more digits.
    assert size(10, merged=18) <= size(1) + 3


def test_what_finds_a_lost_value_names_its_type_once_after_many_alterations() -> None:
    def reason(steps: int) -> str:
        kinds = ["varchar(9)", *("json" if nth % 2 else "varchar(9)" for nth in range(1, steps))]
        values = [of_kind(kind, number) for number, kind in enumerate(kinds, start=1)]
        found = brought(values, of=[("t", 1), ("t", steps)])
        first = next(one for one in found.versions if one.key.version == 1)
        return reason_sql(found.wanted, first.columns, first.present)

    fault = f"{ALTERED}v (varchar(9))"
    assert reason(2).count(f"'{fault}'") == reason(12).count(f"'{fault}'") == 1
    assert len(reason(12)) == len(reason(3))


def test_each_shard_adds_to_the_expression_of_texts_without_a_value_and_does_not_multiply_it() -> (
    None
):
    more: Image = {"d": {"id": "d@1", "initial": {"value": "2026-01-01"}}}

    def size(shards: int) -> int:
        names = [f"t{number}" for number in range(shards)]
        values = [schema(("id", "int"), table=name) for name in names]
        values += [
            schema(("id", "int"), ("d", "date"), table=name, version=2, more=more) for name in names
        ]
        followed = tuple(("shop", "shop", name, 1) for name in names)
        held = Shape(*NAME, (("id", "int"),), ("id",), apart=True, followed=followed)
        found = brought(values, held=held, asked=SHARED, of=[(one, 2) for one in names], apart=True)
        assert len(found.moves) == shards
        return len(row_sql(found, found.wanted)[-1])

    one, two, eight = map(size, (1, 2, 8))
    assert eight == one + 7 * (two - one)
