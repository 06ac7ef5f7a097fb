"""A source reset and then written to past the cursor, so that GTIDs and positions cannot reveal it."""

from __future__ import annotations

import shutil

from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from tests.crash.faults.files import _stopped
from tests.crash.scenario import fault
from tests.crash.scene import Scene

_FIRST = 95_000_000


@fault(
    "past.reset-covered",
    "RESET BINARY LOGS AND GTIDS while the worker is stopped, then enough writes to pass the cursor",
    error="SourceReset",
)
def reset_covered(at: Scene) -> str:
    at.begin()
    at.pause(0.5, 1.5)
    _down(at)
    at.earlier, at.is_another = at.binlog(), True
    cursor = at.topics().cursors[-1]
    at.servers.run("RESET BINARY LOGS AND GTIDS")
    _cover(at, cursor)
    return _stopped(at, "SourceReset")


@fault(
    "past.restored",
    "MySQL is restored from an older backup while the worker is stopped, then written to past the cursor",
    error="SourceReset",
)
def restored(at: Scene) -> str:
    at.begin()
    mysql, backup = at.servers.mysql, at.folder / "backup"
    mysql.stop()
    shutil.copytree(mysql.data, backup)
    mysql.start()
    at.wait_recovered()
    at.pause(0.5, 1.5)
    _down(at)
    at.earlier, at.is_another = at.binlog(), True
    cursor = at.topics().cursors[-1]
    mysql.kill()
    shutil.rmtree(mysql.data)
    shutil.copytree(backup, mysql.data)
    mysql.start()
    _cover(at, cursor)
    return _stopped(at, "SourceReset")


def _down(at: Scene) -> None:
    """The worker is away, and nothing is written any more."""
    at.worker.again = False
    at.worker.kill()
    at.wait(lambda: bool(at.worker.exits), "does not end")
    at.load.stop()


def _cover(at: Scene, cursor: dict[str, object]) -> None:
    """Write until the server has the cursor's GTIDs and position again."""
    wanted = GtidSet.parse(str(cursor["gtid_set"]))
    position = Coordinates(str(cursor["file"]), int(str(cursor["pos"])))
    with at.connect() as connection, connection.cursor() as rows:
        number = _FIRST
        connection.autocommit(True)
        while True:
            rows.execute("SHOW BINARY LOGS")
            file, size = rows.fetchall()[-1][:2]
            end = Coordinates(str(file), int(size))
            rows.execute("SELECT @@GLOBAL.gtid_executed")
            has_gtids = wanted.issubset(GtidSet.parse(rows.fetchall()[0][0]))
            if has_gtids and end.order > position.order:
                return
            if end.order[0] < position.order[0]:
                rows.execute("FLUSH BINARY LOGS")
            for _ in range(50):
                number += 1
                rows.execute(
                    f"INSERT INTO shop.moves (id, n, v) VALUES ({number}, 1, '{'x' * 99}')"
                )
