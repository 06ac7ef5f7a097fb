"""One server of each kind that reports times and positions differently; their binlogs are purged."""

from collections.abc import Iterator

import pytest

from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.servers import started

KINDS = ("9.7", "5.7", "mariadb")
_NAMES = {"mariadb": "mariadb-10.11"}


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    """The servers of these tests, none of which outlives them."""
    owner = Children()
    yield owner
    owner.kill()


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest,
    children: Children,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mysql:
    """The newest MySQL, one without commit times in its binlog, and a MariaDB."""
    name = _NAMES.get(request.param, request.param)
    return started(name, tmp_path_factory.mktemp("start"), children)
