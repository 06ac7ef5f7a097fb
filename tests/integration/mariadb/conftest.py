"""MariaDB of each series as a source, started once; fetched when it is not there."""

from collections.abc import Iterator

import pytest

from devstack import mariadb as software
from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.processes import Children


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """The servers of these tests, none of which outlives them."""
    owner = Children()
    yield owner
    owner.close()


@pytest.fixture(scope="session", params=sorted(software.RELEASES))
def mariadb(
    request: pytest.FixtureRequest, children: Children, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mysql]:
    """One server, shared by all tests of its series: use names of your own in it."""
    series: str = request.param
    server = started(series, children, tmp_path_factory)
    yield server
    server.stop()


def started(
    series: str,
    children: Children,
    tmp_path_factory: pytest.TempPathFactory,
    **options: str | int,
) -> Mysql:
    """A new server of a series; a test without the archive it comes from is passed over, and says so."""
    try:
        found = software.find_or_fetch(series, children)
    except MissingSoftwareError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp(f"mariadb-{series}-")
    server = Mysql(folder, found, owner=children, flavour=software.MARIADB, options=options)
    server.start()
    return server
