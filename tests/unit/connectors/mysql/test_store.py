"""What the central schema store advises where its server refuses a connection."""

from __future__ import annotations

import pymysql
import pytest

from connectors.errors import StoreRefused
from connectors.mysql.schema_store import _remedy
from connectors.mysql.server.connection import SourceAddress, translated

ADDRESS = SourceAddress(
    host="meta", port=3306, user="u", password="p", server_id=0, replica_uuid=""
)


@pytest.mark.parametrize(
    ("code", "text", "setting"),
    [
        (2003, "SSL: CERTIFICATE_VERIFY_FAILED: Hostname mismatch", "schema_history.mysql.host"),
        (2003, "SSL: CERTIFICATE_VERIFY_FAILED", "schema_history.mysql.tls_ca"),
        (1045, "Access denied", "schema_history.mysql.tls to required"),
        (3159, "Connections using insecure transport", "schema_history.mysql.tls to required"),
    ],
)
def test_the_advice_names_the_settings_of_the_store(code: int, text: str, setting: str) -> None:
    error = translated(pymysql.err.OperationalError(code, text), ADDRESS)
    advice = _remedy(error, StoreRefused)
    assert setting in advice
    assert "source." not in advice
