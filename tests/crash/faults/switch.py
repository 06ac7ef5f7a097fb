"""Faults of a source with a standby: a planned switch, a lost source, an unfit standby."""

from __future__ import annotations

import os
import subprocess
import sys

import pymysql

from devstack.mysql import Mysql
from tests.crash import load as loads
from tests.crash.scenario import fault
from tests.crash.scene import DESTINATION, Scene
from tests.harness.sql import ask, connected
from tests.harness.wait import until
from tests.integration.failover.servers import Pair, pair, promote

_STATE = (
    "SELECT COUNT(*), SUM(n), SUM(CRC32(v)) FROM shop.goods UNION ALL "
    "SELECT COUNT(*), SUM(n), SUM(CRC32(v)) FROM shop.moves"
)


@fault("switch.planned", "planned switch of writers and worker to the standby, with GTIDs")
def planned(at: Scene) -> str:
    return _planned(at, gtids=True)


@fault(
    "switch.planned-no-gtid", "planned switch of writers and worker to the standby, without GTIDs"
)
def planned_without(at: Scene) -> str:
    return _planned(at, gtids=False)


@fault("switch.killed", "MySQL is lost and its standby promoted, with GTIDs")
def killed(at: Scene) -> str:
    return _killed(at, gtids=True)


@fault("switch.killed-no-gtid", "MySQL is lost and its standby promoted, without GTIDs")
def killed_without(at: Scene) -> str:
    return _killed(at, gtids=False)


@fault(
    "switch.lagging", "MySQL is lost while its standby has not yet applied all published changes"
)
def lagging(at: Scene) -> str:
    both = _both(at, gtids=True)
    at.begin()
    ask(both.standby, "STOP REPLICA SQL_THREAD")
    at.pause(2, 3)
    at.load.hold()
    at.wait_recovered()
    mark = at.executed()
    until(lambda: _received(both.standby, mark))
    both.master.kill()
    at.wait(lambda: "StandbyLags" in str(at.status().get("error")), "does not say that it lags")
    before = len(at.topics().records)
    ask(both.standby, "START REPLICA SQL_THREAD")
    until(lambda: ask(both.standby, "SELECT @@GLOBAL.gtid_executed")[0][0] == mark)
    assert len(at.topics().records) == before, "something was published again"
    return f"StandbyLags meanwhile; {_moved(at, both)}"


@fault("switch.diverged", "MySQL is lost, and its standby never receives some published changes")
def diverged(at: Scene) -> str:
    both = _both(at, gtids=True)
    at.begin()
    promote(both.standby)
    at.pause(2, 3)
    at.load.hold()
    at.wait_recovered()
    both.master.kill()
    at.wait(lambda: "SourceDiverged" in _refused(at), "does not say that it has diverged")
    before = at.topics().cursors[-1]
    at.pause(2, 3)
    assert at.topics().cursors[-1] == before, "the cursor moved"
    both.master.start()
    at.load.proceed()
    return (
        f"refused: SourceDiverged; back at the old server, recovered in {at.wait_recovered():.1f} s"
    )


def _planned(at: Scene, *, gtids: bool) -> str:
    both = _both(at, gtids=gtids)
    at.begin()
    at.pause(1, 2)
    at.load.hold()
    ask(both.master, "SET GLOBAL super_read_only = ON")
    _alike(both)
    completed = _switch(at, both.standby)
    assert completed.returncode == 0, completed.stdout
    return _moved(at, both)


def _killed(at: Scene, *, gtids: bool) -> str:
    both = _both(at, gtids=gtids)
    at.begin()
    at.pause(1, 2)
    at.load.hold()
    _alike(both)
    both.master.kill()
    return _moved(at, both)


def _moved(at: Scene, both: Pair) -> str:
    """The standby is written to from now on."""
    promote(both.standby)
    at.primary = both.standby
    at.load.proceed()
    at.pause(1, 2)
    return f"recovered at the standby in {at.wait_recovered():.1f} s"


def _both(at: Scene, *, gtids: bool) -> Pair:
    """A master that is written to, and its standby; the worker knows both."""
    name = f"{at.name}-{at.seed}-{at.rng.randrange(10**6)}"
    both = at.until_end.enter_context(pair(at.servers.stack, name, gtids=gtids))
    at.primary, at.has_gtids = both.master, gtids
    ask(both.master, "DROP TABLE shop.t", *loads.SCHEMA[1:])
    until(lambda: bool(ask(both.standby, "SHOW TABLES FROM shop LIKE 'moves'")))
    account = {"user": "aqueduct", "password": "aqueduct", "tls": at.tls}
    at.extra = {
        "source": None,
        "sources": [
            {"host": one.host, "port": one.port, **account} for one in (both.master, both.standby)
        ],
        "failover": {"heartbeat": {"interval_seconds": 0.2, "retries": 3}},
    }
    return both


def _alike(both: Pair) -> None:
    """Wait until the standby has all that the master has."""
    until(lambda: ask(both.master, _STATE) == ask(both.standby, _STATE))


def _received(standby: Mysql, gtids: str) -> bool:
    with connected(standby, cursorclass=pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        (row,) = cursor.fetchall()
        held = f"{row['Retrieved_Gtid_Set']},{row['Executed_Gtid_Set']}".strip(",")
        cursor.execute("SELECT GTID_SUBSET(%s, %s) AS held", (gtids, held))
        (answer,) = cursor.fetchall()
        return bool(answer["held"])


def _refused(at: Scene) -> str:
    return " ".join(str(one.get("refused")) for one in at.status().get("sources", ()))


def _switch(at: Scene, server: Mysql) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", "source", "switch", DESTINATION]
    config = {"AQUEDUCT_CONFIG": str(at.folder / f"{at.worker.name}.yaml")}
    return subprocess.run(
        [*command, f"{server.host}:{server.port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **config},
    )
