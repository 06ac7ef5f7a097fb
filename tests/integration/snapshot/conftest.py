"""The database of these tests, new for each file: their tables share names."""

import pytest

from devstack import Stack
from tests.harness.sql import run
from tests.integration.snapshot.both import DATABASE


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(
        stack.mysql,
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.numbers (n INT PRIMARY KEY)",
        "SET SESSION cte_max_recursion_depth = 10000",
        f"INSERT INTO {DATABASE}.numbers WITH RECURSIVE c(n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT n FROM c",
    )
