"""MariaDB of each series as a source, started once; fetched when it is missing."""

from collections.abc import Iterator

import pytest

from devstack import mariadb as software
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness import servers as harness
from tests.harness.servers import Servers, on_demand

SERIES = sorted(software.RELEASES)
"""The tested series, the newest last."""


@pytest.fixture(scope="package")
def children() -> Iterator[Children]:
    """The servers of these tests, none of which outlives them."""
    owner = Children()
    yield owner
    owner.kill()


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One server of each series, started when it is first asked for."""
    with on_demand(tmp_path_factory) as server:
        yield lambda series: server(f"mariadb-{series}")


@pytest.fixture(scope="package", params=SERIES)
def mariadb(request: pytest.FixtureRequest, servers: Servers) -> Mysql:
    """A server of each series, shared by all its tests: use names of your own in it."""
    return servers(request.param)


@pytest.fixture(scope="package")
def newest(servers: Servers) -> Mysql:
    """The same of the newest series alone, for what others do alike or not at all."""
    return servers(SERIES[-1])


def started(
    series: str,
    children: Children,
    tmp_path_factory: pytest.TempPathFactory,
    **options: str | int,
) -> Mysql:
    """A new server of a series."""
    name = f"mariadb-{series}"
    return harness.started(name, tmp_path_factory.mktemp(f"{name}-"), children, options)
