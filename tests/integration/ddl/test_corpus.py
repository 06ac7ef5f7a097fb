"""Each statement of the corpus, on real servers and on the model: after each, all tables are equal.

The model is given each in two ways, by the statement itself and by what the server wrote of it into its binlog.
"""

import pytest

from tests.harness.servers import Servers
from tests.integration.ddl.both import Both
from tests.integration.ddl.corpus_files import CorpusFile, Entry, corpus
from tests.integration.ddl.lines import Lines
from tests.integration.ddl.player import Player

FILES = corpus()
OF_THE_SESSION = {"charsets", "like_select", "statement_format", "temporary", "timestamps"}
"""What more decides than a line of `schema replay` can say: a session's variables, and which session it is; and
queries that need views or data."""
FEWEST = 500
"""Statements that a 9.7 is asked for, at the least."""


@pytest.mark.parametrize(
    ("server", "file"),
    [
        pytest.param(server, file, id=f"{server}-{file.path.stem}")
        for server in sorted({server for file in FILES for server in file.servers})
        for file in FILES
        if server in file.servers
    ],
)
def test_the_model_says_of_all_tables_what_the_server_says(
    servers: Servers, server: str, file: CorpusFile
) -> None:
    faults, lines = [], Lines()
    with Player(servers(server)) as player:
        both = Both(player.server())
        for entry in file.on(server):
            played = player.play(entry.sql, entry.session)
            if (played.error is not None) != entry.refused:
                faults.append(f"{_where(file, entry)} the server says {played.error or 'yes'}")
            found = both.take(entry.sql, played, as_written=entry.as_written)
            faults += [f"{_where(file, entry)} {fault}" for fault in found]
            lines.take(entry.sql, played, as_written=entry.as_written)
    if server == "9.7" and file.path.stem not in OF_THE_SESSION:
        faults += [f"replayed: {fault}" for fault in lines.differences(played.after)]
    assert not faults, "\n\n".join(["", *faults])


def _where(file: CorpusFile, entry: Entry) -> str:
    return f"{file.path.name}:{entry.line} {entry.sql[:2000]}\n   "


def test_the_corpus_is_not_small() -> None:
    assert sum(len(file.on("9.7")) for file in FILES if "9.7" in file.servers) >= FEWEST
