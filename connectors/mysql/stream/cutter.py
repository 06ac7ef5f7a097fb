"""The cutter, which splits the received bytes into chunks without decoding them.

Invariant: each event is emitted in exactly one chunk, whole and in order, or is counted in
``passed``. A chunk ends after a transaction; within a transaction that is too large, after rows; or
at a statement that may change a table. The head of each new file is a chunk without events.
An XA transaction's rows are emitted just before the event that commits it, and never if it is rolled
back. Undone rows of another transaction are marked before any part of the transaction is emitted.
Nothing here reads a socket or a clock.

The walk reads only each event's length and type. A cut within a transaction needs more of the earlier
events, and reads them at the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from connectors.errors import CorruptEvent, PreparedRowsGone
from connectors.mysql.binlog.chunk_context import (
    GTIDS,
    QUERIES,
    ROWS,
    Context,
    begins_transaction,
    rows_end,
    statement_of,
    walk,
)
from connectors.mysql.binlog.events import (
    CHECKSUM_SIZE,
    Event,
    EventType,
    format_has_checksum,
    parse_event,
    parse_rotate,
)
from connectors.mysql.binlog.gtid_events import gtid_of
from connectors.mysql.binlog.statement_kind import Kind, kind_of, words
from connectors.mysql.binlog.undone_rows import UndoneRows, may_be_undone
from connectors.mysql.binlog.xa import decides
from connectors.mysql.position import Coordinates
from connectors.mysql.stream import event_actions
from connectors.mysql.stream.chunk import PACKET_PREFIX, Chunk
from connectors.mysql.stream.packet_buffer import (
    LOOK,
    RECEIVE,
    Packets,
    heartbeat_position,
    look,
    with_position,
)
from connectors.mysql.stream.prepared_xa import PreparedPosition, PreparedTransactions
from connectors.mysql.stream.transaction_payload import Payload
from connectors.mysql.stream.xa_buffer import Again, WithheldRows

TARGET = 1024 * 1024
"""Target size of a chunk, bytes: large enough that the cost per chunk is negligible, and small
enough that several decoders share a second's work evenly."""
LARGE_PAYLOAD = 1024 * 1024
"""A compressed transaction that expands to more bytes is decompressed here, in pieces; decoders
decompress smaller transactions."""
_NO_BARRIER = (Kind.SAVEPOINT, Kind.XA, Kind.HARMLESS, Kind.CHANGE)
"""Statements that cannot change a table's definition."""
Ahead = Callable[[PreparedPosition], UndoneRows]
"""Reads the transaction that begins at a position to its end, and returns its undone rows."""
_NONE_UNDONE: frozenset[int] = frozenset()
Skips = Callable[[str | None, Coordinates], bool]
"""Whether an operator skips the transaction with this GTID, which begins at this position."""


