"""Number, the second step of a decoder: numbers, table versions and changed keys, portion after portion.

Invariant: the state passes from portion to portion in order, so that numbers have no gaps whichever process
decodes a portion. It is small, and can always be restored from the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any, NamedTuple

from connectors.errors import ResumeMismatch, RuleImpossible
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.lookup.fingerprint import Sums
from connectors.mysql.position import Coordinates
from tables.rules.mapping.forms import written_kind
from tables.rules.mapping.rules import DROP
from tables.rules.routes.routes import Route
from tables.rules.routes.written_topics import Spread
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor, Resume
from wire.table_version import MASKED, Definition

# The version of a table's columns at a position of the stream.
#
# Invariant: a version is announced before the first row that uses it; a table whose definition
# did not change keeps its number, through restarts too, since the journal stores it.

"""Database and table."""


class VersionBook:
    """The latest version of each table of a destination."""

    def __init__(
        self,
        destination: str,
        *,
        known: Mapping[Name, TableVersion],
        spread: Mapping[str, Spread] | None = None,
    ) -> None:
        """``spread``: topics whose keys are from now on spread over more partitions than in ``known``."""
        self._destination = destination
        self._latest = dict(known)
        self._matched: dict[Name, tuple[Route, Definition]] = {}
        """By table: the route and definition that its latest version last matched. To compare columns takes as
        long as to encode twenty rows."""
        self._owners = {_kafkas(one.topic): name for name, one in known.items()}
        """The table with the latest version in each topic."""
        self._spread: dict[str, int] = {}
        self._since: dict[str, Mapping[int, int] | None] = {}
        for version in known.values():
            self._take_spread(version)
        for topic, one in (spread or {}).items():
            self._spread[topic], self._since[topic] = one.partitions, one.since or None
        self.count = sum(version.version for version in known.values())
        """Count of the versions of all tables."""

    def learn(self, version: TableVersion) -> None:
        """Record a version announced elsewhere; a known one changes nothing."""
        name = (version.database, version.table)
        latest = self._latest.get(name)
        if latest is None or latest.version < version.version:
            self._latest[name] = version
            self._owners.setdefault(_kafkas(version.topic), name)
            self._matched.pop(name, None)
            self._take_spread(version)
            self.count += version.version - (latest.version if latest else 0)

    def _take_spread(self, version: TableVersion) -> None:
        """Take a topic's partition count if it is greater; tables without newer rows have an older count."""
        if (version.partitions or 0) > self._spread.get(version.topic, 0):
            self._spread[version.topic] = version.partitions or 0
            self._since[version.topic] = version.since
            self._matched.clear()

    def latest(self, database: str, table: str) -> TableVersion | None:
        """Return the latest version of a table, if any of its rows was ever published."""
        return self._latest.get((database, table))

    def is_other(self, route: Route, definition: Definition) -> bool:
        """Whether a table's published version has other columns for subscribers than this definition."""
        latest = self._latest.get(route.table)
        if latest is None:
            return False
        return not latest.definition.is_same(masked_since(definition, latest, route.stated))

    def partitions(self, topic: str) -> int | None:
        """Return the partition count of a topic's keys, if recorded."""
        return self._spread.get(topic)

    def at(
        self,
        route: Route,
        definition: Definition,
        transaction: Transaction,
        pos: int,
        *,
        shows_not_null: bool = True,
        left_out: Collection[str] = (),
    ) -> tuple[TableVersion, bool]:
        """Return the version of a table whose rows at ``pos`` have this definition, and whether it is new.

        Without ``shows_not_null`` the definition lacks the nullability of columns. ``left_out``: the columns of
        the table, in lower case, that the mapping's list of columns omits. Raise RuleImpossible if the settings
        give the table a topic that another table has.
        """
        matched = self._matched.get(route.table)
        if matched is not None and matched[0] is route and matched[1] is definition:
            return self._latest[route.table], False
        database, table = route.table
        given, latest = definition, self._latest.get(route.table)
        partitions, stated = self.partitions(route.topic) or route.partitions, route.stated
        if latest is not None:
            if not shows_not_null:
                definition = _with_nullability(definition, latest.definition)
            stated = _stated_since(stated, definition, latest, left_out)
            definition = masked_since(definition, latest, stated)
            is_published_so = (
                (latest.topic, latest.format) == (route.topic, route.format)
                and latest.partitions in (None, partitions)
                # A version from before this was recorded stays valid, unless the table has rules.
                and (latest.stated == stated or (latest.stated is None and route.mapped is None))
                and (
                    latest.logical == route.logical
                    or (latest.logical is None and route.mapped is None)
                )
            )
            if is_published_so and latest.definition.is_same(definition):
                self._matched[route.table] = route, given
                return latest, False
        owner = self._owners.get(_kafkas(route.topic), route.table)
        if route.is_alone and owner != route.table:
            raise RuleImpossible.of(
                route.table,
                f"row_topics gives it the topic {route.topic}, which {'.'.join(owner)} has: the two could not "
                "be distinguished; give one of them another name in row_topics, or set shared there",
            )
        version = TableVersion(
            destination=self._destination,
            database=database,
            table=table,
            version=latest.version + 1 if latest else 1,
            topic=route.topic,
            definition=definition,
            gtid=transaction.gtid,
            coordinates=Coordinates(transaction.file, pos),
            ts_ms=transaction.committed_ms,
            partitions=partitions,
            since=self._since.get(route.topic),
            format=route.format,
            stated=stated,
            logical=route.logical,
        )
        self.learn(version)
        return version, True


