"""Statements at random about one table: comments, quotes, version gates, and names that move between columns.

An ordinary run makes the same ones each time; ``STATEMENTS`` and ``SEED`` are as for ``test_random``.
"""

import os
import re
import sys
from collections.abc import Callable
from random import SystemRandom
from typing import Protocol

import pytest

from tests.harness.servers import Servers
from tests.integration.ddl.both import Both
from tests.integration.ddl.player import Player
from tests.integration.ddl.random_comments import Comments
from tests.integration.ddl.random_moves import Moves
from tests.integration.ddl.truth import Seen


class Statements(Protocol):
    """The generator of statements."""

    def next(self, there: Seen) -> str:
        """A new statement, for a server with these tables."""
        ...


MOVES = {"9.7": 100, "8.0": 40, "mariadb-10.11": 60}
STATEMENTS = {"9.7": 80, "8.0": 50, "5.7": 50, "mariadb-10.11": 60}
_USUAL_SEED = "1"
MOST_FAULTS = 10
_MANGLED = re.compile(r"\(\*/|/\* \d{5}(?:(?!\*/).)*/\*", re.DOTALL)
"""What no reader of the binlog can read as it was executed, the server's own replicas included.

A server writes ``(*`` for a ``/*`` within what it does not execute, and a ``/`` after it ends the comment;
or it leaves a version comment within that comment, whose end then ends both.
"""


@pytest.mark.parametrize("server", list(STATEMENTS))
def test_the_model_reads_comments_and_quotes_as_the_server_does(
    servers: Servers, server: str
) -> None:
    _hold(servers, server, Comments, STATEMENTS[server])


@pytest.mark.parametrize("server", list(MOVES))
def test_the_model_takes_keys_along_with_names_as_the_server_does(
    servers: Servers, server: str
) -> None:
    _hold(servers, server, Moves, MOVES[server])


def _hold(servers: Servers, server: str, make: Callable[[str], Statements], usual: int) -> None:
    wanted = os.environ.get("STATEMENTS")
    fresh = str(SystemRandom().randrange(10**9)) if wanted else _USUAL_SEED
    seed = os.environ.get("SEED") or fresh
    count = int(wanted or usual)
    sys.stdout.write(f"SEED={seed} on {server}\n")
    with Player(servers(server)) as player:
        faults, accepted = run(player, make(seed), count)
    assert not faults, "\n\n".join([f"SEED={seed}", *faults])
    assert accepted > count / 5, "most statements are refused: they test nothing"


def run(player: Player, statements: Statements, count: int) -> tuple[list[str], int]:
    """The differences, and the number of statements that the server accepted."""
    both = Both(player.server())
    faults: list[str] = []
    accepted = 0
    for sql in ("CREATE DATABASE d1", "USE d1"):
        played = player.play(sql)
        faults += both.take(sql, played)
    for number in range(count):
        sql = statements.next(played.after)
        played = player.play(sql)
        accepted += played.error is None
        found = list(both.take(sql, played))
        if any(_MANGLED.search(one.sql) for one in played.written):
            found = [fault for fault in found if not fault.startswith("written")]
        if found:
            written = [one.sql for one in played.written]
            faults.append("\n    ".join([f"number {number}: {sql!r} {written}", *found]))
        if len(faults) > MOST_FAULTS:
            break
    return faults, accepted
