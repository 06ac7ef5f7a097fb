"""Each plugin by which an account may authenticate, and what is said where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from connectors.errors import SourceRefused
from connectors.mysql.server.connection import Tls
from connectors.mysql.server.facts import read_facts
from devstack.mysql import Mysql
from devstack.stack import Stack
from tests.harness.servers import own_server
from tests.harness.sql import run
from tests.integration.worker.source import address_of

pytestmark = pytest.mark.stack


def refused(server: Mysql, user: str, **more: Any) -> str:
    with pytest.raises(SourceRefused) as error:
        read_facts(address_of(server, user=user, **{"password": "p", **more}))
    return str(error.value)


def test_plugins_of_mariadb_are_known_and_others_are_named(tmp_path: Path) -> None:
    plugins = ("ed25519", "parsec", "pam")
    installed = [f"INSTALL SONAME 'auth_{plugin}'" for plugin in plugins]
    with own_server("mariadb-11.8", tmp_path, *installed) as server:
        for plugin in plugins[:2]:
            run(
                server,
                f"CREATE USER {plugin}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('päss')",
                f"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {plugin}@'%'",
            )
            assert read_facts(address_of(server, user=plugin, password="päss")).is_mariadb
            assert "Access denied" in refused(server, plugin, password="other")
        run(server, "CREATE USER pam@'%' IDENTIFIED VIA pam")
        assert "also by ed25519 or parsec" in refused(server, "pam")


def test_what_an_account_demands_beside_its_password_is_named(stack: Stack) -> None:
    for demand in ("SSL", "X509"):
        run(stack.mysql, f"CREATE USER needs_{demand}@'%' IDENTIFIED BY 'p' REQUIRE {demand}")
    try:
        said = refused(stack.mysql, "needs_SSL", tls=Tls.DISABLED)
        assert "REQUIRE SSL: set source.tls to required" in said
        assert "REQUIRE X509: remove that" in refused(stack.mysql, "needs_X509")
    finally:
        run(stack.mysql, "DROP USER needs_SSL@'%', needs_X509@'%'")


def test_a_tls_version_that_is_too_old_is_no_matter_of_the_network(
    stack: Stack, tmp_path: Path
) -> None:
    pem, key = serialization.Encoding.PEM, tmp_path / "key.pem"
    # This server's library has no TLS 1.2, and reads a key in the older form.
    form, bare = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    newer = serialization.load_pem_private_key(
        (stack.mysql.data / "server-key.pem").read_bytes(), None
    )
    key.write_bytes(newer.private_bytes(pem, form, bare))
    files = {
        "ca": stack.mysql.data / "ca.pem",
        "cert": stack.mysql.data / "server-cert.pem",
        "key": key,
    }
    tls = {f"ssl_{name}": str(file) for name, file in files.items()}
    with own_server("5.7", tmp_path / "server", options=tls) as server:
        said = refused(server, "root", password="", tls=Tls.REQUIRED)
        assert "no TLS version or cipher is common" in said
        assert "Let the server offer TLS 1.2 or later" in said
