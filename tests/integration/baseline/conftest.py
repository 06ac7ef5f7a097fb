"""Servers of each series, with GTIDs and without, each started when it is first asked for."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devstack import mariadb, mysql_software
from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.old_mysql import SERIES as OLD
from devstack.old_mysql import old_mysql
from devstack.processes import Children

Servers = Callable[[str], Mysql]

SERIES = ["9.7", "8.0", "5.7", "5.6", "5.5", "mariadb-11.8", "mariadb-10.11"]
WITHOUT_GTIDS = " without GTIDs"
_FAST: dict[str, str | int] = {"innodb_flush_method": "nosync"}
_GTIDS_OFF: dict[str, str | int] = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from ``9.7``, ``8.0 without GTIDs`` or ``mariadb-11.8`` to that running server."""
    owner, running = Children(), dict[str, Mysql]()

    def server(name: str) -> Mysql:
        if name not in running:
            folder = tmp_path_factory.mktemp(f"baseline-{name.replace(' ', '-')}-")
            try:
                running[name] = _started(name, folder, owner)
            except MissingSoftwareError as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(error))
        return running[name]

    try:
        yield server
    finally:
        owner.close()


def _started(name: str, folder: Path, owner: Children) -> Mysql:
    make, _, series = name.removesuffix(WITHOUT_GTIDS).rpartition("-")
    options = _FAST | (_GTIDS_OFF if name.endswith(WITHOUT_GTIDS) else {})
    if make == "mariadb":
        found = mariadb.find_or_fetch(series, owner)
        made = Mysql(folder, found, owner=owner, flavour=mariadb.MARIADB, options=options)
    elif series in OLD:
        made = old_mysql(series, folder, owner=owner, options=options)
    else:
        made = Mysql(folder, mysql_software.find_or_fetch(owner), owner=owner, options=options)
    made.start()
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses these servers as what uses the others is, so that both can be left out."""
    for item in items:
        if "servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.stack)
