"""Actions of the walk over the binlog, one for each type of event.

Invariant: every type has an action. An event of an unlisted type is a transaction by itself if no
transaction is open, so that a decoder receives the event at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from connectors.mysql.binlog.chunk_context import GTIDS, MARIADB_GTID, QUERY_COMPRESSED, ROWS
from connectors.mysql.binlog.events import EventType
from connectors.mysql.stream.packet_buffer import LOOK

ON, END, QUERY, GROUP, PAYLOAD, PREPARE, PASS, STOP, ALONE = range(9)
"""In this order, the event: continues a transaction; ends a transaction; is a statement, MariaDB's GTID,
a payload or an XA PREPARE, which has to be read; is handled by the cutter; is emitted at once, with
everything before it; is a transaction by itself if no transaction is open."""
MORE, CUT, ODD = range(9, 12)
"""Other reasons for the walk to pause: more bytes are needed, a chunk is full, a packet does not
hold one whole event."""

query = struct.Struct(f"<{LOOK + 8}xB2xH").unpack_from
"""Lengths in bytes of a QUERY event's database name and status variables."""
QUERY_TEXT = LOOK + 13 + 1
"""Offset of the statement's text if the database name and the status variables are empty."""
MARIADB_FLAGS = LOOK + 12
STANDALONE, PREPARED_XA = 0x01, 0x40


def _steps() -> bytes:
    steps = bytearray([ALONE] * 256)
    kinds: dict[int, Iterable[int]] = {
        ON: {5, 13, 14, 19, 29, 36, 37, 160} | ROWS | GTIDS,
        END: {EventType.XID},
        QUERY: {EventType.QUERY, QUERY_COMPRESSED},
        GROUP: {MARIADB_GTID},
        PAYLOAD: {EventType.TRANSACTION_PAYLOAD},
        PREPARE: {EventType.XA_PREPARE},
        PASS: {3, 4, 15, 27, 35, 41, 161, 163, 164},
        STOP: {EventType.INCIDENT},
    }
    for step, types in kinds.items():
        for kind in types:
            steps[kind] = step
    return bytes(steps)


STEPS = _steps()
"""Actions by event type."""
PASSED = frozenset(kind for kind, step in enumerate(STEPS) if step == PASS)
"""Types that belong to no transaction."""