def masked_since(
    definition: Definition, latest: TableVersion, stated: Mapping[str, Any]
) -> Definition:
    """Return a definition in which a column that is masked from now on is a new column.

    So consumers keep nothing that the mask covers: rows of earlier versions have no known value in that column.
    """
    was, now = ((one or {}).get("masked", {}) for one in (latest.stated, stated))
    if not now or latest.stated is None:
        return definition
    before = {one.name: one for one in latest.definition.columns}
    columns = []
    for column in definition.columns:
        name, old = column.name.lower(), before.get(column.name)
        own = column.id or column.name
        is_new = old is None and was.get(name) != DROP
        if name not in now or column.name in definition.primary_key or is_new:
            columns.append(column)
        elif old is None or _shows_more(was.get(name), now[name]):
            number = latest.version + 1
            initial = {"unknown": MASKED}
            columns.append(replace(column, id=f"{own}{_MASKED}{number}", initial=initial))
        elif (old.id or "").startswith(f"{own}{_MASKED}"):
            columns.append(replace(column, id=old.id, initial=old.initial))
        else:
            columns.append(column)
    return replace(definition, columns=tuple(columns))


def _stated_since(
    stated: dict[str, Any],
    definition: Definition,
    latest: TableVersion,
    left_out: Collection[str],
) -> dict[str, Any]:
    """Return what the mapping states, in which published columns that it leaves out since are dropped by it.

    The source has such a column still. So consumers keep nothing of it, as after the action ``drop``. Of a
    column that the source has dropped they keep the values.
    """
    before = (latest.stated or {}).get("masked", {})
    was = {one.name.lower() for one in latest.definition.columns}
    was |= {name for name, action in before.items() if action == DROP}
    dropped = was.intersection(left_out) - {one.name.lower() for one in definition.columns}
    if not dropped:
        return stated
    return {
        **stated,
        "masked": {**dict.fromkeys(sorted(dropped), DROP), **stated.get("masked", {})},
    }


_MASKED = "@masked:"
"""Between the identity of a column and the version from which on its values are hidden."""


def _shows_more(was: Any, now: Any) -> bool:
    """Whether a column's values by the action ``was`` may show a part that the action ``now`` hides."""
    return was is None or (was != now and written_kind(was).shows_part)


def _kafkas(topic: str) -> str:
    """A topic's name as Kafka compares it."""
    return topic.replace(".", "_")


def _with_nullability(definition: Definition, known: Definition) -> Definition:
    """Return a definition with the nullability of ``known``."""
    nullable = {column.name: column.nullable for column in known.columns}
    columns = (
        replace(one, nullable=nullable.get(one.name, one.nullable)) for one in definition.columns
    )
    return replace(definition, columns=tuple(columns))


@dataclass(slots=True, kw_only=True)
class Progress:
    """The progress of a transaction that is longer than one piece."""

    transaction_id: str
    start: Coordinates
    ordinal: int = 0
    """Its source rows so far."""
    order: int = 0
    """Its row records so far."""
    part: int = 1
    skip: int = 0
    """Source rows at its beginning that an earlier run has published."""
    is_published: bool = False
    """Whether any of it was published, by this run or an earlier one."""
    counts: Counter[str] = field(default_factory=Counter)
    """Published values of this part, by topic."""
    size: int = 0
    """Approximate bytes of records of this part, known before they are encoded."""

    def cut(self) -> Resume:
        """End a part here; return the position from which another run can resume."""
        resume = Resume(
            transaction_id=self.transaction_id,
            rows=self.ordinal,
            published=self.order,
            part=self.part,
        )
        self.part += 1
        self.size = 0
        self.counts = Counter()
        return resume


@dataclass(slots=True, kw_only=True)
class Numbers:
    """The numbers of the record stream after a portion."""

    seq: int
    """The last number assigned."""
    safe: Coordinates
    """The position after the last whole transaction."""
    open: Progress | None = None
    """The transaction open at the end of the previous portion."""
    prints: Sums = field(default_factory=Sums)
    """The partial fingerprint of that transaction, where fingerprints are kept."""
    resume: Resume | None = None
    """The expected first transaction, if an earlier run published a part of it."""

    @classmethod
    def of(cls, cursor: Cursor) -> Numbers:
        """Return the numbers of a cursor in the journal."""
        return cls(seq=cursor.seq, safe=cursor.offset.coordinates, resume=cursor.resume)

    def take_up(self, transaction_id: str, start: Coordinates) -> Progress:
        """Return the progress of the partly published transaction; raise ResumeMismatch if this is another."""
        resume, self.resume = self.resume, None
        assert resume is not None
        if transaction_id != resume.transaction_id:
            raise ResumeMismatch(
                f"{resume.transaction_id} was published to row {resume.rows}, "
                f"but the source continues with {transaction_id}"
            )
        return Progress(
            transaction_id=transaction_id,
            start=start,
            order=resume.published,
            part=resume.part + 1,
            skip=resume.rows,
            is_published=True,
        )


