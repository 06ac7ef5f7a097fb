"""A binlog that is encrypted on disk is sent decrypted, with events that mark the encryption."""

import pytest

from connectors.mysql.binlog.mariadb_events import MariadbEventType
from connectors.mysql.lookup.start import Earliest, first_offset
from devstack.processes import Children
from tests.harness.sql import run
from tests.integration.mariadb.conftest import SERIES, started
from tests.integration.mariadb.source import end_of, events, steps_from
from tests.integration.worker.source import address_of, decoded, facts_of

pytestmark = pytest.mark.stack


def test_an_encrypted_binlog_is_read_as_any_other(
    children: Children, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"1;{'a7' * 32}\n")
    server = started(
        SERIES[-1],
        children,
        tmp_path_factory,
        plugin_load_add="file_key_management",
        file_key_management_filename=str(keys),
        encrypt_binlog="ON",
        log_bin_compress="ON",
        log_bin_compress_min_len=10,
    )
    try:
        run(
            server,
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id int primary key, v varchar(99))",
            "INSERT INTO d.t VALUES (1, 'a secret of ours')",
            "FLUSH BINARY LOGS",
            "INSERT INTO d.t VALUES (2, 'another secret of ours')",
        )
        for file in server.data.glob("binlog.0*"):
            assert b"secret" not in file.read_bytes()
        begin = first_offset(Earliest(), facts_of(server), address_of(server))
        types = [one.event.type for one in events(server, begin, end_of(server))]
        assert MariadbEventType.START_ENCRYPTION in types
        rows = [row.after() for row in decoded(server, steps_from(server, begin))]
        assert rows == [
            {"id": 1, "v": "a secret of ours"},
            {"id": 2, "v": "another secret of ours"},
        ]
    finally:
        server.stop()
