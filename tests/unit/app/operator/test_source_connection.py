"""The source that is queried if some do not answer, and the report of those."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from app.operator import source_connection
from app.operator.source_connection import reachable_source
from connectors.errors import AqueductError, NoSourceFits, SourceLost
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from tables.state.operator_requests import Current, SourceChoice
from tests.unit.app.operator.journals import MemoryJournal, journal


@pytest.fixture
def down(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The hosts that do not answer."""
    silent: set[str] = set()

    def facts(of: SourceAddress) -> ServerFacts:
        if of.host in silent:
            raise SourceLost("refused", source=of)
        return cast(ServerFacts, SimpleNamespace(server_uuid=f"uuid-{of.host}"))

    monkeypatch.setattr(source_connection, "read_facts", facts)
    return silent


def reads(made: MemoryJournal, host: str) -> None:
    made.folded.source_choice.current = Current(
        destination="shop", address=f"{host}:3306", server_uuid=f"uuid-{host}", why="", ts_ms=1
    )


async def asked(
    made: MemoryJournal, server: str | None = None
) -> tuple[str, list[tuple[str, str, str]]]:
    """The host that answers, and the reports: a host, its error, and the host asked instead."""
    heard: list[tuple[str, str, str]] = []

    def report(address: SourceAddress, error: AqueductError, instead: SourceAddress) -> None:
        heard.append((address.host, error.detail, instead.host))

    found = await reachable_source(made.journal, made.folded, report, server_uuid=server)
    return found.address.host, heard


async def test_the_one_that_the_worker_reads_is_asked_first(down: set[str]) -> None:
    made = journal()
    assert await asked(made) == ("a", [])
    reads(made, "b")
    assert await asked(made) == ("b", [])
    assert not down


async def test_the_caller_learns_of_one_that_does_not_answer_and_who_is_asked_instead(
    down: set[str],
) -> None:
    down.add("a")
    assert await asked(journal()) == ("b", [("a", "refused", "b")])


async def test_a_server_that_is_wanted_is_found_among_those_that_answer(down: set[str]) -> None:
    assert await asked(journal(), "uuid-b") == ("b", [])
    assert await asked(journal(), "uuid-c") == ("a", [])
    assert not down


async def test_where_none_answers_each_is_named(down: set[str]) -> None:
    down.update("ab")
    with pytest.raises(NoSourceFits, match="a:3306: SourceLost: refused; b:3306: SourceLost"):
        await asked(journal())


async def test_the_journal_records_another_source_and_who_chose_it(down: set[str]) -> None:
    made = journal()
    found = await reachable_source(made.journal, made.folded, lambda *_: None)
    (note,) = found.switch_records(SourceChoice(), "shop", by="anna")
    assert b"cursor set there by anna" in note[1]
    reads(made, "a")
    assert found.switch_records(made.folded.source_choice, "shop", by="anna") == []
    assert not down
