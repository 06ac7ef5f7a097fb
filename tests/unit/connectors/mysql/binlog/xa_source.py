"""A server that writes XA transactions, in hand-made events."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.stream.prepared_xa import PreparedPosition, PreparedTransactions, rows_again
from tests.unit.connectors.mysql.cutting import START, events_of, simple
from tests.unit.connectors.mysql.wire import (
    Wire,
    event,
    gtid_body,
    map_body,
    payload_body,
    query_body,
    rows_body,
)

Described = tuple[int, bytes]
"""An event's type and body; the position of an event in an XA transaction is not its own."""


def xid(name: str) -> str:
    return f"X'{name.encode().hex()}',X'',1"


def prepare_body(name: str, *, one_phase: bool = False) -> bytes:
    return struct.pack("<BIII", one_phase, 1, len(name), 0) + name.encode()


@dataclass
class Source:
    """The server's bytes, and the expected events."""

    wire: Wire = field(default_factory=Wire)
    described: list[Described] = field(default_factory=list)
    held: dict[str, list[Described]] = field(default_factory=dict)
    """The events of prepared transactions."""
    number: int = 0

    def gtid(self) -> Described:
        self.number += 1
        return (33, gtid_body(self.number))

    def other(self, random: Random) -> None:
        """A transaction that has nothing to do with them."""
        before = len(self.wire.sent)
        simple(self.wire, random)
        checksum = 4 if self.wire.checksum else 0
        self.described += [
            (sent.kind, sent.data[19 : len(sent.data) - checksum])
            for sent in self.wire.sent[before:]
        ]

    def xa(
        self,
        name: str,
        random: Random,
        *,
        one_phase: bool = False,
        packed: bool = False,
        count: int | None = None,
    ) -> None:
        """An XA transaction, prepared or committed by itself."""
        count = random.randint(0, 5) if count is None else count
        first, start = self.gtid(), (2, query_body(f"XA START {xid(name)}"))
        rows: list[Described] = []
        for _ in range(count):
            size = random.choice([8, 30, 700])
            rows += [(19, map_body(3)), (30, rows_body(3, size, ends=random.random() < 0.5))]
        rows.append((2, query_body(f"XA END {xid(name)}")))
        last = (38, prepare_body(name, one_phase=one_phase))
        if packed:
            inner = b"".join(event(*one) for one in (start, *rows, last))
            self._send(first, (40, payload_body(inner)))
        else:
            self._send(first, start, *rows, last)
        if not one_phase:
            self.held[name] = rows
            self.described += [first, start, last]
        elif packed:
            self.described += [first, (40, payload_body(inner))]
        else:
            self.described += [first, start, *rows, last]

    def decide(self, name: str, verb: str) -> None:
        first, last = self.gtid(), (2, query_body(f"XA {verb} {xid(name)}"))
        self._send(first, last)
        rows = self.held.pop(name)
        self.described += [first, *(rows if verb == "COMMIT" else []), last]

    def _send(self, *events: Described) -> None:
        for kind, body in events:
            self.wire.send(kind, body)

    def again(self, position: PreparedPosition) -> Iterator[bytes]:
        """The events from a transaction's beginning on, read again."""
        checksum = 4 if self.wire.checksum else 0
        for sent in self.wire.sent:
            if sent.start >= position.coordinates.pos:
                yield event(sent.data[4], sent.data[19 : len(sent.data) - checksum])

    def cutter(self, target: int, keep: int = 1 << 20) -> Cutter:
        def again(name: str, position: PreparedPosition) -> Iterator[bytes]:
            return rows_again(self.again(position), name, position, enough=target)

        return Cutter(
            START,
            checksum=self.wire.checksum,
            target=target,
            prepared=PreparedTransactions({}, keep=keep),
            again=again,
        )


def described(chunks: list[Chunk]) -> list[Described]:
    found = []
    for chunk in chunks:
        tail = 4 if chunk.checksum else 0
        found += [(data[4], data[19 : len(data) - tail]) for data in events_of(chunk)]
    return found
