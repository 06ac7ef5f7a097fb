"""Real servers of each series, each started when it is first asked for, and ended behind these tests."""

import os
from collections.abc import Iterator

import pytest

from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.integration.ddl.conftest import Servers, pytest_collection_modifyitems, started

__all__ = ["pytest_collection_modifyitems", "servers"]


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from ``9.7``, ``5.7`` or ``mariadb-11.8`` to that running server."""
    owner, running = Children(), dict[str, Mysql]()

    def server(name: str) -> Mysql:
        if name not in running:
            folder = tmp_path_factory.mktemp(f"tools-{name}-")
            try:
                running[name] = started(name, folder, owner)
            except MissingSoftwareError as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(error))
        return running[name]

    try:
        yield server
    finally:
        owner.close()
