"""Changes that a real server wrote as statements, judged as a destination's decoder judges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pymysql

from app.worker.pipeline.gather.captured_tables import CapturedTables
from app.worker.pipeline.gather.statement_changes import StatementJudge
from connectors.errors import StatementBasedChange
from connectors.mysql.dml import FUNCTIONS
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.server.facts import ServerFacts
from tables.rules.routes.routes import Routes
from tests.steps import Change, Step

_NO_SUCH_FUNCTION = {1305, 1630}


@dataclass(frozen=True, slots=True)
class Judged:
    """The tables of a statement that is passed by, or why it is not."""

    tables: frozenset[str]
    refused: str = ""


def judged(
    facts: ServerFacts, steps: list[Step], *, include: str, trusted: str = ""
) -> list[Judged]:
    """The outcome of each change."""
    book = CapturedTables(
        Routes(prefix="aq", include=include), facts.charsets, server=server_of(facts)
    )
    passing = StatementJudge(book, server_of(facts), trusted)
    return [_judged(passing, step) for step in steps if isinstance(step, Change)]


def _judged(passing: StatementJudge, step: Change) -> Judged:
    try:
        return Judged(frozenset(".".join(name) for name in passing.passed(step.query)))
    except StatementBasedChange as error:
        return Judged(frozenset(), str(error))


def not_native(cursor: Any) -> list[str]:
    """The names of FUNCTIONS that a server lacks."""
    found = []
    cursor.execute("USE mysql")
    for name in sorted(FUNCTIONS):
        try:
            cursor.execute(f"SELECT {name}()")
        except pymysql.Error as error:
            if error.args[0] in _NO_SUCH_FUNCTION:
                found.append(name)
    return found
