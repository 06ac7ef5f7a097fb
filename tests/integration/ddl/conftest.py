"""Real servers of each series that statements are tried on, each started when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.old_mysql import SERIES as OLD
from tests.harness.servers import FAST, WITHOUT_GTIDS, Servers, on_demand

OPTIONS = {"max_allowed_packet": "64M", **FAST}
_BEFORE_GTIDS = "5.5"
"""It knows none."""


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from ``9.7``, ``5.7`` or ``mariadb-11.8`` to that running server."""
    with on_demand(tmp_path_factory, OPTIONS) as server:
        yield lambda name: server(set_up(name))


def set_up(name: str) -> str:
    """Before 8.0.21 servers with GTIDs refuse CREATE TABLE … SELECT, and some on temporary tables."""
    series = name.removeprefix("lower-")
    return name + WITHOUT_GTIDS if series in OLD and series != _BEFORE_GTIDS else name
