"""The replica connection, and the raw events received over it.

Invariant: the connection never reconnects. When it breaks, it raises one error, and the owner of the cursor
opens a new connection at the cursor. A library that reconnects at its original start would repeat or lose
rows. A request for a stop between two transactions is never missed: it is seen before the next wait for
data, or ends that wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pymysql

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    PositionGone,
    PreparedRowsGone,
    SourceLost,
)
from connectors.mysql.binlog.chunk_context import verified
from connectors.mysql.binlog.events import (
    CHECKSUM_SIZE,
    Event,
    EventType,
    format_has_checksum,
    parse_event,
    parse_rotate,
)
from connectors.mysql.binlog.undone_rows import UndoneRows
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server.connection import (
    AFTER_DAMAGE,
    SourceAddress,
    connection_to,
    translated,
)
from connectors.mysql.server.facts import gtids_but
from connectors.mysql.stream import dump_command
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import TARGET, Cutter, Skips
from connectors.mysql.stream.packet_buffer import Packets, heartbeat_position
from connectors.mysql.stream.prepared_xa import (
    PreparedPosition,
    PreparedTransactions,
    rows_again,
    undone_of,
)


class Interruption(Protocol):
    """Requests for stops, as the stream's thread sees them."""

    @property
    def is_wanted(self) -> bool:
        """Whether the caller still waits for a position between two transactions."""

    def fileno(self) -> int:
        """Return a descriptor that is readable from a request until ``noticed`` is called."""

    def noticed(self) -> None:
        """Make the descriptor unreadable until the next request."""


class Bell:
    """A descriptor that one thread waits for and any thread makes readable."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        # Closed only with the object: after an earlier close, ``ring`` could write to another file with
        # the same descriptor.
        weakref.finalize(self, _closed, self._read, self._write)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._read

    def ring(self) -> None:
        """Make the descriptor readable."""
        # A full pipe is readable already.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def noticed(self) -> None:
        """Make the descriptor unreadable."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass


