"""The waiting tables, the offsets from which they wait, and the reload requests for them.

They are stored in the warehouse as a log of rows; the last row of each table is in force. Only the sink writes
states; commands only add requests, so the two never conflict.

Invariant: batches do not touch a waiting table, and each partition with changes for the table since then is
recorded with an offset at or before the first of these changes. A table reloaded up to a cut ignores changes
before that cut. A request that is not answered in time stays in the log, and a sink carries it out later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from spark_sink.errors import TableError, TablesWaiting
from spark_sink.source.envelope import of_table
from spark_sink.source.positions import Offsets, Place
from spark_sink.text.quoting import action, literal
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.log_fold import MAINTAIN, MAINTAINED, REQUEST
from spark_sink.warehouse.protocol import Name

WAITING: Final = "waiting"
RELOADING: Final = "reloading"
LOADED: Final = "loaded"
_ALWAYS_STATED: Final = ("from_beginning", "only_new", "skip_unusable", "time_zone", "topics")
"""The options that each request states; others only if they are given, as earlier versions do not know them."""
_UNSTATED: Final = ("cause", "begun", "replacing")
"""The members of a state that are stored only if they are set, as earlier versions do not know them."""
_OF_MAINTENANCE: Final = (MAINTAIN, MAINTAINED)
"""Requests for maintenance and their answers, which are not states of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An operator's request to reload a table, identified by `number`."""

    number: str
    database: str
    table: str
    from_beginning: bool = False
    only_new: bool = False
    skip_unusable: bool = False
    time_zone: str = ""
    topics: tuple[str, ...] = ()
    sink: str = ""
    """The name of the sink that carries it out."""
    load: str = ""
    """The number of the load whose rows replace those of the table."""
    unknown_as_null: bool = False
    """Whether values that only the source had are NULL from now on."""
    discard: bool = False
    """Whether the rows of a table that the source has dropped are given up, and the table is removed."""
    source: tuple[str, ...] = ()
    """With `discard`, the source table whose rows alone are given up: destination, database and table."""
    lose_rows: bool = False
    """Whether rows of `source` are given up though it may not be gone."""
    replaced: bool = False
    """Whether the sink itself makes the request, as all rows that replace the table's rows have come."""
    unknown: tuple[str, ...] = ()
    """The options that a command of another version states and this version does not know."""

    @property
    def name(self) -> Name:
        """The table."""
        return self.database, self.table

    @property
    def of_source(self) -> Source | None:
        """The source table that is named; None if the request concerns all."""
        return Source(*self.source) if self.source else None

    def text(self) -> str:
        """The request as stored."""
        body = {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) != one.default or one.name in _ALWAYS_STATED
        }
        body.pop("unknown", None)
        return json.dumps({"version": 1, **body})


