"""The execution of a statement, from its QUERY event: its time and its session's time zone.

Invariant: a time or time zone that the event lacks is None; a missing fraction of a second is 0. A
server logs a time zone and a fraction of a second only for statements that depend on them. Source:
MySQL's statement_events.h, Query_event_status_vars.
"""

from __future__ import annotations

from connectors.mysql.binlog.events import Query
from connectors.mysql.binlog.query_session import status_variables
from connectors.mysql.buffer import uint
from connectors.mysql.ddl.definition import Execution

_TIME_ZONE, _MICROSECONDS, _MICROSECONDS_OF_MARIADB = 5, 13, 128
_SECOND = 1_000_000


def execution_of(query: Query, mark: str) -> Execution:
    """Return the statement's execution; ``mark`` identifies it among all executions on its source."""
    variables = status_variables(query.status)
    zone = variables.get(_TIME_ZONE)
    fraction = variables.get(_MICROSECONDS) or variables.get(_MICROSECONDS_OF_MARIADB) or bytes(3)
    started_us = query.started_s * _SECOND + uint(fraction, 0, 3) if query.started_s else None
    return Execution(
        mark=mark,
        started_us=started_us,
        time_zone=None if zone is None else zone[1:].decode("utf-8", "replace"),
    )
