"""The differences between two definitions."""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.ddl.definition import Index, Table
from tables.history.differences import differences, witnessed
from tests.unit.tables.made import LATIN, column, table

KEY = Index(
    name="by_a", columns=("a", ""), parts=("(10) DESC", "((`a` + 1))"), options="USING BTREE"
)


def described(old: Table | None, new: Table | None) -> list[str]:
    return [str(one) for one in differences(old, new)]


def test_columns_that_came_went_and_changed_are_reported_in_their_order() -> None:
    old = table("a", "b", "c")
    changed = replace(column("b", "bigint"), nullable=False, definition="DEFAULT 7", invisible=True)
    new = replace(old, columns=(old.columns[0], changed, old.columns[3], column("d")))
    assert described(old, new) == [
        "- column a: int",
        "~ column b: int -> bigint NOT NULL DEFAULT 7 INVISIBLE",
        "+ column d: int",
    ]


def test_only_the_order_of_what_both_have_is_compared() -> None:
    old = table("a", "b")
    new = replace(old, columns=(old.columns[2], column("x"), old.columns[0]))
    assert described(old, new) == [
        "- column a: int",
        "+ column x: int",
        "~ order: (id, b) -> (b, id)",
    ]


def test_keys_character_sets_and_options_are_reported() -> None:
    old = replace(table("a"), indexes=(KEY,))
    new = replace(
        old,
        indexes=(
            replace(KEY, unique=True, parts=(), columns=("a",), options=""),
            Index(name="PRIMARY", columns=("id",), unique=True),
        ),
        charset=LATIN.charset,
        collation=LATIN.collation,
        options="ENGINE=InnoDB",
    )
    assert described(old, new) == [
        "~ key by_a: (a(10) DESC, ((`a` + 1))) USING BTREE -> UNIQUE (a)",
        "+ primary key: (id)",
        "~ character set: utf8mb4 COLLATE utf8mb4_0900_ai_ci -> latin1 COLLATE latin1_swedish_ci",
        "~ options:  -> ENGINE=InnoDB",
    ]


def test_a_table_that_is_only_in_one_of_them_is_one_difference() -> None:
    assert described(None, table("a")) == ["+ table: 2 column(s)"]
    assert described(table(), None) == ["- table: 1 column(s)"]
    assert described(None, None) == []


def test_what_rows_do_not_depend_on_is_not_witnessed() -> None:
    old = table("a")
    plain = replace(old.columns[1], definition="DEFAULT 7 COMMENT 'x'")
    new = replace(old, columns=(old.columns[0], plain), indexes=(KEY,), options="ENGINE=InnoDB")
    assert witnessed(old, new) == []
    generated = replace(plain, generated="stored")
    found = witnessed(old, replace(old, columns=(old.columns[0], generated)))
    assert [str(one) for one in found] == ["~ column a: int -> int STORED"]
