"""Servers of each series, with GTIDs and without, each started when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.servers import FAST, Servers, on_demand

SERIES = ["9.7", "8.0", "5.7", "5.6", "5.5", "mariadb-11.8", "mariadb-10.11"]


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from ``9.7``, ``8.0 without GTIDs`` or ``mariadb-11.8`` to that running server."""
    with on_demand(tmp_path_factory, FAST) as server:
        yield server
