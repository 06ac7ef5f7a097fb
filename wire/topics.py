"""The names of topics: built by the worker, found and read again by the sink, the client and the audit.

Invariant: names are injective, also under Kafka's rule that ``.`` and ``_`` are the same. After the prefix, no
row topic begins with ``__``, as each of Aqueduct's own topics does. A pattern is a Java regular expression with
anchors, since Spark's source takes each topic in which it finds a match.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MAX_TOPIC_LENGTH = 249

_PLAIN = re.compile(r"[a-zA-Z0-9]")
_SCHEMAS, _JOURNAL, _SHARD = ".__schemas", ".__journal", ".__shard."

# --- topics of rows ---


def row_topic(prefix: str, database: str, table: str) -> str:
    """The topic of a table's rows."""
    name = f"{prefix}.{_encoded(database, underscore='--')}.{_encoded(table, underscore='_')}"
    return _cut(name, database, table)


def tag_topic(prefix: str, topic: str, tag: str) -> str:
    """The topic of a row topic's records that have a tag; ``topic`` includes the prefix."""
    own = topic.removeprefix(f"{prefix}.")
    return _cut(f"{tag_topics(prefix)}{_encoded(tag, underscore='--')}.{own}", own, tag)


def tag_topics(prefix: str) -> str:
    """The beginning of the names of all topics of tags."""
    return f"{prefix}.__tag."


def shard_topic(prefix: str, destination: str, topic: str) -> str:
    """The topic of one destination's share of a merged topic; ``topic`` includes the prefix."""
    return f"{shard_topics(prefix, destination)}{topic.removeprefix(f'{prefix}.')}"


def shard_topics(prefix: str, destination: str = "") -> str:
    """The beginning of the names of a destination's share topics; without one, of all share topics."""
    return f"{prefix}{_SHARD}{destination and f'{destination}.'}"


def shard_owner(prefix: str, topic: str) -> str:
    """The destination of a share's topic; no destination's name has a dot."""
    return topic.removeprefix(shard_topics(prefix)).partition(".")[0]


def merged_topic(prefix: str, destination: str, topic: str) -> str:
    """The topic that a destination's share is merged into; a topic that is not a share stays as it is."""
    share = shard_topics(prefix, destination)
    return f"{prefix}.{topic.removeprefix(share)}" if topic.startswith(share) else topic


def published_topic(destination: str, topic: str) -> str:
    """The topic that consumers read, for the topic that a destination's table version names.

    If rows are merged, the version names the share's topic; the prefix precedes ``.__shard.`` there.
    """
    return merged_topic(topic.partition(_SHARD)[0], destination, topic)


def _cut(name: str, *parts: str) -> str:
    """A name, or its beginning and a digest of its parts if it is too long for Kafka."""
    if len(name) <= MAX_TOPIC_LENGTH:
        return name
    # No encoded character begins with "-x", so a cut name never equals an uncut one.
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return f"{name[: MAX_TOPIC_LENGTH - len(digest) - 2]}-x{digest}"


def _encoded(name: str, *, underscore: str) -> str:
    return "".join(
        char
        if _PLAIN.fullmatch(char)
        else underscore
        if char == "_"
        else "".join(f"-{byte:02x}" for byte in char.encode())
        for char in name
    )


# --- Aqueduct's own topics ---


def schemas_topic(prefix: str) -> str:
    """The compacted topic of all table versions."""
    return f"{prefix}{_SCHEMAS}"


def logical_schemas_topic(prefix: str) -> str:
    """The compacted topic of the schemas of logical tables."""
    return f"{prefix}.__logical_schemas"


def journal_topic(prefix: str) -> str:
    """The topic of Aqueduct's own state."""
    return f"{prefix}{_JOURNAL}"


def subscribers_topic(prefix: str) -> str:
    """The compacted topic of the notes about groups of subscribers."""
    return f"{prefix}.__subscribers"


def transactions_topic(prefix: str, destination: str) -> str:
    """The topic of a destination's transaction markers."""
    return f"{prefix}.__transactions.{destination}"


def ddl_topic(prefix: str, destination: str) -> str:
    """The topic of a destination's DDL."""
    return f"{prefix}.__ddl.{destination}"


def quarantine_topic(prefix: str, destination: str) -> str:
    """The topic where raw events of a destination's quarantined tables wait."""
    return f"{prefix}.__quarantine.{destination}"


def progress_topic(prefix: str, destination: str) -> str:
    """The topic of the times up to which a merged destination is published."""
    return f"{prefix}.__progress.{destination}"


def dead_letters_topic(prefix: str, destination: str) -> str:
    """The topic of a destination's rows that cannot be decoded."""
    return f"{prefix}.__dead_letters.{destination}"


def installations(names: Iterable[str]) -> set[str]:
    """The prefixes of all installations, found in the names of Kafka's topics."""
    ends = (_SCHEMAS, _JOURNAL)
    return {name.removesuffix(end) for name in names for end in ends if name.endswith(end)}


# --- patterns of topics ---


def row_pattern(prefix: str, *, include: str = "", exclude: str = "") -> str:
    """The pattern of the row topics of ``prefix``.

    ``include`` and ``exclude`` are regular expressions over the whole topic name. A mapping may give
    row topics any name without a leading ``__``.
    """
    wanted = f"(?=(?:{include})$)" if include else ""
    return f"^{_not(exclude)}{wanted}{_quoted(prefix)}\\.(?!__)[A-Za-z0-9._-]+$"


def ddl_pattern(prefix: str, *, exclude: str = "") -> str:
    """The pattern of the DDL topics of all destinations of ``prefix``."""
    return f"^{_not(exclude)}{_quoted(ddl_topic(prefix, ''))}[A-Za-z0-9._-]+$"


def transactions_pattern(prefix: str) -> str:
    """The pattern of the topics of transaction markers of all destinations of ``prefix``."""
    return f"^{_quoted(transactions_topic(prefix, ''))}[A-Za-z0-9._-]+$"


def exact_pattern(topic: str) -> str:
    """The pattern of one topic."""
    return f"^{_quoted(topic)}$"


def _not(exclude: str) -> str:
    return f"(?!(?:{exclude})$)" if exclude else ""


def _quoted(text: str) -> str:
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", text)
