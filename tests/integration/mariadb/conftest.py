"""MariaDB of each series as a source, started once; fetched when it is not there."""

import os
from collections.abc import Callable, Iterator

import pytest

from devstack import mariadb as software
from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.processes import Children

SERIES = sorted(software.RELEASES)
"""Those that are tested, the newest last."""


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    """The servers of these tests, none of which outlives them."""
    owner = Children()
    yield owner
    owner.close()


@pytest.fixture(scope="session")
def servers(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Mysql]:
    """One server of each series, started when it is first asked for."""
    kept: dict[str, Mysql] = {}

    def server(series: str) -> Mysql:
        if series not in kept:
            kept[series] = started(series, children, tmp_path_factory)
        return kept[series]

    return server


@pytest.fixture(scope="session", params=SERIES)
def mariadb(request: pytest.FixtureRequest, servers: Callable[[str], Mysql]) -> Mysql:
    """A server of each series, shared by all its tests: use names of your own in it."""
    return servers(request.param)


@pytest.fixture(scope="session")
def newest(servers: Callable[[str], Mysql]) -> Mysql:
    """The same of the newest series alone, for what others do alike or not at all."""
    return servers(SERIES[-1])


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
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp(f"mariadb-{series}-")
    server = Mysql(folder, found, owner=children, flavour=software.MARIADB, options=options)
    server.start()
    return server
