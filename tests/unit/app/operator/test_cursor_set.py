"""A binlog file is of one server, and no cursor is set by it on another one."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator import cursor
from app.worker.destination.plan import Source
from connectors.errors import SourceDiverged, SourceLost, UsageError
from connectors.mysql.lookup.start import Earliest
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState

PLACE = ("--file", "binlog.000003", "--pos", "1543")
TIME = ("--file", "binlog.000003", "--time", "2026-11-21T10:00:00Z")


class Taken(Exception):
    """The position that the command sets."""


class World:
    """Two sources, with the journal's cursor on the first; `down` names the unreachable ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        listed = tuple(Source(address=address(name), start=Earliest()) for name in "ab")
        self.state = DestinationState("shop")
        self.down: set[str] = set()
        plan = SimpleNamespace(name="shop", address=listed[0].address, sources=listed)
        asked = SimpleNamespace(plan=plan, initialized_state=self._begun)
        monkeypatch.setattr(cursor, "load", lambda: None)
        monkeypatch.setattr("app.operator.cursor.Journal.of", lambda *_: asked)
        monkeypatch.setattr("app.operator.source_connection.read_facts", self._facts)
        monkeypatch.setattr("app.operator.cursor.first_offset", self._taken)

    async def _begun(self) -> DestinationState:
        return self.state

    def has_cursor(self) -> None:
        offset = SourceOffset(server_uuid="uuid-a", coordinates=Coordinates("binlog.000002", 4))
        self.state.cursor = Cursor(
            destination="shop", installation="i", epoch=1, seq=1, versions=0, offset=offset
        )

    def _facts(self, of: SourceAddress) -> ServerFacts:
        if of.host in self.down:
            raise SourceLost("refused", source=of)
        return cast(ServerFacts, SimpleNamespace(server_uuid=f"uuid-{of.host}"))

    def _taken(self, _start: Any, facts: ServerFacts, _address: SourceAddress) -> SourceOffset:
        raise Taken(facts.server_uuid)

    def set(self, *words: str) -> None:
        parser = argparse.ArgumentParser()
        cursor.configure_set(parser)
        cursor.run_set(parser.parse_args(["shop", *words, "--why", "x", "--yes-lose-changes"]))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def address(name: str) -> SourceAddress:
    return SourceAddress(host=name, port=3306, user="u", password="", server_id=5, replica_uuid="")


@pytest.mark.parametrize("position", [PLACE, TIME])
@pytest.mark.parametrize("is_first", [False, True])
def test_another_server_is_refused_that_answers_in_place_of_the_one_whose_file_it_is(
    world: World, position: tuple[str, ...], is_first: bool
) -> None:
    if not is_first:
        world.has_cursor()
    world.down.add("a")
    with pytest.raises(SourceDiverged) as caught:
        world.set(*position)
    message = str(caught.value)
    assert "but server uuid-b answers" in message
    assert ("at a:3306" if is_first else "belongs to server uuid-a") in message
    assert "Nothing was changed." in message
    assert "--server uuid-b" in message
    with pytest.raises(Taken, match="uuid-b"):
        world.set(*position, "--server", "uuid-b")


def test_the_server_of_the_file_is_found_among_the_sources(world: World) -> None:
    world.has_cursor()
    with pytest.raises(Taken, match="uuid-a"):
        world.set(*PLACE)
    with pytest.raises(Taken, match="uuid-b"):
        world.set(*PLACE, "--server", "uuid-b")
    with pytest.raises(SourceDiverged, match="belongs to server uuid-c"):
        world.set(*PLACE, "--server", "uuid-c")


def test_what_every_server_knows_may_be_set_by_another_one(world: World) -> None:
    world.has_cursor()
    world.down.add("a")
    for position in (("--earliest",), ("--latest",), ("--time", "2026-11-21T10:00:00Z")):
        with pytest.raises(Taken, match="uuid-b"):
            world.set(*position)


def test_a_server_without_a_file_is_none(world: World) -> None:
    with pytest.raises(UsageError, match="--server names the server of --file"):
        world.set("--earliest", "--server", "uuid-a")
