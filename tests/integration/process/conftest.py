"""The source of a test that needs no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.servers import own_mysql


@pytest.fixture
def mysql(stack: Stack) -> Iterator[Mysql]:
    """A server of the test's own, whose binlog has one empty table ``shop.t``."""
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id int PRIMARY KEY, x int)",
        options={"server_id": 9},
    ) as server:
        yield server
