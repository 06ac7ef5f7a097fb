"""The warehouse against the topics, whose records the same audit compares with the source.

Invariant: each table is judged at the position that the sink itself reports, partition by partition; later
records are counted as not yet applied. Only the last applied change of each key is valid. A row that another
destination has replaced is excused, by its key alone. Values are never shown.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Any

import orjson

from app.audit.routes_in_force import RoutesInForce
from app.audit.topics.topics import Partition, Shares
from app.audit.verdict import TableVerdict
from app.audit.warehouse.store import ExpectedRow, WarehouseRow, WarehouseStore
from connectors.kafka.reading import StoredRecord, source_of
from tables.history.present_columns import Described, Followed, Present, PresentColumns, Versions

# The records that the sink has applied, by its own ledger.
#
# Invariant: the ledger has offsets of the topics that the sink reads. A merge keeps the partition of each
# record and, within the partition, the order of each destination. A share is therefore applied up to the
# greatest number that the merged partition has before the ledger's offset. If those records are gone, this
# number is not known.


NumberPosition = tuple[int, int]
"""Epoch and number."""
NEVER: NumberPosition = (-1, -1)


class Applied:
    """Takes the records of merged topics first, then reports which records of any topic are applied."""

    def __init__(self, until: Mapping[Partition, int], shares: Shares) -> None:
        """``until`` has the ledger's offset for each partition: the offset of the first record not applied."""
        self._until, self._shares = until, shares
        self._reached: dict[Partition, NumberPosition] = {}
        self._cut: set[Partition] = set()

    def cut(self, partition: Partition) -> None:
        """Note that a partition no longer has all of its records."""
        self._cut.add(partition)

    def take(self, topic: str, partition: int, record: StoredRecord) -> None:
        """Take a record of a merged topic, in the order of its partition."""
        at = topic, partition
        if record.offset >= self._until.get(at, 0):
            return
        try:
            source = source_of(record)
            if source.get("name") == self._shares.destination:
                position = int(source["epoch"]), int(source["seq"])
                self._reached[at] = max(self._reached.get(at, NEVER), position)
        except (KeyError, TypeError, ValueError):
            return  # the check of records reports it

    def has(self, at: Partition, offset: int, position: NumberPosition) -> bool:
        """Return whether a record is applied."""
        if self._shares.is_share(at[0]):
            return position <= self._reached.get(self._home(at), NEVER)
        return offset < self._until.get(at, 0)

    def is_unknown(self, at: Partition) -> bool:
        """Return whether it is not known how far a partition is applied."""
        home = self._home(at)
        if home == at or home in self._reached:
            return False
        return home in self._cut and self._until.get(home, 0) > 0

    def _home(self, at: Partition) -> Partition:
        return self._shares.home(at[0]), at[1]


# The tables that the sink has renamed or emptied after DDL, as its dump states them.
#
# Invariant: a record is expected in the table to which its row belongs now. The record's position alone
# determines this table, as in the sink itself.


Name = tuple[str, str]


@dataclass(slots=True)
class MovedTables:
    """For each source table, the tables to which its rows belong, each up to a position."""

    _pieces: dict[Name, list[tuple[NumberPosition, Name | None]]] = field(default_factory=dict)

    @classmethod
    def of(cls, stated: Iterable[list[object]], destination: str) -> MovedTables:
        """Read the member ``moved`` of a dump's first line.

        Its items are destination, database, table, and [epoch, seq, [database, table] or null] for each piece.
        """
        found = cls()
        for owner, database, table, pieces in stated:
            if owner == destination and isinstance(pieces, list):
                found._pieces[str(database), str(table)] = [
                    ((int(epoch), int(seq)), None if to is None else (to[0], to[1]))
                    for epoch, seq, to in pieces
                ]
        return found

    def place(self, name: Name, position: NumberPosition) -> Name | None:
        """Return the table to which a row belongs; None if the row was dropped with its table."""
        for below, target in self._pieces.get(name, ()):
            if position < below:
                return target
        return name

    def follows(self, name: Name, position: NumberPosition) -> bool:
        """Return whether the sink has followed the statement that took a name from its table at a position."""
        return any(position <= below for below, _ in self._pieces.get(name, ()))


_LONGEST_PAIRING = 10_000
"""The most rows of a table that are held in memory to classify them; further rows are only counted."""
_EMPTYING = "rows of a table that is being truncated"
_UNKEYED = "rows whose last change lacks columns of a key that the table got later"
_UNKNOWN = (
    "records of shares whose merged records are gone, so that it is not known which are applied"
)


