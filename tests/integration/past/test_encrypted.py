"""MySQL's binlog_encryption: on, off, with another key; what is read, and where it is, stays the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.mysql.lookup.binlog_end import read_end
from connectors.mysql.lookup.binlog_retention import read_retention
from connectors.mysql.lookup.landmark_search import transactions_before
from connectors.mysql.lookup.resumable import check
from connectors.mysql.lookup.start import Latest, first_offset, position_after
from connectors.mysql.position import Coordinates
from devstack.mysql import Mysql
from devstack.mysql_software import MysqlSoftware, find_or_fetch
from devstack.processes import Children
from tables.state.cursor import Cursor
from tests.harness.sql import ask
from tests.integration.failover.prove import at_home, published
from tests.integration.failover.servers import insert
from tests.integration.past.servers import TABLE, files, made, rotated
from tests.integration.worker.source import address_of, facts_of
from tests.integration.worker.streams import at, opened

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("failover/test_fit has the same of a standby and its files"),
]
_COMPONENT = "component_keyring_file"


def test_encryption_on_off_and_a_new_key_change_no_place_and_no_byte(
    children: Children, tmp_path: Path
) -> None:
    software = _with_keyring(find_or_fetch(children), tmp_path)
    server = made(children, tmp_path / "mysql", software=software, server_id=1)
    server.start()
    ask(server, *TABLE)
    insert(server, "a plain note")
    cursors = [published(server)]
    for statement in (
        "SET GLOBAL binlog_encryption = ON",
        "ALTER INSTANCE ROTATE BINLOG MASTER KEY",
        "SET GLOBAL binlog_encryption = OFF",
    ):
        ask(server, statement)
        insert(server, f"a secret note {len(cursors)}")
        cursors.append(published(server))
        _ends_where_positions_do(server, cursors[-1])
        for cursor in cursors:
            assert at_home(cursor, server).landmark == cursor.proof.landmark
    encrypted = [str(file[0]) for file in files(server) if file[2] == "Yes"]
    assert len(encrypted) == 2
    for name in encrypted:
        assert b"secret note" not in (server.data / name).read_bytes()
    server.stop()
    server.start()
    rotated(server)
    for cursor in cursors:
        assert at_home(cursor, server).landmark == cursor.proof.landmark


def _ends_where_positions_do(server: Mysql, cursor: Cursor) -> None:
    """The size of an encrypted file is no position; what compares positions with the end needs one."""
    facts, address = facts_of(server), address_of(server)
    file, pos = ask(server, "SHOW BINARY LOG STATUS")[0][:2]
    end = Coordinates(file, int(pos))
    assert cursor.offset.coordinates == end
    latest = first_offset(Latest(), facts, address)
    assert latest.coordinates == end
    check(latest, facts, address)
    assert position_after(facts.gtid_executed, facts, address) == end
    assert transactions_before(end, address).gtids == facts.gtid_executed
    kept = read_retention(address)
    assert kept.is_end(end)
    assert not kept.is_end(replace(end, pos=end.pos - 1))
    assert read_end(address).binlogs == kept.binlogs == facts.binlogs
    insert(server, "read from the end on")
    stream = opened(address, at(end))
    try:
        chunk = next(iter(stream.chunks(lambda: True)))
    finally:
        stream.close()
    assert chunk.start == end


def _with_keyring(software: MysqlSoftware, folder: Path) -> MysqlSoftware:
    """The same server, run by a name of its own, beside which it finds what to load at its start."""
    plugins, program = folder / "plugins", folder / "bin/mysqld"
    (option,) = (one for one in software.options if one.startswith("--plugin-dir="))
    shutil.copytree(option.partition("=")[2], plugins, symlinks=True)
    program.parent.mkdir()
    program.symlink_to(software.server[-1])
    program.with_suffix(".my").write_text(json.dumps({"components": f"file://{_COMPONENT}"}))
    settings = {"path": str(folder / "keys"), "read_only": False}
    (plugins / f"{_COMPONENT}.cnf").write_text(json.dumps(settings))
    options = tuple(f"--plugin-dir={plugins}" if one == option else one for one in software.options)
    return replace(software, server=(*software.server[:-1], str(program)), options=options)
