"""The columns of each table version, from the schemas topic.

Invariant: a row is read with the columns of exactly the version it names, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from spark_sink.errors import (
    ColumnClash,
    MalformedRecord,
    ReservedName,
    TableError,
    UnknownSchema,
    UnsupportedType,
    UnsupportedWire,
)
from spark_sink.source.altered_kinds import Altered
from spark_sink.source.column_reading import Reading, reading
from spark_sink.source.own_topics import UNREADABLE
from spark_sink.text.quoting import argument, snapshot_starts
from wire.records import WIRE_VERSION
from wire.table_version import Column as PublishedColumn
from wire.table_version import Definition, VersionKey
from wire.topics import published_topic
from wire.warehouse_types import OWN_COLUMNS


@dataclass(frozen=True, slots=True)
class Initial:
    """The value of an added column in earlier rows: `text` as the wire has it, None for NULL.

    `reason` states why the value is not known; empty if it is known.
    """

    text: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name and how its values are read.

    `id` is the same in all versions of its table, if the worker states it. `initial` exists only if a known
    statement added the column. `column_type` is the type as the server prints it; empty if it is not known.
    """

    name: str
    mysql_type: str
    reading: Reading
    id: str | None = None
    initial: Initial | None = None
    comment: str = field(default="", compare=False)
    column_type: str = field(default="", compare=False)
    charset: str = field(default="", compare=False)
    nullable: bool = field(default=True, compare=False)
    altered: tuple[Altered, ...] = ()
    """Of a column that is `placed`: the changes that ALTER TABLE has made to its values since."""

    def printed(self, *, beside: Column) -> str:
        """Return the type for an error, with the character set if the other column has another one."""
        words = [self.column_type or self.mysql_type]
        if self.charset and beside.charset not in ("", self.charset):
            words.append(f"CHARACTER SET {self.charset}")
        return " ".join((*words, *([] if self.nullable else ["NOT NULL"])))


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that all rows of a version have, in a column that they lack."""

    reading: Reading
    text: str | None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The columns of a table from some position on; `primary_key` is empty without a primary key.

    `placed` are the columns of a later version, with what this version's rows have in them; None means that
    they are the version's own columns.
    """

    key: VersionKey
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    placed: tuple[tuple[str, Column | Constant], ...] | None = None
    comment: str = ""
    hidden: frozenset[str] = frozenset()
    """The columns, in lower case, that the mapping drops: none of their values may stay."""
    places: tuple[tuple[int, int], tuple[int, int]] | None = field(default=None, compare=False)
    """The positions (epoch, seq) of the version's first and last row in a batch, if they are known."""
    topic: str = field(default="", compare=False)
    """The topic of its rows, or the topic that a merge of them writes. Empty if the record has none."""

    @property
    def present(self) -> tuple[tuple[str, Column | Constant], ...]:
        """The columns in which its rows have a value, by their present names."""
        if self.placed is not None:
            return self.placed
        return tuple((column.name, column) for column in self.columns)

    @property
    def present_key(self) -> tuple[str, ...]:
        """The primary key by the present names of its columns."""
        if self.placed is None:
            return self.primary_key
        names = {one.name: name for name, one in self.placed if isinstance(one, Column)}
        return tuple(names.get(name, name) for name in self.primary_key)


def parse_version(value: str) -> TableVersion:
    """Parse a value of the schemas topic; raise a named error if it breaks the contract."""
    try:
        # A float keeps the text that the worker wrote.
        body = json.loads(value, parse_float=str)
        key, wire = VersionKey.of(body), body["wire"]
        if wire == WIRE_VERSION:
            return _version(body, key)
    except UNREADABLE as fault:
        raise MalformedRecord(f"schemas topic, {type(fault).__name__} {fault}") from fault
    # The rest may have another form.
    raise UnsupportedWire(f"{key} has wire {wire}")


def _version(body: dict[str, Any], key: VersionKey) -> TableVersion:
    """The version in a record of this wire number; raise one of UNREADABLE if it breaks the contract."""
    definition = Definition.from_json(body)
    masked = dict(body.get("mapping", {}).get("masked", {}))
    _check_names([one.name for one in definition.columns], definition.primary_key, key)
    return TableVersion(
        key=key,
        columns=tuple(_column(one, key) for one in definition.columns),
        primary_key=definition.primary_key,
        comment=definition.comment or "",
        hidden=frozenset(name for name, action in masked.items() if action == "drop"),
        topic=_topic_of(body),
    )


def _column(one: PublishedColumn, key: VersionKey) -> Column:
    return Column(
        one.name,
        one.type,
        _reading(one.name, one.type, key),
        id=one.id,
        initial=_initial(one.initial),
        comment=one.comment or "",
        column_type=one.column_type or "",
        charset=one.charset or "",
        nullable=one.nullable,
    )