@dataclass(slots=True)
class _Table:
    """The facts of a table while records are read."""

    t: int
    name: tuple[str, str]
    columns: tuple[str, ...] = ()
    """The columns' names in lower case, as in ``key``."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Spark's types."""
    key: tuple[str, ...] = ()
    followed: Followed = field(default_factory=Followed)
    emptied: dict[tuple[str, str] | None, NumberPosition] = field(default_factory=dict)
    """The last applied truncate by real table; the key is None for a table that is not mapped."""
    may_be_emptied: NumberPosition = NEVER
    """The last truncate that the sink had begun, and may have applied."""
    foreign: int = 0
    """Rows that another program has written: the sink's columns in them are NULL."""
    not_applied: int = 0
    unknown: int = 0
    """Records of which it is not known whether they are applied."""
    topics: set[str] = field(default_factory=set)
    numbers: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """A number for each version of which rows are required, where statements may have changed the key."""
    firsts: dict[int, NumberPosition] = field(default_factory=dict)
    """The position of the first of these rows, by that number."""
    keys: tuple[frozenset[str], ...] = ()
    """The columns of these keys, by their present names; the last key is the table's present key."""

    def key_of(self, values: Iterable[Any], unrepresentable: Mapping[str, str] | None) -> bytes:
        """The key of a row of the warehouse's dump."""
        named = dict(zip(self.columns, values, strict=True))
        return of_row(self.key, named, self.kinds, _lower(unrepresentable))


