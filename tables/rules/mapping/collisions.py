"""Collisions of a mapping that its entries alone show.

Two patterns that match one table cannot be found in general without that table's name: ``Mapping.of``
refuses such a table when it is asked for.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from tables.rules.mapping.logical import LogicalDatabase, LogicalTable
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.topic_formats import stated_formats
from tables.rules.mapping.topic_sharing import TopicSharing

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def collisions(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]
) -> list[str]:
    """All faults, in a stable order, each with the rules that it is about."""
    scoped = [
        (f"table {one.label}", one.database.lower(), one.real or (one.name,)) for one in tables
    ]
    plain = [(f"database {one.name}", "", one.real or (one.name,)) for one in databases]
    return [
        *_shared_names(plain),
        *_shared_names(scoped),
        *_topics(databases, tables),
        *_partitions(databases, tables),
        *_unknown_tags(tables),
        *_formats(databases, tables),
    ]


def _unknown_tags(tables: tuple[LogicalTable, ...]) -> Iterator[str]:
    """Tags that are to have a topic of their own, and that no record can have."""
    for one in tables:
        own = {tag.name for tag in one.tags}
        for name in sorted(set(one.rules.tag_topics) - own):
            yield (
                f"table {one.label}: tag_topics lists {name!r}, which is none of its tags "
                f"({', '.join(sorted(own)) or 'it has none'})"
            )


def _shared_names(rules: list[tuple[str, str, tuple[str, ...]]]) -> Iterator[str]:
    """Names and patterns that two rules list with the same text."""
    owners: dict[tuple[str, str], list[str]] = defaultdict(list)
    for label, scope, real in rules:
        for text in sorted({one.lower() for one in real}):
            owners["" if _names_database(text) else scope, text].append(label)
    for (scope, text), found in sorted(owners.items()):
        if scope:
            # A rule for any logical database matches in this one too.
            found = [*found, *owners.get(("", text), ())]
        if len(found) > 1:
            yield f"{text!r} belongs to {' and to '.join(sorted(found))}; remove it from one"


def _names_database(text: str) -> bool:
    """Whether a real name has a database, so that its rule's own does not narrow it."""
    try:
        return bool(RealName.of_table(text).database)
    except ValueError:
        return False


def _topics(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]
) -> Iterator[str]:
    """Topics that Kafka refuses, and those of two logical names."""
    owners: dict[str, list[tuple[str, str, bool]]] = defaultdict(list)
    labelled: list[tuple[str, LogicalDatabase | LogicalTable]]
    labelled = [(f"database {one.name}", one) for one in databases]
    labelled += [(f"table {one.label}", one) for one in tables]
    for label, one in labelled:
        if not one.topic:
            continue
        if not _TOPIC.fullmatch(one.topic) or one.topic in (".", ".."):
            yield f"{one.topic!r} of {label} is no topic name; use letters, digits, '.', '_', '-'"
        if one.topic.startswith("__"):
            yield f"{one.topic!r} of {label} is reserved by Kafka; do not begin with '__'"
        owners[one.topic.replace(".", "_")].append((label, one.topic, one.share_topic))
    for _, found in sorted(owners.items()):
        yield from _shared_topic(sorted(found))


def _shared_topic(found: list[tuple[str, str, bool]]) -> Iterator[str]:
    labels = " and ".join(f"{topic!r} of {label}" for label, topic, _ in found)
    if len({topic for _, topic, _ in found}) > 1:
        yield f"{labels} are equal to Kafka, where '.' and '_' collide; rename one"
    elif len(found) > 1 and not all(share for _, _, share in found):
        yield f"{labels} are one topic; rename one, or set share_topic for all of them"


def _partitions(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]
) -> Iterator[str]:
    """Topics of which two rules state different numbers of partitions, now or before."""
    sharing = TopicSharing(databases, tables)
    for name in ("partitions", "repartition_from"):
        stated: dict[str, dict[int, str]] = defaultdict(dict)
        for one in tables:
            topic, count = sharing.topic(one.database, one), getattr(one.rules, name)
            if topic and count:
                stated[topic].setdefault(count, one.label)
        for topic, found in sorted(stated.items()):
            if len(found) > 1:
                shown = " and ".join(f"{count} by table {label}" for count, label in found.items())
                yield f"topic {topic!r} has {name} {shown}; state one number"


def _formats(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]
) -> Iterator[str]:
    """Topics whose tables have different record formats by their rules."""
    stated = stated_formats(databases, tables, TopicSharing(databases, tables).topic)
    for topic, found in sorted(stated.items()):
        if len(found) > 1:
            shown = " and ".join(f"{name} by {label}" for name, label in found.items())
            yield f"topic {topic!r} has the formats {shown}; give them one format"
