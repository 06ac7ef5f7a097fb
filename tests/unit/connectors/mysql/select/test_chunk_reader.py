"""A reader that is closed while it connects."""

from __future__ import annotations

from typing import Any, cast

import pymysql
import pytest

from connectors.errors import SourceLost
from connectors.mysql.select import chunk_reader
from connectors.mysql.select.chunk_reader import ChunkReader, KeylessReader
from connectors.mysql.select.load_limits import LoadGate, LoadLimits
from connectors.mysql.select.read_views import WorkerClock
from connectors.mysql.server.connection import SourceAddress

ADDRESS = SourceAddress(host="db", port=3306, user="u", server_id=9, replica_uuid="r", password="")


class Connection:
    """A connection that answers no query."""

    is_closed = False

    def cursor(self) -> Any:
        if self.is_closed:
            raise pymysql.InterfaceError(0, "")
        raise AssertionError("a query of a reader that was closed")

    def _force_close(self) -> None:
        self.is_closed = True


def test_a_reader_that_is_closed_while_it_connects_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = Connection()
    any_: Any = None
    reader = ChunkReader(
        ADDRESS, ("shop", "t"), charsets=any_, server=any_, definition=lambda: cast(Any, object())
    )

    def connection_to(*_: Any, **__: Any) -> Connection:
        reader.close()
        return connection

    monkeypatch.setattr(chunk_reader, "connection_to", connection_to)
    with pytest.raises(SourceLost):
        reader.read(None, any_)
    assert connection.is_closed


def test_a_reader_that_is_closed_while_it_connects_to_ask_for_the_load_waits_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = Connection()
    gate = LoadGate(LoadLimits(), lambda _: None)
    reader = KeylessReader(ADDRESS, ("shop", "t"), is_divided=True, gate=gate, clock=WorkerClock())

    def connection_to(*_: Any, **__: Any) -> Connection:
        reader.close()
        return connection

    monkeypatch.setattr(chunk_reader, "connection_to", connection_to)
    with pytest.raises(SourceLost):
        reader._pause(1)
    assert connection.is_closed
