"""A load: the rows of a table's sources are read range by range, until the stream can continue them.

The rule is the same as for the worker's snapshots (docs/decisions/0015). A SELECT begins once the server shows
all that the stream has published, so it sees no less than that. Its rows get the number up to which the stream
had published, and the stream repeats any later change over them. The table is put in place once the stream has
published all that was visible after the last SELECT, so no reader sees a row that is newer than the stream.

Invariant: nothing that readers see is changed here; a running sink puts the table in place, with the changes
since, in one commit. Columns are parsed, checked and placed by the same projections as records in a topic.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_sink.batch.compact import steps
from spark_sink.batch.shapes import traced_to
from spark_sink.errors import LoadRefused, LoadStale, RowsRefused
from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.origin import BEGIN, Origin
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.server import identifier, whole_name
from spark_sink.jobs.load.state import LOADED, READ, Loads, LoadState, check_rows
from spark_sink.settings.model import Load
from spark_sink.source.column_reading import Reading, reading
from spark_sink.source.kafka import Topics
from spark_sink.source.schemas import SchemaBook, TableVersion
from spark_sink.spark.error_mapping import refused_record
from spark_sink.text.quoting import literal, quoted, snapshot_starts
from spark_sink.warehouse.columns import Traced
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.shape import Shape

_log = logging.getLogger(__name__)
_COLUMN: Final = "__aqueduct_"
_PROJECTIONS_OF_RECORDS: Final = 3
"""The first projections of `compact.steps` take an image apart; selected rows have no image."""


def selected_rows(
    spark: SparkSession,
    source: SourceTable,
    version: TableVersion,
    shape: Shape,
    low: SourceCursor,
    conditions: Sequence[str],
    options: dict[str, str],
) -> DataFrame:
    """Return the rows that meet the conditions; each condition has a task and a connection of its own.

    `version` has the source's published columns as `shape` names them. Raise UnsupportedType.
    """
    columns = [selected(column.mysql_type) for column in version.columns]
    real = {published: name for published, name, _ in source.columns}
    names = [real[column.name] for column in version.columns]
    frame = spark.read.jdbc(
        options["url"],
        derived_table(source, names, columns),
        # Spark gives each condition to one task.
        predicates=list(conditions),
        properties={
            **{name: value for name, value in options.items() if name != "url"},
            "customSchema": ", ".join(
                f"{_COLUMN}{number} {column.spark_type}" for number, column in enumerate(columns)
            ),
        },
    )
    kept = _kept(source, version, shape, low)
    raw = ", ".join(
        f"{column.raw.format(value=f'{_COLUMN}{number}')} AS {quoted(own.name)}"
        for number, (own, column) in enumerate(zip(version.columns, columns, strict=True))
    )
    typed = ", ".join(
        f"{column.typed.format(text=f'r.{quoted(own.name)}')} AS {quoted(own.name)}"
        for own, column in zip(version.columns, columns, strict=True)
    )
    rows = frame.selectExpr(*kept, "true AS whole", f"struct({raw}) AS r")
    rows = rows.selectExpr("*", "CAST(NULL AS MAP<STRING, STRING>) AS m", f"struct({typed}) AS v")
    for expressions in steps(shape, version.columns, version.present)[_PROJECTIONS_OF_RECORDS:]:
        rows = rows.selectExpr(*expressions)
    return rows


def derived_table(source: SourceTable, names: Sequence[str], columns: Sequence[Selected]) -> str:
    """Return the derived table; the server merges it into the outer SELECT, so that ranges use the index."""
    listed = [*(identifier(name) for name in source.key)]
    listed += [
        f"{column.sql.format(column=identifier(name))} AS {_COLUMN}{number}"
        for number, (name, column) in enumerate(zip(names, columns, strict=True))
    ]
    table = whole_name(source.real)
    return f"(SELECT {', '.join(listed)} FROM {table}) AS t"  # noqa: S608 - quoted names


def _kept(source: SourceTable, version: TableVersion, shape: Shape, low: SourceCursor) -> list[str]:
    """What a row would keep of its record, if it had one: see `compact.steps`."""
    values: dict[str, Any] = {
        "topic": literal(f"{source.database}.{source.table} at the source"),
        "partition": "0",
        "offset": "CAST(0 AS BIGINT)",
        "op": "'r'",
        "destination": literal(source.destination),
        "epoch": f"CAST({low.epoch} AS BIGINT)",
        "seq": f"CAST({low.seq} AS BIGINT)",
        "version": f"{version.key.version}",
        "ts_ms": f"CAST({low.written_ms} AS BIGINT)",
        "absent": "CAST(NULL AS ARRAY<STRING>)",
        "moved": "false",
        "sign": "1",
    }
    if shape.apart:
        values |= {
            "source_database": literal(source.database),
            "source_table": literal(source.table),
        }
    return [f"{value} AS {name}" for name, value in values.items()]


_TEXT: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_APPROXIMATE: Final = frozenset({"float", "double", "real"})
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def _number(place: str) -> str:
    """The four bytes from a position on, as a number; the first byte is the least significant."""
    digits = ", ".join(f"hex(substring({{text}}, {place} + {byte}, 1))" for byte in (3, 2, 1, 0))
    return f"CAST(conv(concat({digits}), 16, 10) AS BIGINT)"


_SRID: Final = _number("1")
_GEOMETRY: Final = (
    f"if({{text}} IS NULL, NULL, named_struct('srid', {_SRID}, 'wkb', substring({{text}}, 5)))"
)
"""MySQL's own form of a geometry is its SRID in four bytes, the least significant first, then its WKB."""
_MANTISSA: Final = "(b & 8388607)"
_EXPONENT: Final = "(shiftright(b, 23) & 255)"
_FLOAT: Final = (
    f"CASE WHEN {_EXPONENT} = 0 THEN {_MANTISSA} * power(2D, -149) "
    f"WHEN {_EXPONENT} < 255 THEN ({_MANTISSA} + 8388608) * power(2D, {_EXPONENT} - 150) "
    f"WHEN {_MANTISSA} = 0 THEN CAST('Infinity' AS DOUBLE) ELSE CAST('NaN' AS DOUBLE) END"
)
"""The number of a float's bits `b` without their sign. DOUBLE holds this number and each intermediate result
exactly."""
_VECTOR: Final = (
    "if(length({text}) = 0, array(), transform(transform(sequence(1, length({text}) - 3, 4), "
    f"at -> {_number('at')}), b -> CAST(if(b > 2147483647, -1D, 1D) * {_FLOAT} AS FLOAT)))"
)
"""MySQL's own form of a vector is its floats, each in four bytes. As text, the server rounds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A column of the SELECT list. `sql` is for MySQL, over `{column}`; the others are for Spark.

    `spark_type` is the type of the result; `raw` is what the row's image has of it, over `{value}`, and `typed`
    the value of the warehouse's type, over `{text}`: both are formats.

    Invariant: a selected row becomes exactly the row that its record in the topic would become. Numbers, text
    and times come as text and are read like the wire's texts; bytes come as they are. Nothing depends on the
    driver's own conversions, nor on the server's time zone.
    """

    sql: str
    spark_type: str
    raw: str
    typed: str


