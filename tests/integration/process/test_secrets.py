"""A password that is changed while a worker runs: it is read from its file, without a restart."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from devstack import Stack
from tests.harness.sql import connected, run
from tests.harness.worker import running, settings


@pytest.mark.remedy("SourceRefused")
def test_a_password_file_that_was_changed_is_read_at_the_next_connection(
    stack: Stack, tmp_path: Path
) -> None:
    mysql, user = stack.mysql, f"u{uuid.uuid4().hex[:8]}"
    database = f"secret_{user}"
    run(
        mysql,
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (id int PRIMARY KEY)",
        f"CREATE USER {user}@'%' IDENTIFIED BY 'canary-1'",
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}@'%'",
    )
    wanted = settings(stack, mysql, tmp_path, decoders=0, start="latest")
    source = wanted["destinations"]["shop"]["source"]
    del source["password"]
    wanted["destinations"]["shop"]["filter"]["include"] = rf"{database}\..*"
    source |= {"user": user, "password_file": "password"}
    (tmp_path / "password").write_text("canary-1\n")
    with running(wanted, tmp_path) as worker:
        worker.wait(lambda status: status["state"] == "RUNNING")
        run(mysql, f"ALTER USER {user}@'%' IDENTIFIED BY 'canary-2'")
        with connected(mysql) as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (user,))
            for (connection,) in cursor.fetchall():
                cursor.execute(f"KILL {connection}")
        worker.wait(lambda status: "SourceRefused" in str(status["error"]))
        (tmp_path / "password").write_text("canary-2\n")
        run(mysql, f"INSERT INTO {database}.t VALUES (1)")
        worker.wait(lambda status: status["state"] == "RUNNING" and status["rows"] == 1)
        assert "canary" not in worker.log
