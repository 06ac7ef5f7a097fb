"""What a load has done so far, beside the warehouse's tables, and what it has of a table's sources.

Invariant: a range counts as read only once the files with its rows are complete, so no row is in the files
twice. Readers do not see the rows: they are in no table yet. A load replaces the table as a whole, so it has
every source of which the table has a row. Such rows, which no topic has, go with their table when it is
renamed, and are gone once it was dropped or truncated since; if it is not known whether a table has such rows,
it counts as having them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.errors import LoadRefused
from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.source.positions import Offsets
from spark_sink.spark.files import Files
from spark_sink.spark.jobs import plain_timestamps
from spark_sink.text.quoting import LOADED_FROM, LOADS, literal
from spark_sink.warehouse.identity import source_parts, source_sql
from spark_sink.warehouse.ledger import Floors, Source
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.moves import Piece, belongs
from spark_sink.warehouse.notes import json_of
from spark_sink.warehouse.protocol import Name, Tables
from wire.warehouse_folders import folder

READING: Final = "reading"
READ: Final = "read"
LOADED: Final = "loaded"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState:
    """One load of a table, identified by `number`."""

    number: str
    name: Name
    sources: tuple[SourceTable, ...]
    lows: Mapping[str, SourceCursor]
    """By destination, the cursor at the start: each SELECT sees all that was published up to it, and its rows
    have its (epoch, seq)."""
    offsets: Offsets
    """The offsets of the tables' topics, fetched before the lows: the stream continues from them."""
    ranges: tuple[tuple[int, str], ...]
    """The index of a source table, and a condition on its key."""
    columns: tuple[tuple[str, str], ...]
    """The columns of the rows, with the sink's own."""
    apart: bool = False
    """Whether the rows of each source table are kept apart, like the rows of mapped tables."""
    state: str = READING
    read: int = 0
    """The number of ranges that are read; ranges are read in their order."""
    folders: tuple[str, ...] = ()
    highs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By destination and server: the transactions that were visible after its last SELECT."""

    def body(self) -> dict[str, Any]:
        """Return the state as stored, in values of JSON."""
        body = asdict(self)
        body["offsets"] = [[*at, offset] for at, offset in sorted(self.offsets.items())]
        return {"version": _VERSION, **body}


def _parsed(stored: Mapping[str, Any]) -> LoadState | None:
    body = dict(stored)
    if body.pop("version") != _VERSION:
        return None
    return LoadState(
        number=body["number"],
        name=(body["name"][0], body["name"][1]),
        sources=tuple(_source(one) for one in body["sources"]),
        lows={name: SourceCursor(**low) for name, low in body["lows"].items()},
        offsets={(topic, number): offset for topic, number, offset in body["offsets"]},
        ranges=tuple((number, condition) for number, condition in body["ranges"]),
        columns=tuple((name, kind) for name, kind in body["columns"]),
        apart=body["apart"],
        state=body["state"],
        read=body["read"],
        folders=tuple(body["folders"]),
        highs=body["highs"],
    )


def _source(body: dict[str, Any]) -> SourceTable:
    columns = tuple((one[0], one[1], one[2]) for one in body["columns"])
    return SourceTable(**{**body, "key": tuple(body["key"]), "columns": columns})


class Loads:
    """The states of all loads into a warehouse, and their rows."""

    def __init__(self, spark: SparkSession, root: str, log: SinkLog) -> None:
        self._spark, self._files, self.root = spark, Files(spark), root.rstrip("/")
        self._log, self._notes = log, log.notes

    def make(self) -> None:
        """Make the folder of all loads, and prove that files can be written there."""
        self._files.make(f"{self.root}/{LOADS}")

    def of(self, name: Name) -> LoadState | None:
        """Return the last load of a table; None without a load, or if this version does not know its form.

        Without a load is also a table whose state a crash has left incomplete.
        """
        body = json_of(self._notes, _note(name), None)
        return _parsed(body) if body is not None else None

    def keep(self, state: LoadState) -> LoadState:
        """Store a state, in place of the table's last one."""
        self._notes.write(_note(state.name), json.dumps(state.body()))
        return state

    def keep_placed(self, state: LoadState) -> None:
        """Record that a table is made of a load's rows; rows of an earlier load may be in another table now."""
        body = replace(state, ranges=(), folders=()).body()
        self._log.place(state.number, body)
        self._notes.write(f"{LOADED_FROM}/{state.number}.json", json.dumps(body))

    def placed(self) -> list[LoadState]:
        """Return all loads of which a table was made, under any name.

        A load is recorded in the sink's log and in a file of its own, as each may be put back from an older
        copy. Its state shows it too once it has ended, until another load of its table.
        """
        ended = [
            f"{LOADS}/{database}/{table}/state.json"
            for database in self._notes.names(LOADS)
            for table in self._notes.names(f"{LOADS}/{database}")
        ]
        places = [f"{LOADED_FROM}/{one}" for one in self._notes.names(LOADED_FROM)]
        # A file that a crash has left incomplete counts as absent: the other two have the load.
        bodies = [(place, json_of(self._notes, place, None)) for place in (*places, *ended)]
        stored = [(place, body) for place, body in bodies if body is not None]
        found: dict[str, LoadState] = {}
        for place, body in (*(("", body) for body in self._log.placed()), *stored):
            state = _parsed(body)
            if state is not None and (place not in ended or state.state == LOADED):
                found.setdefault(state.number, state)
        return list(found.values())

    def write(self, state: LoadState, rows: DataFrame, place: str) -> None:
        """Write rows in the state's columns into a folder; replace what an interrupted attempt has left."""
        # Parquet takes no names with commas or spaces; a Delta table may have such names.
        plain = rows.toDF(*_plain(state.columns))
        with plain_timestamps(self._spark):
            plain.write.mode("overwrite").parquet(self._place(state, place))

    def rows(self, state: LoadState) -> DataFrame:
        """Return all rows that were read."""
        types = [kind for _, kind in state.columns]
        plain = _plain(state.columns)
        schema = ", ".join(f"{name} {kind}" for name, kind in zip(plain, types, strict=True))
        if not state.folders:
            found = self._spark.createDataFrame([], schema)
        else:
            places = [self._place(state, one) for one in state.folders]
            found = self._spark.read.schema(schema).parquet(*places)
        return found.toDF(*(name for name, _ in state.columns))

    def remove_rows(self, state: LoadState) -> None:
        """Remove the rows."""
        self._files.delete(self._folder(state))

    def _folder(self, state: LoadState) -> str:
        return f"{self.root}/{_folder(state.name)}/{state.number}"

    def _place(self, state: LoadState, place: str) -> str:
        return f"{self._folder(state)}/{place}"


