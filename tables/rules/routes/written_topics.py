"""What settings change in topics that have records already: their number of partitions, and the keys of rows.

Invariant: a topic keeps the partition count with which it was written, unless a rule names both that count
and the new count. A count never shrinks: a key's older changes would stay in a partition that is no longer
written. All records of a row in a topic have one key, unless the settings accept a change. Otherwise the
row's earlier records would stay in compacted topics, folds and warehouses forever, beside its newer records.
So it is with the form of keys and values in the format ``connect``, whose records do not state it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.types.registry import Modes, kind_of, sql_type
from tables.rules.mapping.rules import CONNECT
from tables.rules.routes.routes import Route, Routes
from tables.rules.table_version import TableVersion
from wire.table_version import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A topic that gets more partitions."""

    before: int
    partitions: int
    tag_topics: frozenset[str]
    """The topics of tags that repeat its records, in partitions of the same numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The partitions of a topic's keys, from a boundary on."""

    partitions: int
    since: Mapping[int, int]
    """The offset of the boundary in each partition: all older rows of the destination are before it."""


def growth(routes: Routes, versions: Iterable[TableVersion]) -> dict[str, Growth]:
    """Return the topics to grow, by name; ``versions``: the latest one of each table in each topic.

    Raise MappingError if a rule states another count than its topic has, without requesting the change. A share
    of a merged topic keeps its own count, whatever the other shares have: see ``kept``.
    """
    found, faults = {}, []
    for topic, count, of_topic in () if routes.merged else _differing(routes, versions):
        if fault := _fault(topic, count, of_topic[0]):
            faults.append(fault)
            continue
        tagged = frozenset(name for one in of_topic for name in one.tag_topics.values())
        found[topic] = Growth(before=count, partitions=of_topic[0].partitions, tag_topics=tagged)
    if faults:
        raise MappingError.listed(faults)
    return found


def kept(routes: Routes, versions: Iterable[TableVersion]) -> list[str]:
    """Return the shares of merged topics that keep another count than their rule states, with both counts."""
    differing = _differing(routes, versions) if routes.merged else ()
    return [
        f"topic {topic} keeps its {count} partitions, though its rule states {one.partitions}: it is a share "
        "of a merged topic, which has as many as the largest share; for others, name a new topic"
        for topic, count, (one, *_) in differing
    ]


def _differing(
    routes: Routes, versions: Iterable[TableVersion]
) -> Iterator[tuple[str, int, list[Route]]]:
    """Yield the topics that have another count than their rule states, with their count and routes."""
    counts: dict[str, int] = {}
    mapped: dict[str, list[Route]] = defaultdict(list)
    for version in versions:
        route = routes.of((version.database, version.table))
        if route is None or route.topic != version.topic:
            continue
        count = version.partitions or routes.partitions
        counts[route.topic] = max(count, counts.get(route.topic, 0))
        if route.mapped is not None and route.mapped.partitions:
            mapped[route.topic].append(route)
    for topic, of_topic in sorted(mapped.items()):
        if of_topic[0].partitions != counts[topic]:
            yield topic, counts[topic], of_topic


def tag_counts(
    routes: Routes, versions: Iterable[TableVersion], grown: Mapping[str, Growth]
) -> dict[str, int]:
    """Return the counts of all topics of tags: each has the count of the topic whose records it repeats.

    While a tag is in no rule, its topic keeps the count with which it was written.
    """
    found: dict[str, int] = {}
    for version in versions:
        route = routes.of((version.database, version.table))
        if route is None or route.topic != version.topic:
            continue
        growth = grown.get(route.topic)
        count = growth.partitions if growth else version.partitions or routes.partitions
        for topic in route.tag_topics.values():
            found[topic] = max(count, found.get(topic, 0))
    return found


def _fault(topic: str, count: int, route: Route) -> str | None:
    """Why a topic's count cannot become the count of its rule; None if it can."""
    assert route.mapped is not None
    wanted, stated = route.mapped.partitions, route.mapped.repartition_from
    what = f"topic {topic} has its keys in {count} partitions, and its rule states {wanted}"
    if wanted < count:
        return f"{what}; no topic loses partitions: state partitions: {count}, or name a new topic"
    if stated == count:
        return None
    asked = f", and not repartition_from: {stated}" if stated else ""
    return (
        f"{what}: the changes of a key would be in two partitions; state partitions: {count}, or, for a "
        f"change at one boundary, add repartition_from: {count}{asked}"
    )


def spread_of(
    grown: Mapping[str, Growth], ends: Mapping[tuple[str, int], int]
) -> dict[str, Spread]:
    """Return the new counts; ``ends``: the present end offset of each partition."""
    return {
        topic: Spread(
            partitions=one.partitions,
            since={part: ends[topic, part] for part in range(one.partitions)},
        )
        for topic, one in grown.items()
    }


def returned(versions: Sequence[TableVersion]) -> dict[str, Spread]:
    """Return the counts of topics that all tables have left: a topic keeps its count if a table returns.

    ``versions``: the latest one of each table in each topic, the oldest first.
    """
    latest = {(one.database, one.table): one.topic for one in versions}
    present, found = {*latest.values()}, dict[str, Spread]()
    for version in versions:
        known = found.get(version.topic)
        if version.topic in present or not version.partitions:
            continue
        if known is None or version.partitions > known.partitions:
            found[version.topic] = Spread(
                partitions=version.partitions, since=dict(version.since or {})
            )
    return found


