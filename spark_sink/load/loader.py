"""A load: the rows of a table's sources are read range by range, until the stream can continue them.

The rule is that of the worker's snapshots (docs/decisions/0015). A SELECT begins once the server shows all that
the stream has published, so it sees no less than that; its rows get that number, and the stream repeats any
later change over them. The table is put in place once the stream has published all that was visible after the
last SELECT, so no reader sees a row that is newer than the stream.

Invariant: nothing that readers see is changed here; a running sink puts the table in place, with the changes
since, in one commit.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.columns import traced_to
from spark_sink.errors import LoadRefused, LoadStale
from spark_sink.load.cursor import Cursors, SourceCursor
from spark_sink.load.key_ranges import KeyColumn, key_ranges
from spark_sink.load.plan import SourceTable
from spark_sink.load.rows import selected_rows
from spark_sink.load.server import SourceServer, literals, wait_for
from spark_sink.load.state import LOADED, READ, Loads, LoadState
from spark_sink.settings import Load
from spark_sink.source.envelope import refused_record
from spark_sink.source.kafka import Topics
from spark_sink.source.offsets import Offsets
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.columns import Traced
from spark_sink.warehouse.protocol import Name, Warehouse

_log = logging.getLogger(__name__)
_BUSY_SECONDS: Final = 1.0
_TOGETHER: Final = 200
"""Conditions on single rows in one SELECT."""
_WIDTH: Final = re.compile(r"^((?:tiny|small|medium|big)?int|year)\(\d+\)")
_BEGIN: Final = "Make a new plan, and begin again with --again"


@dataclass(slots=True, kw_only=True)
class Loader:
    """Loads tables one after the other; each call can be repeated, and continues."""

    spark: SparkSession
    settings: Load
    server: SourceServer
    warehouse: Warehouse[DataFrame]
    topics: Topics
    book: SchemaBook
    cursors: Cursors
    loads: Loads
    stopped: Callable[[float], bool]
    """Waits so many seconds, and returns whether to stop."""
    timeout: float = 3600.0

    def read(self, name: Name, sources: tuple[SourceTable, ...], *, again: bool) -> LoadState:
        """Reads all rows of a table that are not read yet, and waits until the stream has reached them.

        Raises LoadRefused, LoadStale, SourceUnreachable and the errors of Kafka.
        """
        state = self._continued(name, sources) if not again else None
        if state is None:
            if (earlier := self.loads.of(name)) is not None:
                self.loads.remove_rows(earlier)
            self._check_alone(name, sources)
            state = self.begun(name, sources)
            state = self.loads.keep(state)
            _log.info(
                "load begun table=%s.%s ranges=%d from seq=%d",
                *name,
                len(state.ranges),
                state.low.seq,
            )
        state = self.read_ranges(state, self.traced(name, sources), keep=self.loads.keep)
        _log.info("waiting for the stream to reach what was read table=%s.%s", *name)
        self.await_stream(state)
        return self.loads.keep(replace(state, state=READ))

    def begun(
        self, name: Name, sources: tuple[SourceTable, ...], *, only: Sequence[str] = ()
    ) -> LoadState:
        """What is to be read from now on: all rows, or those by any of the conditions."""
        self.server.check()
        for source in sources:
            self._check_columns(source)
        # Before the cursor, so that all changes after it are at these offsets or later.
        offsets = self._offsets(sources)
        low = self.cursors.between(seconds=self.timeout, stopped=self.stopped)
        traced = self.traced(name, sources)
        wait_for(self.server, low.gtids, seconds=self.timeout, stopped=self.stopped)
        ranges = [
            (number, condition)
            for number, source in enumerate(sources)
            for condition in (_any_of(only) if only else self._ranges(source))
        ]
        return LoadState(
            number=uuid.uuid4().hex,
            name=name,
            sources=sources,
            low=low,
            offsets=offsets,
            ranges=tuple(ranges),
            columns=traced.wanted.all_columns,
        )

    def read_ranges(
        self,
        state: LoadState,
        traced: Traced,
        *,
        to: Callable[[DataFrame], DataFrame] | None = None,
        keep: Callable[[LoadState], LoadState] | None = None,
    ) -> LoadState:
        """Reads the ranges that are left. `to` makes what is stored of rows; `keep` stores each state."""
        server = self.server.check()
        wait_for(self.server, state.low.gtids, seconds=self.timeout, stopped=self.stopped)
        while state.read < len(state.ranges):
            self._wait_while_busy()
            if self.stopped(0):
                raise LoadRefused(
                    f"{'.'.join(state.name)} was stopped after {state.read} of {len(state.ranges)} ranges",
                    advice="Run the command again: a load continues",
                )
            began = time.monotonic()
            state = self._step(state, traced, server, to)
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
        """Waits until all that any SELECT has seen is published."""

        def is_past(now: SourceCursor) -> bool:
            if (now.installation, now.by) != (state.low.installation, state.low.by):
                raise LoadStale(
                    f"the cursor of {state.sources[0].destination} was set to another position meanwhile",
                    advice=_BEGIN,
                )
            return all(self.server.contains(now.gtids, high) for high in state.highs.values())

        self.cursors.wait_past(is_past, seconds=self.timeout, stopped=self.stopped)

    def traced(self, name: Name, sources: Sequence[SourceTable]) -> Traced:
        """How the sources' rows fit into a table of their own. Raises UnknownSchema, TypeConflict."""
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
        """Records that the table is in place, and removes the copy of its rows."""
        self.loads.keep(replace(state, state=LOADED))
        self.loads.remove_rows(state)

    def _continued(self, name: Name, sources: tuple[SourceTable, ...]) -> LoadState | None:
        state = self.loads.of(name)
        if state is None or state.state == LOADED:
            return None
        if state.sources != sources:
            raise LoadStale(
                f"the plan of {'.'.join(name)} differs from that of its unfinished load",
                advice=_BEGIN,
            )
        now = self.cursors.now()
        if (now.installation, now.by) != (state.low.installation, state.low.by):
            raise LoadStale(
                f"the cursor of {sources[0].destination} was set to another position since the load began",
                advice=_BEGIN,
            )
        earliest, _ = self.topics.ranges(
            {topic for topic, _ in state.offsets} or {sources[0].topic}
        )
        for at, offset in state.offsets.items():
            if earliest.get(at, 0) > offset:
                raise LoadStale(
                    f"topic {at[0]}, partition {at[1]} no longer has the changes since the load began, from "
                    f"offset {offset} on",
                    advice=f"{_BEGIN}; keep records of the topic longer than a load takes",
                )
        _log.info("load continued table=%s.%s ranges=%d/%d", *name, state.read, len(state.ranges))
        return state

    def _ranges(self, source: SourceTable) -> list[str]:
        table, rows = (source.database, source.table), self.settings.rows_per_range
        return key_ranges(self.server, table, self._key(source), rows=rows)

    def _offsets(self, sources: Sequence[SourceTable]) -> Offsets:
        return dict(self.topics.ranges({source.topic for source in sources})[1])

    def _check_alone(self, name: Name, sources: Sequence[SourceTable]) -> None:
        """Raises LoadRefused if the table has rows of another destination, which would be lost."""
        shape = self.warehouse.tables.shape(*name)
        if shape is None:
            return
        rows = self.warehouse.tables.rows(shape).where("NOT __deleted").select("__destination")
        others = {row[0] for row in rows.distinct().collect()} - {sources[0].destination}
        if others:
            raise LoadRefused(
                f"{'.'.join(name)} has rows of other destinations: {', '.join(sorted(others))}",
                advice="Let the worker of this destination read its existing rows: see docs/snapshots.md",
            )

    def _check_columns(self, source: SourceTable) -> None:
        """Raises LoadStale if a column is not what the plan says."""
        there = {column: kind for column, kind, _ in self._columns(source)}
        for _, column, kind in source.columns:
            if column not in there or _plain(there[column]) != _plain(kind):
                raise LoadStale(
                    f"column {column} of {source.database}.{source.table} is {there.get(column, 'gone')} "
                    f"at the source, and {kind} in the plan",
                    advice=_BEGIN,
                )

    def _columns(self, source: SourceTable) -> list[tuple[str, str, str]]:
        rows = self.server.ask(
            "SELECT column_name, column_type, data_type FROM information_schema.columns WHERE "  # noqa: S608
            f"(table_schema, table_name) = ({literals([source.database, source.table])})"
        )
        return [(name or "", kind or "", base or "") for name, kind, base in rows]

    def _key(self, source: SourceTable) -> list[KeyColumn]:
        kinds = {name: base for name, _, base in self._columns(source)}
        return [KeyColumn(name, kinds[name]) for name in source.key]

    def _step(
        self,
        state: LoadState,
        traced: Traced,
        server: str,
        to: Callable[[DataFrame], DataFrame] | None,
    ) -> LoadState:
        """Reads the next ranges, as many as there may be connections."""
        first, last = state.read, state.read + self.settings.connections
        group = state.ranges[first:last]
        place = f"{first:06}"
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
                state.low,
                conditions,
                self.server.reader_options(),
            )
            rows = part if rows is None else rows.unionByName(part)
        assert rows is not None
        self._write(state, to(rows) if to is not None else rows, place)
        for index in sorted({index for index, _ in group}):
            self._check_columns(state.sources[index])
        return replace(
            state,
            read=first + len(group),
            folders=(*state.folders, place),
            highs={**state.highs, server: self.server.executed()},
        )

    def _write(self, state: LoadState, rows: DataFrame, place: str) -> None:
        try:
            self.loads.write(state, rows, place)
        except (PySparkException, Py4JError) as fault:
            if record := refused_record(str(fault)):
                raise LoadRefused(
                    record,
                    advice="Let the worker read the table's existing rows: see docs/snapshots.md",
                ) from fault
            raise

    def _wait_while_busy(self) -> None:
        is_told = False
        while most := self.settings.max_threads_running:
            running = self.server.threads_running()
            if running <= most:
                return
            if not is_told:
                _log.warning("the source is busy: it runs %d threads; the load waits", running)
                is_told = True
            if self.stopped(_BUSY_SECONDS):
                return


def _any_of(conditions: Sequence[str]) -> list[str]:
    """Conditions in groups, each as one."""
    groups = [conditions[at : at + _TOGETHER] for at in range(0, len(conditions), _TOGETHER)]
    return [" OR ".join(f"({one})" for one in group) for group in groups]


def _plain(column_type: str) -> str:
    """A type without a display width, which servers print or not."""
    return _WIDTH.sub(r"\1", column_type.lower())
