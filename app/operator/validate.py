"""`validate`: compare the source's present rows with the folded topics, while the worker runs, and repair rows.

Invariant: nothing is written to the source or to Kafka unless a repair is requested. Rows are locked only if
nothing else shows what a SELECT sees, and no lock is waited for. A repair request names a bounded number of
rows by their keys, and is made only once the rows of the previous request are published. The worker reads all
of these rows: it publishes the rows that the source has, whatever was found before, and deletes only the keys
of which the source has no row. Exit 0: all rows are equal; 1: some differ; 3: no row that was judged differs,
but not all rows could be judged.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from app.operator import arguments
from app.operator.journal_access import Journal
from app.operator.mapping import with_mapping_in_force
from app.operator.snapshot import request_snapshots
from app.operator.source_connection import ReportUnreachable, reachable_source
from app.operator.terminal import operator, print_answer, report_unreachable, run_operation
from app.operator.validation.definitions import definitions_now, wanted_tables
from app.operator.validation.errors import NotComparable, NotRepaired, SourceMoved
from app.operator.validation.looks import PublishedPosition
from app.operator.validation.table_result import ExtraRow, TableResult
from app.operator.validation.topic_pass import TopicPass
from app.settings.model import Settings, load
from app.worker.destination.background import in_its_own_thread
from connectors.errors import SnapshotUnsupported, TableUnreadable, UsageError
from connectors.kafka.reading import Follower, end_of
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.unseen_tables import unseen_tables
from connectors.mysql.select.chunk_query import quoted
from connectors.mysql.select.load_limits import LoadGate, LoadLimits
from connectors.mysql.select.read_views import FIRST_COUNTED, shows_what_is_visible
from connectors.mysql.server.facts import ServerFacts
from tables.state.journal.state import DestinationState
from tables.state.snapshots.request import SnapshotAction
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from wire.text import printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The result of a validation."""

    destination: str
    tables: tuple[TableResult, ...]

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return sum(one.differences for one in self.tables)

    @property
    def is_complete(self) -> bool:
        """Whether everything was judged."""
        return all(one.is_complete for one in self.tables)

    def lines(self) -> list[str]:
        """The result as text: each table, and the totals in one line."""
        found = [line for one in self.tables for line in one.lines()]
        not_compared = sum(one.not_compared is not None for one in self.tables)
        rows = sum(one.rows for one in self.tables)
        found.append(
            f"validation of {self.destination}: tables={len(self.tables)} not_compared={not_compared} "
            f"rows={rows} differences={self.differences}"
        )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "destination": self.destination,
            "equal": not self.differences and self.is_complete,
            "differences": self.differences,
            "complete": self.is_complete,
            "tables": [one.to_json() for one in self.tables],
        }


async def validate(
    settings: Settings,
    destination: str,
    *,
    tables: Sequence[TableName] = (),
    samples: int | None = None,
    limits: LoadLimits = LoadLimits(),  # noqa: B008  # it is frozen
    most_listed: int = 20,
    unreachable: ReportUnreachable,
    progress: Callable[[TableResult], object] = lambda _: None,
    busy: Callable[[str | None], None] = lambda _: None,
) -> Validation:
    """Compare the requested tables once.

    ``tables`` are real or logical names; empty: all captured tables. ``samples`` is the number of random chunks
    of each table; None: all rows are compared. ``limits`` is the source's load above which reading waits.
    ``most_listed`` is the number of differences of a table that are listed. ``progress`` receives each result
    as it grows. ``busy`` receives, in any thread, why reading waits for the source, and None once reading
    continues.

    Raise UsageError for a table that is not captured, or if none is, NotComparable if no table can be compared,
    PublishingStalled if the worker does not run, and the errors of the source and of Kafka.
    """
    journal = Journal.of(settings, destination)
    start = await end_of(journal.options, journal.topic, journal.partition)
    state = await journal.state()
    assert state.cursor is not None
    server = state.cursor.offset.server_uuid
    source = await reachable_source(journal, state, unreachable, server_uuid=server)
    _check(source.facts, server, destination)
    definitions = await definitions_now(journal, source.facts)
    unseen = await in_its_own_thread(
        partial(
            unseen_tables,
            source.address,
            source.facts,
            definitions.tables.keys(),
            [one.name for one in state.snapshots.pending],
        )
    )
    names = wanted_tables(definitions, tables, unseen)
    async with AsyncExitStack() as stack:
        follower = await stack.enter_async_context(Follower.opened(journal.options))
        await follower.follow({(journal.topic, journal.partition): start})
        published = PublishedPosition(
            follower, journal.plan.journal, state.cursor, server_uuid=server
        )
        one_pass = TopicPass(
            journal=journal,
            source=source,
            definitions=definitions,
            follower=follower,
            published=published,
            gate=LoadGate(limits, busy),
            show=progress,
            samples=samples,
            most_listed=most_listed,
        )
        results, by_topic = list[TableResult](), dict[str, list[TableName]]()
        for name in names:
            route = definitions.rules.routes.of(name)
            assert route is not None
            if why := unseen.get(name) or printed(route.fault):
                results.append(TableResult(name=name, topic=route.topic, not_compared=why))
            else:
                by_topic.setdefault(route.topic, []).append(name)
        for topic, own in sorted(by_topic.items()):
            results += await one_pass.compare(topic, own)
    results.sort(key=lambda one: one.name)
    return Validation(destination=destination, tables=tuple(results))