class Warehouse:
    """Reads the sink's whole dump, then takes one record after another, and then judges."""

    def __init__(
        self,
        store: WarehouseStore,
        parts: Iterable[dict[str, Any]],
        destination: str,
        *,
        versions: Versions,
        routes: RoutesInForce,
        shares: Shares | None = None,
    ) -> None:
        self._store = store
        self._routes = routes
        self._destination = destination
        self._shares = shares or Shares()
        self.applied = Applied({}, self._shares)
        self._tables: dict[tuple[str, str], _Table] = {}
        self._floors: dict[tuple[str, str], NumberPosition] = {}
        """Truncates that the sink had begun by the time its tables were read, and may have applied."""
        self._dropped: dict[tuple[str, str], NumberPosition] = {}
        """Where the source's own tables were last dropped or renamed without the sink following."""
        self._moved = MovedTables()
        self._present = PresentColumns(versions)
        self._keys: dict[tuple[str, str], set[frozenset[str]]] = {}
        """The columns of all keys that tables of a name have had."""
        self._read(parts)

    def _read(self, parts: Iterable[dict[str, Any]]) -> None:
        table = _Table(0, ("", ""))
        for part in parts:
            if "values" in part:
                self._hold(table, part)
            elif "columns" in part:
                table = self._table((part["database"], part["table"]))
                table.columns = tuple(name.lower() for name in part["columns"])
                table.kinds = dict(zip(table.columns, part["types"], strict=True))
                table.key = tuple(name.lower() for name in part["key"])
                table.followed = Followed.of(part, self._destination)
            elif "format" in part:
                until = {(topic, number): until for topic, number, until in part["applied"]}
                self.applied = Applied(until, self._shares)
                self._moved = MovedTables.of(part.get("moved", ()), self._destination)
            else:
                self._floors = {
                    (database, name): (epoch, seq)
                    for database, name, owner, epoch, seq in part["floors"]
                    if owner == self._destination
                }
        self._store.flush()

    def _hold(self, table: _Table, part: dict[str, Any]) -> None:
        if None in (part["destination"], part["epoch"], part["seq"], part["delta"]):
            table.foreign += not part["deleted"]
            return
        values = list(part["values"].values())
        if part["destination"] == self._destination:
            body = [values, part["unrepresentable"], part["version"]]
            row = (part["seq"], part["delta"], part["epoch"], 0 if part["deleted"] else 1)
            self._store.hold(WarehouseRow(table.t, *row, orjson.dumps(body)))
        elif table.key:
            # In a log no row replaces another.
            self._store.leave(table.t, table.key_of(values, part["unrepresentable"]))

    def _table(self, name: tuple[str, str]) -> _Table:
        if name not in self._tables:
            self._tables[name] = _Table(len(self._tables), name)
        return self._tables[name]

    def take(self, topic: str, partition: int, record: StoredRecord, value: dict[str, Any]) -> None:
        """Add a record of a row topic, with its images, or of the DDL topic."""
        if "ddl" in value:
            self._note_dropped(value)
            return
        source = value["source"]
        name = (source["db"], source["table"])
        routes = self._routes.of_number(int(source["seq"]))
        route = routes.of(name)
        is_mapped = route is not None and route.mapped is not None
        position = (int(source["epoch"]), int(source["seq"]))
        # The rows of a table that is no longer captured are where they were, under the table's own name.
        logical = name if route is None else route.logical
        held = logical if is_mapped else self._moved.place(logical, position)
        if held is None:
            # The table was dropped; a row that the warehouse still has is surplus.
            return
        table = self._table(held)
        table.topics.add(topic)
        at = topic, partition
        is_applied = self.applied.has(at, record.offset, position)
        if not is_applied and self.applied.is_unknown(at):
            table.unknown += 1
        elif not is_applied:
            table.not_applied += 1
        if value["op"] == "t":
            if is_applied:
                of = name if is_mapped else None
                table.emptied[of] = max(table.emptied.get(of, NEVER), position)
            elif position <= self._floors.get(table.name, NEVER):
                table.may_be_emptied = max(table.may_be_emptied, position)
            return
        # A running sink may have merged records that its ledger does not have yet.
        if is_applied or self._store.holds(table.t, position[1]):
            self._want(table, (partition, record.offset), record.key, value)

    def _want(
        self, table: _Table, at: tuple[int, int], key: bytes | None, value: dict[str, Any]
    ) -> None:
        source, op = value["source"], value["op"]
        before, after = value["before"], value["after"]
        # A row is required even if its images are not available; the operation determines which images exist.
        images = (
            [(0, after or before, op != "d")]
            if key
            else [
                (d, i, True)
                for d, i in ((-1, before), (1, after))
                if op == "u" or (d < 0) == (op == "d")
            ]
        )
        for delta, image, is_alive in images:
            era, own = (
                self._key(table, key, image, source)
                if key
                else (0, b"%d/%d" % (source["seq"], delta))
            )
            wanted = ExpectedRow(
                t=table.t,
                era=era,
                key=own,
                seq=source["seq"],
                delta=delta,
                epoch=source["epoch"],
                alive=is_alive,
                version=source["schema"],
                partition=at[0],
                offset=at[1],
                image=orjson.dumps([source["db"], source["table"], image, value.get("absent", [])]),
            )
            self._store.want(wanted)

    def _key(
        self, table: _Table, key: bytes, image: Mapping[str, Any] | None, source: dict[str, Any]
    ) -> tuple[int, bytes]:
        """Return the era of a record's key, and the key in the form of the warehouse's rows."""
        version = (source["db"], source["table"], source["schema"])
        present = self._present.of(version, table.name, table.followed)
        described = self._present.versions.get(version)
        if described is None or not table.key or not _has_key(key, described):
            return 0, of_record(key, present)
        if table.followed.is_apart:
            # A table that several source tables fill has one key, so each row is looked up by its present key.
            found = None if image is None else _key_in(frozenset(table.key), image, present)
            return 0, of_record(key, present) if found is None else found
        if not table.followed.stays and len(self._keys_of(version[:2])) < 2:
            return 0, of_record(key, present)
        # Not all versions of a name are the table's, and which are its own is known once all records are.
        number = table.numbers.setdefault(version, len(table.numbers) + 1)
        at = source["epoch"], source["seq"]
        table.firsts[number] = min(at, table.firsts.get(number, at))
        return number, of_record(key, present)

    def _keys_of(self, name: tuple[str, str]) -> set[frozenset[str]]:
        if not self._keys:
            for version, described in self._present.versions.items():
                columns = frozenset(map(str.lower, described.primary_key))
                self._keys.setdefault(version[:2], set()).add(columns)
        return self._keys[name]

    def _find_eras(self, table: _Table) -> None:
        """Number the keys that a table has had, in the order of its rows, and its required rows likewise."""
        eras, keys = {0: 0}, list[frozenset[str]]()
        for version, number in sorted(table.numbers.items(), key=lambda one: table.firsts[one[1]]):
            present = self._present.of(version, table.name, table.followed)
            columns = frozenset(map(present.name, self._present.versions[version].primary_key))
            if not keys or keys[-1] != columns:
                keys.append(columns)
            eras[number] = len(keys) - 1
        if keys[-1] != frozenset(table.key):
            keys.append(frozenset(table.key))
        self._store.renumber(table.t, eras)
        table.keys = tuple(keys)

    def _rekey(self, table: _Table, verdict: TableVerdict) -> None:
        """Convert a table's required rows to its present key, if it has had other keys."""
        if table.numbers:
            self._find_eras(table)
        if len(table.keys) < 2:
            return

        def key_of(wanted: ExpectedRow, era: int) -> bytes | None:
            database, name, image, absent = orjson.loads(wanted.image)
            version = (database, name, wanted.version)
            present = self._present.of(version, table.name, table.followed)
            is_whole = image is not None and table.keys[era].isdisjoint(map(present.name, absent))
            return _key_in(table.keys[era], image, present) if is_whole else None

        if unknown := self._store.rekey(table.t, len(table.keys), key_of):
            verdict.unjudged[_UNKEYED] += unknown

    def _note_dropped(self, value: dict[str, Any]) -> None:
        """Record the position at which a name lost its table, unless the sink has followed."""
        position = (int(value["source"]["epoch"]), int(value["source"]["seq"]))
        for one in value.get("tables", ()):
            name = one["database"], one["table"]
            is_gone = one["change"] == "dropped" or one["renamed_to"] is not None
            if is_gone and not self._moved.follows(name, position):
                self._dropped[name] = position
        for one in value.get("online", ()):
            # A tool replaced the table by its copy, with the same rows.
            self._dropped.pop((one["database"], one["table"]), None)

    def judge(self, seen: Callable[[int], bool], *, cut: Collection[str]) -> list[TableVerdict]:
        """Return the verdict of each table.

        ``seen`` returns whether a number has a record in Kafka. ``cut`` names the topics that no longer have
        all of their records.
        """
        found = []
        for _, table in sorted(self._tables.items()):
            is_whole = bool(table.topics) and table.topics.isdisjoint(cut)
            found.append(self._judged(table, seen, is_whole=is_whole))
        return found

    def _judged(
        self, table: _Table, seen: Callable[[int], bool], *, is_whole: bool
    ) -> TableVerdict:
        verdict = TableVerdict(".".join(table.name), behind=table.not_applied)
        if table.unknown:
            verdict.unjudged[_UNKNOWN] += table.unknown
            verdict.is_complete = False
        for source, position in table.emptied.items():
            self._store.empty(table.t, position, source)
        floor = self._floors.get(table.name, NEVER)
        if not is_whole and floor > max(table.emptied.values(), default=NEVER):
            # The topic may have older rows in one partition, while another no longer has the truncate.
            table.may_be_emptied = max(table.may_be_emptied, floor)
        self._rekey(table, verdict)
        missing: list[ExpectedRow] = []
        for wanted, content in self._store.wanted(table.t):
            database, name, image, absent = orjson.loads(wanted.image)
            position = (wanted.epoch, wanted.seq)
            if position < self._dropped.get((database, name), NEVER):
                verdict.unjudged["rows from before their table was dropped or renamed"] += 1
            elif content is not None:
                present = self._present.of(
                    (database, name, wanted.version), table.name, table.followed
                )
                # Versions are counted for each name of a source table. For a row from before a rename, the sink
                # sets version 0; an earlier sink kept the number.
                is_own = table.followed.is_apart or (database, name) == table.name
                _compare(
                    table,
                    wanted,
                    content,
                    verdict,
                    image=image,
                    present=present,
                    absent=absent,
                    may_be_0=not is_own,
                )
            elif position < table.may_be_emptied:
                verdict.unjudged[_EMPTYING] += 1
            elif self._store.is_of_another(table.t, wanted.key):
                verdict.unjudged["rows whose key another destination has taken over"] += 1
            else:
                verdict.rows += 1
                if len(missing) < _LONGEST_PAIRING:
                    missing.append(wanted)
                else:
                    verdict.missing += 1
        if table.foreign:
            what = f"{table.foreign} row(s) that another program wrote, as the sink's columns in them are NULL"
            verdict.add("extra", what, times=table.foreign)
        for held in self._store.repeated(table.t):
            what = f"seq {held.seq}: this row exists {held.n} times"
            verdict.add("extra", what, times=held.n - 1)
        extra: list[WarehouseRow] = []
        for held in self._store.unwanted(table.t):
            if (held.epoch, held.seq) < table.may_be_emptied:
                verdict.unjudged[_EMPTYING] += 1
            elif not is_whole and not seen(held.seq):
                verdict.unjudged["rows whose records the topic no longer has"] += 1
            elif len(extra) < _LONGEST_PAIRING:
                extra.append(held)
            else:
                verdict.extra += 1
        _stale(table, missing, extra, verdict)
        return verdict


