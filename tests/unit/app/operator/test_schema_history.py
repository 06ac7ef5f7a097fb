"""The history of tables: versions, differences, users, and statements to recreate them."""

from typing import Any

import pytest

from app.operator import commands
from tests.unit.app.operator.histories import Asked, describe, options_of, story
from tests.unit.tables.made import UUID

LIFE = (
    "ALTER TABLE orders ADD a INT",
    "ALTER TABLE orders MODIFY a BIGINT NOT NULL, ADD PRIMARY KEY (id)",
    "RENAME TABLE orders TO sales",
    "ALTER TABLE sales DROP COLUMN a, ADD COLUMN b TEXT FIRST",
    "CREATE TABLE orders (id INT)",
    "DROP TABLE sales",
)


def test_each_version_of_a_table_is_reported_with_what_it_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Asked(capsys, "history").text(story(*LIFE), "shop.orders")
    assert lines[0].startswith(
        "shop.orders  known at the beginning of the history: 2026-09-21T14:13:20"
    )
    assert lines[1:] == [
        "",
        f"1  2026-09-22T14:13:20.000Z  b.000001:200  {UUID}:2  ALTER TABLE",
        "    + column a: int",
        "",
        f"2  2026-09-23T14:13:20.000Z  b.000001:300  {UUID}:3  ALTER TABLE",
        "    ~ column a: int -> bigint NOT NULL",
        "    + primary key: (id)",
        "",
        f"3  2026-09-24T14:13:20.000Z  b.000001:400  {UUID}:4  RENAME TABLE",
        "    ~ renamed: shop.orders -> shop.sales",
        "",
        f"5  2026-09-26T14:13:20.000Z  b.000001:600  {UUID}:6  CREATE TABLE",
        "    + table: 1 column(s)",
    ]


def test_a_table_under_its_new_name_says_where_it_comes_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = Asked(capsys, "history").json(story(*LIFE), "shop.sales")
    assert [step["number"] for step in answer["steps"]] == [3, 4, 6]
    first, second, third = (step["differences"] for step in answer["steps"])
    assert first[0] == {"what": "renamed", "name": "", "old": "shop.orders", "new": "shop.sales"}
    assert {one["what"] for one in second} == {"column"}
    assert third == [{"what": "table", "name": "", "old": "2 column(s)", "new": None}]


def test_all_tables_are_listed_with_their_state(capsys: pytest.CaptureFixture[str]) -> None:
    made = story(
        *LIFE, "ALTER TABLE log CONVERT TO CHARACTER SET klingon", tables=("orders", "log")
    )
    answer = Asked(capsys, "history").json(made)["tables"]
    assert {one["table"]: (one["state"], one["steps"]) for one in answer} == {
        "shop.log": ("unresolved", 1),
        "shop.orders": ("known", 4),
        "shop.sales": ("dropped", 3),
    }


def test_a_table_that_never_was_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Asked(capsys, "history").text(story(), "shop.nothing", code=1)
    assert "does not exist at the beginning of the history" in lines[0]


def test_two_places_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    diff = Asked(capsys, "diff")
    made = story(*LIFE)
    assert diff.text(made, "shop.orders", "--from", "b.000001:100", "--to", f"{UUID}:3") == [
        "+ column a: bigint NOT NULL",
        "+ primary key: (id)",
    ]
    assert diff.text(made, "shop.orders", "--from", f"{UUID}:2", "--to", f"{UUID}:2") == [
        "no difference"
    ]
    gone = diff.json(made, "shop.sales", "--from", f"{UUID}:4")
    assert (gone["from"], gone["to"], gone["differences"][0]["new"]) == ("known", "dropped", None)
    diff.text(made, "shop.nothing", "--from", f"{UUID}:4", code=1)


def test_a_definition_that_is_not_known_is_no_difference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = story("ALTER TABLE orders CONVERT TO CHARACTER SET klingon")
    lines = Asked(capsys, "diff").text(made, "shop.orders", "--from", "b.000001:100", code=1)
    assert len(lines) == 1
    assert lines[0].startswith("not known: ")


