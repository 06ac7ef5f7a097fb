"""The rows of a source compared with those of its table in the warehouse, while both change.

The source is read as for a load: each SELECT sees at least what was published up to a low position, and the
table is read once it holds all that any SELECT has seen. A row that the stream has not changed since the low
position must be equal. Rows that the stream has changed are read again, by their keys, until they are settled.

Invariant: nothing is written but a copy of keys and checksums beside the tables, which is removed. A
difference is reported only if no change that is still on its way can explain it. Each difference is counted,
the first differences of each kind are listed by their keys, and what was not judged is named. A failure counts
as one table's only if its error is of one table, or if source, Kafka and warehouse answer after it.
"""

from __future__ import annotations

import logging
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from spark_sink.errors import (
    KafkaUnreachable,
    LoadRefused,
    LoadStale,
    NotComparable,
    SinkError,
    WarehouseUnusable,
)
from spark_sink.jobs.load.loader import Loader, Range
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.jobs.load.server import identifier
from spark_sink.jobs.load.state import LoadState
from spark_sink.spark.bucket_advice import unusable
from spark_sink.spark.error_mapping import cause, named
from spark_sink.text.quoting import argument, literal, quoted
from spark_sink.warehouse.identity import key_parts, source_parts, source_sql
from spark_sink.warehouse.markers import in_force
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Waits
from wire.validation import Finding, Kind, table_lines

_log = logging.getLogger(__name__)
_STILL_WRITTEN: Final = "rows that were still written when they were read the last time"


@dataclass(slots=True, kw_only=True)
class TableResult:
    """The result of one table; filled while it is compared."""

    name: Name
    most_listed: int = 20
    """The most rows of each kind that are listed."""
    rows: int = 0
    """Rows of the source that were compared."""
    counts: Counter[Kind] = field(default_factory=Counter)
    in_flight: int = 0
    """Rows that were still written when they were read the last time, and so are not judged."""
    not_compared: str | None = None
    """Why it could not be compared at all, or to its end."""
    _listed: dict[Kind, list[Finding]] = field(default_factory=dict)

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return self.counts.total()

    @property
    def is_complete(self) -> bool:
        """Whether all was judged."""
        return self.not_compared is None and not self.in_flight

    @property
    def listed(self) -> list[Finding]:
        """The rows that are listed: those with the first keys, of each kind."""
        return [one for kind in Kind for one in self._listed.get(kind, ())]

    def add(self, found: Finding) -> None:
        """Count a difference, and list it while its key is one of the first."""
        self.counts[found.kind] += 1
        held = self._listed.setdefault(found.kind, [])
        insort(held, found, key=lambda one: one.key)
        del held[self.most_listed :]

    def lines(self) -> list[str]:
        """Return the result as text."""
        return table_lines(
            ".".join(self.name),
            self.rows,
            self.counts,
            listed=self.listed,
            unjudged=self._unjudged(),
            not_compared=self.not_compared,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "table": ".".join(self.name),
            "rows": self.rows,
            **{one.value: self.counts[one] for one in Kind},
            "findings": [one.to_json() for one in self.listed],
            "not_judged": self._unjudged(),
            "not_compared": self.not_compared,
        }

    def _unjudged(self) -> dict[str, int]:
        return {_STILL_WRITTEN: self.in_flight} if self.in_flight else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The results of all tables."""

    destinations: Sequence[str]
    tables: Sequence[TableResult]

    @property
    def differences(self) -> int:
        """The number of rows that differ."""
        return sum(one.differences for one in self.tables)

    @property
    def is_complete(self) -> bool:
        """Whether all was judged."""
        return all(one.is_complete for one in self.tables)

    @property
    def not_compared(self) -> int:
        """The number of tables that could not be compared, or not to their end."""
        return sum(one.not_compared is not None for one in self.tables)

    @property
    def in_flight(self) -> int:
        """The number of rows that are not judged."""
        return sum(one.in_flight for one in self.tables)

    def line(self) -> str:
        """Return the results in one line."""
        rows = sum(one.rows for one in self.tables)
        return (
            f"validation of {', '.join(self.destinations)}: tables={len(self.tables)} "
            f"not_compared={self.not_compared} rows={rows} differences={self.differences}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the results for programs."""
        return {
            "destinations": list(self.destinations),
            "equal": not self.differences and self.is_complete,
            "differences": self.differences,
            "complete": self.is_complete,
            "tables": [one.to_json() for one in self.tables],
        }


