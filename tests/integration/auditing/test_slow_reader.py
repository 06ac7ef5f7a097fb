"""An audit that takes its time over a binlog, on a server that waits a second for no reader."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import pytest

from app.audit.truth.mysqlbinlog import BinlogFiles, ServerBinlog
from connectors.mysql.server.connection import SourceAddress
from tests.harness.servers import own_server
from tests.harness.sql import connected

_AT = re.compile(rb"end_log_pos (\d+)")


def test_what_is_read_slowly_is_read_to_the_end_also_over_files_that_begin_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as use:
        mysql = use.enter_context(own_server("9.7", tmp_path, options={"server_id": 9}))
        program = mysql.mysqlbinlog
        assert program is not None
        cursor = use.enter_context(connected(mysql))
        cursor.execute("SET GLOBAL net_write_timeout = 1")
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.t (id int PRIMARY KEY, v longtext)")
        for number in range(30):
            cursor.execute("INSERT INTO shop.t VALUES (%s, repeat('x', 1000000))", (number,))
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("INSERT INTO shop.t VALUES (100, 'y')")
        address = SourceAddress(
            host=mysql.host,
            port=mysql.port,
            user="root",
            password="",
            server_id=77,
            replica_uuid="",
        )
        binlog = ServerBinlog.of(address, tuple(program))
        first, last = binlog.files()[0], [binlog.files()[-1]]
        copy = ServerBinlog._copy

        def beside(self: ServerBinlog, name: str, folder: str) -> None:
            copy(self, name, folder)
            if last == [name]:
                # Between the copy of the last file and what is asked after it.
                last.clear()
                cursor.execute("INSERT INTO shop.t VALUES (101, 'z')")
                cursor.execute("FLUSH BINARY LOGS")
                cursor.execute("INSERT INTO shop.t VALUES (102, 'z')")

        monkeypatch.setattr(ServerBinlog, "_copy", beside)
        places = []
        for number, line in enumerate(binlog.lines(first)):
            places += _AT.findall(line)
            if number == 50:
                # What is tested: longer than the server waits.
                time.sleep(4)
        cursor.execute("SHOW BINARY LOGS")
        paths = tuple(Path(mysql.data, name) for name, *_ in cursor.fetchall())
        assert len(paths) == len(binlog.files()) + 1
        on_disk = BinlogFiles(paths=paths, server_uuid="", program=tuple(program))
        assert places == [at for line in on_disk.lines(first) for at in _AT.findall(line)]
