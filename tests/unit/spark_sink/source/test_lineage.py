"""The columns of a table through its versions."""

from __future__ import annotations

from typing import Any

from spark_sink.source.lineage import alterations, is_plain, names_after, placed, steps
from spark_sink.source.schemas import Column, Constant, TableVersion, parse_version
from tests.unit.spark_sink.history import schema

Columns = dict[str, dict[str, Any]]


def added(name: str, value: Any, mark: str = "1") -> Columns:
    return {name: {"id": f"{name}@{mark}", "initial": {"value": value}}}


def renamed(name: str, old: str) -> Columns:
    return {name: {"id": old}}


def versions(*found: tuple[str, Columns], is_keyed: bool = True) -> list[TableVersion]:
    """Versions by the names of their columns, in one text, and what is known of some; the first is the key."""
    return [
        parse_version(
            schema(
                *((name, "int") for name in names.split()),
                key=(names.split()[0],) if is_keyed else (),
                version=at,
                more=more,
            )
        )
        for at, (names, more) in enumerate(found, 1)
    ]


def present(*found: tuple[str, Columns], is_keyed: bool = True) -> list[dict[str, str]]:
    """Of each version, what its rows have in the present columns: a column's name, or a value."""
    found_ = versions(*found, is_keyed=is_keyed)
    chain = steps((one.key.version, one) for one in found_)
    return [{name: shown(one) for name, one in version.present} for version in placed(chain)]


def shown(one: Column | Constant) -> str:
    return one.name if isinstance(one, Column) else f"= {one.text}"


def test_without_more_than_names_each_version_has_its_own_columns() -> None:
    plain = versions(("a b", {}), ("a c", {}))
    assert is_plain(plain)
    assert [one.placed for one in placed(steps(enumerate(plain)))] == [None, None]


def test_a_new_column_has_its_first_value_in_rows_of_versions_before() -> None:
    found = present(
        ("a", {}), ("a b", added("b", 5)), ("a b c", {**added("b", 5), **added("c", None)})
    )
    assert found == [{"a": "a", "b": "= 5"}, {"a": "a", "b": "b"}, {"a": "a", "b": "b", "c": "c"}]


def test_a_value_that_is_not_known_is_not_guessed() -> None:
    more = {"b": {"id": "b@1", "initial": {"unknown": "DEFAULT (uuid())"}}}
    assert present(("a", {}), ("a b", more))[0] == {"a": "a"}
    (_, version) = versions(("a", {}), ("a b", more))
    initial = version.columns[1].initial
    assert initial is not None
    assert (initial.text, initial.reason) == (None, "DEFAULT (uuid())")


def test_a_column_that_was_dropped_and_added_again_is_another_one() -> None:
    again = added("b", 7, "2")
    assert present(("a b", {}), ("a b", again)) == [{"a": "a", "b": "= 7"}, {"a": "a", "b": "b"}]
    found = present(("a b", {}), ("a", {}), ("a b", again))
    assert found == [{"a": "a", "b": "= 7"}, {"a": "a", "b": "= 7"}, {"a": "a", "b": "b"}]


def test_a_dropped_column_keeps_its_name_until_another_one_takes_it() -> None:
    assert present(("a b", {}), ("a", {})) == [{"a": "a", "b": "b"}, {"a": "a"}]
    assert present(("a b", {}), ("b", renamed("b", "a")))[0] == {"b": "a"}


def test_images_of_a_table_without_a_key_lose_a_dropped_column() -> None:
    dropped = present(("a b", {}), ("a", {}), is_keyed=False)
    assert dropped == [{"a": "a"}, {"a": "a"}]


def test_values_are_altered_by_each_later_version_that_changes_the_type() -> None:
    kinds = ("decimal(10,2)", "int", "int", "bigint", "tinyint")
    found = [
        parse_version(schema(("id", "int"), ("v", kind), version=at))
        for at, kind in enumerate(kinds, 1)
    ]
    chain = steps((one.key.version, one) for one in found)
    assert [
        [len(one.altered) for _, one in version.present if isinstance(one, Column)]
        for version in placed(chain)
    ] == [[0, 2], [0, 1], [0, 1], [0, 1], [0, 0]]
    assert [(at, identity, kinds) for at, identity, _, kinds in alterations(chain)] == [
        (1, "v", ("decimal(10,2)", "int")),
        (4, "v", ("bigint", "tinyint")),
    ]


def test_character_sets_are_named_where_they_differ() -> None:
    def text(charset: str, **more: object) -> dict[str, dict[str, object]]:
        return {"v": {"column_type": "varchar(40)", "charset": charset, **more}}

    found = [
        parse_version(schema(("id", "int"), ("v", "varchar(40)"), version=at, more=one))
        for at, one in enumerate((text("utf8mb4"), text("latin1", nullable=False)), 1)
    ]
    ((*_, kinds),) = alterations(steps((one.key.version, one) for one in found))
    assert kinds == (
        "varchar(40) CHARACTER SET utf8mb4",
        "varchar(40) CHARACTER SET latin1 NOT NULL",
    )


