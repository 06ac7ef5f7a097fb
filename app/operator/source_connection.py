"""The source that an operation asks: the source that the worker reads, or else the first that answers.

Invariant: once a source answers, each source that did not answer is reported to the caller, even if the
operation fails later. If a cursor is set at another source than the one that is read, the worker continues at
that source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from app.operator.journal_access import Journal
from app.worker.destination.background import in_its_own_thread
from app.worker.destination.plan import Source
from connectors.errors import AqueductError, NoSourceFits, SourceLost, SourceRefused
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts, read_facts
from tables.journal_format import Entry as Note
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import Current, SourceChoice, source_note

ReportUnreachable = Callable[[SourceAddress, AqueductError, SourceAddress], None]
"""Receives each source that does not answer, its error, and the source that is asked in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachableSource:
    """A source that answers."""

    address: SourceAddress
    facts: ServerFacts

    def switch_records(self, choice: SourceChoice, destination: str, *, by: str) -> list[Note]:
        """Return the journal records that make the worker read this source; empty if it already does."""
        current = choice.current
        if current is not None and current.address == str(self.address):
            return []
        chosen = Current(
            destination=destination,
            address=str(self.address),
            server_uuid=self.facts.server_uuid,
            why=f"cursor set there by {by}",
            ts_ms=time.time_ns() // 1_000_000,
            answers=current.answers if current is not None else None,
        )
        return [source_note(chosen)]


async def reachable_source(
    journal: Journal,
    state: DestinationState,
    report: ReportUnreachable,
    *,
    server_uuid: str | None = None,
) -> ReachableSource:
    """Return the first source that answers, beginning with the source that is read.

    With ``server_uuid``, prefer the server with this UUID if it answers. If no source answers, raise the only
    source's error, or NoSourceFits with the error of each.
    """
    faults: list[tuple[SourceAddress, AqueductError]] = []
    first: ReachableSource | None = None
    for source in _in_order(journal, state):
        try:
            facts = await in_its_own_thread(partial(read_facts, source.address))
        except (SourceLost, SourceRefused) as error:
            faults.append((source.address, error))
            continue
        found = ReachableSource(
            address=replace(source.address, server=facts.server_uuid), facts=facts
        )
        first = first or found
        if server_uuid in (None, found.facts.server_uuid):
            first = found
            break
    if first is None:
        raise _no_source_error(faults)
    for address, fault in faults:
        report(address, fault, first.address)
    return first


def _no_source_error(faults: list[tuple[SourceAddress, AqueductError]]) -> AqueductError:
    if len(faults) == 1:
        return faults[0][1]
    return NoSourceFits(
        "; ".join(f"{address}: {fault.name}: {fault.detail}" for address, fault in faults),
        remedy="Nothing was changed; repair one of them and try again.",
    )


def _in_order(journal: Journal, state: DestinationState) -> Iterator[Source]:
    """The sources of the settings, beginning with the source that is read."""
    plan, current = journal.plan, state.source_choice.current
    listed = plan.sources or (Source(address=plan.address, start=plan.start),)
    is_read = current.address if current is not None else str(listed[0].address)
    yield from (one for one in listed if str(one.address) == is_read)
    yield from (one for one in listed if str(one.address) != is_read)
