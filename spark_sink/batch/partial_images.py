"""The completion of rows whose images lack columns: each such column keeps the value that the row had before.

The lineage of a row is its changes in order, also under other keys, back to the row that the table holds or to
an image with all columns. A move to another key is a delete and a create with consecutive `seq`, mostly in two
partitions, so a batch may have only one of them. The create needs the row that the delete removes, so the other
half is read before the stream comes to it.

Invariant: nothing is guessed. A row with a column that is not known is an error, unless a later change in the
batch replaces the row. Both halves of a move are applied in one commit, so no delete removes what a create
needs. Records read ahead are applied by (epoch, seq) like all others, so they change nothing once the stream
comes to them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from spark_sink.batch.compact import ABSENT, MARKS, MOVED, OP, folded
from spark_sink.batch.contents import envelopes
from spark_sink.errors import UnsupportedPartialImage
from spark_sink.source.envelope import of_table
from spark_sink.source.kafka import Topics
from spark_sink.source.positions import Offsets
from spark_sink.spark.error_mapping import place
from spark_sink.text.quoting import literal, quoted
from spark_sink.warehouse.identity import NEWER, key_parts, same_key
from spark_sink.warehouse.markers import in_force, not_known
from spark_sink.warehouse.shape import Shape
from wire.warehouse_types import SOURCE_COLUMNS

Change = tuple[str, int]
"""A destination and a `seq`."""

_NEW: Final = "__aqueduct_new"
_LIFE: Final = "__aqueduct_life"
_START: Final = "__aqueduct_start"
_ROOT: Final = "__aqueduct_root"
_HELD: Final = "__aqueduct_held"
_LACKS: Final = "__aqueduct_lacks"
_AT: Final = ("topic", "partition", "offset")
_ADVICE: Final = (
    "Set binlog_row_image=FULL and write the row again at the source, then reload the table"
)


def whole(
    rows: DataFrame,
    held: DataFrame,
    shape: Shape,
    *,
    several: bool,
    markers: DataFrame | None = None,
) -> DataFrame:
    """Return the last row of each key, with all columns; `rows` have `compact.MARKS`, `held` is the table.

    `markers` are stored beside the table. A change that is not newer than its key's marker may lack columns: it
    is not merged, and the rows that completed it may be gone.

    Raise UnsupportedPartialImage, with the positions of all records that nothing completes.
    """
    rows = _compared(rows, held, shape).localCheckpoint(eager=False)
    if markers is not None:
        own = markers.alias("t").join(rows.alias("s"), f.expr(same_key(shape)), "left_semi")
        markers = in_force(own, held, shape).localCheckpoint(eager=False)
    _refuse_halves(rows if markers is None else not_known(rows, markers, shape))
    changed = rows.where(_NEW).drop(_NEW)
    lives = _lives(changed.unionByName(_before(changed, held, shape)), shape)
    lives = lives.localCheckpoint(eager=False)
    filled = _filled(_rooted(lives, roots(_links(lives))), shape).localCheckpoint(eager=False)
    last = folded(filled, shape, several_destinations=several)
    if markers is not None:
        last = last.where(f"NOT {_LACKS}").unionByName(
            not_known(last.where(_LACKS), markers, shape)
        )
    _refuse_lacking(filled, last.where(_LACKS), shape)
    return last.selectExpr(*(quoted(name) for name, _ in shape.all_columns))


def roots(links: Mapping[Change, Change]) -> dict[Change, Change]:
    """Map the start of each life that a move joins to an earlier life to the start of its lineage."""
    found: dict[Change, Change] = {}
    for start in links:
        path = [start]
        while (before := links.get(path[-1])) is not None and path[-1] not in found:
            path.append(before)
        root = found.get(path[-1], path[-1])
        found.update((one, root) for one in path[:-1])
    return found


def halves(batch: DataFrame, of: str = "partial") -> dict[Change, str]:
    """Return the halves of moves, each with its op, among the envelopes of one table that meet a condition."""
    rows = batch.where(f"moved AND {of} AND op IN ('c', 'd')").select("destination", "seq", "op")
    return {(row.destination, row.seq): row.op for row in rows.collect()}


def partners(found: Mapping[Change, str]) -> set[Change]:
    """Return the other halves of these moves: a create follows its delete."""
    return {(name, seq + (1 if op == "d" else -1)) for (name, seq), op in found.items()}


def _refuse_halves(rows: DataFrame) -> None:
    """Raise if a row would be deleted that a create still to come needs."""
    halves = rows.where(f"{MOVED} AND {OP} IN ('c', 'd') AND ({OP} = 'c' OR size({ABSENT}) > 0)")
    found = halves.selectExpr(
        "__destination AS d", "__seq AS s", f"{OP} AS op", _NEW, *_AT
    ).collect()
    creates = {(row.d, row.s) for row in found if row.op == "c"}
    alone = [
        row for row in found if row.op == "d" and row[_NEW] and (row.d, row.s + 1) not in creates
    ]
    if alone:
        raise partial_images([(row.topic, row.partition, row.offset) for row in alone])


def partial_images(places: Sequence[tuple[str, int, int]]) -> UnsupportedPartialImage:
    """Return the error of records whose rows cannot be completed."""
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    fault = UnsupportedPartialImage(f"{place(*min(places))}{more}", advice=_ADVICE)
    fault.places = list(places)
    return fault


def _compared(rows: DataFrame, held: DataFrame, shape: Shape) -> DataFrame:
    """The rows, and whether each is newer than what the table holds for its key."""
    same = f.expr(same_key(shape))
    keyed = held.selectExpr(*_key(shape), "__epoch", "__seq", "__ts_ms")
    joined = rows.alias("s").join(keyed.alias("t"), same, "left")
    new = f.expr(f"t.__seq IS NULL OR ({NEWER})").alias(_NEW)
    return joined.select(*(f.col(f"s.{quoted(name)}") for name in rows.columns), new)


def _key(shape: Shape) -> list[str]:
    """What `same_key` needs of a row, and its destination."""
    sources = [name for name, _ in SOURCE_COLUMNS] if shape.apart else []
    return [*map(quoted, shape.key), "__unrepresentable", "__destination", *sources]


def _before(changed: DataFrame, held: DataFrame, shape: Shape) -> DataFrame:
    """The rows that the table holds for the keys of changes, as the first of their lives."""
    keys = changed.selectExpr(*_key(shape)).alias("s")
    rows = held.where("NOT __deleted").alias("t").join(keys, f.expr(same_key(shape)), "left_semi")
    marks = {OP: "'c'", ABSENT: "CAST(NULL AS ARRAY<STRING>)", MOVED: "false"}
    empty = {name: "CAST(NULL AS STRING)" if name == "topic" else "NULL" for name in _AT}
    return rows.selectExpr(
        *(quoted(name) for name, _ in shape.all_columns),
        *(f"{({**marks, **empty})[name]} AS {name}" for name in MARKS),
    )


def _lives(rows: DataFrame, shape: Shape) -> DataFrame:
    """The rows, each with the `seq` at which its life began: that of a create, or of the first known change."""
    key = ", ".join(key_parts(shape, ""))
    ordered = f"PARTITION BY __destination, {key} ORDER BY __epoch, __seq ROWS UNBOUNDED PRECEDING"
    lived = rows.selectExpr("*", f"sum(if({OP} IN ('c', 'r'), 1, 0)) OVER ({ordered}) AS {_LIFE}")
    start = f"min(__seq) OVER (PARTITION BY __destination, {key}, {_LIFE}) AS {_START}"
    return lived.selectExpr("*", start)


def _links(lives: DataFrame) -> dict[Change, Change]:
    """The create of each move, with the start of the life that the move's delete has ended."""
    moves = lives.where(f"{MOVED} AND {OP} IN ('c', 'd')")
    found = moves.selectExpr("__destination AS d", "__seq AS s", f"{OP} AS op", f"{_START} AS b")
    ends, creates = {}, []
    for row in found.collect():
        if row.op == "d":
            ends[row.d, row.s] = (row.d, row.b)
        else:
            creates.append((row.d, row.s))
    return {
        (destination, seq): ends[destination, seq - 1]
        for destination, seq in creates
        if (destination, seq - 1) in ends
    }


