"""A server that is upgraded: its binlog files and its server_uuid stay, and so does what was read of them.

The data of 8.0.15 need steps on their way to the newest MySQL that are not installed here; its binlog does not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devstack.old_mysql import old_mysql
from devstack.processes import Children
from tests.harness.sql import ask
from tests.integration.failover.prove import at_home, published
from tests.integration.failover.servers import insert
from tests.integration.past.servers import TABLE, made
from tests.integration.worker.source import facts_of

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("failover/test_fit has the same of a standby and its files"),
]


def test_the_binlog_of_8_0_is_read_on_at_the_newest(children: Children, tmp_path: Path) -> None:
    old = old_mysql("8.0", tmp_path / "old", owner=children, options={"server_id": 1})
    old.start()
    ask(old, *TABLE)
    insert(old, "one", "two")
    cursor, uuid = published(old), facts_of(old).server_uuid
    old.stop()
    new = made(children, tmp_path / "new", server_id=1)
    new.start()
    new.stop()
    for file in (*new.data.glob("binlog.*"), new.data / "auto.cnf"):
        file.unlink()
    for file in (*old.data.glob("binlog.*"), old.data / "auto.cnf"):
        shutil.copy2(file, new.data / file.name)
    new.start()
    assert facts_of(new).server_uuid == uuid
    assert at_home(cursor, new).landmark == cursor.proof.landmark
    ask(new, *TABLE)
    insert(new, "three")
    assert at_home(cursor, new).landmark == cursor.proof.landmark