def partitions_of(topics: Iterable[tuple[str, Growth]]) -> list[tuple[str, int]]:
    """Return all partitions of topics that were grown."""
    return [(topic, part) for topic, one in topics for part in range(one.partitions)]


_MOST_FAULTS = 20


KeyOf = Callable[[TableName], tuple[str, ...] | None]
"""Returns a table's primary key, in lower case; None if it is not known."""


def changed_keys(
    routes: Routes,
    versions: Iterable[TableVersion],
    primary_key: KeyOf = lambda _: None,
) -> list[str]:
    """Return the changes of keys by the routes, and of a connector's form of records, by table.

    ``versions``: the latest of each table in each topic. What a version does not state counts as unchanged.
    """
    found = []
    for version in versions:
        name = version.database, version.table
        route = routes.of(name)
        if route is None or route.topic != version.topic:
            continue
        changes = (
            list(_changes(version, route.stated, primary_key(name)))
            if version.stated is not None
            else []
        )
        formats = {version.format, route.format}
        if formats == {CONNECT}:
            changes += _form_changes(version, route.connect)
        if len(formats) > 1 and CONNECT in formats and version.definition.primary_key:
            changes.append(
                f"they have the form of {route.format}, and had that of {version.format}"
            )
        if changes:
            found.append(f"{'.'.join(name)} in {version.topic}: {'; '.join(changes)}")
    return found


def returning(
    routes: Routes, versions: Sequence[TableVersion]
) -> list[tuple[TableVersion, TableVersion]]:
    """Return tables that a mapping brings back to an earlier topic: their last version there, and the latest.

    ``versions``: as for ``changed_keys``, the oldest first.

    The topic lacks all changes since that version, so it still has rows that were deleted meanwhile.
    """
    latest = {(one.database, one.table): one for one in versions}
    found = []
    for version in versions:
        name = version.database, version.table
        route, last = routes.of(name), latest[name]
        if route is not None and route.topic == version.topic != last.topic:
            found.append((version, last))
    return found


def changes_refused(changes: list[str]) -> MappingError:
    """The error that states what would change."""
    return MappingError.listed(
        [
            f"published rows would get other keys or values: {one}. Name a new topic; or state accept: "
            "[changed_keys] in the destination's settings"
            for one in changes[:_MOST_FAULTS]
        ]
    )


def _changes(
    version: TableVersion, now: Mapping[str, Any], primary_key: tuple[str, ...] | None
) -> Iterator[str]:
    before = version.stated or {}
    if bool(before.get("shard")) != bool(now.get("shard")):
        verb = "begin" if now.get("shard") else "no longer begin"
        yield f"they {verb} with the real table (shard_in_key)"
    old_names = {new.lower(): old for old, new in before.get("renamed", {}).items()}
    published = [one.lower() for one in version.definition.primary_key]
    key = [old_names.get(one, one) for one in published]
    had, gets = (one.get("key") for one in (before, now))
    # A rule may state the primary key's own columns; without an earlier rule, the version has these.
    if had != gets and list((primary_key or ()) if gets is None else gets) != key:
        columns = ", ".join(gets) if gets else "those of the primary key"
        yield f"their columns are {columns}, and were {', '.join(key) or 'none'}"
    if before.get("partition_by") != now.get("partition_by"):
        yield "other columns choose their partitions (partition_by)"
    for column, name in zip(key, published, strict=True):
        had, gets = (one.get("masked", {}).get(column) for one in (before, now))
        if had != gets:
            yield f"{column} of the key is " + (
                "masked otherwise" if had and gets else "masked" if gets else "no longer masked"
            )
        if (new := now.get("renamed", {}).get(column, column)).lower() != name:
            yield f"{column} of the key has the name {new}, and had {name}"


_MOST_COLUMNS = 5
_MODES = tuple(one.name for one in fields(Modes))


def _form_changes(version: TableVersion, now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the settings ``connect`` change of a table in that format, by setting."""
    before: Mapping[str, Any] = (version.stated or {}).get("connect", {})
    forms = [Modes(**{name: one[name] for name in _MODES if name in one}) for one in (before, now)]
    keys = version.definition.primary_key
    for setting in now:
        if before.get(setting, now[setting]) == now[setting]:
            continue
        if setting in _MODES:
            columns = [
                # Decimals of keys are in base64 whatever the format.
                f"{one.name} (in keys too)"
                if one.name in keys and setting != "decimal_format"
                else one.name
                for one in version.definition.columns
                if any(setting in _modes_of(one, modes) for modes in forms)
            ]
            more = len(columns) - _MOST_COLUMNS
            columns[_MOST_COLUMNS:] = [f"{more} more"] if more > 0 else []
            what = ", ".join(columns)
        elif setting == "key_schemas":
            what = "all keys" if keys else ""
        else:
            what = "all values"
        if what:
            is_now, was = (str(one[setting]) for one in (now, before))
            is_now, was = (
                one.lower() if one in ("True", "False") else one for one in (is_now, was)
            )
            yield f"another form of {what} (connect.{setting}: {is_now}, was {was})"


def _modes_of(column: Column, modes: Modes) -> tuple[str, ...]:
    kind = kind_of(column.type)
    return sql_type(kind.base).connect_modes(kind, modes)
