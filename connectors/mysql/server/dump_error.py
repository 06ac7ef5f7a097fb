"""The errors by which a server refuses to send its binlog: one error number with many texts.

Source: MySQL's share/messages_to_clients.txt, and sql/rpl_binlog_sender.cc.
"""

from __future__ import annotations

import re

from connectors.errors import (
    AnonymousTransaction,
    AqueductError,
    BinlogFileMissing,
    PositionGone,
    ServerIdConflict,
    SourceDiverged,
    SourceRefused,
)


def dump_error(text: str, address: object, server_id: int) -> AqueductError:
    """Our error for a text; ``address`` is the server's, ``server_id`` ours."""
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
    return SourceRefused(text, source=address)