def _plain(columns: Sequence[tuple[str, str]]) -> list[str]:
    return [f"c{number}" for number in range(len(columns))]


def _note(name: Name) -> str:
    return f"{_folder(name)}/state.json"


def _folder(name: Name) -> str:
    return f"{LOADS}/{folder(name[0])}/{folder(name[1])}"


_NAMED: Final = 10
"""Sources that an error names."""
_OF_RECORD: Final = ("destination", "source_database", "source_table")


def before_sql(state: LoadState) -> str:
    """Return the condition that a record is of a change that the load has read."""
    parts = []
    for destination, low in state.lows.items():
        own = [one for one in state.sources if one.destination == destination]
        before = f"(epoch < {low.epoch} OR (epoch = {low.epoch} AND seq <= {low.seq}))"
        parts.append(f"({_of_any(own)} AND {before})")
    return f"({' OR '.join(parts)})"


def check_rows(state: LoadState, tables: Tables[DataFrame]) -> None:
    """Raise LoadRefused if the table has rows of a source that is not in the load: they would be lost."""
    shape = tables.shape(*state.name)
    if shape is None:
        return
    own = [f"__destination = {literal(destination)}" for destination in state.lows]
    if shape.apart:
        own = [source_sql(shape, one.source(state.name)) for one in state.sources]
    rows = tables.rows(shape).where("NOT __deleted")
    others = rows.where(" AND ".join(f"NOT ({one})" for one in own))
    _check_none(state, others, source_parts(shape, "") or ["__destination"])


def check_records(state: LoadState, envelopes: DataFrame) -> None:
    """Raise LoadRefused if records before the load's offsets are of a source that is not in the load.

    `envelopes` are the records before these offsets that the table does not have yet.
    """
    planned = f"destination IN ({', '.join(map(literal, sorted(state.lows)))})"
    if state.apart:
        planned = _of_any(state.sources)
    rows = envelopes.where("op IN ('c', 'u', 'r')")
    _check_none(state, rows.where(f"NOT {planned}"), _OF_RECORD)


def _check_none(state: LoadState, rows: DataFrame, parts: Sequence[str]) -> None:
    named = rows.selectExpr(f"concat_ws('.', {', '.join(parts)}) AS name").distinct()
    if found := sorted(row.name for row in named.limit(_NAMED).collect()):
        raise LoadRefused(
            f"{'.'.join(state.name)} has rows of sources that are not in the load: {', '.join(found)}",
            advice="Make new plans of all its destinations, and name those after --with. Rows of a source "
            "table that is gone are to be deleted in the warehouse first",
        )


def _of_any(sources: Sequence[SourceTable]) -> str:
    """The condition that a record is of one of these source tables."""
    tables = (
        f"(destination = {literal(one.destination)} AND source_database = {literal(one.database)}"
        f" AND source_table = {literal(one.table)})"
        for one in sources
    )
    return f"({' OR '.join(tables)})"


def has_rows_of(
    name: Name,
    placed: Iterable[LoadState],
    pieces: Mapping[tuple[str, Name], Sequence[Piece]],
    floors: Floors,
) -> bool:
    """Whether a table has rows of any load that was put in place, whichever table was loaded.

    `pieces` state where the rows of each table belong now (see `moves.pieces`); `floors` are the table's.
    """
    replaced: set[Name] = set()
    for state in sorted(placed, key=_written, reverse=True):
        stays = False
        for one in state.sources:
            low = state.lows[one.destination]
            at, source = (low.epoch, low.seq), one.source(state.name)
            now: Name | None = state.name
            if not one.is_mapped:
                # Rows of mapped tables stay where the mapping puts them.
                now = belongs(pieces.get((one.destination, state.name), [(None, state.name)]), at)
                source = Source(one.destination, *(now or state.name))
            is_here = now == state.name
            stays |= is_here
            if is_here and state.name in replaced:
                # The rows of a later load have replaced these.
                continue
            if now == name and floors.get(source, (-1, -1)) <= at:
                return True
        if stays:
            replaced.add(state.name)
    return False


def _written(state: LoadState) -> int:
    return max(low.written_ms for low in state.lows.values())
