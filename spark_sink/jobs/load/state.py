"""What a load has done so far, beside the warehouse's tables: its start, its ranges, and the rows it has read.

Invariant: a range counts as read only once the files with its rows are complete, so no row is in the files
twice. Readers do not see the rows: they are in no table yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_sink.jobs.load.cursor import SourceCursor
from spark_sink.jobs.load.plan import SourceTable
from spark_sink.source.positions import Offsets
from spark_sink.spark.files import Files
from spark_sink.text.quoting import LOADED_FROM, LOADS
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.protocol import Name
from wire.warehouse_folders import folder

READING: Final = "reading"
READ: Final = "read"
LOADED: Final = "loaded"
_VERSION: Final = 1
_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"


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

    def text(self) -> str:
        """Return the state as stored."""
        body = asdict(self)
        body["offsets"] = [[*at, offset] for at, offset in sorted(self.offsets.items())]
        return json.dumps({"version": _VERSION, **body})


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows of a load that has read all of them."""

    state: LoadState
    rows: DataFrame


def _parsed(text: str) -> LoadState | None:
    body: dict[str, Any] = json.loads(text)
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

    def __init__(self, spark: SparkSession, root: str, notes: Notes) -> None:
        self._spark, self._files, self.root = spark, Files(spark), root.rstrip("/")
        self._notes = notes

    def make(self) -> None:
        """Make the folder of all loads, and prove that files can be written there."""
        self._files.make(f"{self.root}/{LOADS}")

    def of(self, name: Name) -> LoadState | None:
        """Return the last load of a table; None without a load, or if this version does not know its form."""
        text = self._notes.read(_note(name))
        return _parsed(text) if text is not None else None

    def keep(self, state: LoadState) -> LoadState:
        """Store a state, in place of the table's last one."""
        self._notes.write(_note(state.name), state.text())
        return state

    def keep_placed(self, state: LoadState) -> None:
        """Record that a table is made of a load's rows; rows of an earlier load may be in another table now."""
        text = replace(state, ranges=(), folders=()).text()
        self._notes.write(f"{LOADED_FROM}/{state.number}.json", text)

    def placed(self) -> list[LoadState]:
        """Return all loads of which a table was made, under any name.

        If the record of a load is removed, the state of the ended load shows it too, until another load of its
        table.
        """
        ended = [
            f"{LOADS}/{database}/{table}/state.json"
            for database in self._notes.names(LOADS)
            for table in self._notes.names(f"{LOADS}/{database}")
        ]
        places = [f"{LOADED_FROM}/{one}" for one in self._notes.names(LOADED_FROM)]
        found: dict[str, LoadState] = {}
        for place in (*places, *ended):
            text = self._notes.read(place)
            state = None if text is None else _parsed(text)
            if state is not None and (place in places or state.state == LOADED):
                found.setdefault(state.number, state)
        return list(found.values())

    def write(self, state: LoadState, rows: DataFrame, place: str) -> None:
        """Write rows in the state's columns into a folder; replace what an interrupted attempt has left."""
        # Parquet takes no names with commas or spaces; a Delta table may have such names.
        plain = rows.toDF(*_plain(state.columns))
        before = self._spark.conf.get(_TIMESTAMPS)
        self._spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
        try:
            plain.write.mode("overwrite").parquet(self._place(state, place))
        finally:
            self._spark.conf.set(_TIMESTAMPS, before or "INT96")

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