def test_the_audit_states_who_did_what_when_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    audit = Asked(capsys, "audit")
    made = story(*LIFE)
    lines = audit.text(made)
    assert len(lines) == 1 + len(LIFE)
    assert lines[0].split() == [
        "when", "where", "server", "thread", "user", "outcome", "type", "tables", "statement",
    ]  # fmt: skip
    for word in ("2026-09-24T14:13:20.000Z", "b.000001:400", f"{UUID}:4", "app@%", "12", LIFE[2]):
        assert word in lines[3]
    (first, *_) = audit.json(made)["statements"]
    assert (first["statement"], first["default_database"], first["server_id"]) == (
        LIFE[0],
        "shop",
        7,
    )


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--type", "drop"], [6]),
        (["--type", "RENAME", "--type", "CREATE TABLE"], [3, 5]),
        (["--table", "shop.sales"], [3, 4, 6]),
        (["--since", "2026-09-25T14:13:20Z"], [5, 6]),
        (["--since", f"{UUID}:5"], [5, 6]),
        (["--until", "b.000001:300"], [1]),
        (["--since", f"{UUID}:2", "--until", "2026-09-24"], [2]),
        (["--since", "2020-01-01", "--type", "ALTER", "--table", "shop.orders"], [1, 2]),
        (["--unresolved"], []),
    ],
)
def test_the_audit_can_be_filtered(
    capsys: pytest.CaptureFixture[str], words: list[str], numbers: list[int]
) -> None:
    answer = Asked(capsys, "audit").json(story(*LIFE), *words)
    assert [one["number"] for one in answer["statements"]] == numbers


def test_a_long_statement_is_one_line_of_the_list_and_whole_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit = Asked(capsys, "audit")
    long = "ALTER TABLE orders\n  ADD a INT COMMENT '" + "x" * 300 + "'"
    made = story(long)
    assert audit.text(made)[1].endswith("…")
    assert audit.json(made)["statements"][0]["statement"] == long


def test_tables_can_be_made_again_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    rebuild = Asked(capsys, "rebuild")
    made = story(*LIFE)
    before = rebuild.json(made, "--at", "b.000001:300")["databases"]
    assert list(before) == ["shop"]
    assert "CREATE DATABASE `shop`" in before["shop"]
    assert (
        "CREATE TABLE `shop`.`orders` (\n  `id` int NOT NULL,\n  `a` int NULL\n)" in before["shop"]
    )
    now = "\n".join(rebuild.text(made, "--database", "shop"))
    assert "`shop`.`orders`" in now
    assert "sales" not in now
    rebuild.text(made, "--database", "other", code=1)


def test_what_cannot_be_made_again_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    made = story("ALTER TABLE orders CONVERT TO CHARACTER SET klingon")
    lines = Asked(capsys, "rebuild").text(made, code=1)
    assert any(line.startswith("-- shop.orders is not resolved: ") for line in lines)


def test_a_name_ends_no_line_and_no_comment(capsys: pytest.CaptureFixture[str]) -> None:
    name = "x\nDROP DATABASE shop;\u2028\x1b"
    made = story(
        f"CREATE TABLE `{name}` (`{name}` int PRIMARY KEY)",
        f"CREATE TABLE `un{name}` LIKE klingon",
        tables=("orders",),
    )
    for command, *words in (("history",), ("audit",), ("show", f"shop.{name}")):
        for line in Asked(capsys, command).text(made, *words):
            assert line.isprintable()
            assert not line.startswith("DROP")
    # Statements are to be run, so they have the name as it is, and comments have it escaped.
    module: Any = commands.command("schema", "rebuild")
    module.run(options_of("rebuild"), describe(made))
    text = capsys.readouterr().out
    assert f"CREATE TABLE `shop`.`{name}` (" in text
    assert "-- shop.unx\\nDROP DATABASE shop;" in text
