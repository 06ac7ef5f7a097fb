"""Existing rows are read on at a standby, of a MySQL without GTIDs and of MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack
from devstack.processes import Children
from tests.harness.servers import started
from tests.harness.sql import ask, run
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import running
from tests.integration.failover.servers import Pair, Writer, changed, pair, promote
from tests.integration.failover.setting import reads, two_sources
from tests.integration.mariadb.test_standby import follow as follow_mariadb
from tests.integration.mariadb.test_standby import promote as promote_mariadb

ROWS, PER_SECOND = 4_000, 300
MARIADB = "mariadb-11.8"


@pytest.fixture(params=["MySQL without GTIDs", MARIADB])
def both(
    request: pytest.FixtureRequest, stack: Stack, tmp_path: Path
) -> Iterator[tuple[Pair, bool]]:
    """Master and standby, and whether they are MariaDB's."""
    if request.param == MARIADB:
        owner = Children()
        try:
            servers = [
                started(
                    MARIADB,
                    tmp_path / f"server-{n}",
                    owner,
                    {"server_id": n, "log_slave_updates": "ON"},
                )
                for n in (21, 22)
            ]
            found = Pair(*servers)
            follow_mariadb(found.standby, found.master)
            # The account may ask whether it is a replica.
            run(
                found.standby,
                "SET SESSION sql_log_bin = 0",
                "GRANT SLAVE MONITOR ON *.* TO 'aqueduct'@'%'",
            )
            found.create()
            yield found, True
        finally:
            owner.kill()
        return
    with pair(stack, tmp_path.name, gtids=False) as found:
        yield found, False


def read(status: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = status.get("snapshot", {}).get("shop.t", {})
    return found


def is_published(stack: Stack, prefix: str, note: str) -> bool:
    return any(change.value["after"]["note"] == note for change in rows(stack, prefix, "t"))


@pytest.mark.long(
    "process/test_snapshot_without_gtids has the reading, test_without_gtids the standby"
)
def test_a_standby_has_the_rows_that_were_not_read_yet(
    stack: Stack, both: tuple[Pair, bool], tmp_path: Path
) -> None:
    servers, is_mariadb = both
    values = ", ".join(f"({n}, 1, 'first')" for n in range(1, ROWS + 1))
    run(servers.master, f"INSERT INTO shop.t VALUES {values}")
    wanted = two_sources(stack, servers, tmp_path)
    shop = wanted["destinations"]["shop"]
    shop.pop("start")
    shop["snapshot"] = {"mode": "initial", "rows_per_second": PER_SECOND}
    with running(wanted, tmp_path) as worker:
        with Writer(servers.master, "m") as writer:
            worker.wait(lambda status: bool(read(status).get("rows")))
            writer.until(len(writer.confirmed) + 50)
            ask(
                servers.master,
                f"UPDATE shop.t SET x = x + 1 WHERE id > {ROWS - 500} AND id <= {ROWS}",
            )
        run(servers.master, "INSERT INTO shop.t (x, note) VALUES (9, 'last')")
        until(lambda: is_published(stack, wanted["prefix"], "last"))
        servers.caught_up()
        servers.master.kill()
        (promote_mariadb if is_mariadb else promote)(servers.standby)
        reads(worker, servers.standby)
        assert read(worker.destination())["state"] == "reading", "some are left for the standby"
        with Writer(servers.standby, "s") as writer:
            ask(servers.standby, "UPDATE shop.t SET x = x + 5 WHERE id % 7 = 0")
            # It adds rows faster than they are read.
            writer.until(50)
        worker.wait(lambda status: read(status).get("state") == "done")
        run(servers.standby, "INSERT INTO shop.t (x, note) VALUES (9, 'end')")
        until(lambda: is_published(stack, wanted["prefix"], "end"))
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    folded: dict[int, tuple[int, str]] = {}
    for change in changed(stack, wanted["prefix"]):
        after = change.value["after"]
        if change.value["op"] == "r" and after["id"] in folded:
            assert folded[after["id"]] == (after["x"], after["note"]), (
                "an older image after a newer one"
            )
        folded[after["id"]] = after["x"], after["note"]
    source = {
        id_: (x, note) for id_, x, note in ask(servers.standby, "SELECT id, x, note FROM shop.t")
    }
    assert folded == source