def _rooted(lives: DataFrame, found: Mapping[Change, Change]) -> DataFrame:
    """The rows, each with the `seq` at which its lineage began."""
    if not found:
        return lives.withColumn(_ROOT, f.col(_START))
    text = json.dumps([{"d": d, "s": s, "r": root[1]} for (d, s), root in found.items()])
    table = f.from_json(f.lit(text), "array<struct<d:string,s:bigint,r:bigint>>")
    known = lives.sparkSession.range(1, numPartitions=1).select(f.inline(table)).alias("k")
    on = f.expr(f"l.__destination = k.d AND l.{_START} = k.s")
    joined = lives.alias("l").join(known, on, "left")
    names = [f.col(f"l.{quoted(name)}") for name in lives.columns]
    return joined.select(*names, f.expr(f"coalesce(k.r, l.{_START})").alias(_ROOT))


def _filled(rows: DataFrame, shape: Shape) -> DataFrame:
    """The changes, with absent columns taken from their lineage, and whether a column is still not known."""
    own = [name for name, _ in shape.columns if name not in shape.key]
    lineage = (
        f"PARTITION BY __destination, {_ROOT} ORDER BY __epoch, __seq ROWS UNBOUNDED PRECEDING"
    )
    held = {name: f"{_HELD}_{number}" for number, name in enumerate(own)}
    kept = [
        f"last(if({OP} = 'd' OR {_lacking(name)}, NULL, struct({quoted(name)} AS v, "
        f"try_element_at(__unrepresentable, {literal(name)}) AS t)), true) OVER ({lineage}) AS {to}"
        for name, to in held.items()
    ]
    values = [
        f"if({_lacking(name)}, {held[name]}.v, {quoted(name)}) AS {quoted(name)}"
        if name in held
        else quoted(name)
        for name, _ in shape.columns
    ]
    others = [name for name, _ in shape.all_columns[len(shape.columns) :]]
    texts = ", ".join(
        f"struct({literal(name)} AS key, if({_lacking(name)}, {to}.t, NULL) AS value)"
        for name, to in held.items()
    )
    text = (
        "map_from_entries(filter(concat(coalesce(map_entries(__unrepresentable), array()), "
        f"array({texts})), x -> x.value IS NOT NULL))"
    )
    unknown = " OR ".join(f"({_lacking(name)} AND {to} IS NULL)" for name, to in held.items())
    result = rows.selectExpr("*", *kept).where("topic IS NOT NULL")
    return result.selectExpr(
        *values,
        *(quoted(name) for name in others if name != "__unrepresentable"),
        f"if(size({ABSENT}) > 0 AND {OP} <> 'd', {text}, __unrepresentable) AS __unrepresentable",
        f"({unknown or 'false'}) AS {_LACKS}",
        *_AT,
    )


