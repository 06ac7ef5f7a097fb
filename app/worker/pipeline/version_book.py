"""The version of a table's columns at a position of the stream, and the tables to which topics belong.

Invariant: a version is announced before the first row that uses it; a table whose definition did not change
keeps its number, through restarts too, since the journal stores it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from app.worker.pipeline.changed_keys import Name
from connectors.errors import RuleImpossible
from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.position import Coordinates
from tables.rules.mapping.forms import written_kind
from tables.rules.mapping.rules import DROP
from tables.rules.routes.routes import Route
from tables.rules.routes.written_topics import Spread
from tables.rules.table_version import TableVersion
from wire.table_version import MASKED, Definition


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
