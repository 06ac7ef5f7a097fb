"""Reading a test's source in chunks, up to a position, or in a thread until an error ends it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.mysql.binlog.events import Event, parse_event
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.replica import BinlogStream
from devstack.mysql import Mysql
from tests.harness.servers import Options, own_stack
from tests.harness.sql import connected, run
from tests.integration.worker.source import address_of

PASSED = {3, 4, 15, 27, 35, 41}
"""Types of events that the reader deals with itself."""


@contextmanager
def numbered(folder: Path, options: Options | None = None) -> Iterator[Mysql]:
    """A server whose table ``chunks.n`` has a thousand rows to select from."""
    with own_stack(folder, services=("mysql",), mysql_options=options) as running:
        run(running.mysql, "CREATE DATABASE chunks", "CREATE TABLE chunks.n (id int primary key)")
        with connected(running.mysql) as cursor:
            cursor.executemany("INSERT INTO chunks.n VALUES (%s)", [(n,) for n in range(1000)])
        yield running.mysql
        running.mysql.kill()


def at(coordinates: Coordinates, gtids: GtidSet | None = None) -> SourceOffset:
    return SourceOffset(server_uuid="", coordinates=coordinates, gtid_set=gtids)


def opened(address: SourceAddress, offset: SourceOffset) -> BinlogStream:
    stream = BinlogStream(address, offset)
    stream.open()
    return stream


def chunks_to(
    mysql: Mysql, offset: SourceOffset, end: Coordinates, address: SourceAddress | None = None
) -> list[Chunk]:
    """Chunks from an offset up to the one that reaches a position."""
    stream = opened(address or address_of(mysql), offset)
    try:
        return up_to(stream, end)
    finally:
        stream.close()


def up_to(stream: BinlogStream, end: Coordinates) -> list[Chunk]:
    """The chunks up to the one that reaches a position; at the beginning of a file, one has no event."""
    found: list[Chunk] = []
    for chunk in stream.chunks(lambda: True):
        found.append(chunk)
        if chunk.data and placed(chunk)[-1][0].order >= end.order:
            return found
    raise AssertionError(f"the stream ended before {end}")


def placed(chunk: Chunk) -> list[tuple[Coordinates, Event]]:
    """A chunk's events, each with where it ends."""
    found, here = [], 0
    while here < len(chunk.data):
        begin = here + chunk.prefix
        here = begin + int.from_bytes(chunk.data[begin + 9 : begin + 13], "little")
        event = parse_event(chunk.data[begin:here], checksum=chunk.checksum)
        end = (
            chunk.container[1] if chunk.container else Coordinates(chunk.start.file, event.end_pos)
        )
        found.append((end, event))
    return found


def events_of(chunks: list[Chunk]) -> list[Event]:
    return [event for chunk in chunks for _, event in placed(chunk)]


def sent(mysql: Mysql, offset: SourceOffset, end: Coordinates) -> list[Event]:
    """The events that are no matter of the reader's, one by one."""
    stream, found = opened(address_of(mysql), offset), []
    try:
        for one in stream.events():
            if one.event.type not in PASSED:
                found.append(one.event)
            if one.end.order >= end.order:
                return found
    finally:
        stream.close()
    raise AssertionError


class Reading(threading.Thread):
    """A thread that reads chunks until an error ends it."""

    def __init__(self, stream: BinlogStream, room: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self.stream, self.room = stream, room
        self.found: list[Chunk] = []
        self.came = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for chunk in self.stream.chunks(self.room):
                self.found.append(chunk)
                self.came.set()
        except Exception as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(timeout=60)
        assert not self.is_alive()
        return self.error