def _closed(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


_TYPE_OFFSET, _ERROR = 4, 0xFF
_FACTS = "SHOW GLOBAL VARIABLES LIKE 'binlog_checksum'"
_BLOCKED_SECONDS = 3600
"""Seconds for which the server waits for a replica that reads nothing: Kafka is away, or a topic is read."""
LINGER = 0.01
"""Seconds for which a whole transaction waits for further transactions when the socket has no more data."""


@dataclass(frozen=True, slots=True)
class PositionedEvent:
    """An event with its start and end."""

    event: Event
    start: Coordinates
    end: Coordinates


class BinlogStream:
    """Raw events from a source, beginning at an offset."""

    def __init__(
        self,
        address: SourceAddress,
        offset: SourceOffset,
        *,
        prepared: Mapping[str, PreparedPosition] | None = None,
        aim: Callable[[], int] | None = None,
        by_coordinates: bool = False,
        skips: Skips | None = None,
    ) -> None:
        """``aim``: the current target size of a chunk in bytes, which may be below TARGET."""
        self._aim, self._skips = aim, skips
        self._address = address
        self._requested = replace(offset, gtid_set=None) if by_coordinates else offset
        self._position = offset.coordinates
        self._checksum = False
        self._offset = offset
        self._prepared = PreparedTransactions(prepared or {})
        self._connection: pymysql.Connection | None = None
        self._other: BinlogStream | None = None
        self._lock = threading.Lock()
        self._is_used = False
        self._closed = threading.Event()
        self.has_sent_all = False
        """Whether the server has sent the whole binlog and ended the stream, as for UNREGISTERED_ID."""

    def open(self) -> None:
        """Connect, register as a replica and request the binlog; raise AqueductError on failure."""
        address = self._address
        self._connection = connection_to(address, session={"net_write_timeout": _BLOCKED_SECONDS})
        try:
            with self._used() as connection:
                self._ask(connection)
        except BaseException as error:
            self.close()
            if isinstance(error, pymysql.MySQLError):
                raise translated(error, address) from error
            if isinstance(error, OSError):
                raise SourceLost(str(error), source=address) from error
            raise

    @contextlib.contextmanager
    def _used(self) -> Iterator[pymysql.Connection]:
        """Mark the connection as in use for a block; its end closes it if ``close`` was called meanwhile."""
        assert self._connection is not None, "open() comes first"
        with self._lock:
            self._is_used = True
        try:
            self._refuse_if_closed()
            yield self._connection
        finally:
            with self._lock:
                self._is_used = False
                if self._closed.is_set():
                    self._connection._force_close()

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise SourceLost("the connection was closed", source=self._address)

    def _ask(self, connection: pymysql.Connection) -> None:
        """Register as a replica and request the binlog, after which the server sends only events."""
        mariadb = "mariadb" in connection.get_server_info().lower()
        wanted = dump_command.settings(self._address, self._requested, mariadb=mariadb)
        command, body = dump_command.request(self._address, self._requested, mariadb=mariadb)
        with connection.cursor() as cursor:
            cursor.execute(_FACTS)
            facts = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
            checksum = facts.get("binlog_checksum", "NONE")
            self._checksum = checksum.upper() != "NONE"
            texts = ", ".join(f"@{name} = %s" for name in wanted)
            cursor.execute(
                "SET @master_binlog_checksum = %s, @source_binlog_checksum = %s, " + texts,
                (checksum, checksum, *wanted.values()),
            )
        # After ``close``, another replica may have this id; the server would end its dump
        # in favour of this one.
        self._refuse_if_closed()
        if self._address.server_id != dump_command.UNREGISTERED_ID:
            connection._write_bytes(dump_command.registration(self._address))
            connection._next_seq_id = 1
            connection._read_packet()
        self._refuse_if_closed()
        connection._execute_command(command, body)

    def events(self) -> Iterator[PositionedEvent]:
        """Yield each event in order, forever; ends only with an error, which is SourceLost after ``close``."""
        yield from self.events_there_are()
        raise SourceLost("it ended the stream", source=self._address, coordinates=self._position)

    def events_there_are(self) -> Iterator[PositionedEvent]:
        """Yield each event in order, up to the binlog's current end; for a client that is not a replica."""
        while (data := self._packet()) is not None:
            try:
                event = parse_event(data, checksum=self._has_checksum(data))
            except CorruptEvent as error:
                raise CorruptEvent(
                    error.detail, coordinates=self._position, remedy=AFTER_DAMAGE
                ) from error
            placed = self._placed(event)
            if event.type == EventType.ROTATE:
                self._position = Coordinates(*parse_rotate(event))
            yield placed

    def chunks(
        self, room: Callable[[], bool], *, interruption: Interruption | None = None
    ) -> Iterator[Chunk]:
        """Yield chunks in order, forever; ends only with an error, which is SourceLost after ``close``.

        ``room`` returns whether a chunk would be consumed at once; if not, more data is collected. While an
        ``interruption`` is wanted and no data comes, empty chunks state the position between transactions.
        """
        cutter = Cutter(
            self._position,
            checksum=self._checksum,
            prepared=self._prepared,
            again=self._again,
            aim=self._aim,
            skips=self._skips,
            ahead=self._undone,
        )
        try:
            with self._reading(interruption) as receive:
                yield from gathered(cutter, receive, room, interruption)
                assert cutter.answer is not None
                raise self._refused(cutter.answer)
        except AqueductError as error:
            if cutter.pending and not self._closed.is_set():
                # Whole transactions received before the error are valid.
                yield cutter.flush()
            _at(error, cutter.position)
            raise

    def chunks_there_are(self) -> Iterator[Chunk]:
        """Yield chunks up to the current end of the binlog; for a client that is not a replica."""
        try:
            yield from self.chunks(lambda: True)
        except SourceLost:
            if not self.has_sent_all:
                raise

    def received(self, packets: Packets) -> Iterator[None]:
        """Fill packets repeatedly, up to the current end of the binlog; for a client that is not a replica.

        After each fill, the caller walks over all whole packets; otherwise, the stream's end is not found.
        """
        packets.checksum = CHECKSUM_SIZE if self._checksum else 0
        with self._reading() as receive:
            while packets.answer is None:
                # Getting space may move buffered bytes, so this comes first.
                received = receive(packets.space(), None)
                packets.filled += received
                yield
        if packets.answer[0] == _ERROR:
            raise self._refused(packets.answer)

    @contextlib.contextmanager
    def _reading(
        self, interruption: Interruption | None = None
    ) -> Iterator[Callable[[memoryview, float | None], int]]:
        """Yield a function that receives into a buffer, and returns the number of bytes received.

        It returns 0 after ``seconds``, or when interrupted; None: it waits until silence is a lost connection.
        """
        with self._used() as connection:
            sock = connection._sock
            silence = 3 * self._address.heartbeat
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            if interruption is not None:
                poll.register(interruption.fileno(), select.POLLIN)
            silent: float | None = None

            def receive(space: memoryview, seconds: float | None) -> int:
                nonlocal silent
                while True:
                    try:
                        received = int(sock.recv_into(space))
                    except (BlockingIOError, ssl.SSLWantReadError):
                        if silent is None:
                            # An interruption does not end the silence.
                            silent = time.monotonic()
                        left = max(silent + silence - time.monotonic(), 0.0)
                        ready = poll.poll(1000 * (left if seconds is None else seconds))
                        if any(descriptor == sock.fileno() for descriptor, _ in ready):
                            continue
                        if ready and interruption is not None:
                            interruption.noticed()
                            return 0
                        if seconds is not None:
                            silent = None
                            return 0
                        raise SourceLost(
                            f"nothing came for {silence:g} s, three heartbeats",
                            source=self._address,
                        ) from None
                    if not received or self._closed.is_set():
                        raise SourceLost("the connection was closed", source=self._address)
                    silent = None
                    return received

            try:
                sock.setblocking(False)
                yield receive
            except (OSError, ValueError) as error:
                raise SourceLost(str(error), source=self._address) from error

    def _refused(self, answer: bytes) -> AqueductError:
        """The reason why the server ended the stream, from its last packet."""
        if answer[0] == _ERROR:
            try:
                pymysql.err.raise_mysql_exception(answer)
            except pymysql.MySQLError as error:
                return translated(error, self._address)
        self.has_sent_all = True
        return SourceLost("it ended the stream", source=self._address)

    def close(self) -> None:
        """End the connection; may be called from another thread, and while it is opened or read."""
        self._closed.set()
        if (other := self._other) is not None:
            other.close()
        if (connection := self._connection) is None:
            return
        sock = connection._sock
        if sock is not None:
            # Closing a socket does not wake a thread that reads it; shutting it down
            # does. A TLS socket's own shutdown would make that thread read the raw
            # bytes.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        with self._lock:
            # A thread that uses the connection closes it: a closed descriptor may belong to another file.
            if not self._is_used:
                connection._force_close()

    def _again(self, xid: str, position: PreparedPosition) -> Iterator[bytes]:
        """Yield an XA transaction's rows, read again over a separate connection."""
        try:
            with self._beside(position) as other:
                yield from rows_again(other._to_the_end(), xid, position, enough=TARGET)
        except (PositionGone, PreparedRowsGone) as error:
            raise PreparedRowsGone(error.detail, xid=xid, prepared_at=position) from error

    def _undone(self, position: PreparedPosition) -> UndoneRows:
        """Return the undone rows of a transaction, read to its end over a separate connection."""
        with self._beside(position) as other:
            return undone_of(other._to_the_end(), position)

    @contextlib.contextmanager
    def _beside(self, position: PreparedPosition) -> Iterator[BinlogStream]:
        """Yield another stream from a position; the block's end, and ``close``, close it."""
        address = replace(self._address, server_id=dump_command.UNREGISTERED_ID)
        other = self._other = BinlogStream(address, self._offset_of(position))
        try:
            self._refuse_if_closed()
            yield other
        finally:
            other.close()

    def _offset_of(self, position: PreparedPosition) -> SourceOffset:
        """Return the offset to read a transaction again: by its GTID, which another server knows too."""
        known: Gtids | None = None
        if position.gtid and isinstance(self._offset.gtid_set, GtidSet):
            known = gtids_but(position.gtid, self._address)
        return replace(self._offset, coordinates=position.coordinates, gtid_set=known)

    def _to_the_end(self) -> Iterator[bytes]:
        """Yield each event, whole, verified, without its checksum, up to the current end of the binlog."""
        self.open()
        while (data := self._packet()) is not None:
            self._refuse_if_closed()
            has_checksum = self._has_checksum(data)
            if data[_TYPE_OFFSET] != EventType.FORMAT_DESCRIPTION:
                yield verified(data, checksum=has_checksum)

    def _packet(self) -> bytes | None:
        """The received packet; None at the end of the server's data."""
        assert self._connection is not None, "open() comes first"
        try:
            packet = self._connection._read_packet()
        except pymysql.MySQLError as error:
            raise _at(translated(error, self._address), self._position) from error
        except (OSError, AttributeError, ValueError) as error:
            # A socket closed by another thread during a read raises any of these.
            raise SourceLost(
                str(error), source=self._address, coordinates=self._position
            ) from error
        if packet.is_eof_packet():
            return None
        data: bytes = packet.get_all_data()
        return data[1:]

    def _has_checksum(self, data: bytes) -> bool:
        """Whether a file's events have checksums, as its first event states."""
        if data[_TYPE_OFFSET] == EventType.FORMAT_DESCRIPTION:
            self._checksum = format_has_checksum(data)
        return self._checksum

    @property
    def position(self) -> Coordinates:
        """The position after the last event that ``events`` or ``events_there_are`` yielded."""
        return self._position

    def _placed(self, event: Event) -> PositionedEvent:
        if event.type in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
            return self._beaten(event)
        if not event.end_pos:
            return PositionedEvent(event, self._position, self._position)
        # The header has 32 bits for the offset, and a file may be larger; offsets only grow in a file.
        end = self._position.pos & ~0xFFFFFFFF | event.end_pos
        if end < self._position.pos:
            end += 1 << 32
        start = Coordinates(self._position.file, max(end - event.size, 0))
        self._position = Coordinates(self._position.file, end)
        return PositionedEvent(event, start, self._position)

    def _beaten(self, event: Event) -> PositionedEvent:
        """Return a heartbeat, which is in no file; it reports the position after events that are not sent."""
        file, pos = heartbeat_position(event)
        if file == self._position.file:
            self._position = Coordinates(file, max(pos, self._position.pos))
        return PositionedEvent(event, self._position, self._position)


def gathered(
    cutter: Cutter,
    receive: Callable[[memoryview, float | None], int],
    room: Callable[[], bool],
    interruption: Interruption | None = None,
) -> Iterator[Chunk]:
    """Yield chunks as they come due, up to the server's last packet."""
    deadline = 0.0
    while cutter.answer is None:
        if not cutter.pending:
            if interruption is not None and interruption.is_wanted:
                rest = cutter.rest()
                if rest is not None:
                    yield rest
            received = receive(cutter.space(), None)
            deadline = time.monotonic() + LINGER
        else:
            received = receive(cutter.space(), max(deadline - time.monotonic(), 0.0))
            if not received and room():
                yield cutter.flush()
                continue
            if not received:
                received = receive(cutter.space(), LINGER)
        yield from cutter.take(received)


def _at(error: AqueductError, position: Coordinates) -> AqueductError:
    error.context.setdefault("coordinates", position)
    return error


@contextlib.contextmanager
def unregistered(offset: SourceOffset, address: SourceAddress) -> Iterator[BinlogStream]:
    """Yield a stream that the server ends at the binlog's present end, and that disconnects no replica."""
    stream = BinlogStream(replace(address, server_id=dump_command.UNREGISTERED_ID), offset)
    stream.open()
    try:
        yield stream
    finally:
        stream.close()
