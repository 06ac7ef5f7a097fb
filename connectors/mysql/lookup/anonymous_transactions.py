"""Transactions without GTIDs that a dump by GTIDs would omit.

A server starts a dump by GTIDs at the newest file before which all transactions are known,
according to the file's head. The heads do not list transactions without GTIDs, so a file that
contains only such transactions is skipped.

Invariant: only files that the dump skips entirely are read here. In the file in which the dump
begins, and in all later files, the server itself refuses a transaction without a GTID.
"""

from __future__ import annotations

from connectors.errors import AnonymousTransaction
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup.start import previous_of
from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import SourceOffset
from connectors.mysql.server.facts import ServerFacts, SourceAddress


def refuse_skipped(
    offset: SourceOffset, gtids: GtidSet, facts: ServerFacts, address: SourceAddress
) -> None:
    """Raise AnonymousTransaction if a dump by GTIDs would skip a transaction after an offset."""
    files = [name for name, _ in facts.binlogs]
    position = offset.coordinates
    if position.file not in files:
        return
    later = files[files.index(position.file) + 1 :]
    passed = [position.file, *_known(later, gtids, address)]
    if len(passed) == 1:
        return
    for span in Spans(address, position.file):
        if span.start.file not in passed[:-1]:
            return
        if span.gtid is None and span.start.order >= position.order:
            raise AnonymousTransaction(
                f"a dump by GTIDs begins in {passed[-1]}, and passes it over",
                coordinates=span.start,
                source=address,
            )


def _known(files: list[str], gtids: GtidSet, address: SourceAddress) -> list[str]:
    """Return the leading files before which, according to their heads, all GTIDs are in a set."""
    found = []
    for file in files:
        if not previous_of(file, address).issubset(gtids):
            break
        found.append(file)
    return found