def _compare(
    table: _Table,
    wanted: ExpectedRow,
    content: bytes,
    verdict: TableVerdict,
    *,
    image: dict[str, Any] | None,
    present: Present,
    absent: Collection[str],
    may_be_0: bool,
) -> None:
    if image is None:
        verdict.unjudged["rows whose images are not available"] += 1
        return
    verdict.rows += 1
    values, unrepresentable, version = orjson.loads(content)
    held = dict(zip(table.columns, values, strict=True))
    for name in absent:
        # These columns have the values of an earlier change.
        held.pop(present.name(name), None)
        verdict.unjudged["columns that the last change of their row does not contain"] += 1
    expected = present.image(image)
    # In a log without a key, a dropped column may never have been created, since no row needs it.
    for name in present.altered if not table.key else present.altered & held.keys():
        # MySQL logs no row when ALTER TABLE converts values.
        held.pop(name, None)
        expected.pop(name, None)
        verdict.unjudged["columns that a later ALTER TABLE has changed"] += 1
    for name in present.values.keys() - held.keys():
        expected.pop(name, None)
    column = different(expected, present.types, held, _lower(unrepresentable))
    if column is not None:
        verdict.add("different", f"{_position_text(wanted)}: {column} has another value")
    elif version != wanted.version and not (may_be_0 and version == 0):
        verdict.add(
            "different", f"{_position_text(wanted)}: it has version {version} of its columns"
        )


