"""Maintenance that an operator requests: through the running sink, or directly if none runs.

Requests and answers are rows of the log of waiting tables, which the sink reads anyway.

Invariant: a request is answered once, after each of its tables was tried. A request that a stop interrupts is
carried out again from its first table, which does no harm.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_sink.errors import MaintenanceIncomplete
from spark_sink.warehouse.log_fold import MAINTAIN, MAINTAINED
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.waiting_tables import Waits

_log = logging.getLogger(__name__)

Outcomes = dict[Name, str]
"""For each table, why it was not maintained, or not completely; empty if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """A request to maintain tables; all if none is named."""

    number: str
    tables: tuple[Name, ...] = ()
    sink: str = ""
    """The name of the sink that carries it out."""


def request_row(request: MaintenanceRequest, *, at_ms: int) -> dict[str, Any]:
    """Return a request as a row of the log."""
    return _row(MAINTAIN, at_ms, {
        "number": request.number, "tables": request.tables, "sink": request.sink
    })  # fmt: skip


def answer_row(number: str, outcomes: Mapping[Name, str], *, at_ms: int) -> dict[str, Any]:
    """Return an answer as a row of the log."""
    body = [[*name, outcome] for name, outcome in outcomes.items()]
    return _row(MAINTAINED, at_ms, {"number": number, "outcomes": body})


def open_requests(rows: Iterable[Mapping[str, Any]], sink: str) -> list[MaintenanceRequest]:
    """Return the requests for a sink that have no answer, oldest first."""
    asked: dict[str, MaintenanceRequest] = {}
    answered = set()
    for row in sorted(rows, key=lambda row: int(row["at_ms"])):
        body = json.loads(row["request"])
        if row["kind"] == MAINTAINED:
            answered.add(body["number"])
        elif body["sink"] == sink:
            tables = tuple((database, table) for database, table in body["tables"])
            asked[body["number"]] = MaintenanceRequest(
                number=body["number"], tables=tables, sink=sink
            )
    return [one for number, one in asked.items() if number not in answered]


def outcomes_of(rows: Iterable[Mapping[str, Any]], number: str) -> Outcomes | None:
    """Return the answer to a request; None without an answer."""
    for row in rows:
        body = json.loads(row["request"])
        if row["kind"] == MAINTAINED and body["number"] == number:
            return {(database, table): outcome for database, table, outcome in body["outcomes"]}
    return None


def _row(kind: str, at_ms: int, body: Mapping[str, Any]) -> dict[str, Any]:
    # All columns have values, since an earlier version of the sink reads the row as the state of a table
    # without a name.
    return {
        "number": 0, "kind": kind, "database": "", "table": "", "since_ms": 0, "at_ms": at_ms,
        "error": "", "reason": "", "action": "", "offsets": "[]", "request": json.dumps({"version": 1, **body}),
    }  # fmt: skip


@dataclass(slots=True, kw_only=True)
class RequestedMaintenance:
    """The requests of the log, carried out one table at a time, so that reloads may come between."""

    waits: Waits
    maintain: Callable[[Name], str]
    """Maintains a table; returns why that failed, or partly failed."""
    tables: Callable[[], list[Name]]
    """Returns the names of all tables."""
    sink: str = ""
    clock: Callable[[], float] = time.time
    _request: MaintenanceRequest | None = None
    _left: list[Name] = field(default_factory=list)
    _outcomes: Outcomes = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    def next(self) -> Callable[[], None] | None:
        """Return the next table's maintenance, or the answer; None without a request."""
        if self._request is None:
            asked = open_requests(self.waits.maintenance, self.sink)
            self._request = next((one for one in asked if one.number not in self._answered), None)
            if self._request is None:
                return None
            self._left = list(self._request.tables) or self.tables()
            self._outcomes = {}
        if self._left:
            return partial(self._maintain, self._left.pop(0))
        return self._answer

    def _maintain(self, name: Name) -> None:
        self._outcomes[name] = self.maintain(name)

    def _answer(self) -> None:
        if self._request is None:
            return
        number, self._request = self._request.number, None
        row = answer_row(number, self._outcomes, at_ms=int(self.clock() * 1000))
        self.waits.log.wait(row)
        self._answered.add(number)


def ask(
    waits: Waits,
    tables: Collection[Name],
    *,
    sink: str,
    timeout: float,
    stopped: Callable[[float], bool],
    ended: Callable[[], bool] = lambda: False,
) -> Outcomes:
    """Request maintenance of the running sink, and wait for its answer.

    `stopped` waits for so many seconds and returns whether to stop; after a stop, the outcomes are empty. Raise
    MaintenanceIncomplete after `timeout` seconds, or once the sink has `ended`.
    """
    request = MaintenanceRequest(number=uuid.uuid4().hex, tables=tuple(tables), sink=sink)
    waits.log.wait(request_row(request, at_ms=int(time.time() * 1000)))
    _log.info("maintenance requested; waiting for the sink")
    deadline = time.monotonic() + timeout
    while not stopped(1.0):
        waits.refresh()
        if (found := outcomes_of(waits.maintenance, request.number)) is not None:
            return found
        if (gone := ended()) or time.monotonic() >= deadline:
            why = "was stopped" if gone else f"has not answered within {timeout:.0f} s"
            raise MaintenanceIncomplete(
                f"the sink {why}",
                advice="The request is kept: the running sink or the next start carries it out",
            )
    return {}


def outcome_lines(outcomes: Mapping[Name, str]) -> list[str]:
    """Return the outcomes as lines."""
    return [
        f"{'.'.join(name)}: " + (f"not maintained: {text}" if text else "maintained")
        for name, text in sorted(outcomes.items())
    ]


def check(outcomes: Mapping[Name, str]) -> None:
    """Raise MaintenanceIncomplete if a table was not maintained completely."""
    faults = [".".join(name) for name, text in outcomes.items() if text]
    if faults:
        raise MaintenanceIncomplete(
            f"{len(faults)} of {len(outcomes)} tables: {', '.join(faults[:5])}",
            advice="Repeat the command later, once the reasons above are gone",
        )
