"""A compressed transaction needs the memory of one piece, however large it is."""

from __future__ import annotations

import subprocess
import sys

import pytest
import zstandard

from connectors.errors import CorruptEvent
from connectors.mysql.stream.transaction_payload import Payload
from tests.unit.connectors.mysql.wire import event, rows_body

SCRIPT = """
import resource, struct, zstandard
from connectors.mysql.stream.transaction_payload import Payload
from tests.unit.connectors.mysql.wire import event, map_body, payload_body, rows_body

MIB = 1 << 20
table, rows = event(19, map_body(1)), event(30, rows_body(1, MIB))
count = 256
compressor = zstandard.ZstdCompressor().compressobj()
content = b"".join(compressor.compress(table + rows) for _ in range(count)) + compressor.flush()
payload = Payload(memoryview(content), 0, count * len(table + rows))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert sum(map(len, payload.pieces(MIB // 4))) == count * len(table + rows)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(len(content), grown // 1024)
"""


def test_a_payload_that_expands_to_256_mib_takes_a_few() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, timeout=300
    )
    compressed, grown = map(int, completed.stdout.split())
    assert compressed < 1 << 20
    # A piece of one event of 1 MiB is held some times over, and zstd's window.
    assert grown < 32


def test_no_more_is_given_out_than_was_announced() -> None:
    rows = event(30, rows_body(1, 1 << 16))
    content = zstandard.ZstdCompressor().compress(rows * 1000)
    given: list[bytes] = []
    with pytest.raises(CorruptEvent, match="more"):
        given.extend(Payload(memoryview(content), 0, 20 * len(rows)).pieces(1 << 16))
    assert 0 < sum(map(len, given)) <= 20 * len(rows)