def selected(mysql_type: str) -> Selected:
    """Return the column of a type, as the schemas topic states it. Raise UnsupportedType."""
    base = re.match(r"[a-z]*", mysql_type.strip().lower())
    name = base[0] if base else ""
    read = reading(mysql_type)
    if name == "vector":
        return _binary("UNHEX(HEX({column}))", _VECTOR)
    if name in _BYTES:
        return _binary("{column}", "{text}")
    if name == "bit":
        width = re.search(r"\((\d+)\)", mysql_type)
        digits = (int(width[1]) + 7) // 8 * 2 if width else 2
        # HEX prints a BIT as a number, without leading zeros.
        return _binary(f"UNHEX(LPAD(HEX({{column}}), {digits}, '0'))", "{text}")
    if read.type.startswith("struct<srid"):
        return _binary("UNHEX(HEX({column}))", _GEOMETRY)
    if name in _TEXT:
        return _text("CONVERT({column} USING utf8mb4)", read)
    if name in _APPROXIMATE:
        # As text, MySQL rounds a FLOAT to six digits, and a DOUBLE to the digits that distinguish it. A sum
        # instead of a product would lose the sign of -0.
        return _text("{column} * 1e0", read)
    if name in ("decimal", "numeric"):
        # Without the sum, the text would have the zeros of ZEROFILL.
        return _text("CAST({column} + 0 AS CHAR)", read)
    if name == "timestamp":
        # The session's time zone is UTC. The zero timestamp is no time of any zone.
        return _text(
            "CAST({column} AS CHAR)",
            read,
            raw="if({value} LIKE '0000-%', {value}, concat({value}, 'Z'))",
        )
    return _text("CAST({column} AS CHAR)", read)


def _text(sql: str, read: Reading, *, raw: str = "{value}") -> Selected:
    return Selected(sql=sql, spark_type="string", raw=raw, typed=read.sql)


def _binary(sql: str, typed: str) -> Selected:
    return Selected(sql=sql, spark_type="binary", raw="{value}", typed=typed)


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
        _, offsets = self.topics.ranges({source.topic for source in sources})
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
            offsets=dict(offsets),
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
                starts = snapshot_starts(((one.destination, one.real) for one in sources), "")
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
