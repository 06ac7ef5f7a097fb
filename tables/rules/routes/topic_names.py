"""The names of row topics where a destination states them, instead of Aqueduct's own encoding.

Invariant: a name is the same that Kafka Connect and Debezium derive from the same rule, since readers of their
topics continue with it. Such names are not injective: if two tables have one topic, that is detected at the
first row of the second table.
Source: ``AbstractTopicNamingStrategy.sanitizedTopicName`` of Debezium, ``RegexRouter`` of Kafka Connect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.rules.table_filter import TableFilter
from wire.topics import MAX_TOPIC_LENGTH

_PLACE = re.compile(r"\{(\w*)\}")
_PLACES = ("prefix", "database", "table", "lower_database", "lower_table")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")
_LONG = re.compile(r"[\U00010000-\U0010ffff]")
_GROUP = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRename:
    """A renaming of topics whose whole name matches, as Kafka Connect's RegexRouter does it."""

    regex: str
    replacement: str
    """With ``$1`` for the first group, as in Java."""

    def fault(self) -> str:
        """Why it cannot be used; empty if it can."""
        try:
            re.compile(self.regex).fullmatch("")
            re.sub(self.regex, _expansion(self.replacement), "")
        except (re.error, IndexError) as error:
            return (
                f"{self.regex!r} with {self.replacement!r} is no regular expression here: {error}"
            )
        return ""

    def of(self, name: str) -> str:
        """The new name of a topic; the same if it does not match."""
        found = re.fullmatch(self.regex, name)
        return name if found is None else found.expand(_expansion(self.replacement))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRule:
    """The names of the topics of some tables."""

    tables: str = r".*\..*"
    """Expressions over ``database.table``, with commas."""
    topic: str
    """The name, in which ``{prefix}``, ``{database}`` and ``{table}`` are replaced; ``{lower_database}`` and
    ``{lower_table}`` are replaced in lower case."""
    renames: tuple[TopicRename, ...] = ()
    """Renamings, one after the other."""
    shared: bool = False
    """Whether several tables may have one topic."""
    partitions: int = 0
    """The partitions over which rows are spread, the first ones of the topic; 0: all of them."""

    def faults(self) -> list[str]:
        """Why the rule cannot be used."""
        found = [one.fault() for one in self.renames]
        found += [
            f"{{{name}}} is unknown; choose from {', '.join(_PLACES)}"
            for name in _PLACE.findall(self.topic)
            if name not in _PLACES
        ]
        return [fault for fault in found if fault]

    def applies(self, table: TableName) -> bool:
        """Whether the rule names the topic of a table."""
        return TableFilter(self.tables, "").captures(*table)

    def name(self, prefix: str, table: TableName) -> str:
        """The topic of a table, by the name that subscribers know."""
        parts = (prefix, *table, *(one.lower() for one in table))
        values = dict(zip(_PLACES, parts, strict=True))
        name = _sanitized(_PLACE.sub(lambda found: values[found[1]], self.topic))
        for one in self.renames:
            name = one.of(name)
        return name


def stated_topic(
    rules: Iterable[TopicRule], prefix: str, table: TableName
) -> tuple[str, TopicRule] | None:
    """The topic that the first rule of a table states, with the rule; None without a rule.

    Raise MappingError for a name that Kafka refuses, or that Aqueduct has for its own topics.
    """
    rule = next((one for one in rules if one.applies(table)), None)
    if rule is None:
        return None
    topic = rule.name(prefix, table)
    fault = ""
    if not topic or topic in (".", "..") or _FOREIGN.search(topic) or len(topic) > MAX_TOPIC_LENGTH:
        fault = "is no name of a topic"
    elif topic.startswith(("__", f"{prefix}.__")):
        fault = "is reserved"
    if fault:
        raise MappingError(
            f"row_topics gives {'.'.join(table)} the topic {topic!r}, which {fault}; give the table another one"
        )
    return topic, rule


def _sanitized(name: str) -> str:
    """A name as Debezium converts it for Kafka: ``_`` replaces each Java character that Kafka refuses."""
    java = _LONG.sub("__", name)[:MAX_TOPIC_LENGTH]
    return _FOREIGN.sub("_", java)


def _expansion(replacement: str) -> str:
    """A replacement text of Java in Python's syntax."""

    def one(found: re.Match[str]) -> str:
        escaped, number, name = found.groups()
        return f"\0{escaped}" if escaped is not None else f"\0<{number or name}>"

    marked = _GROUP.sub(one, replacement)
    begin, *others = marked.split("\0")
    return begin + "".join(
        rf"\g{part}" if re.match(r"<\w+>", part) else part.replace("\\", r"\\") for part in others
    )