_PLAN: Final = "Make a new plan: python -m app snapshot plan"
_ERRORS: Final = "docs/sink/errors.md has the errors"


@contextmanager
def table_trouble(result: TableResult, check: Callable[[], None]) -> Iterator[None]:
    """State in the result what prevents the comparison of its table alone; raise what also prevents others.

    `check` raises the error that prevents all comparisons, if there is one.
    """
    try:
        yield
    except LoadStale as fault:
        result.not_compared = _reason(NotComparable(fault.where, advice=_PLAN))
    except SinkError as fault:
        if not fault.of_one_table:
            raise
        result.not_compared = _reason(fault)
    except (PySparkException, Py4JError) as fault:
        _log.debug("details", exc_info=fault)
        if isinstance(error := named(fault), KafkaUnreachable):
            raise error from fault
        check()
        result.not_compared = _reason(failed(result.name, fault))


def failed(name: Name, fault: Exception) -> NotComparable:
    """Return the error for a failure of Spark that concerns one table."""
    return NotComparable(
        f"{'.'.join(name)}: {cause(str(fault))}",
        advice=f"log.file in the settings gives the details. If a file of the table is damaged, run: "
        f"python -m spark_sink rebuild {argument(name)}",
    )


def _reason(fault: SinkError) -> str:
    return str(fault) if fault.advice else f"{fault}. {_ERRORS}"


def check_key(held: Shape, wanted: Shape) -> None:
    """Raise NotComparable if the rows of the source have another key than the table."""
    names = [held.spelling(name) or name for name in wanted.key]
    if sorted(held.key) != sorted(names) or (held.apart and not wanted.apart):
        raise NotComparable(
            f"rows of {held.database}.{held.table} are identified by {_identity(held)} in the warehouse, and "
            f"by {_identity(wanted)} at the source",
            advice=f"{_PLAN}; if it is the same, run: python -m spark_sink reload "
            f"{argument((held.database, held.table))}",
        )


def _identity(shape: Shape) -> str:
    return ", ".join((*shape.key, *(("their source table",) if shape.apart else ())))


def check_all(loader: Loader, sources: Sequence[SourceTable]) -> None:
    """Raise the error of a source, of Kafka or of the warehouse, if one of them does not answer."""
    for destination in {one.destination for one in sources}:
        loader.origins[destination].server.one("SELECT 1")
    loader.topics.ranges({one.topic for one in sources})
    check_warehouse(loader)


def check_warehouse(loader: Loader) -> None:
    """Raise WarehouseUnusable if no sink has written to it, or its own tables cannot be read."""
    warehouse, root = loader.warehouse, loader.loads.root
    try:
        is_used = bool(warehouse.log.applied())
        if warehouse.log.state():
            warehouse.log.rows()
        if is_used:
            loader.loads.make()
    except (PySparkException, Py4JError) as fault:
        raise unusable(root, fault) from fault
    if not is_used:
        raise WarehouseUnusable(
            f"{root}: no sink has applied a change there",
            advice="Check warehouse in the settings, and start the sink",
        )


_ROUNDS: Final = 8
_MOST_AGAIN: Final = 5_000
"""The most rows that are read again by their keys."""
_SECONDS: Final = 1.0
_SUMS: Final = "__sums"
_NUMBER: Final = "__number"
_SOURCE: Final = ("__destination", "__source_database", "__source_table")
_ASIDE: Final = "__unrepresentable"
_IN_FLIGHT: Final = "in flight"
_TEMPORAL: Final = frozenset({"date", "timestamp", "timestamp_ntz"})


