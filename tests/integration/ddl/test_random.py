"""Random statements on a real server and on the model, which must agree on each one that the server accepts.

An ordinary run makes the same ones each time. ``STATEMENTS`` says how many others to make, and ``SEED``
makes those again; ``make fuzz SUITE=ddl`` is a long run.
"""

import os
import sys
from collections.abc import Callable
from random import SystemRandom

import pytest

from tests.harness.servers import Servers
from tests.integration.ddl.both import Both
from tests.integration.ddl.player import Player
from tests.integration.ddl.random_statements import Statements
from tests.integration.ddl.truth import Seen

STATEMENTS = {"9.7": 500, "5.7": 150, "mariadb-10.11": 150, "mariadb-11.8": 150}
"""The number in an ordinary run. The available 8.0 is an early release that crashes on some."""
_USUAL_SEED = "1"
MOST_FAULTS = 20


@pytest.mark.parametrize("server", list(STATEMENTS))
def test_the_model_takes_any_statement_as_the_server_does(
    servers: Servers, server: str, record_property: Callable[[str, object], None]
) -> None:
    wanted = os.environ.get("STATEMENTS")
    fresh = str(SystemRandom().randrange(10**9)) if wanted else _USUAL_SEED
    seed = os.environ.get("SEED") or fresh
    count = int(wanted or STATEMENTS[server])
    sys.stdout.write(f"SEED={seed} on {server}\n")
    record_property("seed", seed)
    with Player(servers(server)) as player:
        statements = Statements(seed, tame=server != "9.7")
        faults, accepted = _run(player, statements, count)
    assert not faults, "\n\n".join([f"SEED={seed}", *faults])
    assert accepted > count / 5, "most statements are refused: they test nothing"


def _run(player: Player, statements: Statements, count: int) -> tuple[list[str], int]:
    """The differences, and the number of statements that the server accepted."""
    both = Both(player.server())
    faults: list[str] = []
    accepted = 0
    for sql in ("CREATE DATABASE d1", "CREATE DATABASE d2 CHARACTER SET latin1", "USE d1"):
        there = player.play(sql)
        faults += both.take(sql, there)
    for number in range(count):
        before, sql = there.after, statements.next(there.after)
        there = player.play(sql)
        accepted += there.error is None
        found = list(both.take(sql, there))
        if found:
            under = f"{there.session} {_concerned(sql, before)}"
            faults.append("\n    ".join([f"number {number}: {sql}", *found, under]))
        if len(faults) > MOST_FAULTS:
            break
    return faults, accepted


def _concerned(sql: str, before: Seen) -> str:
    """The tables that a statement may be about, and all databases."""
    plain = sql.replace("`", "").lower()
    tables = {
        name: table
        for name, table in before.tables.items()
        if name[1].replace("`", "").lower() in plain
    }
    return f"{before.databases} {tables}".replace("SeenColumn", "").replace("SeenTable", "")
