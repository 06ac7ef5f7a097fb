"""Fixtures: stores on MySQL of today, on 5.7 and 8.0, and on MariaDB, each server started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connectors.mysql.schema_store import MetaStore
from connectors.mysql.server.connection import SourceAddress
from devstack import Stack
from devstack import mariadb as mariadb_software
from devstack.mysql import Mysql
from tests.harness.servers import Servers, on_demand

SERVERS = ("9.7", "5.7", "8.0", "mariadb")
_NAMES = {"mariadb": f"mariadb-{max(mariadb_software.RELEASES)}"}


@pytest.fixture(scope="package")
def servers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """From a name of ``SERVERS`` to its running server."""
    with on_demand(tmp_path_factory) as server:
        yield lambda name: stack.mysql if name == "9.7" else server(_NAMES.get(name, name))


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: Servers) -> Mysql:
    """A server of each make."""
    return servers(request.param)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return f"meta_{abs(hash(request.node.nodeid)) % 10**9}"


def store(
    server: Mysql, database: str, *, user: str = "root", password: str = "", heartbeat: float = 10.0
) -> MetaStore:
    """The store in a database, as an account of the server."""
    address = SourceAddress(
        host=server.host,
        port=server.port,
        user=user,
        password=password,
        server_id=0,
        replica_uuid="",
        heartbeat=heartbeat,
    )
    return MetaStore(address, database)
