"""The topics of logical tables, by the wire contract's rule or by a map.

Invariant: the names are those of ``docs/wire.md``; a test compares them with the worker's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from aqueduct_client.errors import InvalidSubscription

MAX_TOPIC_LENGTH = 249
_PLAIN = re.compile(r"[a-zA-Z0-9]")


def topics_of(
    tables: Iterable[str],
    *,
    prefix: str,
    mapped: Mapping[str, str] | None = None,
    tag: str | None = None,
) -> dict[str, frozenset[str] | None]:
    """Return each topic to read, with the logical tables wanted of it; None: all that it has.

    A table is looked for in ``mapped``, then its database is; otherwise its topic is its own. ``tag``: the
    topics of this tag's records, instead of those of all.
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
    """Return the topic of a table, and whether others may share it."""
    database, name = split_table(table)
    own = (mapped or {}).get(table) or (mapped or {}).get(database)
    topic = own or table_topic(prefix, database, name)
    return (topic if tag is None else tag_topic(prefix, topic, tag)), own is not None


def split_table(table: str) -> tuple[str, str]:
    """Return the database and the table of ``database.table``."""
    database, dot, name = table.partition(".")
    if not (database and dot and name):
        raise InvalidSubscription(f"{table!r} is not a table; write database.table")
    return database, name


def table_topic(prefix: str, database: str, table: str) -> str:
    """The topic of a table that has one of its own: ``<prefix>.<database>.<table>``, encoded."""
    name = f"{prefix}.{_encoded(database, underscore='--')}.{_encoded(table, underscore='_')}"
    return _cut(name, database, table)


def tag_topic(prefix: str, topic: str, tag: str) -> str:
    """The topic of the records of a row topic, given with the prefix, that have a tag."""
    own = topic.removeprefix(f"{prefix}.")
    return _cut(f"{prefix}.__tag.{_encoded(tag, underscore='--')}.{own}", own, tag)


def _cut(name: str, *parts: str) -> str:
    if len(name) <= MAX_TOPIC_LENGTH:
        return name
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return f"{name[: MAX_TOPIC_LENGTH - len(digest) - 2]}-x{digest}"


def schemas_topic(prefix: str) -> str:
    """The topic of all table versions."""
    return f"{prefix}.__schemas"


def subscribers_topic(prefix: str) -> str:
    """The topic of what is noted about groups of subscribers."""
    return f"{prefix}.__subscribers"


def _encoded(name: str, *, underscore: str) -> str:
    return "".join(
        char
        if _PLAIN.fullmatch(char)
        else underscore
        if char == "_"
        else "".join(f"-{byte:02x}" for byte in char.encode())
        for char in name
    )