class Cutter:
    """Collects received bytes and cuts them into chunks.

    The socket's reader writes into ``space()``, passes the number of bytes to ``take`` and gets the
    chunks that are due; ``flush`` returns whole transactions before they are due. ``aim`` returns a
    temporary target size, smaller than ``target``.
    """

    def __init__(
        self,
        position: Coordinates,
        *,
        checksum: bool,
        target: int = TARGET,
        aim: Callable[[], int] | None = None,
        prepared: PreparedTransactions | None = None,
        again: Again | None = None,
        skips: Skips | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self.position = position
        """A lower bound of the walk's position: the start of the last file, chunk or heartbeat."""
        self._start = position
        self._target = self._most = target
        self._aim = aim
        self._packets = Packets(target + 2 * RECEIVE, checksum=checksum)
        self._began = False  # an open transaction continues until its commit
        self._context = Context()
        self._skips = skips
        self._look_ahead = ahead
        self._ahead: UndoneRows | None = None
        """The undone rows of the transaction whose first rows were emitted; None if unknown."""
        self._emitted = 0
        """The number of emitted rows events of that transaction."""
        self._has_undone = False
        """Whether statements that undo rows are among the received events."""
        self._withheld = WithheldRows(self._packets, prepared, again, most=target)
        self._passed: dict[int, int] = {}
        self._created = 0  # when the file was created, while only its head has been received
        self._last: Chunk | None = None  # the last chunk, if it ends past ``position``
        self._is_placed = False  # the server has named the file that it sends

    @property
    def answer(self) -> bytes | None:
        """The packet with which the server ended the stream."""
        return self._packets.answer

    @property
    def pending(self) -> bool:
        """Whether a whole transaction waits to be emitted."""
        return self._packets.done > self._packets.begin

    @property
    def _open(self) -> bool:
        """Whether the walk is within a transaction."""
        packets = self._packets
        return packets.at > packets.done or (self._context.start is not None and not self.pending)

    def space(self) -> memoryview:
        """The memory for the next bytes; never empty."""
        return self._packets.space()

    def take(self, received: int) -> Iterator[Chunk]:
        """Walk over the bytes written into ``space()``, and yield the chunks that are due."""
        packets = self._packets
        packets.filled += received
        if self._aim is not None:
            self._target = min(self._aim(), self._most)
        with with_position(self.position):
            while (step := self._walk()) != event_actions.MORE:
                if step == event_actions.ODD:
                    if not packets.join(self.position):
                        break
                    continue
                yield from self._placed(step)
            yield from self._overfull()

    def flush(self) -> Chunk:
        """Return a chunk of all whole transactions that wait to be emitted."""
        return self._cut(self._packets.done)

    def rest(self) -> Chunk | None:
        """Return an empty chunk at the position after everything emitted.

        None within a transaction, while a transaction waits to be emitted, and before the server's first event.
        """
        if self.pending or self._open or self._withheld.open is not None or not self._is_placed:
            return None
        start = self.position if self._last is None else self._last.end
        return Chunk(start=start, data=b"", checksum=False)

    def _walk(self) -> int:
        """Advance to the next event that needs more than a look at its header; return the action for it.

        This runs for every event of the source, so it calls no function of Aqueduct for each event. Where
        the walk pauses, as it does at each incomplete event, it checks that a packet is exactly as long
        as its event.
        """
        packets, step_of, query, see = self._packets, event_actions.STEPS, event_actions.query, look
        buffer, at, full = packets.buffer, packets.at, packets.filled
        goal, last, checksum = packets.begin + self._target, full - LOOK, packets.checksum
        on, end, group, text = (
            event_actions.ON,
            event_actions.END,
            event_actions.GROUP,
            event_actions.QUERY_TEXT,
        )
        if packets.is_odd(at):
            return event_actions.ODD
        step = event_actions.MORE
        while at <= last:
            status, kind, size = see(buffer, at)
            after = at + size + 5
            if status or after > full:
                break
            if (action := step_of[kind]) != on:
                if action == end:
                    if self._withheld.open is not None:
                        step = action
                        break
                    packets.done = after
                    self._began = False
                    if after >= goal:
                        at, step = after, event_actions.CUT
                        break
                elif kind == 2:
                    database, status = query(buffer, at)
                    if buffer[at + text + database + status : after - checksum] != b"BEGIN":
                        step = action
                        break
                    self._began = True
                elif action == group:
                    flags = buffer[at + event_actions.MARIADB_FLAGS]
                    self._began = not flags & event_actions.STANDALONE
                    if flags & event_actions.PREPARED_XA:
                        step = action
                        break
                else:
                    step = action
                    break
            at = after
        packets.at = at
        return event_actions.ODD if step == event_actions.MORE and packets.is_odd(at) else step

    def _placed(self, step: int) -> Iterator[Chunk]:
        """Run the action of one event; errors carry the event's position."""
        position = self._packets.coordinates(self._packets.at, self.position)
        with with_position(position[0], f"an event of type {self._packets.kind()}: "):
            yield from self._stepped(step)

    def _stepped(self, step: int) -> Iterator[Chunk]:
        if step == event_actions.CUT:
            yield self.flush()
        elif step == event_actions.PASS:
            yield from self._pass()
        elif step == event_actions.QUERY:
            yield from self._statement()
        elif step == event_actions.PAYLOAD:
            yield from self._payload()
        elif step == event_actions.GROUP:
            self._withheld.begin(self.position)
            self._packets.at = self._packets.after()
        elif step == event_actions.END:
            raise CorruptEvent("an XA transaction ends as others do")
        elif step == event_actions.PREPARE:
            yield from self._ended(self._withheld.prepare())
        elif step == event_actions.STOP and self._is_past():
            # MariaDB sends an incident, which has no GTID, to each reader that resumes in its file.
            kind = self._packets.kind()
            self._passed[kind] = self._passed.get(kind, 0) + 1
            self._packets.remove()
        elif step == event_actions.STOP:
            self._end()
            yield self.flush()
        elif self._open:
            self._packets.at = self._packets.after()
        else:
            self._end()

    def _is_past(self) -> bool:
        """Whether the next event, outside transactions, is before the position at which reading starts."""
        start = self._packets.coordinates(self._packets.at, self.position)[0]
        return not self._open and start.order < self._start.order

    def _end(self) -> None:
        """End the transaction with the next event."""
        self._packets.at = self._packets.done = self._packets.after()
        self._began = False
        self._withheld.end()

    def _overfull(self) -> Iterator[Chunk]:
        """Yield chunks while the received data is large enough for a chunk."""
        packets = self._packets
        while packets.filled - packets.begin >= self._target:
            if self._withheld.open and not self.pending:
                if not self._withheld.drop():
                    return
                continue
            end = packets.done if self.pending else self._rows_end(packets.begin + self._target)
            if end is None:
                return
            if not self.pending:
                self._settle()
            yield self._cut(end)

    def _rows_end(self, enough: int) -> int | None:
        packets = self._packets
        return rows_end(
            packets.view, packets.begin, packets.at, prefix=PACKET_PREFIX, enough=enough
        )

    def _settle(self) -> None:
        """Determine the undone rows of the open transaction, before any of its rows is emitted."""
        packets, context = self._packets, self._context
        if self._look_ahead is None or self._ahead is not None or self._withheld.open is not None:
            return
        if context.start is not None:
            start, first = context.start, memoryview(context.events[0])
        else:
            start = packets.coordinates(packets.begin, self.position)[0]
            first = packets.event_at(packets.begin)
        gtid = gtid_of(first)
        if self._skips is not None and self._skips(gtid, start):
            return
        if may_be_undone(first):
            self._ahead = self._look_ahead(PreparedPosition(start, gtid))

    def _undone(self, data: bytes) -> frozenset[int] | None:
        """Return the offsets of undone rows events in the next chunk's data; None if unknown."""
        ahead = self._ahead
        if ahead is None and not self._has_undone:
            return _NONE_UNDONE
        offsets: list[int] = []
        own, first_one = UndoneRows(), ahead
        for kind, at, after in walk(data, 0, len(data), PACKET_PREFIX):
            if kind in ROWS:
                offsets.append(at)
                own.count += 1
            elif kind in QUERIES:
                event = data[at : after - self._packets.checksum]
                statement = statement_of(event, kind)[:1000].decode("latin-1")
                if first_one is None:
                    own.statement(statement)
                elif kind_of(statement) in (Kind.COMMIT, Kind.ROLLBACK):
                    first_one = None
                    own.begin()
            elif kind in GTIDS:
                own.begin()
            elif kind == EventType.XID:
                first_one = None
                own.begin()
        if not own.is_known:
            return None
        first, self._emitted = self._emitted, self._emitted + len(offsets)
        return frozenset(
            at
            for number, at in enumerate(offsets)
            if number in own or (ahead is not None and first + number in ahead)
        )

    def _cut(self, end: int) -> Chunk:
        """Emit everything up to an offset, which is at the end of a transaction or within a transaction."""
        packets, context = self._packets, self._context
        checksum, self._created = bool(packets.checksum), 0
        start = packets.coordinates(packets.begin, self.position)[0]
        data = bytes(packets.view[packets.begin : end])
        chunk = Chunk(
            start=start,
            data=data,
            prefix=PACKET_PREFIX,
            checksum=checksum,
            context=context.events,
            context_start=context.start,
            passed=self._passed,
            undone=self._undone(data),
            is_settled=self._ahead is not None,
        )
        self._passed = {}
        self._has_undone &= end < packets.at
        if end == packets.done:
            context.clear()
            self._ahead, self._emitted = None, 0
        else:
            context.start = context.start or start
            context.add(chunk.data, prefix=PACKET_PREFIX, checksum=checksum)
        packets.begin = packets.done = end
        self.position, self._last = start, chunk
        return chunk

    # Statements.

    def _statement(self) -> Iterator[Chunk]:
        packets = self._packets
        text = statement_of(packets.event(), packets.kind())
        statement = text.decode("latin-1")
        kind = kind_of(statement)
        if begins_transaction(text):
            self._began = True
            if kind is Kind.XA:
                self._withheld.begin(self.position)
            packets.at = packets.after()
        elif kind is Kind.XA and decides(statement):
            ending = self._withheld.position(self.position)
            is_skipped = self._skips is not None and self._skips(ending.gtid, ending.coordinates)
            try:
                missing = self._withheld.decide(statement, is_skipped=is_skipped)
                # With the rows, statements that undo some of them may be among the events again.
                self._has_undone = True
                yield from self._ended(missing)
            except PreparedRowsGone as error:
                # The GTID or position by which an operator can skip this transaction.
                named = {"gtid": ending.gtid, "coordinates": ending.coordinates}
                error.context |= {name: value for name, value in named.items() if value}
                raise
        elif kind in (Kind.COMMIT, Kind.ROLLBACK):
            self._has_undone |= kind is Kind.ROLLBACK
            self._withheld.refuse_other_end(kind.name)
            self._end()
        elif self._withheld.open is None and kind not in _NO_BARRIER:
            yield from self._barrier()
        elif self._began:
            self._has_undone |= kind is Kind.SAVEPOINT and words(statement, 1) == ["ROLLBACK"]
            packets.at = packets.after()
        else:
            self._end()

    def _barrier(self) -> Iterator[Chunk]:
        """Emit a statement that may change a table: its chunk ends with it, and has no rows before it."""
        packets = self._packets
        if self.pending:
            yield self.flush()
        if not self._began:
            self._end()
            yield _with_statement(self.flush())
            return
        if self._rows_end(0):
            self._settle()
            yield self._cut(packets.at)
        packets.at = packets.after()
        yield _with_statement(self._cut(packets.at))

    def _ended(self, missing: Iterator[bytes] | None) -> Iterator[Chunk]:
        """End a transaction; missing rows, which the walk did not see, are emitted before its last event."""
        if missing is not None:
            yield from self._in_pieces(missing)
        self._end()
        if self._packets.done - self._packets.begin >= self._target:
            yield self.flush()

    # A compressed transaction.

    def _payload(self) -> Iterator[Chunk]:
        packets = self._packets
        payload = Payload.parse(packets.event()[LOOK - PACKET_PREFIX :])
        if self._withheld.keep(payload, self.position) or payload.size <= LARGE_PAYLOAD:
            yield from self._ended(None)
            return
        packets.verify()
        yield from self._in_pieces(payload.pieces(self._target))
        self._context.clear()
        self._end()
        packets.begin = packets.done

    def _in_pieces(self, pieces: Iterator[bytes]) -> Iterator[Chunk]:
        """Emit events that have no coordinates of their own, with the coordinates of the next event."""
        packets = self._packets
        if self.pending:
            yield self.flush()
        if packets.at > packets.begin:
            yield self._cut(packets.at)
        position = packets.coordinates(packets.at, self.position)
        for piece in pieces:
            yield self._piece(piece, position)

    def _piece(self, piece: bytes, position: tuple[Coordinates, Coordinates]) -> Chunk:
        context = self._context
        chunk = Chunk(
            start=position[0],
            data=piece,
            checksum=False,
            context=context.events,
            context_start=context.start,
            container=position,
            passed=self._passed,
        )
        self._passed = {}
        context.start = context.start or position[0]
        context.add(piece, prefix=0, checksum=False)
        self._last = chunk
        return chunk

    # Events handled here.

    def _pass(self) -> Iterator[Chunk]:
        packets = self._packets
        kind, checksum = packets.kind(), packets.checksum
        data = bytes(packets.view[packets.at + PACKET_PREFIX : packets.after()])
        if kind == EventType.FORMAT_DESCRIPTION:
            # This event always has a checksum; a server with checksums off does not update
            # the checksum when it changes the event.
            checksum = CHECKSUM_SIZE if format_has_checksum(data) else 0
        event = parse_event(data, checksum=bool(checksum))
        if kind in (EventType.ROTATE, EventType.FORMAT_DESCRIPTION):
            if self._open and event.end_pos:
                # The server crashed within a transaction, which was therefore never committed.
                raise CorruptEvent("a file ends within a transaction")
            if self.pending:
                yield self.flush()
        self._passed[kind] = self._passed.get(kind, 0) + 1
        packets.remove()
        packets.checksum = checksum
        if kind == EventType.ROTATE:
            self.position, self._last = Coordinates(*parse_rotate(event)), None
            self._created, self._is_placed = 0, True
        elif kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
            # A heartbeat's position is past everything buffered, so it is used only if nothing is buffered.
            file, pos = heartbeat_position(event)
            if packets.at == packets.begin and file == self.position.file:
                self.position, self._last = Coordinates(file, max(pos, self.position.pos)), None
        elif event.end_pos:
            yield from self._head(event)

    def _head(self, event: Event) -> Iterator[Chunk]:
        """Emit the head of a file, up to an event: all earlier files were read and are no longer needed."""
        if event.type == EventType.FORMAT_DESCRIPTION:
            self._created = event.timestamp
        if not self._created or self.pending or self._open:
            return
        self.position, self._last = Coordinates(self.position.file, event.end_pos), None
        yield Chunk(
            start=self.position,
            data=b"",
            checksum=False,
            created=self._created,
            passed=self._passed,
        )
        self._passed = {}


def _with_statement(chunk: Chunk) -> Chunk:
    chunk.ends_in_statement = True
    return chunk
