"""Cutting what comes over the wire into chunks, without decoding it.

The law: each event goes out in exactly one chunk, whole and in order, or is counted in ``passed``; a chunk
ends where a transaction does, or within one too large behind rows, or at a statement that may change a table.
Nothing here reads a socket or a clock.

The walk looks at each event's length and type only; what cutting within a transaction needs to know of the
events before is looked up in them when it comes to that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from connectors.errors import AqueductError, CorruptEvent, MalformedEvent
from connectors.mysql.chunk import PACKET_PREFIX, Chunk
from connectors.mysql.context import (
    GTIDS,
    MARIADB_GTID,
    QUERY_COMPRESSED,
    ROWS,
    Context,
    begins_transaction,
    rows_end,
    statement_of,
)
from connectors.mysql.events import (
    CHECKSUM_SIZE,
    EventType,
    format_has_checksum,
    parse_event,
    parse_rotate,
)
from connectors.mysql.packets import LOOK, RECEIVE, Packets, heartbeat_place, look
from connectors.mysql.payload import Payload
from connectors.mysql.position import Coordinates
from connectors.mysql.statements import Kind, kind_of, words

TARGET = 1024 * 1024
"""Bytes that a chunk aims at: enough that what is done once for each chunk costs nothing, and few enough that
several decoders share a second's work evenly."""
LARGE_PAYLOAD = 1024 * 1024
"""A compressed transaction that expands to more is decompressed here, piece by piece; others by decoders."""

_query = struct.Struct(f"<{LOOK + 8}xB2xH").unpack_from
"""Bytes of a QUERY event's database, and of its status variables."""
_QUERY_TEXT = LOOK + 13 + 1
_MARIADB_FLAGS = LOOK + 12
_STANDALONE = 1

_ON, _END, _QUERY, _GROUP, _PAYLOAD, _PASS, _STOP, _ALONE = range(8)
"""What the walk does at an event: goes on within a transaction, ends it, looks at a statement, at MariaDB's
GTID, at a payload, deals with it here, gives out all up to it at once, ends what is not even open."""
_MORE, _CUT, _ODD = range(8, 11)
"""Why else the walk rests: more bytes are needed, a chunk is full, a packet holds no whole event."""


def _steps() -> bytes:
    steps = bytearray([_ALONE] * 256)
    kinds: dict[int, Iterable[int]] = {
        _ON: {5, 13, 14, 19, 29, 36, 37, 160} | ROWS | GTIDS,
        _END: {EventType.XID, EventType.XA_PREPARE},
        _QUERY: {EventType.QUERY, QUERY_COMPRESSED},
        _GROUP: {MARIADB_GTID},
        _PAYLOAD: {EventType.TRANSACTION_PAYLOAD},
        _PASS: {3, 4, 15, 27, 35, 41, 161, 163, 164},
        _STOP: {EventType.INCIDENT},
    }
    for step, types in kinds.items():
        for kind in types:
            steps[kind] = step
    return bytes(steps)


_STEPS = _steps()


