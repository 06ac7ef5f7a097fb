"""The warehouse against the topics, whose records the same audit holds against the source.

The law: each table is judged at the place that the sink itself says it has reached, partition by partition;
what is behind that is counted as such. Of each key only the last applied change stands. Values are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from app.auditing.published import Described, Versions
from app.auditing.table_verdict import TableVerdict
from app.auditing.warehouse_dump import lines
from app.auditing.warehouse_store import Held, Wanted, WarehouseStore
from app.auditing.warehouse_values import different
from connectors.kafka.reading import StoredRecord

_LONGEST_PAIRING = 10_000
"""Rows of a table that are held in memory to find out what became of them; beyond, they are only counted."""
Place = tuple[int, int]
"""Epoch and number."""
_NEVER: Place = (-1, -1)


@dataclass(slots=True)
class _Table:
    """What is known of a table while records are read."""

    t: int
    name: tuple[str, str]
    columns: tuple[str, ...] = ()
    emptied: Place = _NEVER
    """The last truncate that is applied."""
    may_be_emptied: Place = _NEVER
    """One that the sink was about to apply."""
    behind: int = 0
    strangers: int = 0
    """Rows that another destination made last."""
    topics: set[str] = field(default_factory=set)


class Warehouse:
    """Takes the dump at once, then record after record, and then judges."""

    def __init__(self, store: WarehouseStore, dump: Path, destination: str) -> None:
        self._store = store
        self._destination = destination
        self._until: dict[tuple[str, int], int] = {}
        self._tables: dict[tuple[str, str], _Table] = {}
        self._floors: dict[tuple[str, str], Place] = {}
        self._read(dump)

    def _read(self, dump: Path) -> None:
        table = _Table(0, ("", ""))
        for told in lines(dump):
            if "format" in told:
                self._until = {(topic, number): until for topic, number, until in told["applied"]}
                self._floors = {
                    (database, name): (epoch, seq)
                    for database, name, owner, epoch, seq in told["floors"]
                    if owner == self._destination
                }
            elif "columns" in told:
                table = self._table((told["database"], told["table"]))
                table.columns = tuple(name.lower() for name in told["columns"])
            elif told["destination"] != self._destination:
                table.strangers += not told["deleted"]
            else:
                body = [list(told["values"].values()), told["unrepresentable"], told["version"]]
                row = (told["seq"], told["delta"], told["epoch"], 0 if told["deleted"] else 1)
                self._store.hold(Held(table.t, *row, orjson.dumps(body)))
        self._store.flush()

    def _table(self, name: tuple[str, str]) -> _Table:
        if name not in self._tables:
            self._tables[name] = _Table(len(self._tables), name)
        return self._tables[name]

    def take(self, topic: str, partition: int, record: StoredRecord, value: dict[str, Any]) -> None:
        """Take a record of a row topic, with its images."""
        source = value["source"]
        database = source.get("logical_db") or source["db"]
        table = self._table((database, source.get("logical_table") or source["table"]))
        table.topics.add(topic)
        place = (int(source["epoch"]), int(source["seq"]))
        is_applied = record.offset < self._until.get((topic, partition), 0)
        if not is_applied:
            table.behind += 1
        if value["op"] == "t":
            if is_applied:
                table.emptied = max(table.emptied, place)
            elif place <= self._floors.get(table.name, _NEVER):
                table.may_be_emptied = max(table.may_be_emptied, place)
            return
        # A sink that goes on may have merged what its ledger does not have yet.
        if is_applied or self._store.holds(table.t, place[1]):
            self._want(table, (partition, record.offset), record.key, value)

    def _want(
        self, table: _Table, at: tuple[int, int], key: bytes | None, value: dict[str, Any]
    ) -> None:
        source = value["source"]
        before, after = value["before"], value["after"]
        images = (
            [(0, after or before, value["op"] != "d")]
            if key
            else [(-1, before, True), (1, after, True)]
        )
        for delta, image, is_alive in images:
            # A row with a key is wanted though its images are not at hand.
            if image is not None or key:
                wanted = Wanted(
                    t=table.t,
                    key=key or b"%d/%d" % (source["seq"], delta),
                    seq=source["seq"],
                    delta=delta,
                    epoch=source["epoch"],
                    alive=is_alive,
                    version=source["schema"],
                    partition=at[0],
                    offset=at[1],
                    image=orjson.dumps([source["db"], source["table"], image]),
                )
                self._store.want(wanted)

    def judge(
        self, versions: Versions, seen: Callable[[int], bool], *, cut: Collection[str]
    ) -> list[TableVerdict]:
        """What is wrong with each table.

        ``seen`` says which numbers have a record in Kafka, ``cut`` which topics do not have all of theirs.
        """
        found = []
        for _, table in sorted(self._tables.items()):
            is_whole = bool(table.topics) and table.topics.isdisjoint(cut)
            found.append(self._judged(table, versions, seen, is_whole=is_whole))
        return found

    def _judged(
        self, table: _Table, versions: Versions, seen: Callable[[int], bool], *, is_whole: bool
    ) -> TableVerdict:
        verdict = TableVerdict(".".join(table.name), behind=table.behind)
        self._store.empty(table.t, table.emptied)
        missing: list[Wanted] = []
        for wanted, told in self._store.wanted(table.t):
            verdict.rows += 1
            if told is not None:
                self._compare(table, wanted, told, versions, verdict)
            elif (wanted.epoch, wanted.seq) < table.may_be_emptied:
                verdict.unjudged["rows of a table that is being emptied"] += 1
            elif table.strangers:
                verdict.unjudged["rows that another destination may have made anew"] += 1
            elif len(missing) < _LONGEST_PAIRING:
                missing.append(wanted)
            else:
                verdict.missing += 1
        for held in self._store.repeated(table.t):
            what = f"seq {held.seq}: this row is there {held.n} times"
            verdict.add("extra", what, times=held.n - 1)
        extra: list[Held] = []
        for held in self._store.unwanted(table.t):
            if (held.epoch, held.seq) < table.may_be_emptied:
                verdict.unjudged["rows of a table that is being emptied"] += 1
            elif not is_whole and not seen(held.seq):
                verdict.unjudged["rows whose records the topic does not have any more"] += 1
            elif len(extra) < _LONGEST_PAIRING:
                extra.append(held)
            else:
                verdict.extra += 1
        _stale(table, missing, extra, verdict)
        return verdict

    def _compare(
        self,
        table: _Table,
        wanted: Wanted,
        told: bytes,
        versions: Versions,
        verdict: TableVerdict,
    ) -> None:
        database, name, image = orjson.loads(wanted.image)
        if image is None:
            verdict.unjudged["rows whose images are not at hand"] += 1
            return
        values, unrepresentable, version = orjson.loads(told)
        held = dict(zip(table.columns, values, strict=True))
        types = _types(versions.get((database, name, wanted.version)))
        odd = {column.lower(): text for column, text in (unrepresentable or {}).items()}
        column = different(image, types, held, odd)
        if column is not None:
            verdict.add("different", f"{_where(wanted)}: {column} has another value")
        elif version != wanted.version:
            verdict.add("different", f"{_where(wanted)}: it says version {version} of its columns")


def _types(version: Described | None) -> dict[str, str]:
    return {} if version is None else dict(zip(version.columns, version.types, strict=True))


def _key(wanted: Wanted) -> dict[str, str] | None:
    """A key as texts; None for an image of a log, which has none."""
    if wanted.delta:
        return None
    return {column.lower(): str(value) for column, value in orjson.loads(wanted.key).items()}


def _where(wanted: Wanted) -> str:
    return f"seq {wanted.seq} [{wanted.partition}]@{wanted.offset}"


def _stale(
    table: _Table,
    missing: list[Wanted],
    extra: list[Held],
    verdict: TableVerdict,
) -> None:
    """Of what is missing and what is too much, tell apart the rows that are there as they were before."""
    older: dict[tuple[Any, ...], Held] = {}
    keys = [_key(one) for one in missing]
    if names := next((tuple(key) for key in keys if key), None):
        for held in extra:
            values = dict(zip(table.columns, orjson.loads(held.told)[0], strict=True))
            older[tuple(str(values.get(name)) for name in names)] = held
    paired = set()
    for wanted, key in zip(missing, keys, strict=True):
        found = older.get(tuple(key.values())) if key else None
        if found is None:
            verdict.add("missing", f"{_where(wanted)}: no row is there of this change")
        else:
            paired.add(found.seq)
            what = f"the row is as seq {found.seq} made it, and this change came later"
            verdict.add("different", f"{_where(wanted)}: {what}")
    for held in extra:
        if held.seq not in paired:
            verdict.add("extra", f"seq {held.seq}: this row is not there at the source any more")
