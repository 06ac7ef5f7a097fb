"""The errors by which a server refuses to send its binlog: one error number with many texts.

Source: MySQL's share/messages_to_clients.txt, and sql/rpl_binlog_sender.cc.
"""

from __future__ import annotations

import re

from connectors.errors import (
    AnonymousTransaction,
    AqueductError,
    BinlogFileMissing,
    CorruptEvent,
    PositionGone,
    ServerIdConflict,
    SourceDiverged,
    SourceRefused,
)


def dump_error(text: str, address: object, server_id: int) -> AqueductError:
    """Return Aqueduct's error for a server's text; ``server_id``: the id with which the dump was requested."""
    lowered = text.lower()
    if "same server_uuid/server_id" in lowered or "same server_id" in lowered:
        return ServerIdConflict(text, source=address, server_id=server_id)
    if "could not open log file" in lowered:
        return BinlogFileMissing(f"{text}: it is in the index, and is gone", source=address)
    if re.search(r"purged|could not find|impossible position|> file size", lowered):
        return PositionGone(text, source=address)
    if "cannot replicate anonymous transaction" in lowered:
        return AnonymousTransaction(text, source=address)
    if "not in the master's binlog" in lowered:
        return SourceDiverged(text, source=address)
    if _UNREADABLE.search(lowered):
        return CorruptEvent(
            f"the server cannot read its binlog: {text}", source=address, remedy=AFTER_DAMAGE
        )
    return SourceRefused(text, source=address)


_UNREADABLE = re.compile(
    r"bogus|corrupt|\bcrc\b|truncated|invalid event|invalid format_description|bad magic|i/o error"
    r"|decryption|exceeded max_allowed_packet|event too big"
)
"""Texts about damage that the server itself finds; an event with a damaged length may seem too large."""
AFTER_DAMAGE = (
    "Aqueduct reads it again; if this persists, see the server's error log, and check its disk with "
    "mysqlbinlog. No transaction can be skipped there, as the file is not read past the damage: put it back "
    "from a copy; or resume from the next file, or from the end: `python -m app cursor set DEST --file FILE "
    "--pos 4 --why REASON` (or --latest). Then reload the tables concerned."
)
"""What to do if more than one transaction cannot be read."""
