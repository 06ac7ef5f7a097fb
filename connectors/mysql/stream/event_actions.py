"""What the walk over the binlog does at each type of event.

The law: every type has a step; one that nobody names ends a transaction where none is open, so that whoever
decodes it finds it at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.transaction_context import GTIDS, MARIADB_GTID, QUERY_COMPRESSED, ROWS
from connectors.mysql.stream.packet_buffer import LOOK

ON, END, QUERY, GROUP, PAYLOAD, PREPARE, PASS, STOP, ALONE = range(9)
"""Goes on within a transaction, ends it, looks at a statement, at MariaDB's GTID, at a payload, at an XA
PREPARE, deals with it here, gives out all up to it at once, ends what is not even open."""
MORE, CUT, ODD = range(9, 12)
"""Why else the walk rests: more bytes are needed, a chunk is full, a packet holds no whole event."""

query = struct.Struct(f"<{LOOK + 8}xB2xH").unpack_from
"""Bytes of a QUERY event's database, and of its status variables."""
QUERY_TEXT = LOOK + 13 + 1
"""Where its text begins, where it has neither."""
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
"""By an event's type."""
PASSED = frozenset(kind for kind, step in enumerate(STEPS) if step == PASS)
"""Types that belong to no transaction."""
