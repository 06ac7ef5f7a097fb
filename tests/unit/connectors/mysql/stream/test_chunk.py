"""A chunk knows whether it begins between two transactions, however the stream is cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connectors.mysql.binlog.changes import QueryTextOnly
from connectors.mysql.charsets import Charsets
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.transaction_reader import TransactionReader
from tests.golden.test_golden import FILES
from tests.unit.connectors.mysql.cutting import fed
from tests.unit.connectors.mysql.lookup.test_skipped_transactions import events_of
from tests.unit.connectors.mysql.wire import packets


def reader_of(path: Path) -> TransactionReader:
    answer = json.loads(path.with_suffix(".json").read_text())
    known = answer["charsets"]
    charsets = Charsets({int(n): name for n, name in known["collations"].items()}, known["widths"])
    return TransactionReader("srv", charsets, mariadb="MariaDB" in answer["server"])


@pytest.mark.parametrize("step", [50, 500, 1_000_000])
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-2:]))
def test_it_begins_between_two_where_none_is_open_after_the_chunk_before(
    path: Path, step: int
) -> None:
    """``step``: how many bytes are received at once; of few, transactions are cut."""
    reader, within = reader_of(path), 0
    cutter = Cutter(Coordinates("binlog.000001", 4), checksum=False, target=1)
    for chunk in fed(cutter, b"".join(map(packets, events_of(path))), most=step):
        assert chunk.begins_between == (reader.open is None)
        within += not chunk.begins_between
        reader.read(chunk, QueryTextOnly())
    assert reader.open is None
    assert bool(within) == (step < 1_000_000)