def _check(facts: ServerFacts, server_uuid: str, destination: str) -> None:
    """Raise NotComparable or SourceMoved if the rows of a server cannot be compared."""
    if not shows_what_is_visible(server_of(facts), has_gtids=facts.has_gtids):
        oldest = ".".join(map(str, FIRST_COUNTED))
        raise NotComparable(
            f"MySQL before {oldest} without GTIDs does not show what a SELECT sees",
            destination=destination,
            remedy="Set gtid_mode to ON, or audit the destination by its binlog.",
        )
    if facts.server_uuid != server_uuid:
        raise SourceMoved(
            f"it reads the server {server_uuid}, which does not answer", destination=destination
        )


MOST_KEYS = 200
"""The most keys in one condition."""


RequestRows = Callable[[TableName, str, tuple[str, ...]], Awaitable[None]]
"""Makes a running worker read and publish again the rows of a real table that an SQL condition selects, and
delete the given keys of records that none of these rows has."""


def conditions(
    key: Sequence[str], keys: Iterable[tuple[str, ...]], *, most: int = MOST_KEYS
) -> Iterator[str]:
    """Yield SQL conditions that together select the rows with these keys.

    ``key`` has the names of the key's columns, ``keys`` the literals of each key.
    """
    names = [quoted(one) for one in key]
    remaining = iter(keys)
    while some := list(islice(remaining, most)):
        if len(names) == 1:
            yield f"{names[0]} IN ({', '.join(one for (one,) in some)})"
        else:
            yield " OR ".join(_equal(names, one) for one in some)


def _equal(names: Sequence[str], literals: tuple[str, ...]) -> str:
    pairs = zip(names, literals, strict=True)
    return f"({' AND '.join(f'{name} = {literal}' for name, literal in pairs)})"


async def request_repair(
    request: RequestRows, table: TableName, key: Sequence[str], keys: Iterable[tuple[str, ...]]
) -> int:
    """Request the rows of a table with these keys; return the count of requests."""
    count = 0
    for condition in conditions(key, keys):
        await request(table, condition, ())
        count += 1
    return count


async def request_removal(
    request: RequestRows, table: TableName, key: Sequence[str], rows: Sequence[ExtraRow]
) -> int:
    """Request the deletion of these rows unless the source has them; return the count of requests."""
    count = 0
    for first in range(0, len(rows), MOST_KEYS):
        some = rows[first : first + MOST_KEYS]
        (condition,) = conditions(key, (one.literals for one in some))
        await request(table, condition, tuple(one.key for one in some))
        count += 1
    return count


_APPLIED_SECONDS = 60.0
_READ_SECONDS = 600.0


async def repair(
    journal: Journal, found: Validation, report: ReportUnreachable, *, by: str
) -> list[str]:
    """Publish again, or delete, all rows that differ and whose keys the result has.

    Return as text what was done for each table, or why the table was not repaired completely.

    Raise NotApplied if no worker applies a request, and the errors of the source and of Kafka.
    """
    request = partial(_request_rows, journal, report, by)
    return [
        await _repaired(request, one) for one in found.tables if one.repairable or one.removable
    ]


async def _repaired(request: RequestRows, one: TableResult) -> str:
    name, rows, extra = ".".join(one.name), len(one.repairable), len(one.removable)
    try:
        count = await request_repair(request, one.name, one.key, one.repairable)
        count += await request_removal(request, one.name, one.key, one.removable)
    except (NotRepaired, UsageError, SnapshotUnsupported, TableUnreadable) as error:
        return f"{name}: not repaired: {error.name}: {error}"
    done = [f"{rows} row(s) published again"] if rows else []
    done += [f"{extra} extra row(s) deleted if still gone"] if extra else []
    return f"{name}: {', '.join(done)}, by {count} request(s)"


