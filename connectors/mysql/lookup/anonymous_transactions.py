"""Transactions without GTIDs that a reader by GTIDs would never be sent.

A server begins a dump by GTIDs with the newest file before which all is known, by what the file's head says.
The heads do not count transactions without GTIDs, so a file that has nothing else is passed over.

Invariant: only files that the dump leaves out wholly are read here; in the file where it begins, and in all
after it, the server itself refuses a transaction without GTID.
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
    """Raise AnonymousTransaction where a transaction without GTID stands between an offset and where a dump by
    GTIDs begins."""
    files = [name for name, _ in facts.binlogs]
    place = offset.coordinates
    if place.file not in files:
        return
    later = files[files.index(place.file) + 1 :]
    passed = [place.file, *_known(later, gtids, address)]
    if len(passed) == 1:
        return
    for span in Spans(address, place.file):
        if span.start.file not in passed[:-1]:
            return
        if span.gtid is None and span.start.order >= place.order:
            raise AnonymousTransaction(
                f"a dump by GTIDs begins in {passed[-1]}, and passes it over",
                coordinates=span.start,
                source=address,
            )


def _known(files: list[str], gtids: GtidSet, address: SourceAddress) -> list[str]:
    """The files in a row whose heads say that all before them is in a set."""
    found = []
    for file in files:
        if not previous_of(file, address).issubset(gtids):
            break
        found.append(file)
    return found
