"""The mapping of a server's errors when it refuses to dump its binlog."""

from __future__ import annotations

import pymysql
import pytest

from connectors.errors import (
    AqueductError,
    BinlogFileMissing,
    CorruptEvent,
    PositionGone,
    SourceRefused,
)
from connectors.mysql.server.connection import translated
from tests.unit.connectors.mysql.facts import ADDRESS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Could not open log file", BinlogFileMissing),
        ("Could not find first log file name in binary log index file", PositionGone),
        ("Client requested master to start replication from impossible position", PositionGone),
        ("bogus data in log event", CorruptEvent),
        (
            "event read from binlog did not pass crc check; the first event 'binlog.000001' at 4",
            CorruptEvent,
        ),
        ("binlog truncated in the middle of event; consider out of disk space", CorruptEvent),
        ("log event entry exceeded max_allowed_packet; Increase it on source", CorruptEvent),
        ("Misconfigured source - source server_id is 0", SourceRefused),
    ],
)
def test_a_dump_that_is_refused_has_the_name_of_its_cause(
    text: str, expected: type[AqueductError]
) -> None:
    found = translated(pymysql.err.OperationalError(1236, text), ADDRESS)
    assert type(found) is expected
    assert text in str(found)
