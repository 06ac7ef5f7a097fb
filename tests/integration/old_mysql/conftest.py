"""Fixtures: servers of the old series, each started once for all tests that ask for it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.old_mysql import old_mysql
from devstack.processes import Children

Servers = Callable[[str], Mysql]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from a series such as ``5.6`` to its running server."""
    owner, running = Children(), dict[str, Mysql]()

    def server(series: str) -> Mysql:
        if series not in running:
            folder: Path = tmp_path_factory.mktemp(f"mysql-{series}")
            try:
                made = old_mysql(series, folder, owner=owner, options=_OPTIONS)
            except MissingSoftwareError as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(error))
            made.start()
            running[series] = made
        return running[series]

    try:
        yield server
    finally:
        owner.close()


_OPTIONS: dict[str, str | int] = {"max_allowed_packet": "64M"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses these servers as what uses the others is, so that both can be left out."""
    for item in items:
        if "servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.stack)