def _initial(value: Any) -> Initial | None:
    if value is None:
        return None
    if "value" not in value:
        return Initial(reason=str(value["unknown"]) or "its value is not known")
    found = value["value"]
    if found is None or isinstance(found, str):
        return Initial(text=found)
    return Initial(text=json.dumps(found, ensure_ascii=False))


@dataclass(slots=True)
class SchemaBook:
    """The table versions known so far; `read` fetches the values of the whole schemas topic.

    A version whose record cannot be read counts as one that the topic does not hold.

    With `read_of`, only the values of requested source tables are fetched, by database and name. The `expected`
    tables are fetched together with the first requested table.
    """

    read: Callable[[], Iterable[str]]
    read_of: Callable[[Collection[tuple[str, str]]], Iterable[str]] | None = None
    expected: Collection[tuple[str, str]] = ()
    state: Callable[[], object] = object
    """Returns a value that changes with the schemas topic, once all records written to it are decided."""
    _state: object = None
    _asked: set[tuple[str, str]] = field(default_factory=set)
    _known: dict[VersionKey, TableVersion] = field(default_factory=dict)
    _raw: dict[VersionKey, str] = field(default_factory=dict)
    _damaged: dict[VersionKey, str] = field(default_factory=dict)
    """The versions whose records cannot be read, with the reasons."""
    _numbers: dict[tuple[str, str, str], set[int]] = field(default_factory=dict)
    """The versions of each source table: destination, database, table."""
    _parsed: dict[tuple[str, str, str], tuple[int, list[TableVersion]]] = field(
        default_factory=dict
    )
    """The versions of each source table that can be read, and the number of all its versions by then."""

    def fetch(self, keys: Iterable[VersionKey]) -> None:
        """Read the topic again if one of the keys is new or unreadable, and the topic has changed."""
        wanted = list(keys)
        self._ask((key.database, key.table) for key in wanted)
        is_known = all(key in self._raw and key not in self._damaged for key in wanted)
        if self.read_of is not None or is_known:
            return
        self._refresh()

    def _refresh(self) -> None:
        """Read the topic again if it has changed."""
        if (state := self.state()) != self._state:
            self._take(self.read())
            self._state = state

    def _ask(self, names: Iterable[tuple[str, str]]) -> None:
        """Read the versions of the source tables of these names, if there is `read_of`."""
        if self.read_of is not None and (new := {*names} - self._asked):
            new |= {*self.expected} - self._asked
            self._take(self.read_of(new))
            self._asked |= new

    def _take(self, values: Iterable[str]) -> None:
        for value in values:
            if (key := _key_of(value)) is None:
                continue
            source = key.destination, key.database, key.table
            # A version never changes, but a record that cannot be read may be replaced.
            if key not in self._known and self._raw.get(key) != value:
                self._raw[key] = value
                self._damaged.pop(key, None)
                self._parsed.pop(source, None)
            self._numbers.setdefault(source, set()).add(key.version)

    def named(self, name: tuple[str, str]) -> list[tuple[str, str, str]]:
        """Return the source tables of that name, by destination."""
        self._ask([name])
        # A copy, since other threads build tables beside the batches.
        return sorted(one for one in list(self._numbers) if one[1:] == name)

    def earlier(self, source: tuple[str, str, str], until: int | None) -> list[TableVersion]:
        """Return the known versions of a source table up to a number, oldest first; all with None.

        A version that the sink cannot read is omitted: no table has rows of it.
        """
        self._ask([source[1:]])
        numbers = self._numbers.get(source, set())
        count, found = self._parsed.get(source, (0, []))
        if count != len(numbers):
            found = []
            for number in sorted(numbers):
                with suppress(TableError):
                    key = VersionKey(*source, number)
                    found.append(self.versions([key])[key])
            self._parsed[source] = len(numbers), found
        return [one for one in found if until is None or one.key.version <= until]

    def sources(self, name: tuple[str, str]) -> set[str]:
        """Return the destinations that have published versions of a table, by the topic as it is now.

        If no source has a table of that name, return all destinations.
        """
        keys = {key for value in self.read() if (key := _key_of(value)) is not None}
        own = {key.destination for key in keys if (key.database, key.table) == name}
        return own or {key.destination for key in keys}

    def home(self, key: VersionKey) -> str:
        """Return the topic that a version names, even if the version cannot be read; empty if it names none."""
        self.fetch([key])
        return _topic_of(json.loads(self._raw[key])) if key in self._raw else ""

    def of_topic(self, topic: str) -> set[tuple[str, tuple[str, str], tuple[str, str]]]:
        """Return the source tables that have rows in a topic: destination, name, and name by the mapping.

        A version that names no topic, as those of earlier workers, may have rows in any.
        """
        self._refresh()
        found = set()
        # A copy, since other threads build tables beside the batches.
        for key, value in list(self._raw.items()):
            if _topic_of(json.loads(value)) in (topic, ""):
                own = key.database, key.table
                found.add((key.destination, own, self.logical(key) or own))
        return found

    def placed(
        self, destination: str, names: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], set[tuple[str, str]]]:
        """Return, for each of a destination's tables, the tables in which any mapping has placed its rows."""
        self._refresh()
        found: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for name in names:
            for number in self._numbers.get((destination, *name), ()):
                key = VersionKey(destination, *name, number)
                found.setdefault(name, set()).add(self.logical(key) or name)
        return found

    def logical(self, key: VersionKey) -> tuple[str, str] | None:
        """Return the table of a version's rows by the mapping, else their own; None if it is not fetched."""
        if key not in self._raw:
            return None
        match json.loads(self._raw[key]).get("logical"):
            case [str(database), str(table)]:
                return database, table
            case _:
                return key.database, key.table

    def versions(self, keys: Iterable[VersionKey]) -> dict[VersionKey, TableVersion]:
        """Return the versions of these keys; read the topic again if one is new.

        Raise UnknownSchema, and the errors of columns that no table can have.
        """
        wanted = sorted(set(keys))
        self.fetch(wanted)
        for key in wanted:
            self._parse(key)
            if key not in self._known:
                reason = self._damaged.get(key)
                where = f"{key}, whose record cannot be read ({reason})" if reason else str(key)
                raise UnknownSchema(where, advice=self._comes_again(key))
        return {key: self._known[key] for key in wanted}

    def _parse(self, key: VersionKey) -> None:
        """Parse a version, once: on demand, so that a fault in a table that is not read has no effect."""
        if key in self._known or key in self._damaged or key not in self._raw:
            return
        try:
            self._known[key] = parse_version(self._raw[key])
        except MalformedRecord as fault:
            self._damaged[key] = fault.where
        except UnsupportedWire as fault:
            reload = self._reload_of(key)
            advice = (
                f"Use a sink of the worker's version, then run: {reload}; or, to skip records of this "
                f"version, run: {reload} --skip-unusable"
            )
            raise UnsupportedWire(fault.where, advice=advice) from fault

    def lacking(self, keys: Iterable[VersionKey]) -> set[VersionKey]:
        """Return the versions that the topic does not hold, or not in a form that can be read."""
        wanted = set(keys)
        self.fetch(wanted)
        for key in wanted:
            with suppress(TableError):
                self._parse(key)
        return {key for key in wanted if key not in self._raw or key in self._damaged}

    def _reload_of(self, key: VersionKey) -> str:
        """Return the command that reloads the table of a version."""
        source = key.destination, key.database, key.table
        numbers = self._numbers.get(source)
        other = VersionKey(*source, max(numbers)) if numbers else key
        name = self.logical(other) or (key.database, key.table)
        return f"python -m spark_sink reload {argument(name)}"

    def _comes_again(self, key: VersionKey) -> str:
        """Return the advice that ends the wait of a table with records of a version that is lost."""
        name, reload = (key.database, key.table), self._reload_of(key)
        keep = "Set cleanup.policy of the schemas topic to compact only. "
        return (
            f"{'' if key in self._damaged else keep}Give the table another comment at "
            "the source, which publishes its columns as a new version; then run: "
            f"{snapshot_starts([(key.destination, name)])}; once it is done: {reload}. Or, to skip such "
            f"records, run: {reload} --skip-unusable"
        )