def _has_key(key: bytes, described: Described) -> bool:
    """Whether a record's key has the columns of its version's primary key, and no shard."""
    try:
        fields = orjson.loads(key)
    except orjson.JSONDecodeError:
        return False
    names = {name.lower() for name in described.primary_key}
    return isinstance(fields, dict) and {name.lower() for name in fields} == names


def _key_in(columns: frozenset[str], image: Mapping[str, Any], present: Present) -> bytes | None:
    """The key of these columns, by their present names, in an image; None if the image lacks a column."""
    values = {name: value for name, value in present.image(image).items() if name in columns}
    if len(values) < len(columns):
        return None
    return of_record(orjson.dumps(values), Present({}, {}, present.types))


def _lower(unrepresentable: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): text for name, text in (unrepresentable or {}).items()}


def _position_text(wanted: ExpectedRow) -> str:
    return f"seq {wanted.seq} [{wanted.partition}]@{wanted.offset}"


def _stale(
    table: _Table,
    missing: list[ExpectedRow],
    extra: list[WarehouseRow],
    verdict: TableVerdict,
) -> None:
    """Report missing and surplus rows; two of them with one key are one row with older values."""
    older: dict[bytes, WarehouseRow] = {}
    if table.key:
        for held in extra:
            values, unrepresentable, _ = orjson.loads(held.content)
            older[table.key_of(values, unrepresentable)] = held
    paired = set()
    for wanted in missing:
        found = older.get(wanted.key)
        if found is None:
            verdict.add(
                "missing", f"{_position_text(wanted)}: the row of this change does not exist"
            )
        else:
            paired.add(found.seq)
            what = f"the row is in the state of seq {found.seq}, older than this change"
            verdict.add("different", f"{_position_text(wanted)}: {what}")
    for held in extra:
        if held.seq not in paired:
            verdict.add("extra", f"seq {held.seq}: this row no longer exists at the source")


# One form for the key and the values of a row, from the wire and from the warehouse.
#
# Invariant: values are equal by value, not by text: `12.5` is `12.50`, and a widened column holds
# its older values in its newer type. Source: docs/wire.md and docs/sink/ddl.md, and none of the
# sink's code.


class Sort(Enum):
    """The form of a type's values, which determines equality."""

    EXACT = auto()
    SINGLE = auto()
    DOUBLE = auto()
    MOMENT = auto()
    VECTOR = auto()
    PLAIN = auto()
    """Values are compared as they are."""


_EXACT = (
    "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "year", "bool", "boolean",
    "decimal", "numeric",
)  # fmt: skip
_SORTS = {
    **dict.fromkeys(_EXACT, Sort.EXACT),
    "float": Sort.SINGLE,
    **dict.fromkeys(("double", "real"), Sort.DOUBLE),
    **dict.fromkeys(("date", "datetime", "timestamp"), Sort.MOMENT),
    "vector": Sort.VECTOR,
}
_BASE = re.compile(r"[a-z]+")


