"""A destination's history in a journal in memory, and commands that read it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from app.operator import commands
from app.operator.schema import DestinationHistory, ReadByName
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.position import SourceOffset
from tables.history.codec import OLDEST, checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.state import DestinationState
from tests.unit.tables.made import SERVER, UTF8, UUID, WrittenJournal, at, between, offset, table

DAY_MS = 86_400_000
BEGIN_MS = 1_790_000_000_000
"""2026-09-21T14:13:20Z, when everything begins."""
END = offset(10_000, gtids=f"{UUID}:1-99")


@dataclass(slots=True)
class Story:
    """A history, and what the journal holds of it."""

    history: SchemaHistory
    entries: list[Entry]


def story(
    *statements: str, tables: tuple[str, ...] = ("orders",), server: Server = SERVER
) -> Story:
    """Statements at positions 200, 300, and so on, a day apart, by app@% in connection 12."""
    history = SchemaHistory()
    history.init("shop")
    position = replace(between(100, gtids=f"{UUID}:1"), ts_ms=BEGIN_MS)
    known = {("shop", name): table() for name in tables}
    made = Story(
        history, checkpoint_records(history.baseline(known, {"shop": UTF8}, position, server))
    )
    for number, sql in enumerate(statements, 1):
        here = at(100 + 100 * number, gtid=f"{UUID}:{number + 1}", ts_ms=BEGIN_MS + number * DAY_MS)
        record = history.apply(replace(here, user="app@%"), "shop", sql, Session(database="shop"))
        assert record is not None, sql
        made.entries += history_records(record)
    return made


def describe(made: Story, where: SourceOffset = END) -> ReadByName:
    """The history as it comes out of the journal again."""
    cursor = Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=0,
        versions=0,
        offset=where,
        history=made.history.count,
    )
    written = WrittenJournal()
    written.write([*made.entries, (journal.cursor_key("shop"), journal.encoded(cursor.to_json()))])
    state = DestinationState.with_history_from("shop", OLDEST)
    for record in written.compacted():
        state.apply(record)

    async def described(destination: str) -> DestinationHistory:
        assert destination == "shop"
        return DestinationHistory.of(state)

    return described


def options_of(name: str, *words: str) -> argparse.Namespace:
    """A command's arguments after the destination's name."""
    parser = argparse.ArgumentParser()
    commands.command("schema", name).configure(parser)
    return parser.parse_args(["shop", *words])


@dataclass(frozen=True, slots=True)
class Asked:
    """Runs commands on a story."""

    capsys: pytest.CaptureFixture[str]
    name: str

    def text(self, made: Story, *words: str, code: int = 0) -> list[str]:
        """The lines it prints."""
        module: Any = commands.command("schema", self.name)
        assert module.run(options_of(self.name, *words), describe(made)) == code
        return self.capsys.readouterr().out.splitlines()

    def json(self, made: Story, *words: str, code: int = 0) -> Any:
        """The JSON it prints."""
        return orjson.loads("\n".join(self.text(made, *words, "--format", "json", code=code)))