class Cutter:
    """Gathers received bytes and cuts them into chunks.

    Whoever reads the socket writes into ``space()``, tells how much to ``take`` and gets the chunks that are
    due; ``flush`` gives what is whole before it is due.
    """

    def __init__(self, place: Coordinates, *, checksum: bool, target: int = TARGET) -> None:
        self.place = place
        """Where the walk stands, at least: the beginning of the last file, chunk or heartbeat."""
        self._target = target
        self._packets = Packets(target + 2 * RECEIVE, checksum=checksum)
        self._began = False  # the open transaction goes on until it is committed
        self._context = Context()
        self._passed: dict[int, int] = {}

    @property
    def answer(self) -> bytes | None:
        """The packet by which the server ended the stream."""
        return self._packets.answer

    @property
    def pending(self) -> bool:
        """Whether a whole transaction waits to be given out."""
        return self._packets.done > self._packets.begin

    @property
    def _open(self) -> bool:
        """Whether the walk stands within a transaction."""
        packets = self._packets
        return packets.at > packets.done or (self._context.start is not None and not self.pending)

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        return self._packets.space()

    def take(self, received: int) -> Iterator[Chunk]:
        """Walk over bytes that were written into ``space()``, and give the chunks that are due."""
        self._packets.filled += received
        try:
            while (step := self._walk()) != _MORE:
                if step != _ODD:
                    yield from self._placed(step)
                elif not self._packets.join(self.place):
                    break
            yield from self._overfull()
        except AqueductError as error:
            error.where.setdefault("coordinates", self.place)
            raise
        except (IndexError, ValueError, KeyError, struct.error) as error:
            raise MalformedEvent(str(error), coordinates=self.place) from error

    def flush(self) -> Chunk:
        """All whole transactions that wait."""
        return self._cut(self._packets.done)

    def _walk(self) -> int:
        """Go on to the next event that needs more than a look; return what it needs.

        This is done for every event of the source, so it calls nothing of ours. That a packet is just as long
        as its event is asked where the walk rests, which it does in each event that is not here wholly.
        """
        packets, steps, query, see = self._packets, _STEPS, _query, look
        buffer, at, full = packets.buffer, packets.at, packets.filled
        goal, last, checksum = packets.begin + self._target, full - LOOK, packets.checksum
        on, end, group = _ON, _END, _GROUP
        if packets.is_odd(at):
            return _ODD
        step = _MORE
        while at <= last:
            status, kind, size = see(buffer, at)
            after = at + size + 5
            if status or after > full:
                break
            if (action := steps[kind]) != on:
                if action == end:
                    packets.done = after
                    self._began = False
                    if after >= goal:
                        at, step = after, _CUT
                        break
                elif kind == 2:
                    database, status = query(buffer, at)
                    if buffer[at + _QUERY_TEXT + database + status : after - checksum] != b"BEGIN":
                        step = action
                        break
                    self._began = True
                elif action == group:
                    self._began = not buffer[at + _MARIADB_FLAGS] & _STANDALONE
                else:
                    step = action
                    break
            at = after
        packets.at = at
        return _ODD if step == _MORE and packets.is_odd(at) else step

    def _placed(self, step: int) -> Iterator[Chunk]:
        """Do what is to do at one event; its place is in each error."""
        place = self._packets.coordinates(self._packets.at, self.place)
        kind = self._packets.kind()
        try:
            yield from self._stepped(step)
        except AqueductError as error:
            error.where.setdefault("coordinates", place[0])
            raise
        except (IndexError, ValueError, KeyError, struct.error) as error:
            raise MalformedEvent(
                f"an event of type {kind}: {error}", coordinates=place[0]
            ) from error

    def _stepped(self, step: int) -> Iterator[Chunk]:
        if step == _CUT:
            yield self.flush()
        elif step == _PASS:
            yield from self._pass()
        elif step == _QUERY:
            yield from self._statement()
        elif step == _PAYLOAD:
            yield from self._payload()
        elif step == _STOP:
            self._end()
            yield self.flush()
        elif self._open:
            self._packets.at = self._packets.after()
        else:
            self._end()

    def _end(self) -> None:
        """A transaction ends with this event."""
        self._packets.at = self._packets.done = self._packets.after()
        self._began = False

    def _overfull(self) -> Iterator[Chunk]:
        """Chunks of what is enough already and does not end by itself."""
        packets = self._packets
        while packets.filled - packets.begin >= self._target:
            end = packets.done if self.pending else self._rows_end(packets.begin + self._target)
            if end is None:
                return
            yield self._cut(end)

    def _rows_end(self, enough: int) -> int | None:
        packets = self._packets
        return rows_end(
            packets.view, packets.begin, packets.at, prefix=PACKET_PREFIX, enough=enough
        )

    def _cut(self, end: int) -> Chunk:
        """Give out all up to a place, which is where a transaction ends or lies within one."""
        packets, context = self._packets, self._context
        checksum = bool(packets.checksum)
        start = packets.coordinates(packets.begin, self.place)[0]
        chunk = Chunk(
            start=start,
            data=bytes(packets.view[packets.begin : end]),
            prefix=PACKET_PREFIX,
            checksum=checksum,
            context=context.events,
            context_start=context.start,
            passed=self._passed,
        )
        self._passed = {}
        if end == packets.done:
            context.clear()
        else:
            context.start = context.start or start
            context.add(chunk.data, prefix=PACKET_PREFIX, checksum=checksum)
        packets.begin = packets.done = end
        self.place = start
        return chunk

    # Statements.

    def _statement(self) -> Iterator[Chunk]:
        packets = self._packets
        text = statement_of(packets.event(), packets.kind())
        statement = text.decode("latin-1")
        kind = kind_of(statement)
        if begins_transaction(text):
            self._began = True
            packets.at = packets.after()
        elif kind in (Kind.COMMIT, Kind.ROLLBACK) or _ends_xa(kind, statement):
            self._end()
        elif kind not in (Kind.SAVEPOINT, Kind.XA, Kind.HARMLESS):
            yield from self._barrier()
        elif self._began:
            packets.at = packets.after()
        else:
            self._end()

    def _barrier(self) -> Iterator[Chunk]:
        """A statement that may change a table: no rows before it in its chunk, and none behind it."""
        packets = self._packets
        if self.pending:
            yield self.flush()
        if not self._began:
            self._end()
            yield self.flush()
            return
        if self._rows_end(0):
            yield self._cut(packets.at)
        packets.at = packets.after()
        yield self._cut(packets.at)

    # A compressed transaction.

    def _payload(self) -> Iterator[Chunk]:
        packets = self._packets
        payload = Payload.parse(packets.event()[LOOK - PACKET_PREFIX :])
        if payload.size <= LARGE_PAYLOAD:
            self._end()
            if packets.done - packets.begin >= self._target:
                yield self.flush()
            return
        packets.verify()
        if self.pending:
            yield self.flush()
        if packets.at > packets.begin:
            yield self._cut(packets.at)
        place = packets.coordinates(packets.at, self.place)
        for piece in payload.pieces(self._target):
            yield self._piece(piece, place)
        self._context.clear()
        self._end()
        packets.begin = packets.done

    def _piece(self, piece: bytes, place: tuple[Coordinates, Coordinates]) -> Chunk:
        context = self._context
        chunk = Chunk(
            start=place[0],
            data=piece,
            checksum=False,
            context=context.events,
            context_start=context.start,
            place=place,
            passed=self._passed,
        )
        self._passed = {}
        context.start = context.start or place[0]
        context.add(piece, prefix=0, checksum=False)
        return chunk

    # What is dealt with here.

    def _pass(self) -> Iterator[Chunk]:
        packets = self._packets
        kind, checksum = packets.kind(), packets.checksum
        data = bytes(packets.view[packets.at + PACKET_PREFIX : packets.after()])
        if kind == EventType.FORMAT_DESCRIPTION:
            # It always has one, which a server that writes no others does not renew when it changes the event.
            checksum = CHECKSUM_SIZE if format_has_checksum(data) else 0
        event = parse_event(data, checksum=bool(checksum))
        if kind in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            if self._open and event.end_pos:
                # The server went down in the midst of a transaction, which therefore never happened.
                raise CorruptEvent("a file ends within a transaction")
            if self.pending:
                yield self.flush()
        self._passed[kind] = self._passed.get(kind, 0) + 1
        packets.remove()
        packets.checksum = checksum
        if kind == EventType.ROTATE:
            self.place = Coordinates(*parse_rotate(event))
        elif kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2) and packets.at == packets.begin:
            # It tells how far the server is, which is behind what has not been given out.
            file, pos = heartbeat_place(event)
            if file == self.place.file:
                self.place = Coordinates(file, max(pos, self.place.pos))


def _ends_xa(kind: Kind, statement: str) -> bool:
    return kind is Kind.XA and words(statement, 2)[1:] in (["COMMIT"], ["ROLLBACK"], ["PREPARE"])