@dataclass(slots=True, kw_only=True)
class Validator:
    """Compares tables of a plan, one after the other."""

    loader: Loader
    waits: Waits
    most_listed: int = 20
    """The most rows of each kind that are listed."""

    def compare(self, name: Name, sources: tuple[SourceTable, ...]) -> TableResult:
        """Compare one table; return the result, which also states what prevented its comparison.

        Raise errors that would prevent the comparison of any table: SourceUnreachable, KafkaUnreachable,
        WarehouseUnusable, and LoadRefused if worker or sink do not run or the server has no GTIDs.
        """
        result = TableResult(name=name, most_listed=self.most_listed)
        with table_trouble(result, partial(check_all, self.loader, sources)):
            self._compare(result, sources)
        return result

    def _compare(self, result: TableResult, sources: tuple[SourceTable, ...]) -> None:
        name = result.name
        shape = self._shape(name)
        again: dict[str, list[Range]] = {}
        is_judged = False
        for _ in range(_ROUNDS):
            traced = self.loader.traced(name, sources)
            check_key(shape, traced.wanted)
            compared = Compared(shape=shape, wanted=traced.wanted)
            only = [one for ranges in again.values() for one in ranges]
            state = self.loader.begun(name, sources, only=only)
            state = replace(state, columns=compared.columns)
            try:
                state = self.loader.read_ranges(state, traced, to=compared.of_source)
                self._await_sink(state)
                held = self._held(compared, state)
                is_emptied = self._is_emptied(state)
                if not is_emptied:
                    if not is_judged:
                        result.rows = self.loader.loads.rows(state).count()
                    again = self._judge(compared, held, state, again, result)
                    is_judged = True
            finally:
                self.loader.loads.remove_rows(state)
            if not is_emptied and (not again or len(again) > _MOST_AGAIN):
                break
            what = "the table was truncated" if is_emptied else f"{len(again)} rows are in flight"
            _log.info("read again, as %s table=%s.%s", what, *name)
        else:
            if not is_judged:
                raise NotComparable(
                    f"{'.'.join(name)} was truncated each time that it was read",
                    advice="Run the command again while it is not",
                )
        result.in_flight = len(again)

    def _is_emptied(self, state: LoadState) -> bool:
        """Whether a source table was truncated since it was read: the rows that were read may be gone."""
        own = {one.source(state.name) for one in state.sources}
        lows = {name: (low.epoch, low.seq) for name, low in state.lows.items()}
        return any(
            floor.source in own and floor.place > lows[floor.source.destination]
            for floor in self.loader.warehouse.log.floors()
        )

    def _shape(self, name: Name) -> Shape:
        """The table's shape in the warehouse. Raise NotComparable, ForeignTable."""
        self._check_not_waiting(name)
        shape = self.loader.warehouse.tables.shape(*name)
        if shape is None:
            raise NotComparable(
                f"the warehouse has no table {'.'.join(name)}",
                advice="The sink makes it with its first change, or with rows that "
                "`python -m spark_sink load` reads; check include and exclude in the settings",
            )
        if not shape.keyed:
            raise NotComparable(
                f"{'.'.join(name)} has no key by which rows could be compared",
                advice="Give it a primary key at the source",
            )
        return shape

    def _check_not_waiting(self, name: Name) -> None:
        """Raise NotComparable if the table waits."""
        self.waits.refresh()
        if (held := self.waits.waiting(name)) is not None:
            raise NotComparable(
                f"{'.'.join(name)} waits: {held.error}: {held.reason}",
                advice=held.action or "See: python -m spark_sink status",
            )

    def _await_sink(self, state: LoadState) -> None:
        """Wait until the table has all that any SELECT has seen."""
        loader = self.loader
        loader.await_stream(state)
        _, ends = loader.topics.ranges({source.topic for source in state.sources})
        deadline = time.monotonic() + loader.timeout
        while True:
            self._check_not_waiting(state.name)
            applied = loader.warehouse.log.applied()
            if all(applied.get(at, 0) >= end for at, end in ends.items()):
                return
            if time.monotonic() >= deadline or loader.stopped(_SECONDS):
                raise LoadRefused(
                    f"no sink has applied what was read of {'.'.join(state.name)}",
                    advice="A comparison needs a running sink: see lag",
                )

    def _judge(
        self,
        compared: Compared,
        held: DataFrame,
        state: LoadState,
        again: Collection[str],
        result: TableResult,
    ) -> dict[str, list[Range]]:
        """Add the rows that differ; return the keys of rows in flight, each with the ranges to read again."""
        found = compared.unlike(self.loader.loads.rows(state), held, state)
        if again:
            found = found.where(f"key IN ({', '.join(map(literal, again))})")
        in_flight: dict[str, list[Range]] = {}
        for row in found.toLocalIterator():
            if row.kind == _IN_FLIGHT:
                in_flight[row.key] = compared.ranges_of(row, state)
            else:
                kind = Kind(row.kind)
                columns = tuple(row.columns) if kind is Kind.DIFFERENT else ()
                result.add(Finding(kind=kind, key=row.key, columns=columns))
        return in_flight

    def _held(self, compared: Compared, state: LoadState) -> DataFrame:
        """The table's rows of these sources as of now, with the markers of deleted rows."""
        warehouse, shape = self.loader.warehouse, compared.shape
        sources = [source_sql(shape, one.source(state.name)) for one in state.sources]
        # Readers see what another program has added without a source, too.
        own = " OR ".join(f"({one})" for one in (*sources, "__destination IS NULL"))
        rows = warehouse.tables.rows(shape, fixed=True).where(own)
        found = compared.of_table(rows)
        removed = warehouse.deleted.tables.shape(*state.name)
        if removed is not None and removed.key == shape.key:
            markers = warehouse.deleted.tables.rows(removed, fixed=True).where(own)
            found = found.unionByName(compared.of_markers(in_force(markers, rows, shape)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The columns of a table that are compared: those that the source has now, in the table's types."""

    shape: Shape
    wanted: Shape
    """The shape of the source's rows alone."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns of the copy: what identifies a row, and a checksum of each column."""
        types = dict(self.shape.all_columns)
        return (*((name, types[name]) for name in self._identity), (_SUMS, "array<bigint>"))

    @property
    def _identity(self) -> list[str]:
        own = {name for name, _ in self.shape.own_columns}
        return [*self.shape.key, *(name for name in _SOURCE if name in own), _ASIDE]

    def of_source(self, rows: DataFrame) -> DataFrame:
        """Return the copy of rows that are as a load would have them."""
        names = {self.shape.spelling(name): name for name, _ in self.wanted.columns}
        types = dict(self.shape.columns)
        cast = [
            f"CAST({quoted(own)} AS {types[name]}) AS {quoted(name)}"
            for name, own in names.items()
            if name is not None
        ]
        typed = rows.selectExpr(*cast, *(name for name in self._identity if name not in types))
        return typed.selectExpr(*map(quoted, self._identity), f"{self._sums()} AS {_SUMS}")

    def of_table(self, rows: DataFrame) -> DataFrame:
        """Return the copy of the table's rows, each with its last change; a marker has no checksums.

        Of several rows with the same key, the newest is number 1.
        """
        sums = f"if(__deleted, NULL, {self._sums()}) AS {_SUMS}"
        key = ", ".join(key_parts(self.shape, ""))
        number = (
            f"row_number() OVER (PARTITION BY {key} ORDER BY __epoch DESC, __seq DESC) AS {_NUMBER}"
        )
        return rows.selectExpr(*map(quoted, self._identity), sums, "__epoch", "__seq", number)

    def of_markers(self, rows: DataFrame) -> DataFrame:
        """Return the copy of markers that are stored beside the table."""
        sums = f"CAST(NULL AS array<bigint>) AS {_SUMS}"
        return rows.selectExpr(
            *map(quoted, self._identity), sums, "__epoch", "__seq", f"1 AS {_NUMBER}"
        )

    def _names(self) -> list[str]:
        there = {self.shape.spelling(name) for name, _ in self.wanted.columns}
        return [name for name, _ in self.shape.columns if name in there]

    def _sums(self) -> str:
        types = dict(self.shape.columns)
        parts = [
            f"xxhash64({quoted(name)}, try_element_at({_ASIDE}, {literal(name)}))"
            if types[name] in _TEMPORAL
            else f"xxhash64({quoted(name)})"
            for name in self._names()
        ]
        return f"array({', '.join(parts)})"

    def unlike(self, source: DataFrame, table: DataFrame, state: LoadState) -> DataFrame:
        """Return the rows that are not equal: `kind`, `key` as JSON, and the `columns` that differ.

        `literals` are the key's values in MySQL's SQL; `source` is the row's source, if rows are kept apart.
        """
        shape = self.shape
        pairs = zip(key_parts(shape, "r."), key_parts(shape, "w."), strict=True)
        same = " AND ".join(f"{one} <=> {other}" for one, other in pairs)
        both = source.alias("r").join(table.alias("w"), f.expr(same), "full")
        newer = " OR ".join(
            f"(w.__destination = {literal(destination)} AND "
            f"(w.__epoch > {low.epoch} OR (w.__epoch = {low.epoch} AND w.__seq > {low.seq})))"
            for destination, low in state.lows.items()
        )
        # A key that the table has twice shows itself by its second row, whatever the first is.
        is_extra = f"w.{_NUMBER} > 1"
        kind = (
            f"CASE WHEN {is_extra} AND w.{_SUMS} IS NULL THEN NULL WHEN {is_extra} THEN 'extra' "
            f"WHEN r.{_SUMS} <=> w.{_SUMS} THEN NULL WHEN ({newer}) THEN '{_IN_FLIGHT}' "
            f"WHEN r.{_SUMS} IS NULL THEN 'extra' WHEN w.{_SUMS} IS NULL THEN 'missing' "
            "ELSE 'different' END AS kind"
        )
        names = ", ".join(map(literal, self._names()))
        equal = f"zip_with(r.{_SUMS}, w.{_SUMS}, (one, other) -> one <=> other)"
        identity = [
            f"if(r.{_SUMS} IS NULL, w.{quoted(name)}, r.{quoted(name)}) AS {quoted(name)}"
            for name in self._identity
        ]
        found = both.selectExpr(
            kind, f"filter(array({names}), (name, i) -> NOT {equal}[i]) AS columns", *identity
        ).where("kind IS NOT NULL")
        shown = ", ".join(f"{self._shown(name)} AS {quoted(name)}" for name in shape.key)
        parts = [*self._identity[len(shape.key) : -1]] if shape.apart else []
        shown = ", ".join([shown, *parts])
        own = ", ".join(self._literal(name) for name in shape.key)
        return found.selectExpr(
            "kind",
            "columns",
            f"to_json(struct({shown}), map('ignoreNullFields', 'false')) AS key",
            f"array({own}) AS literals",
            f"array({', '.join(source_parts(shape, ''))}) AS source",
        )

    def _shown(self, name: str) -> str:
        kind, value = dict(self.shape.columns)[name], quoted(name)
        if kind not in _TEMPORAL:
            return value
        if kind == "timestamp":
            value = f"to_utc_timestamp({value}, current_timezone())"
        return f"coalesce(CAST({value} AS STRING), try_element_at({_ASIDE}, {literal(name)}))"

    def ranges_of(self, row: Row, state: LoadState) -> list[Range]:
        """Return the conditions on a found row's key, for each source table that may have the row."""
        found = []
        for number, one in enumerate(state.sources):
            own = one.source(state.name)
            if row.source in ([], [own.destination, own.database, own.table]):
                found.append((number, self._condition(one, row.literals)))
        return found

    def _condition(self, source: SourceTable, literals: Sequence[str]) -> str:
        """The condition on a key in MySQL's SQL, by the columns' real names."""
        real = {
            (self.shape.spelling(published) or published): (name, kind)
            for published, name, kind in source.columns
        }
        parts = []
        for name, value in zip(self.shape.key, literals, strict=True):
            column, kind = real[name]
            # In a comparison with a number, a hexadecimal literal is a number.
            end = " + 0" if kind.lower().startswith("bit") else ""
            parts.append(f"{identifier(column)} = {value}{end}")
        return " AND ".join(parts)

    def _literal(self, name: str) -> str:
        """Spark SQL for a literal in MySQL's SQL with the value of a key's column."""
        kind = dict(self.shape.columns)[name]
        if kind == "string":
            return f"concat('_utf8mb4 X\\'', hex(encode({quoted(name)}, 'UTF-8')), '\\'')"
        if kind == "binary":
            return f"concat('X\\'', hex({quoted(name)}), '\\'')"
        if kind in _TEMPORAL:
            return f"concat('\\'', {self._shown(name)}, '\\'')"
        return f"CAST({quoted(name)} AS STRING)"
