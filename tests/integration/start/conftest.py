"""A server of each kind that tells times and places otherwise, of this folder's own: its binlog is purged."""

import os
from collections.abc import Iterator

import pytest

from devstack import mariadb as mariadb_software
from devstack import mysql_software
from devstack.errors import MissingSoftwareError
from devstack.mariadb import MARIADB
from devstack.mysql import Mysql
from devstack.old_mysql import old_mysql
from devstack.processes import Children

KINDS = ("9.7", "5.7", "mariadb")


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    """The servers of these tests, none of which outlives them."""
    owner = Children()
    yield owner
    owner.close()


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest,
    children: Children,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mysql:
    """The newest MySQL, one that tells no times of commits, and a MariaDB."""
    kind, folder = request.param, tmp_path_factory.mktemp("start")
    try:
        if kind == "9.7":
            made = Mysql(folder, mysql_software.find_or_fetch(children), owner=children)
        elif kind == "mariadb":
            found = mariadb_software.find_or_fetch("10.11", children)
            made = Mysql(folder, found, owner=children, flavour=MARIADB)
        else:
            made = old_mysql(kind, folder, owner=children)
    except MissingSoftwareError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    made.start()
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses these servers as what uses the others is."""
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.stack)