def _lacking(name: str) -> str:
    """The condition that a row's image lacks a column, which therefore keeps its value."""
    return f"({OP} <> 'd' AND coalesce(array_contains({ABSENT}, {literal(name)}), false))"


def _refuse_lacking(rows: DataFrame, last: DataFrame, shape: Shape) -> None:
    """Raise with the positions of all incomplete records of keys whose last row is incomplete."""
    keys = last.selectExpr(*_key(shape)).alias("s")
    joined = rows.where(_LACKS).alias("t").join(keys, f.expr(same_key(shape)), "left_semi")
    found = joined.select(*_AT).collect()
    if found:
        raise partial_images([(row.topic, row.partition, row.offset) for row in found])


_SECONDS: Final = 20.0
"""Seconds to wait for a half that is committed but not visible: an open transaction may hide it that long."""
_PAUSE: Final = 0.3


class Ahead:
    """Reads ahead, and remembers which moves it has completed by that."""

    def __init__(
        self,
        topics: Topics,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        routed: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    ) -> None:
        """``routed`` returns envelopes with the tables to which they belong now."""
        self._topics = topics
        self._clock = clock
        self._sleep = sleep
        self._routed = routed
        self._met: set[Change] = set()
        """Halves of earlier batches whose other halves were read ahead, and are yet to come in the stream."""

    def missing(
        self, batch: DataFrame, table: tuple[str, str], topics: Collection[str], until: Offsets
    ) -> DataFrame | None:
        """Return the table's envelopes past `until` that complete the moves in `batch`; None without any.

        Records that do not arrive within _SECONDS are omitted; the rows then report what is unknown.
        """
        first = halves(batch.where(of_table(table)))
        seen, wanted = set(first), partners(first) - set(first)
        known = wanted & self._met
        self._met -= known
        wanted -= known
        found, reached, deadline = None, dict(until), self._clock() + _SECONDS
        while wanted:
            more = self._next(table, topics, reached, wanted)
            if more is None:
                if self._clock() >= deadline:
                    break
                self._sleep(_PAUSE)
                continue
            found = more if found is None else found.unionByName(more)
            come = halves(more)
            seen |= set(come)
            wanted = (wanted | partners(come)) - seen - known
        later = seen - set(first)
        self._met |= {one for one, op in first.items() if partners({one: op}) <= later}
        return found

    def _next(
        self,
        table: tuple[str, str],
        topics: Collection[str],
        reached: dict[tuple[str, int], int],
        wanted: Collection[Change],
    ) -> DataFrame | None:
        """The records up to each partition's last wanted one, or None; moves `reached` past them."""
        latest = self._topics.ranges(topics)[1]
        start = {at: min(reached.get(at, 0), end) for at, end in latest.items()}
        hits = self._read(table, start, latest).where(_any_of(wanted))
        last = {
            (row.topic, row.partition): row.last + 1
            for row in hits.groupBy("topic", "partition")
            .agg({"offset": "max"})
            .toDF("topic", "partition", "last")
            .collect()
        }
        if not last:
            return None
        reached.update(last)
        return self._read(table, {at: start[at] for at in last}, last).localCheckpoint(eager=False)

    def _read(self, table: tuple[str, str], start: Offsets, end: Offsets) -> DataFrame:
        return self._routed(envelopes(self._topics.read(start, end))).where(of_table(table))


def _any_of(wanted: Collection[Change]) -> str:
    by_destination: dict[str, list[str]] = {}
    for destination, seq in sorted(wanted):
        by_destination.setdefault(destination, []).append(str(seq))
    return " OR ".join(
        f"(destination = {literal(destination)} AND seq IN ({', '.join(seqs)}))"
        for destination, seqs in by_destination.items()
    )
