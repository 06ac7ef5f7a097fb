"""A canary in masked columns of a MariaDB: it is in nothing that a worker leaves, as with a MySQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack import Stack
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.harness.sql import run
from tests.integration.mariadb.conftest import SERIES, started
from tests.integration.process.test_masking import (
    COMMANDS,
    TABLES,
    assert_reached,
    leaks,
    masked_settings,
    places,
    written,
)


@pytest.fixture
def mariadb(children: Children, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mysql]:
    """A server of the test's own, which logs statements with rows, and rows without compression."""
    server = started(SERIES[-1], children, tmp_path_factory, binlog_annotate_row_events="ON")
    run(server, *TABLES)
    yield server
    server.kill()


@pytest.mark.long("process/test_masking.py has it with MySQL; test_worker.py a worker of MariaDB")
def test_a_masked_value_of_a_mariadb_is_in_no_topic_log_report_or_file(
    stack: Stack, mariadb: Mysql, tmp_path: Path
) -> None:
    wanted = masked_settings(stack, mariadb, tmp_path)
    written(mariadb)
    # The audit reads no MariaDB.
    shown = places(stack, wanted, tmp_path, COMMANDS)
    assert leaks(shown) == set()
    assert_reached(shown, str(wanted["prefix"]), tmp_path)
