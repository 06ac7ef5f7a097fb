"""Real servers of each series, each started when it is first asked for, and ended after these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.servers import Servers, on_demand
from tests.integration.ddl.conftest import OPTIONS, set_up


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from ``9.7``, ``5.7`` or ``mariadb-11.8`` to that running server."""
    with on_demand(tmp_path_factory, OPTIONS) as server:
        yield lambda name: server(set_up(name))