def test_a_type_that_is_printed_for_the_first_time_alters_no_values() -> None:
    def unknown(*columns: tuple[str, str]) -> str:
        """When a value is not known, by the type and the printed type; empty if all stay as they are."""
        found = [
            schema(("id", "int"), ("v", kind), version=at, more={"v": {"column_type": printed}})
            for at, (kind, printed) in enumerate(columns, 1)
        ]
        chain = steps(enumerate(map(parse_version, found), 1))
        return "".join(how.unknown for _, _, how, _ in alterations(chain))

    # Records of earlier versions, and those of columns that are known only from rows, lack it.
    for kind, printed in (
        ("double", "double(10,2)"),
        ("float unsigned", "float(7,2) unsigned"),
        ("binary(16)", "uuid"),
        ("binary(4)", "inet4"),
        ("int unsigned", "int(5) unsigned zerofill"),
    ):
        assert unknown((kind, ""), (kind, printed)) == ""
        assert unknown((kind, printed), (kind, "")) == ""
    assert unknown(("double", "double"), ("double", "double(10,2)")) == "true"
    assert unknown(("binary(16)", "binary(16)"), ("binary(16)", "uuid")) == "true"
    # Any type of a later server, too, that is published as bytes.
    assert unknown(("binary(16)", "uuid"), ("binary(16)", "inet6")) == "true"
    assert unknown(("binary(16)", "uuid7"), ("binary(16)", "binary(16)")) == "true"
    assert unknown(("binary(16)", "uuid7"), ("binary(16)", "uuid7")) == ""
    for one, other in (("point", "geometrycollection"), ("geometry", "multipoint")):
        assert unknown((one, one), (other, other)) == ""
    assert unknown(("point", "point"), ("blob", "blob")) == "true"
    # As text, the digits and zeros count that only it states.
    text = ("varchar(20)", "varchar(20)")
    for kind in ("int unsigned", "float"):
        assert unknown((kind, ""), text) == "true"
        assert unknown((kind, kind), text) != "true"
    assert unknown(("int", ""), text) != "true"
    # It may be a UUID.
    assert unknown(("char(36)", "char(36)"), ("binary(16)", "")) == "true"


def test_a_renamed_column_is_the_same_through_chains_and_swaps() -> None:
    chain = present(("a", {}), ("b", renamed("b", "a")), ("c", renamed("c", "a")))
    assert chain == [{"c": "a"}, {"c": "b"}, {"c": "c"}]
    swap = present(("a b", {}), ("a b", {**renamed("a", "b"), **renamed("b", "a")}))
    assert swap == [{"b": "a", "a": "b"}, {"a": "a", "b": "b"}]
    free = {**renamed("b", "a"), **added("a", 3)}
    assert present(("a", {}), ("b a", free)) == [{"b": "a", "a": "= 3"}, {"b": "b", "a": "a"}]


def test_a_column_whose_history_was_lost_is_found_by_its_name() -> None:
    found = present(("a", {}), ("b", renamed("b", "a")), ("b", {}), ("b c", added("c", 1)))
    assert found[0] == {"b": "a", "c": "= 1"}
    # A mapping names it as before, though the source has renamed it.
    assert present(("x", {}), ("x", renamed("x", "a"))) == [{"x": "x"}, {"x": "x"}]


def test_a_name_in_another_case_is_the_same_name() -> None:
    chain = steps(
        (one.key.version, one) for one in versions(("A b", {}), ("a B", renamed("a", "A")))
    )
    assert names_after(chain) == {"A": "a", "b": "B"}


def test_numbers_keep_their_text() -> None:
    (one,) = versions(("a b", {**added("a", 18446744073709551615), **added("b", 0.1)}))
    assert [column.initial.text for column in one.columns if column.initial] == [
        "18446744073709551615",
        "0.1",
    ]


def test_a_version_has_the_statements_that_altered_a_column_since_in_their_order() -> None:
    kinds = ("varchar(9)", "varchar(5)", "varchar(7)", "varchar(3)", "char(2)")
    chain = steps(
        (at, parse_version(schema(("a", "int"), ("b", kind), key=("a",), version=at)))
        for at, kind in enumerate(kinds, 1)
    )
    altered = [how for _, _, how, _ in alterations(chain)]
    assert [how.sql for how in altered] == [
        "left({v}, 5)",
        "left({v}, 3)",
        "rtrim(' ', left({v}, 2))",
    ]
    columns = [dict(one.present)["b"] for one in placed(chain)]
    since = [one.altered for one in columns if isinstance(one, Column)]
    assert since == [tuple(altered[at:]) for at in (0, 1, 1, 2, 3)]
