"""The mapping of a server's errors when it refuses to dump its binlog."""

from __future__ import annotations

import pymysql
import pytest

from connectors.errors import AqueductError, BinlogFileMissing, PositionGone, SourceRefused
from connectors.mysql.server.facts import translated
from tests.unit.connectors.mysql.facts import ADDRESS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Could not open log file", BinlogFileMissing),
        ("Could not find first log file name in binary log index file", PositionGone),
        ("Client requested master to start replication from impossible position", PositionGone),
        ("bogus data in log event", SourceRefused),
    ],
)
def test_a_dump_that_is_refused_has_the_name_of_its_cause(
    text: str, expected: type[AqueductError]
) -> None:
    found = translated(pymysql.err.OperationalError(1236, text), ADDRESS)
    assert type(found) is expected
    assert text in str(found)
