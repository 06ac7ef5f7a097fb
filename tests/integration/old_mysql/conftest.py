"""Servers of the old series, each started once for all tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.servers import Servers, on_demand


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The function from a series such as ``5.6`` to its running server."""
    with on_demand(tmp_path_factory, {"max_allowed_packet": "64M"}) as server:
        yield server
