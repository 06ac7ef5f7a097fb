"""Fixtures: stores on MySQL of today, on 5.7 and 8.0, and on MariaDB, each server started once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.mysql.schema_store.store import MetaStore
from connectors.mysql.server.facts import SourceAddress
from devstack import Stack
from devstack import mariadb as mariadb_software
from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.old_mysql import old_mysql
from devstack.processes import Children

SERVERS = ("9.7", "5.7", "8.0", "mariadb")


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """The servers of these tests, none of which outlives them."""
    owner = Children()
    yield owner
    owner.close()


@pytest.fixture(scope="session")
def servers(
    stack: Stack, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Mysql]:
    """From a name of ``SERVERS`` to its running server."""
    running: dict[str, Mysql] = {"9.7": stack.mysql}

    def server(name: str) -> Mysql:
        if name not in running:
            folder: Path = tmp_path_factory.mktemp(f"store-{name}")
            try:
                running[name] = _made(name, folder, children)
            except MissingSoftwareError as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(error))
            running[name].start()
        return running[name]

    return server


def _made(name: str, folder: Path, children: Children) -> Mysql:
    if name != "mariadb":
        return old_mysql(name, folder, owner=children)
    newest = max(mariadb_software.RELEASES)
    software = mariadb_software.find_or_fetch(newest, children)
    return Mysql(folder, software, owner=children, flavour=mariadb_software.MARIADB)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Mysql]) -> Mysql:
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
