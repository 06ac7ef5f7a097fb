"""The skip of one transaction: how it is named, and how it is found."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import cast

import pytest

from app.operator import cursor as cursor_commands
from app.operator import source_connection
from app.operator.cursor import NamedTransaction, plan_skip
from connectors.errors import AlreadyPast, PositionWithin, SourceDiverged, UsageError
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.mysql.server.facts import ServerFacts
from tests.unit.app.operator.journals import cursor, journal

UUID = "11111111-1111-1111-1111-111111111111"


async def planned(named: NamedTransaction, gtids: str | None = f"{UUID}:1-9") -> str:
    made = journal()
    made.folded.cursor = cursor(None if gtids is None else GtidSet.parse(gtids))
    transaction, effect = await plan_skip(made.journal, named, lambda *_: None)
    assert effect == f"the changes of {transaction} are never published"
    assert made.written == []
    return transaction


async def test_one_is_named_by_its_gtid() -> None:
    assert await planned(f"{UUID}:10") == f"{UUID}:10"


async def test_one_that_the_cursor_has_passed_is_refused() -> None:
    with pytest.raises(AlreadyPast):
        await planned(f"{UUID}:9")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (f"{UUID}:10-11", "is not one GTID"),
        ("0-1-10", "is not a GTID of this kind of server"),
        (Coordinates("b", 4), "the source has GTIDs"),
    ],
)
async def test_what_names_no_one_transaction_is_refused(named: NamedTransaction, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        await planned(named)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A server without GTIDs, with a transaction from 100 to 200."""
    facts = SimpleNamespace(server_uuid="uuid-a")
    span = SimpleNamespace(
        start=Coordinates("binlog.000003", 100), end=Coordinates("binlog.000003", 200)
    )
    monkeypatch.setattr(source_connection, "read_facts", lambda _: cast(ServerFacts, facts))
    monkeypatch.setattr(cursor_commands, "Spans", lambda *_: [span])
    return facts


async def test_without_gtids_one_is_named_by_where_it_begins(server: SimpleNamespace) -> None:
    assert await planned(Coordinates("binlog.000003", 100), None) == "uuid-a:binlog.000003:100"
    with pytest.raises(
        PositionWithin, match=r"000003:150 is within the transaction from binlog\.000003:100 to"
    ):
        await planned(Coordinates("binlog.000003", 150), None)
    with pytest.raises(PositionWithin, match=r"no transaction begins at binlog\.000003:300"):
        await planned(Coordinates("binlog.000003", 300), None)
    assert server.server_uuid == "uuid-a"


async def test_a_position_of_another_server_names_nothing(server: SimpleNamespace) -> None:
    server.server_uuid = "uuid-z"
    with pytest.raises(SourceDiverged, match="but server uuid-z answers"):
        await planned(Coordinates("binlog.000003", 100), None)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    cursor_commands.configure_skip(parser)
    return parser.parse_args(["shop", "--why", "a test", *words])


def test_a_transaction_is_named_by_its_gtid_or_by_where_it_begins() -> None:
    assert cursor_commands._named_transaction(options("--gtid", "u:10")) == "u:10"
    assert cursor_commands._named_transaction(options("--file", "b", "--pos", "4")) == Coordinates(
        "b", 4
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the transaction by --gtid"),
        (("--gtid", "x", "--file", "b", "--pos", "4"), "name the transaction by --gtid"),
        (("--file", "b"), "--file needs --pos"),
    ],
)
def test_words_that_name_no_one_transaction_are_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        cursor_commands._named_transaction(options(*words))
