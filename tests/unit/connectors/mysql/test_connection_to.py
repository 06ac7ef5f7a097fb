"""What a connection that cannot be made is called."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import SourceLost, SourceRefused
from connectors.mysql.server import SourceAddress, Tls, connection_to


def address(port: int) -> SourceAddress:
    return SourceAddress(
        host="127.0.0.1", port=port, user="u", password="secret", server_id=1, replica_uuid="r"
    )


def test_certificates_that_cannot_be_read_are_told_by_the_file(tmp_path: Path) -> None:
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