# The keys of changed rows, of tables whose existing rows are being read.
#
# A row that a SELECT returned is published only if no row with its key has changed since;
# otherwise the stream has published a newer image of it.
#
# Invariant: keys pass between decoders as news, in the order of the portions, so that each
# decoder has the same record when it numbers a portion. They are recorded in generations, so that
# keys that no read needs any more can be dropped. The record is bounded, even while a table
# cannot be read and so begins no generation.

MOST_BYTES = 128 * 1024 * 1024
"""Bytes of keys in the record, a million keys of a number; of more, the largest table's are forgotten."""
_PLACE_BYTES = 64
"""The most bytes of a set for each of its members, when it has just grown."""

Name = tuple[str, str]
"""Database and table."""
Keys = Mapping[Name, list[str] | None]
"""Keys of rows by table, as JSON; None: any row of the table may have changed."""


NOT_PUBLISHED = "it is not published"
"""Why the rows of a table that no route captures are refused, for good."""
QUARANTINED = "it is quarantined"
"""Why the rows of a table are refused until an operator has resolved it, which begins a new run."""


class Watched(NamedTuple):
    """The tables whose keys are recorded from here on; the keys of other tables are dropped."""

    tables: frozenset[Name]


class Changed(NamedTuple):
    """Rows that changed, of watched tables."""

    keys: Keys


class GenerationBegun(NamedTuple):
    """A new generation of a table's keys begins; generations before ``kept`` are dropped."""

    table: Name
    generation: int
    kept: int


class Refused(NamedTuple):
    """The rows of a read were refused, so later reads of the same attempt are too: they would leave a gap."""

    table: Name
    attempt: int


KeyNews = Watched | Changed | GenerationBegun | Refused


class Everything:
    """All keys of a table."""

    def __contains__(self, _key: object) -> bool:
        return True


class ChangedKeys:
    """The record of one run; a table's first generation is 0."""

    def __init__(self) -> None:
        self._tables: dict[Name, dict[int, set[str] | None]] = {}
        self._bytes: dict[Name, Counter[int]] = {}
        """Bytes of the keys, by table and generation."""
        self._refused: dict[Name, int] = {}
        self._most = 0
        """An upper bound of the bytes of all keys."""

    def learn(self, news: KeyNews) -> None:
        """Record what a portion announced."""
        if isinstance(news, Changed):
            self._add(news.keys)
        elif isinstance(news, GenerationBegun):
            known = self._tables.get(news.table)
            if known is not None:
                for old in [one for one in known if one < news.kept]:
                    del known[old]
                    del self._bytes[news.table][old]
                known[news.generation] = set()
                self._bytes[news.table][news.generation] = 0
        elif isinstance(news, Refused):
            self._refused[news.table] = news.attempt
        else:
            self._tables = {name: self._tables.get(name) or {0: set()} for name in news.tables}
            self._bytes = {name: self._bytes.get(name) or Counter() for name in news.tables}

    def _add(self, keys: Keys) -> None:
        for name, changed in keys.items():
            known = self._tables.get(name)
            if known is None:
                continue
            newest = max(known)
            own = known[newest]
            if changed is None:
                known[newest] = None
                del self._bytes[name][newest]
            elif own is not None:
                new = set(changed) - own
                own |= new
                size = _PLACE_BYTES * len(new) + sum(map(getsizeof, new))
                self._bytes[name][newest] += size
                self._most += size
        while self._most > MOST_BYTES and self._count() > MOST_BYTES:
            largest = max(sorted(self._bytes), key=lambda name: self._bytes[name].total())
            # A read under way is refused, and the next one begins a generation.
            self._tables[largest] = {max(self._tables[largest]): None}
            self._bytes[largest].clear()

    def _count(self) -> int:
        self._most = sum(one.total() for one in self._bytes.values())
        return self._most

    def is_refused(self, table: Name, attempt: int) -> bool:
        """Whether an earlier read of this attempt was refused."""
        return attempt <= self._refused.get(table, -1)

    def since(self, table: Name, generation: int) -> set[str] | Everything:
        """Return the keys that changed since a generation began; Everything if they are not known."""
        known = self._tables.get(table)
        if known is None:
            return Everything()
        found = set[str]()
        for one, keys in known.items():
            if one >= generation:
                if keys is None:
                    return Everything()
                found |= keys
        return found


def added(keys: dict[Name, list[str] | None], table: Name, more: Iterable[str] | None) -> None:
    """Add ``more`` keys of a table; None: any of its keys may have changed."""
    known = keys.setdefault(table, [])
    if more is None:
        keys[table] = None
    elif known is not None:
        known += more
