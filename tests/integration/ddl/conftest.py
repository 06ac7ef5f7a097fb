"""Real servers of each series that statements are tried on, each started when it is first asked for."""

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

_OPTIONS: dict[str, str | int] = {"max_allowed_packet": "64M", "innodb_flush_method": "nosync"}
"""Tables come and go by the hundreds; what a crash would leave of them does not matter."""
# With them, servers before 8.0.21 refuse CREATE TABLE … SELECT and some statements on temporary tables.
_WITHOUT_GTIDS: dict[str, str | int] = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}

_BEFORE_GTIDS = "5.5"
"""It knows neither."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from ``9.7``, ``5.7`` or ``mariadb-11.8`` to that running server."""
    owner, running = Children(), dict[str, Mysql]()

    def server(name: str) -> Mysql:
        if name not in running:
            try:
                running[name] = started(name, tmp_path_factory.mktemp(f"ddl-{name}-"), owner)
            except MissingSoftwareError as error:
                if os.environ.get("CI"):
                    raise
                pytest.skip(str(error))
        return running[name]

    try:
        yield server
    finally:
        owner.close()


def started(name: str, folder: Path, owner: Children) -> Mysql:
    """A new server of a series; ``lower-`` before it: one that keeps names of tables in lower case."""
    make, _, series = name.removeprefix("lower-").rpartition("-")
    options = _OPTIONS | ({"lower_case_table_names": 1} if name.startswith("lower-") else {})
    if make == "mariadb":
        found = mariadb.find_or_fetch(series, owner)
        made = Mysql(folder, found, owner=owner, flavour=mariadb.MARIADB, options=options)
    elif series in OLD:
        if series != _BEFORE_GTIDS:
            options |= _WITHOUT_GTIDS
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
