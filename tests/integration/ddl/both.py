"""Two models beside a server: one follows the statements as sent, the other as written to the binlog."""

from __future__ import annotations

import re
from collections.abc import Iterator

from connectors.mysql.ddl.definition import Server, Session
from tests.integration.ddl.difference import differences
from tests.integration.ddl.model import Model
from tests.integration.ddl.player import Played

_QUERY = re.compile(r"\bcreate\b.*\b(select|table\s+\S+$|values)", re.DOTALL | re.IGNORECASE)
_NOT_IN_THE_BINLOG = "collation_database"
"""A reason that names a setting which no QUERY event contains: the statement cannot be resolved."""
_LIKE = re.compile(r"\blike\b", re.IGNORECASE)
Given = tuple[str, Session]


class Both:
    """Two models of one server."""

    def __init__(self, server: Server) -> None:
        self.described = Model(server, logged=False)
        self.read = Model(server, logged=True)

    def take(self, sql: str, played: Played, *, as_written: bool = False) -> Iterator[str]:
        """Apply one statement; return the differences between a model and the server.

        What the server refused is not yielded; what it did of it all the same, it wrote. ``as_written``: nor
        is a statement that means more than it says. A query's columns may be more than the model can know.
        """
        written = [(one.sql, one.session) for one in played.written]
        if played.error is None:
            given = [(sql, played.session)]
            if as_written or (
                _QUERY.search(sql) and not self.described.resolves(sql, played.session)
            ):
                given = written
            yield from _taken("described", self.described, given, played)
        else:
            self.described.follow(played.after)
            if not written:
                # An old server may leave half of what it refuses, silently.
                self.read.follow(played.after)
        yield from _taken(
            "written", self.read, written, played, unsure=_like_temporary(sql, written)
        )


def _like_temporary(sql: str, written: list[Given]) -> bool:
    """Whether a table was made like a temporary one: the server writes columns without that one's charset, and
    a replica's are others than its own."""
    return bool(_LIKE.search(sql)) and not any(_LIKE.search(text) for text, _ in written)


def _taken(
    name: str, model: Model, statements: list[Given], played: Played, *, unsure: bool = False
) -> Iterator[str]:
    reasons = [model.apply(sql, session) for sql, session in statements]
    unknowable = any(reason and _NOT_IN_THE_BINLOG in reason for reason in reasons)
    if unsure or unknowable:
        model.follow(played.after)
    if unknowable:
        return
    found = [f"unresolved: {reason}" for reason in reasons if reason]
    found += differences(played.after, model.seen())
    if found:
        yield f"{name}: " + "\n    ".join(found)
        model.follow(played.after)