def topics_of(values: Iterable[str], names: Collection[tuple[str, str]]) -> set[str] | None:
    """Return the topics of all rows of the source tables of these names, by the values of the schemas topic.

    Return None if a version names no topic, as versions of an earlier worker do not.
    """
    found = {
        _topic_of(json.loads(value))
        for value in values
        if (key := _key_of(value)) and (key.database, key.table) in names
    }
    return None if "" in found else found


def _key_of(value: str) -> VersionKey | None:
    """The version that a value states; None for a record of another program, see `own_topics.versions_in`."""
    try:
        return VersionKey.of(json.loads(value))
    except UNREADABLE:
        return None


_RENAME = "Rename {} at the source, or by column_actions in the mapping"


def _topic_of(body: Mapping[str, Any]) -> str:
    return published_topic(body["destination"], str(body.get("topic") or ""))


def _reading(name: str, kind: str, key: VersionKey) -> Reading:
    try:
        return reading(kind)
    except UnsupportedType as fault:
        raise UnsupportedType(
            f"{name!r} in {key} has the type {kind!r}",
            advice="Change the type at the source, or drop the column by column_actions in the mapping",
        ) from fault


def _check_names(names: list[str], primary_key: tuple[str, ...], key: VersionKey) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in OWN_COLUMNS:
            raise ReservedName(f"{name!r} in {key}", advice=_RENAME.format("the column"))
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise ColumnClash(
                f"{other!r} and {name!r} in {key}", advice=_RENAME.format("one of them")
            )
    missing = [column for column in primary_key if column not in names]
    if missing:
        raise MalformedRecord(f"schemas topic, {key} has no key column {missing[0]!r}")