async def _request_rows(
    journal: Journal,
    report: ReportUnreachable,
    by: str,
    table: TableName,
    condition: str,
    removes: tuple[str, ...],
) -> None:
    """See RequestRows; raise NotRepaired if the rows are not published in time."""
    _, applied = await request_snapshots(
        journal,
        SnapshotAction.START,
        [table],
        report,
        where=condition,
        removes=removes,
        by=by,
        wait=_APPLIED_SECONDS,
    )
    assert applied is not None
    (begun,) = applied.value

    def ended(state: DestinationState) -> TableSnapshot | None:
        one = state.snapshots.all.get(table)
        return None if one is None or one.is_pending else one

    one = await journal.wait(ended, after=applied.offset, seconds=_READ_SECONDS)
    if one is None or (one.state is not SnapshotState.DONE and not _ends_as_before(one, begun)):
        why = f"not within {_READ_SECONDS:.0f} s" if one is None else one.error or one.state.value
        raise NotRepaired(why, destination=journal.plan.name, table=".".join(table))


def _ends_as_before(one: TableSnapshot, begun: TableSnapshot) -> bool:
    """Return whether all was read of a table that had failed before, and stays so for its other rows."""
    return one.state is SnapshotState.FAILED and one.error == begun.unlogged


INCOMPLETE = 3
_PROGRESS_SECONDS = 10.0


def configure_validate(parser: argparse.ArgumentParser) -> None:
    """Add what is compared, and how fast."""
    parser.epilog = (
        "Nothing is written. Exit code 0: all rows are equal; 1: some differ, or an error; 3: none "
        "differs among those that could be judged."
    )
    arguments.add_destination(parser)
    parser.add_argument(
        "tables",
        metavar="TABLE",
        nargs="*",
        type=arguments.parse_table,
        help="a real or logical table, as database.table; default: all captured tables",
    )
    parser.add_argument(
        "--sample",
        type=_count,
        metavar="N",
        help="compare N chunks of rows at random of each table; extra rows are not looked for",
    )
    parser.add_argument(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="compare again, so many seconds after each result, until interrupted",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="have the running worker publish rows that are missing or different again, and delete extra ones",
    )
    parser.add_argument(
        "--rows-per-second",
        type=_count,
        metavar="N",
        default=0,
        help="most rows that are read of the source in a second; default: no limit",
    )
    parser.add_argument(
        "--threads-running",
        type=_count,
        default=50,
        metavar="N",
        help="wait while more threads than these run at the source (default: %(default)s)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="differences of a table that are listed; all are counted (default: %(default)s)",
    )
    arguments.add_format(parser)


def run_validate(options: argparse.Namespace) -> int:
    """Compare and print the result; return the exit code."""
    if options.watch is not None and not options.watch >= 0:
        raise UsageError("--watch must be a number of seconds")
    settings, repaired_by = load(), operator() if options.repair else None
    limits = LoadLimits(
        rows_per_second=options.rows_per_second, threads_running=options.threads_running
    )
    progress, waits = _Progress(), _Waits()
    while True:
        found = run_operation(
            validate(
                settings,
                options.destination,
                tables=options.tables,
                samples=options.sample,
                limits=limits,
                most_listed=max(0, options.limit),
                unreachable=report_unreachable,
                progress=progress.show,
                busy=waits.show,
            )
        )
        print_answer(options.format, found.to_json(), found.lines())
        sys.stdout.flush()
        if repaired_by is not None and found.differences:
            current = run_operation(with_mapping_in_force(settings, found.destination))
            journal = Journal.of(current, found.destination)
            for one in run_operation(repair(journal, found, report_unreachable, by=repaired_by)):
                sys.stderr.write(f"{printed(one)}\n")
        if options.watch is None:
            break
        # The loop sees an interrupt that another thread takes.
        run_operation(asyncio.sleep(options.watch))
    if found.differences:
        return 1
    return 0 if found.is_complete else INCOMPLETE


class _Progress:
    """Reports the rows that were compared, at intervals."""

    def __init__(self) -> None:
        self._reported = time.monotonic()

    def show(self, result: TableResult) -> None:
        """Report the state of a table that is compared."""
        now = time.monotonic()
        if now - self._reported >= _PROGRESS_SECONDS:
            self._reported = now
            table = printed(".".join(result.name))
            sys.stderr.write(
                f"{table}: {result.rows} row(s) compared, {result.differences} difference(s)\n"
            )


class _Waits:
    """Reports why reading waits, once for each wait."""

    def __init__(self) -> None:
        self._is_waiting = False

    def show(self, reason: str | None) -> None:
        """Report that a wait begins; None: it has ended."""
        if reason is not None and not self._is_waiting:
            sys.stderr.write(f"reading waits: {printed(reason)}\n")
        self._is_waiting = reason is not None


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number