def sort_of(mysql_type: str) -> Sort:
    """The sort of a type as `column_type` prints it."""
    found = _BASE.match(mysql_type)
    return _SORTS.get(found[0], Sort.PLAIN) if found else Sort.PLAIN


def different(
    image: Mapping[str, Any],
    types: Mapping[str, str],
    held: Mapping[str, Any],
    unrepresentable: Mapping[str, str],
) -> str | None:
    """The column in which a row of the warehouse differs from the wire; None if there is none.

    Names in ``held`` and ``unrepresentable`` are in lower case, as the warehouse does not
    distinguish case.
    """
    for name, value in image.items():
        own = name.lower()
        if own not in held:
            return name
        if value is None or held[own] is None:
            # A value that Spark cannot represent is kept as the wire's text.
            if value is None and held[own] is None and own not in unrepresentable:
                continue
            if held[own] is None and unrepresentable.get(own) == value and value is not None:
                continue
            return name
        form = _FORMS[sort_of(types.get(name, ""))]
        try:
            if form(value) != form(held[own]):
                return name
        except (ValueError, TypeError, InvalidOperation, OverflowError):
            return name
    absent = held.keys() - {name.lower() for name in image}
    return next((name for name in sorted(absent) if held[name] is not None), None)


def _exact(value: Any) -> Decimal:
    return Decimal(str(value))


def _single(value: Any) -> bytes:
    return struct.pack("<f", float(value))


def moment(value: str) -> str:
    """A date or time without differences of mere form: ``T``, ``Z``, trailing zeros, midnight."""
    day, _, time = value.replace("T", " ").removesuffix("Z").partition(" ")
    whole, _, fraction = time.partition(".")
    return f"{day} {whole or '00:00:00'}.{fraction.rstrip('0')}"


def _vector(value: list[Any]) -> list[bytes]:
    return [_single(one) for one in value]


def _plain(value: Any) -> Any:
    return value


_FORMS: dict[Sort, Callable[[Any], Any]] = {
    Sort.EXACT: _exact,
    Sort.SINGLE: _single,
    Sort.DOUBLE: float,
    Sort.MOMENT: moment,
    Sort.VECTOR: _vector,
    Sort.PLAIN: _plain,
}
"""The conversion of a value, from the wire or from the warehouse, to a comparable form."""


# A row's key in one form, from a record and its version of the columns, or from the warehouse.
#
# Invariant: names are in lower case and sorted, since the sink treats keys of the same columns, in any spelling
# and order, as one key; equal values have equal forms.


_HELD = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "decimal"), Sort.EXACT),
    "float": Sort.SINGLE,
    "double": Sort.DOUBLE,
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), Sort.MOMENT),
}
"""By Spark's types, without the text in parentheses."""


def of_record(key: bytes, present: Present) -> bytes:
    """Return the form of a record's key, with its columns' present names; other keys stay as they are."""
    try:
        fields = orjson.loads(key)
        named = {present.name(name): value for name, value in fields.items()}
        types = present.types
        return _written({n: _form(sort_of(types.get(n, "")), value) for n, value in named.items()})
    except (orjson.JSONDecodeError, TypeError, ValueError, AttributeError):
        return key


def of_row(
    key: Sequence[str],
    values: Mapping[str, Any],
    kinds: Mapping[str, str],
    unrepresentable: Mapping[str, str],
) -> bytes:
    """The form of a row of the warehouse; all names are in lower case, ``kinds`` are Spark's types."""
    fields = {}
    for name in key:
        value = values[name]
        if value is None and name in unrepresentable:
            value = unrepresentable[name]
        sort = _HELD.get(kinds[name].partition("(")[0], Sort.PLAIN)
        fields[name] = None if value is None else _form(sort, value)
    return _written(fields)


def _written(values: Mapping[str, Any]) -> bytes:
    named = {name.lower(): value for name, value in values.items()}
    return orjson.dumps(named, option=orjson.OPT_SORT_KEYS)


def _key_exact(value: Any) -> str:
    """A number's digits, without zeros at the end of its fraction; never rounded."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _key_single(value: Any) -> float:
    """The value as it is in a column that was widened later."""
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


_KEY_FORMS: dict[Sort, Callable[[Any], Any]] = {
    Sort.EXACT: _key_exact,
    Sort.SINGLE: _key_single,
    Sort.DOUBLE: float,
    Sort.MOMENT: moment,
}


def _form(sort: Sort, value: Any) -> Any:
    form = _KEY_FORMS.get(sort)
    return value if form is None else form(value)
