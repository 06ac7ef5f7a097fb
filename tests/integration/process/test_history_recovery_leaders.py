"""`snapshot.mode: recovery` with two workers: the leader is killed around the commit, and the other takes over.

The history begins again once, whichever of them commits it, and each change is published once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.failpoints import VARIABLE
from app.operator.journal_access import Journal
from app.settings.model import load
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.pair import Pair, pair_settings
from tests.harness.servers import own_server
from tests.harness.sql import run
from tests.integration.process.test_history_recovery import (
    EXCHANGE,
    MADE,
    MARIADB,
    NEVER,
    NEWEST,
    RECOVERY,
    beginnings,
    check_each_once,
    insert,
    of_history,
    resolve,
    unlogged,
    write,
)

TABLES = ("calm", "moved", "swapped")
ONCE = "which is done once"
BEGAN = "snapshot.mode is recovery: the schema history begins at"


@pytest.fixture(params=[(NEWEST, "MINIMAL"), (MARIADB, "NO_LOG")], ids=" ".join)
def mysql(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mysql]:
    """A server of the test's own, whose binlog has no names of columns."""
    name, metadata = request.param
    options: dict[str, str | int] = {"server_id": 9, "binlog_row_metadata": metadata}
    with own_server(name, tmp_path / "server", *MADE, options=options) as made:
        yield made


class Leaders:
    """Two workers of one destination, and which of them runs it."""

    def __init__(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pair, self._monkeypatch = pair, monkeypatch

    def use(self, mode: dict[str, str]) -> None:
        """Set the mode in the settings of all workers."""
        self.pair.wanted["destinations"]["shop"]["snapshot"] = mode

    def start_frozen(self, name: str, fault: str) -> None:
        """Start a worker that stops within its takeover, so that another one can start before its end."""
        with self._monkeypatch.context() as faults:
            faults.setenv(VARIABLE, f"{fault}=freeze")
            worker = self.pair.start(name)
        state = Path(f"/proc/{worker.process.pid}/stat")
        self.pair.until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")

    def runs(self, name: str, count: int) -> dict[str, Any]:
        """Wait until a worker runs the destination and has published so many changes."""

        def found() -> dict[str, Any] | None:
            one: dict[str, Any] = self.pair.status(name).get("destinations", {}).get("shop", {})
            return one if one.get("state") == "RUNNING" and one["rows"] >= count else None

        status: dict[str, Any] = self.pair.until(found)
        return status

    def is_candidate(self, name: str) -> bool:
        """Whether a worker waits to lead."""
        found = self.pair.status(name).get("destinations", {}).get("shop", {})
        return name in found.get("leader", {}).get("candidates", ())


@pytest.mark.long("one worker without ZooKeeper, which recovers once")
@pytest.mark.parametrize("fault", ["claim.before", "claim.after"])
@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "frozen"])
def test_a_leader_that_ends_around_the_commit_leaves_one_recovery(
    stack: Stack,
    mysql: Mysql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    end: signal.Signals | None,
) -> None:
    wanted = pair_settings(stack, mysql, tmp_path)
    wanted["destinations"]["shop"] |= {"filter": {"include": r"shop\..*"}, "start": "latest"}
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "aqueduct.yaml"))
    with Pair(wanted, tmp_path) as pair:
        leaders = Leaders(pair, monkeypatch)
        leaders.use(NEVER)
        pair.start("one")
        leaders.runs("one", 0)
        run(mysql, "ALTER TABLE shop.calm ADD c int NOT NULL DEFAULT 5")
        insert(mysql, 1, *TABLES)
        leaders.runs("one", 3)
        pair.end("one", signal.SIGTERM)
        (tmp_path / "aqueduct.yaml").write_text(pair.config("one").read_text())
        journal = Journal.of(load(), "shop")
        spoil(mysql, journal)

        leaders.use(RECOVERY)
        leaders.start_frozen("one", fault)
        pair.start("two")
        pair.until(lambda: leaders.is_candidate("two"))
        if end is not None:
            pair.end("one", end)
        leaders.runs("two", 2 * 2)
        if end is None:
            # It has lost the lease, and whatever it commits now is refused.
            pair.workers["one"].process.send_signal(signal.SIGCONT)
        resolve(pair.workers["two"], tmp_path, "moved", "id int PRIMARY KEY, a int, b int")
        insert(mysql, 4, *TABLES)
        leaders.runs("two", 3 * 3)
        log = pair.workers["two"].log
        # A table that is quarantined begins another run, in which the history does not begin again.
        assert log.count(BEGAN) == (fault == "claim.before")
        assert ONCE in log
        assert beginnings(journal) == 2

        # The mode is still set, and the first worker takes over once more.
        if end is not None:
            pair.start("one")
        pair.settled()
        pair.end("two", signal.SIGKILL)
        insert(mysql, 5, *TABLES)
        leaders.runs("one", 3)
        assert ONCE in pair.workers["one"].log
        assert "Traceback" not in pair.workers["one"].log + log
        assert beginnings(journal) == 2
    plain = [{"id": n, "a": 10 * n, "b": 100 * n} for n in range(1, 6)]
    calm = [row | {"c": 5} for row in plain]
    check_each_once(stack, wanted["prefix"], {"calm": calm, "moved": plain, "swapped": plain})


def spoil(mysql: Mysql, journal: Journal) -> None:
    """Damage the history, make it wrong too, and let definitions change after the cursor."""
    (key,) = of_history(journal, "history")
    write(journal, [(key.encode(), b"not json")])
    unlogged(mysql, f"ALTER TABLE shop.swapped {EXCHANGE}")
    insert(mysql, 2, *TABLES)
    run(mysql, f"ALTER TABLE shop.moved {EXCHANGE}")
    insert(mysql, 3, *TABLES)
