"""A table at a position, as text and as JSON."""

from dataclasses import replace

import pytest

from connectors.errors import HistoryTooShort, PositionUnknown
from tables.history.record import Given
from tables.state.quarantine import GIVE_UP, Entry, Outcome, note_of
from tests.unit.app.operator.histories import Asked, describe, options_of, story
from tests.unit.tables.made import ORDERS, OTHER, UUID, at


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(capsys, "show")


GROWING = (
    "ALTER TABLE orders ADD a VARCHAR(9) NOT NULL DEFAULT 'x'",
    "ALTER TABLE orders ADD b INT, ADD UNIQUE KEY by_b (b)",
)


@pytest.mark.parametrize(
    ("position", "columns"),
    [
        ("b.000001:200", ["id"]),
        ("b.000001:201", ["id", "a"]),
        (f"{UUID}:1", ["id"]),
        (f"{UUID}:2", ["id", "a"]),
        (f"{UUID}:1-3", ["id", "a", "b"]),
        ("2026-09-21T14:13:20Z", ["id"]),
        ("2026-09-22 16:13:20+02:00", ["id", "a"]),
        ("2026-09-23", ["id", "a"]),
        ("2026-09-24", ["id", "a", "b"]),
    ],
)
def test_a_position_may_be_given_in_each_of_its_forms(
    show: Asked, position: str, columns: list[str]
) -> None:
    answer = show.json(story(*GROWING), "shop.orders", "--at", position)
    assert [column["name"] for column in answer["definition"]["columns"]] == columns
    assert answer["state"] == "known"


def test_without_a_place_it_is_the_end_with_all_that_is_known(show: Asked) -> None:
    answer = show.json(story(*GROWING), "shop.orders")
    assert answer["since"] == {
        "server_uuid": UUID,
        "file": "b.000001",
        "pos": 300,
        "gtid": f"{UUID}:3",
        "gtid_set": None,
        "time": "2026-09-23T14:13:20.000Z",
        "server_id": 7,
        "thread": 12,
        "user": "app@%",
    }
    assert answer["definition"]["columns"][1] == {
        "name": "a",
        "type": "varchar(9)",
        "nullable": False,
        "charset": "utf8mb4",
        "collation": "utf8mb4_0900_ai_ci",
        "generated": None,
        "invisible": False,
        "definition": "DEFAULT 'x'",
    }
    assert answer["definition"]["keys"] == [{"name": "by_b", "columns": ["b"], "unique": True}]


def test_operators_see_the_columns_below_one_another(show: Asked) -> None:
    assert show.text(story(*GROWING), "shop.orders") == [
        f"shop.orders  since 2026-09-23T14:13:20.000Z  b.000001:300  {UUID}:3",
        "",
        "column  type        null      collation           more",
        "id      int         not null",
        "a       varchar(9)  not null  utf8mb4_0900_ai_ci  DEFAULT 'x'",
        "b       int         null",
        "",
        "no primary key",
        "key by_b  UNIQUE (b)",
        "new columns take  utf8mb4 utf8mb4_0900_ai_ci",
    ]


def test_what_is_not_known_there_is_said_and_is_exit_1(show: Asked) -> None:
    made = story(
        "DROP TABLE orders",
        "ALTER TABLE log CONVERT TO CHARACTER SET klingon",
        tables=("orders", "log"),
    )
    dropped = show.text(made, "shop.orders", code=1)
    assert dropped == [f"shop.orders: dropped 2026-09-22T14:13:20.000Z  b.000001:200  {UUID}:2"]
    unresolved = show.json(made, "shop.log", code=1)
    assert (unresolved["state"], unresolved["definition"]) == ("unresolved", None)
    assert "klingon" in unresolved["reason"]
    assert show.json(made, "shop.nothing", code=1)["state"] == "unknown"
    assert show.text(made, "shop.nothing", code=1) == [
        "shop.nothing: the history has no such table up to that position"
    ]


def test_a_position_that_is_too_old_or_of_another_server_is_refused(show: Asked) -> None:
    made = story(*GROWING)
    with pytest.raises(HistoryTooShort):
        show.text(made, "shop.orders", "--at", "b.000001:99")
    with pytest.raises(PositionUnknown):
        show.text(made, "shop.orders", "--at", "b.000001:201", "--server", OTHER)


@pytest.mark.parametrize(
    "position",
    ["", "now", "b.000001", "2026-13-01", "10:00x", f"{UUID}:", "0-1-", "2026-09-21T25:00"],
)
def test_what_is_no_place_is_wrong_usage(position: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        options_of("show", "shop.orders", "--at", position)
    assert end.value.code == 2
    assert "file:pos" in capsys.readouterr().err


async def test_a_history_that_was_never_begun_is_named() -> None:
    made = story()
    made.entries.clear()
    with pytest.raises(Exception, match=r"history"):
        await describe(made)("shop")


ASIDE = Entry(destination="shop", name=ORDERS, since=at(250, gtid=f"{UUID}:3"), why="a has no name")
GIVEN_UP = replace(
    ASIDE, outcome=Outcome.GIVEN_UP, given=Given(by="anna", ts_ms=1_795_000_000_000, source=GIVE_UP)
)


@pytest.mark.parametrize(
    ("entry", "state", "words"),
    [
        (ASIDE, "quarantined", "quarantined: its rows wait"),
        (GIVEN_UP, "given up", "given up by anna, 2026-11-18T11:06:40.000Z"),
        (replace(ASIDE, outcome=Outcome.RELEASED), None, None),
    ],
)
def test_a_table_whose_rows_do_not_come_is_reported_so_beside_its_definition(
    capsys: pytest.CaptureFixture[str], entry: Entry, state: str | None, words: str | None
) -> None:
    made = story(*GROWING)
    made.entries.append(note_of(entry))
    show, history = Asked(capsys, "show"), Asked(capsys, "history")
    for asked in (show, history):
        answer = asked.json(made, "shop.orders")["quarantine"]
        assert (answer and (answer["state"], answer["why"], answer["since"]["gtid"])) == (
            state and (state, "a has no name", f"{UUID}:3")
        )
        lines = asked.text(made, "shop.orders")
        assert ("because a has no name" in lines) is (state is not None)
        assert words is None or any(words in line for line in lines)
    assert show.json(made, "shop.orders", "--at", "b.000001:200")["quarantine"] is None
    (listed,) = history.json(made)["tables"]
    assert (listed["state"], listed["quarantine"]) == ("known", state)
