"""Rows older than a start, which are not published.

Invariant: a start at the earliest change passes silently only if the binlog reaches back to the
server's beginning, as far as can be determined.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from connectors.errors import StartIncomplete
from connectors.mysql.lookup.binlog_retention import created_at
from connectors.mysql.lookup.position_by_time import was_purged
from connectors.mysql.schema.row_estimates import Estimate, estimates, listed
from connectors.mysql.server.facts import ServerFacts, SourceAddress

log = logging.getLogger(__name__)

Captures = Callable[[str, str], bool]


def check_earliest(
    destination: str,
    facts: ServerFacts,
    address: SourceAddress,
    captures: Captures,
    *,
    accepted: bool,
) -> None:
    """Raise StartIncomplete if the binlog may lack rows of captured tables, unless accepted."""
    oldest = facts.binlogs[0][0]
    found = estimates(captures, address)
    if was_purged(facts):
        why = f"it has purged its binlog before {oldest}"
    elif found := _older(found, int(created_at(address, oldest))):
        why = f"these tables are older than its oldest binlog file, {oldest}"
    else:
        return
    detail = f"{why}; rows that are there may not be in it: {listed(found)}"
    if not accepted:
        raise StartIncomplete(detail, source=address)
    log.warning("%s: begins with the earliest change, as accepted: %s", destination, detail)


def log_omitted_rows(destination: str, address: SourceAddress, captures: Captures) -> None:
    """Log the rows that a start at the end omits."""
    found = estimates(captures, address)
    log.warning(
        "%s: begins at the end of the binlog; existing rows are not published: %s",
        destination,
        listed(found),
    )


def _older(found: list[Estimate], file_created: int) -> list[Estimate]:
    return [one for one in found if one.created < file_created]
