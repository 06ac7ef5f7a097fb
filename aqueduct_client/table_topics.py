"""The topics of logical tables, by the wire contract's rule or by a map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aqueduct_client.errors import InvalidSubscription
from wire.topics import row_topic, tag_topic


def topics_of(
    tables: Iterable[str],
    *,
    prefix: str,
    mapped: Mapping[str, str] | None = None,
    tag: str | None = None,
) -> dict[str, frozenset[str] | None]:
    """Return each topic to read, with the logical tables wanted of it; None: all that it has.

    ``mapped`` is searched for the table, then for its database; a table in neither has its own topic. With
    ``tag``, each topic is the tag's topic, which has only the records with the tag.
    """
    found: dict[str, set[str] | None] = {}
    for table in tables:
        topic, is_shared = topic_of(table, prefix=prefix, mapped=mapped, tag=tag)
        if not is_shared:
            found[topic] = None
        elif (wanted := found.setdefault(topic, set())) is not None:
            wanted.add(table)
    if not found:
        raise InvalidSubscription("no table is named; give at least one as database.table")
    return {topic: None if only is None else frozenset(only) for topic, only in found.items()}


def topic_of(
    table: str, *, prefix: str, mapped: Mapping[str, str] | None = None, tag: str | None = None
) -> tuple[str, bool]:
    """Return the topic of a table, and whether other tables may share it."""
    database, name = split_table(table)
    own = (mapped or {}).get(table) or (mapped or {}).get(database)
    topic = own or row_topic(prefix, database, name)
    return (topic if tag is None else tag_topic(prefix, topic, tag)), own is not None


def split_table(table: str) -> tuple[str, str]:
    """Return the database and the table of ``database.table``."""
    database, dot, name = table.partition(".")
    if not (database and dot and name):
        raise InvalidSubscription(f"{table!r} is not a table; write database.table")
    return database, name
