"""The errors of failed connections."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.errors import SourceLost, SourceRefused
from connectors.mysql.server.connection import SourceAddress, Tls, connection_to
from connectors.mysql.server.facts import binlog_files, end_of_file


def address(port: int) -> SourceAddress:
    return SourceAddress(
        host="127.0.0.1", port=port, user="u", password="secret", server_id=1, replica_uuid="r"
    )


def test_certificates_that_cannot_be_read_are_reported_by_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    with pytest.raises(SourceRefused, match=str(missing)) as caught:
        connection_to(replace(address(3306), tls=Tls.VERIFY_CA, tls_ca=str(missing)))
    assert "source.tls_ca" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_port_where_nobody_listens_is_a_lost_source() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SourceLost):
        connection_to(address(port))


def test_the_header_of_an_encrypted_binlog_file_is_no_part_of_its_positions() -> None:
    assert [end_of_file(1200, encrypted) for encrypted in ("Yes", "No", "")] == [688, 1200, 1200]
    assert end_of_file(0, "Yes") == 0


def test_the_files_of_a_server_are_listed_with_their_ends_whether_it_names_encrypted_ones_or_not() -> (
    None
):
    class Listed:
        """The cursor of a server that lists these binlog files."""

        def __init__(self, *rows: tuple[object, ...]) -> None:
            self.rows = rows

        def execute(self, text: str) -> None:
            assert text == "SHOW BINARY LOGS"

        def fetchall(self) -> tuple[tuple[object, ...], ...]:
            return self.rows

    new = Listed(("b.000001", 1200, "Yes"), ("b.000002", 1200, "No"))
    old = Listed(("b.000001", 1200))
    assert binlog_files(cast(Any, new)) == (("b.000001", 688), ("b.000002", 1200))
    assert binlog_files(cast(Any, old)) == (("b.000001", 1200),)
