"""The history against a server's answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.operator import schema
from app.operator.schema import DestinationHistory, ReadByName
from connectors.mysql.ddl.definition import Database, Index, Server, Table, TableName
from connectors.mysql.position import SourceOffset
from connectors.mysql.schema.baseline import Baseline
from tests.unit.app.operator.histories import Story, describe, options_of, story
from tests.unit.tables.made import LATIN, SERVER, UTF8, UUID, column, offset, table

LOWER = Server(version=(9, 7, 4), lower_case_table_names=2)
PLACE = offset(500, gtids=f"{UUID}:1-9")


def answer(
    tables: Mapping[TableName, Table],
    *,
    at: SourceOffset = PLACE,
    databases: Mapping[str, Database] | None = None,
    server: Server = SERVER,
    unseen: Mapping[TableName, str] | None = None,
) -> Baseline:
    return Baseline(
        tables=tables,
        databases={"shop": UTF8} if databases is None else databases,
        server=server,
        at=at,
        unseen=unseen or {},
    )


def asking(server: Baseline) -> Callable[[str], Awaitable[Baseline]]:
    async def ask(_destination: str) -> Baseline:
        return server

    return ask


def check(
    capsys: pytest.CaptureFixture[str],
    described: ReadByName | Story,
    server: Baseline,
    *words: str,
    pauses: list[float] | None = None,
) -> tuple[int, Any]:
    """The exit code, and the JSON that is printed."""
    options = options_of("check", *words, "--format", "json")
    waited: list[float] = [] if pauses is None else pauses
    reading = describe(described, PLACE) if isinstance(described, Story) else described

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    code = schema.run_check(options, reading, asking(server), pause)
    return code, orjson.loads(capsys.readouterr().out)


def found(value: Any) -> list[tuple[str, str, str, str | None, str | None]]:
    return [
        (one["table"], one["what"], one["name"], one["old"], one["new"])
        for one in value["differences"]
    ]


def test_a_server_that_is_as_the_history_says_is_exit_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    history = story("ALTER TABLE orders ADD a INT")
    code, value = check(capsys, history, answer({("shop", "orders"): table("a")}))
    assert (code, value["differences"], value["same_place"], value["tables"]) == (0, [], True, 1)
    options = options_of("check")
    server = answer({("shop", "orders"): table("a")})
    assert schema.run_check(options, describe(history), asking(server)) == 0
    assert capsys.readouterr().out == "1 table(s) of the server match the history\n"


def test_each_thing_that_rows_depend_on_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    history = story("ALTER TABLE orders ADD a VARCHAR(9), ADD b INT", tables=("orders", "gone"))
    theirs = Table(
        columns=(
            column("id", nullable=False),
            column("b", "bigint"),
            replace(column("a", "varchar(9)"), charset="latin1", collation="latin1_bin"),
            column("c"),
        ),
        indexes=(Index(name="PRIMARY", columns=("id",), unique=True),),
        charset="latin1",
        collation="latin1_swedish_ci",
    )
    server = answer(
        {("shop", "orders"): theirs, ("shop", "new"): table()},
        databases={"shop": LATIN, "more": UTF8},
    )
    code, value = check(capsys, history, server)
    utf8, latin = "utf8mb4 COLLATE utf8mb4_0900_ai_ci", "latin1 COLLATE latin1_swedish_ci"
    assert code == 1
    assert found(value) == [
        ("more", "character set", "", None, utf8),
        ("shop", "character set", "", utf8, latin),
        ("shop.gone", "table", "", "1 column(s)", None),
        ("shop.new", "table", "", None, "1 column(s)"),
        (
            "shop.orders",
            "column",
            "a",
            f"varchar(9) CHARACTER SET {utf8}",
            "varchar(9) CHARACTER SET latin1 COLLATE latin1_bin",
        ),
        ("shop.orders", "column", "b", "int", "bigint"),
        ("shop.orders", "column", "c", None, "int"),
        ("shop.orders", "order", "", "(id, a, b)", "(id, b, a)"),
        ("shop.orders", "primary key", "", "()", "(id)"),
        ("shop.orders", "character set", "", utf8, latin),
    ]


def test_a_default_or_a_comment_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    history = story("ALTER TABLE orders ADD a INT DEFAULT 7 COMMENT 'x', ADD KEY (a)")
    code, _ = check(capsys, history, answer({("shop", "orders"): table("a")}))
    assert code == 0


def test_a_table_that_is_not_resolved_is_a_difference_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    history = story("ALTER TABLE orders CONVERT TO CHARACTER SET klingon")
    code, value = check(capsys, history, answer({("shop", "orders"): table()}))
    assert code == 1
    assert "klingon" in value["differences"][0]["old"]


def test_what_may_not_be_seen_is_no_difference_but_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unseen = {("shop", "secret"): "its columns cannot be seen"}
    code, value = check(
        capsys,
        story(tables=("orders", "secret")),
        answer({("shop", "orders"): table()}, unseen=unseen),
    )
    assert code == 0
    assert value["not_seen"] == {"shop.secret": "its columns cannot be seen"}


def test_names_are_compared_as_the_server_does(capsys: pytest.CaptureFixture[str]) -> None:
    history = story("CREATE TABLE Log (id INT NOT NULL)", server=LOWER)
    tables = {("Shop", "Orders"): table(), ("shop", "LOG"): table()}
    code, value = check(capsys, history, answer(tables, databases={"SHOP": UTF8}, server=LOWER))
    assert (code, value["differences"]) == (0, [])


def test_what_changed_after_the_servers_answer_is_not_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The worker is at the statement already, which came after the answer."""
    read_by_name = describe(story("ALTER TABLE orders ADD a INT"), offset(900, gtids=f"{UUID}:1-2"))
    server = answer({("shop", "orders"): table()}, at=offset(150, gtids=f"{UUID}:1"))
    assert check(capsys, read_by_name, server)[0] == 0


def test_the_command_waits_for_a_lagging_worker(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = story(), story("ALTER TABLE orders ADD a INT")
    states = [
        describe(before, offset(100, gtids=f"{UUID}:1")),
        describe(before, offset(100, gtids=f"{UUID}:1")),
        describe(after, PLACE),
    ]
    pauses: list[float] = []

    async def described(destination: str) -> DestinationHistory:
        return await (states.pop(0) if len(states) > 1 else states[0])(destination)

    code, value = check(capsys, described, answer({("shop", "orders"): table("a")}), pauses=pauses)
    assert (code, value["same_place"], pauses) == (0, True, [1.0])


def test_a_worker_that_keeps_lagging_is_reported_and_its_end_is_compared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pauses: list[float] = []
    earlier = describe(story(), offset(100, gtids=f"{UUID}:1"))
    server = answer({("shop", "orders"): table("a")})
    code, value = check(capsys, earlier, server, "--wait", "3", pauses=pauses)
    assert (code, value["same_place"], len(pauses)) == (1, False, 3)
    assert value["history_at"] == {"coordinates": "b.000001:100", "gtid_set": f"{UUID}:1"}
    assert value["server_at"]["coordinates"] == "b.000001:500"
    text = schema.run_check(options_of("check", "--wait", "0"), earlier, asking(server))
    lines = capsys.readouterr().out.splitlines()
    assert text == 1
    assert lines[0].startswith("The worker has reached b.000001:100; the server answered at")
    assert lines[-1] == "shop.orders: + column a: int"
