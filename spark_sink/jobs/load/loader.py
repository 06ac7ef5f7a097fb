"""A load: the rows of a table's sources are read range by range, until the stream can continue them.

The rule is the same as for the worker's snapshots (docs/decisions/0015). A SELECT begins once the server shows
all that the stream has published, so it sees no less than that. Its rows get the number up to which the stream
had published, and the stream repeats any later change over them. The table is put in place once the stream has
published all that was visible after the last SELECT, so no reader sees a row that is newer than the stream.

Invariant: nothing that readers see is changed here; a running sink puts the table in place, with the changes
since, in one commit.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.shapes import traced_to
from spark_sink.errors import LoadRefused, LoadStale, RowsRefused
from spark_sink.jobs.load.origin import BEGIN, Origin
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.rows import selected_rows
from spark_sink.jobs.load.sources import check_rows
from spark_sink.jobs.load.state import LOADED, READ, Loads, LoadState
from spark_sink.settings.model import Load
from spark_sink.source.kafka import Topics
from spark_sink.source.positions import Offsets
from spark_sink.source.schemas import SchemaBook
from spark_sink.spark.error_mapping import refused_record
from spark_sink.text.quoting import argument
from spark_sink.warehouse.columns import Traced
from spark_sink.warehouse.protocol import Name, Warehouse

_log = logging.getLogger(__name__)
_BUSY_SECONDS: Final = 1.0
_TOGETHER: Final = 200
"""The most conditions on single rows in one SELECT."""

Range = tuple[int, str]
"""The index of a source table, and a condition on its key."""


@dataclass(slots=True, kw_only=True)
class Loader:
    """Loads tables one after the other; each call can be repeated, and continues."""

    spark: SparkSession
    settings: Load
    origins: Mapping[str, Origin]
    """By destination."""
    warehouse: Warehouse[DataFrame]
    topics: Topics
    book: SchemaBook
    loads: Loads
    stopped: Callable[[float], bool]
    """Waits so many seconds, and returns whether to stop."""
    timeout: float = 3600.0

    def read(self, name: Name, sources: tuple[SourceTable, ...], *, again: bool) -> LoadState:
        """Read all rows of a table that are not read yet, and wait until the stream has reached them.

        Raise LoadRefused, LoadStale, TableUnreadable, SourceUnreachable and the errors of Kafka.
        """
        state = self._continued(name, sources) if not again else None
        if state is None:
            if (earlier := self.loads.of(name)) is not None:
                self.loads.remove_rows(earlier)
            state = self.begun(name, sources)
            self._check_apart(state)
            check_rows(state, self.warehouse.tables)
            state = self.loads.keep(state)
            _log.info(
                "load begun table=%s.%s ranges=%d from %s",
                *name,
                len(state.ranges),
                " ".join(f"{one}@{low.seq}" for one, low in state.lows.items()),
            )
        state = self.read_ranges(state, self.traced(name, sources), keep=self.loads.keep)
        _log.info("waiting for the stream to reach what was read table=%s.%s", *name)
        self.await_stream(state)
        return self.loads.keep(replace(state, state=READ))

    def begun(
        self, name: Name, sources: tuple[SourceTable, ...], *, only: Iterable[Range] = ()
    ) -> LoadState:
        """Return the state of a new read: of all rows, or of the rows that meet any condition of `only`."""
        origins = self._of(sources)
        for origin in origins.values():
            origin.server.check()
        for source in sources:
            origins[source.destination].check_columns(source)
        # Fetched before the cursors, so that all changes after the cursors are at these offsets or later.
        offsets = self._offsets(sources)
        lows = {destination: origin.low() for destination, origin in origins.items()}
        traced = self.traced(name, sources)
        for destination, origin in origins.items():
            origin.wait_for(lows[destination])
        ranges = _grouped(only) or _in_turn(
            [
                (number, one)
                for number, source in enumerate(sources)
                if source.destination == destination
                for one in origin.ranges(source, rows=self.settings.rows_per_range)
            ]
            for destination, origin in origins.items()
        )
        return LoadState(
            number=uuid.uuid4().hex,
            name=name,
            sources=sources,
            lows=lows,
            offsets=offsets,
            ranges=tuple(ranges),
            columns=traced.wanted.all_columns,
            apart=traced.wanted.apart,
        )

    def read_ranges(
        self,
        state: LoadState,
        traced: Traced,
        *,
        to: Callable[[DataFrame], DataFrame] | None = None,
        keep: Callable[[LoadState], LoadState] | None = None,
    ) -> LoadState:
        """Read the remaining ranges. `to` converts rows to what is stored; `keep` stores each state."""
        origins = self._of(state.sources)
        servers = {destination: origin.server.check() for destination, origin in origins.items()}
        for destination, origin in origins.items():
            origin.wait_for(state.lows[destination])
        while state.read < len(state.ranges):
            self._wait_while_busy(origins.values())
            if self.stopped(0):
                raise LoadRefused(
                    f"{'.'.join(state.name)} was stopped after {state.read} of {len(state.ranges)} ranges",
                    advice="Run the command again: a load continues",
                )
            began = time.monotonic()
            state = self._step(state, traced, servers, to)
            if keep is not None:
                keep(state)
            _log.info(
                "ranges read table=%s.%s ranges=%d/%d seconds=%.1f",
                *state.name,
                state.read,
                len(state.ranges),
                time.monotonic() - began,
            )
        return state

    def await_stream(self, state: LoadState) -> None:
        """Wait until all that any SELECT has seen is published."""
        for destination, low in state.lows.items():
            highs = state.highs.get(destination, {}).values()
            self.origins[destination].await_published(low, highs)

    def traced(self, name: Name, sources: Sequence[SourceTable]) -> Traced:
        """Return how the sources' rows fit into a table of their own. Raise UnknownSchema, TypeConflict."""
        keys = [source.version_key for source in sources]
        found = self.book.versions(keys)
        return traced_to(
            None,
            None,
            [found[key] for key in keys],
            self.book,
            name=name,
            apart=any(one.is_mapped for one in sources),
        )

    def finished(self, state: LoadState) -> None:
        """Record that the table is in place, and remove the copy of its rows."""
        self.loads.keep(replace(state, state=LOADED))
        self.loads.remove_rows(state)

    def _continued(self, name: Name, sources: tuple[SourceTable, ...]) -> LoadState | None:
        state = self.loads.of(name)
        if state is None or state.state == LOADED:
            return None
        if state.sources != sources:
            raise LoadStale(
                f"the plan of {'.'.join(name)} differs from that of its unfinished load",
                advice=BEGIN,
            )
        for destination, low in state.lows.items():
            origin = self.origins[destination]
            origin.check_unmoved(low, origin.cursors.now())
        earliest, _ = self.topics.ranges({source.topic for source in sources})
        for at, offset in state.offsets.items():
            if earliest.get(at, 0) > offset:
                raise LoadStale(
                    f"topic {at[0]}, partition {at[1]} no longer has the changes since the load began, from "
                    f"offset {offset} on",
                    advice=f"{BEGIN}; keep records of the topic longer than a load takes",
                )
        _log.info("load continued table=%s.%s ranges=%d/%d", *name, state.read, len(state.ranges))
        return state

    def _offsets(self, sources: Sequence[SourceTable]) -> Offsets:
        return dict(self.topics.ranges({source.topic for source in sources})[1])

    def _check_apart(self, state: LoadState) -> None:
        """Raise LoadRefused if rows of several destinations are not kept apart."""
        if len(state.lows) > 1 and not state.apart:
            raise LoadRefused(
                f"{'.'.join(state.name)} is of {', '.join(sorted(state.lows))} without a mapping, so the time "
                "of a commit decides between two rows with one key, and a SELECT does not have it",
                advice="Let the workers read its existing rows: see docs/snapshots.md",
            )

    def _of(self, sources: Iterable[SourceTable]) -> dict[str, Origin]:
        """The origins of source tables."""
        return {one.destination: self.origins[one.destination] for one in sources}

    def _step(
        self,
        state: LoadState,
        traced: Traced,
        servers: Mapping[str, str],
        to: Callable[[DataFrame], DataFrame] | None,
    ) -> LoadState:
        """Read the next ranges, as many as connections are allowed."""
        first, last = state.read, state.read + self.settings.connections
        group = state.ranges[first:last]
        place = f"{first:06}"
        touched = [state.sources[index] for index in sorted({index for index, _ in group})]
        with self._errors_of_read(touched):
            rows = self._selected(state, traced, group)
            self._write(state, to(rows) if to is not None else rows, place, touched)
        for source in touched:
            self.origins[source.destination].check_columns(source)
        highs = {name: dict(own) for name, own in state.highs.items()}
        for name, origin in self._of(touched).items():
            seen = origin.server.seen(stopped=self.stopped)
            highs.setdefault(name, {})[servers[name]] = seen
        return replace(state, read=first + len(group), folders=(*state.folders, place), highs=highs)

    def _selected(self, state: LoadState, traced: Traced, group: Sequence[Range]) -> DataFrame:
        """The rows of ranges; as yet, the server is asked only for their columns."""
        rows: DataFrame | None = None
        for number, (source, version) in enumerate(
            zip(state.sources, traced.versions, strict=True)
        ):
            conditions = [condition for index, condition in group if index == number]
            if not conditions:
                continue
            part = selected_rows(
                self.spark,
                source,
                version,
                traced.wanted,
                state.lows[source.destination],
                conditions,
                self.origins[source.destination].server.reader_options(),
            )
            rows = part if rows is None else rows.unionByName(part)
        assert rows is not None
        return rows

    @contextmanager
    def _errors_of_read(self, sources: Sequence[SourceTable]) -> Iterator[None]:
        """Raise TableUnreadable or SourceUnreachable for an error of MySQL's in a read of these tables."""
        try:
            yield
        except (PySparkException, Py4JError) as fault:
            servers = [self.origins[source.destination].server for source in sources]
            error = servers[0].error_of_read(fault, sources[0].real)
            if error is None:
                raise
            if len(sources) > 1:
                for server, source in zip(servers, sources, strict=True):
                    # Finds the table that cannot be read at all.
                    server.check_readable(source.real)
            raise error from fault

    def _write(
        self, state: LoadState, rows: DataFrame, place: str, sources: Iterable[SourceTable]
    ) -> None:
        try:
            self.loads.write(state, rows, place)
        except (PySparkException, Py4JError) as fault:
            if record := refused_record(str(fault)):
                starts = "; ".join(
                    f"python -m app snapshot start {one.destination} {argument(one.real)}"
                    for one in sources
                )
                raise RowsRefused(
                    record,
                    advice="Correct the value at the source, and run the command again; or let the worker read "
                    f"the table's existing rows: {starts}",
                ) from fault
            raise

    def _wait_while_busy(self, origins: Iterable[Origin]) -> None:
        for origin in origins:
            is_told = False
            while most := self.settings.max_threads_running:
                running = origin.server.threads_running()
                if running <= most:
                    break
                if not is_told:
                    where = origin.server.where
                    _log.warning("%s is busy: it runs %d threads; the load waits", where, running)
                    is_told = True
                if self.stopped(_BUSY_SECONDS):
                    return


def _in_turn(own: Iterable[list[Range]]) -> list[Range]:
    """The ranges of several servers, in turn, so that each is read all the time."""
    return [one for one in chain.from_iterable(zip_longest(*own)) if one is not None]


def _grouped(conditions: Iterable[Range]) -> list[Range]:
    """Conditions on single rows of a source table, many of them joined into one condition."""
    of_source: dict[int, list[str]] = {}
    for number, condition in conditions:
        of_source.setdefault(number, []).append(condition)
    return [
        (number, " OR ".join(f"({one})" for one in own[at : at + _TOGETHER]))
        for number, own in sorted(of_source.items())
        for at in range(0, len(own), _TOGETHER)
    ]