_STATED: Final = frozenset(one.name for one in fields(Request)) - {"unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitState:
    """The state of a table: it waits from `offsets` on, or ignores changes before them."""

    kind: str
    database: str
    table: str
    since_ms: int
    at_ms: int
    error: str = ""
    reason: str = ""
    action: str = ""
    offsets: Offsets = field(default_factory=dict)
    answered: str = ""
    """The number of the request that this state answers."""
    cause: str = ""
    """The error for which the table waits, once `error` is why a request was refused."""
    begun: int = 0
    """How many processes have begun the requested reload; none of them was stopped in order."""
    replacing: tuple[tuple[Source, Place], ...] = ()
    """The source tables whose existing rows are still to come, each with the position before the first row."""

    @property
    def waits_for(self) -> str:
        """The error for which the table waits, whatever was refused since."""
        return self.cause or self.error

    @property
    def name(self) -> Name:
        """The table."""
        return self.database, self.table

    @property
    def waits(self) -> bool:
        """Whether batches skip the table."""
        return self.kind in {WAITING, RELOADING}


@dataclass(slots=True)
class Waits:
    """The log, and the states and requests folded from it."""

    log: SinkLog
    clock: Callable[[], float]
    tables: dict[Name, WaitState] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    maintenance: list[Mapping[str, Any]] = field(default_factory=list)
    """The rows of requests for maintenance, and of answers."""
    sink: str | None = None
    """The name of the sink whose requests are read; None for the requests of all sinks."""
    report: Callable[[Mapping[Name, str]], None] = lambda _: None
    """Takes the tables that wait, each with the error that it waits for, when these may have changed."""
    _last: int = 0
    _moment: int = 0
    """The last moment (ms) that was recorded: the clock may be set back."""
    _seen: object = None
    _looked: tuple[object, bool] = (None, False)
    """The state of the log when it was last searched for requests, and whether there was one."""

    def refresh(self) -> bool:
        """Read the log again if it has grown; return whether it had."""
        state = self.log.state()
        if state == self._seen:
            return False
        self._seen = state
        rows = self.log.rows() if state else []
        self._last = max((row["number"] for row in rows), default=0)
        self._moment = max(self._moment, *(row["at_ms"] for row in rows), 0)
        self.maintenance = [row for row in rows if row["kind"] in _OF_MAINTENANCE]
        self.tables, asked = folded(rows)
        self.requests = [one for one in asked if self.sink in (None, one.sink)]
        self._report()
        return True

    def asks(self) -> bool:
        """Whether the log has a request of this sink without an answer. Thread-safe, as no other method is."""
        state = self.log.state()
        if self._looked[0] != state:
            _, asked = folded(self.log.rows() if state else [])
            self._looked = state, any(self.sink in (None, one.sink) for one in asked)
        return self._looked[1]

    def waiting(self, name: Name) -> WaitState | None:
        """The table's state if it waits; None otherwise."""
        held = self.tables.get(name)
        return held if held is not None and held.waits else None

    def raise_waiting(self) -> None:
        """Raise TablesWaiting if a table waits."""
        waiting = [one for one in self.tables.values() if one.waits]
        if waiting:
            tables = ", ".join(f"{'.'.join(one.name)} ({one.error})" for one in waiting)
            raise TablesWaiting(tables, advice="See: python -m spark_sink status")

    def all_waiting(self) -> set[Name]:
        """The tables that wait."""
        return {name for name, held in self.tables.items() if held.waits}

    def begin(self, name: Name, fault: TableError, offsets: Offsets) -> None:
        """Record that a table waits from `offsets` on, because of `fault`."""
        now = self._now()
        self._put(
            WaitState(
                kind=WAITING,
                database=name[0],
                table=name[1],
                since_ms=now,
                at_ms=now,
                error=type(fault).__name__,
                reason=fault.where or str(fault),
                action=fault.advice or action(name),
                offsets=dict(offsets),
            )
        )

    def extend(self, name: Name, offsets: Offsets) -> None:
        """Add the partitions in which a waiting table has changes for the first time."""
        held = self.tables[name]
        if new := {at: start for at, start in offsets.items() if at not in held.offsets}:
            self._put(replace(held, offsets={**held.offsets, **new}, at_ms=self._now()))

    def replaces(self, name: Name, replacing: Mapping[Source, Place]) -> None:
        """Record the source tables of a waiting table whose existing rows are still to come."""
        held, now = self.tables[name], tuple(sorted(replacing.items()))
        if held.replacing != now:
            self._put(replace(held, replacing=now, at_ms=self._now()))

    def reloading(self, held: WaitState, *, broken_off: int = 0) -> WaitState:
        """Record that a reload has begun; `broken_off` processes began it before and did not survive it."""
        return self._put(replace(held, kind=RELOADING, at_ms=self._now(), begun=broken_off + 1))

    def interrupt(self, held: WaitState) -> WaitState:
        """Record that what a running reload builds no longer fits; the table still waits."""
        return self._put(replace(held, kind=WAITING, at_ms=self._now()))

    def refuse(self, held: WaitState, fault: TableError | Exception, request: Request) -> None:
        """Record the failure of a request; a waiting table still waits, and no other table begins to wait."""
        error = type(fault).__name__
        reason, advice = getattr(fault, "where", str(fault)), getattr(fault, "advice", "")
        if held.action and "python -m " not in advice:
            # The advice does not state how the wait ends.
            stated = advice in held.action
            advice = held.action if stated else f"{advice}. {held.action}"
        self._put(
            replace(
                held,
                kind=WAITING if held.waits else LOADED,
                at_ms=self._now(),
                error=error,
                reason=reason,
                action=advice,
                answered=request.number,
                cause=held.waits_for if held.waits else "",
                begun=0,
            )
        )

    def loaded(self, held: WaitState, cut: Offsets, request: Request) -> None:
        """End the wait: the table holds all changes before `cut`."""
        self._put(
            WaitState(
                kind=LOADED,
                database=held.database,
                table=held.table,
                since_ms=held.since_ms,
                at_ms=self._now(),
                offsets=dict(cut),
                answered=request.number,
            )
        )

    def pass_on(self, name: Name) -> None:
        """End the wait of a name, as the rows for which it waits now have another name, which waits."""
        held = self.tables[name]
        ended = WaitState(
            kind=LOADED, database=name[0], table=name[1], since_ms=held.since_ms, at_ms=self._now()
        )
        self._put(ended)

    def ask(self, *requests: Request) -> None:
        """Add requests, all in one file of the log, so that the sink reads them together."""
        self.log.wait(
            *(
                {
                    "number": 0,
                    "kind": REQUEST,
                    "database": request.database,
                    "table": request.table,
                    "at_ms": self._now(),
                    "request": request.text(),
                }
                for request in requests
            )
        )

    def after(self, moment_ms: int) -> int:
        """A moment at or after `moment_ms`, and after everything that is recorded here."""
        self._moment = max(moment_ms, self._moment + 1)
        return self._moment

    def _now(self) -> int:
        return self.after(int(self.clock() * 1000))

    def _put(self, standing: WaitState) -> WaitState:
        self._last += 1
        body = asdict(standing)
        answered = body.pop("answered")
        more = {name: one for name in _UNSTATED if (one := body.pop(name))}
        body |= {
            "number": self._last,
            "offsets": json.dumps([[*at, offset] for at, offset in standing.offsets.items()]),
            "request": json.dumps({"version": 1, "number": answered, **more}),
        }
        self.log.wait(body)
        self.tables[standing.name] = standing
        if answered:
            self.requests = [one for one in self.requests if one.number != answered]
        self._report()
        return standing

    def _report(self) -> None:
        self.report({name: one.error for name, one in self.tables.items() if one.waits})


def folded(rows: Iterable[Mapping[str, Any]]) -> tuple[dict[Name, WaitState], list[Request]]:
    """The state of each table, and the requests that no state answers, oldest first."""
    tables: dict[Name, WaitState] = {}
    asked: dict[str, Request] = {}
    answered = set()
    for row in sorted(rows, key=lambda row: (row["number"], row["at_ms"])):
        if row["kind"] in _OF_MAINTENANCE:
            continue
        stored = json.loads(row["request"] or "{}")
        if row["kind"] == REQUEST:
            known = {name: stored[name] for name in _STATED if name in stored}
            known |= {name: tuple(stored.get(name, ())) for name in ("topics", "source")}
            unknown = tuple(sorted(stored.keys() - _STATED - {"version"}))
            asked[stored["number"]] = Request(**known, unknown=unknown)
            continue
        answered.add(stored["number"])
        tables[row["database"], row["table"]] = WaitState(
            kind=row["kind"],
            database=row["database"],
            table=row["table"],
            since_ms=row["since_ms"],
            at_ms=row["at_ms"],
            error=row["error"],
            reason=row["reason"],
            action=row["action"],
            offsets={(topic, number): at for topic, number, at in json.loads(row["offsets"])},
            answered=stored["number"],
            cause=stored.get("cause", ""),
            begun=stored.get("begun", 0),
            replacing=tuple(
                (Source(**of), (at[0], at[1])) for of, at in stored.get("replacing", ())
            ),
        )
    return tables, [one for number, one in asked.items() if number not in answered]


def loaded_sql(states: Iterable[WaitState], start: Offsets, name: Name | None = None) -> str:
    """The condition that a reload has already applied a record, perhaps one of an older table version.

    Empty if no reload reaches past `start`; `name` limits it to one table.
    """
    return " OR ".join(
        f"({of_table(one.name)} AND topic = {literal(topic)} AND partition = {partition}"
        f" AND offset < {until})"
        for one in states
        if one.kind == LOADED and name in (None, one.name)
        for (topic, partition), until in sorted(one.offsets.items())
        if start.get((topic, partition), 0) < until
    )
