"""The topics of a mapping: which real tables may share a topic, the record format of each topic, and
collisions of entries.

Invariant: whether keys name the real table follows from the mapping alone, never from the tables that exist,
so a key keeps its form when a shard is added that a rule already covers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.rules import DEBEZIUM, LogicalDatabase, LogicalTable


class TopicSharing:
    """The topics of all logical databases and tables."""

    def __init__(
        self, databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]
    ) -> None:
        self._databases = {one.name.lower(): one for one in databases}
        self._tables = {(one.database.lower(), one.name.lower()): one for one in tables}
        self._partitions = {
            self.topic(one.database, one): one.rules.partitions
            for one in tables
            if one.rules.partitions
        }
        self._before = {
            self.topic(one.database, one): one.rules.repartition_from
            for one in tables
            if one.rules.repartition_from
        }
        self.named = {
            **{_key(one.topic): f"database {one.name}" for one in databases if one.topic},
            **{_key(one.topic): f"table {one.label}" for one in tables if one.topic},
        }
        """The rules by topic; in the topic's name each ``.`` is replaced by ``_``."""
        self._formats = stated_formats(databases, tables, self.topic)

    def topic(self, database: str, rule: LogicalTable | None) -> str:
        """The topic of a logical table; empty if it has its own row topic."""
        if rule is not None and rule.topic:
            return rule.topic
        found = self._databases.get(database.lower())
        return found.topic if found is not None else ""

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; 0 if no rule states it."""
        return self._partitions.get(topic, 0) if topic else 0

    def repartition_from(self, topic: str) -> int:
        """The partitions that a topic had before a change that a rule requests; 0 without such a rule."""
        return self._before.get(topic, 0) if topic else 0

    def format(self, database: str, rule: LogicalTable | None) -> str:
        """The record format of a logical table; raise MappingError if its topic has another format too."""
        found = self._databases.get(database.lower())
        of_database = (found.format if found is not None else "") or DEBEZIUM
        own = rule.rules.format if rule is not None and rule.rules.format else of_database
        if (
            rule is not None
            and not rule.topic
            and self.topic(database, rule)
            and own != of_database
        ):
            raise MappingError(
                f"table {rule.label} has the format {own}, and database {database}, whose topic it shares, "
                f"{of_database}; give both one format, or the table a topic of its own"
            )
        self._check_format(database, rule, own)
        return own

    def _check_format(self, database: str, rule: LogicalTable | None, own: str) -> None:
        """Raise MappingError if rules state another format; ``collisions`` checks only listed databases."""
        topic = self.topic(database, rule)
        stated = self._formats.get(topic, {})
        if rule is not None and topic and own not in stated:
            (name, label), *_ = stated.items()
            raise MappingError(
                f"table {rule.label} of database {database} has the format {own} in topic {topic!r}, to which "
                f"{label} gives {name}; state the format in the table's rule"
            )

    def lists_others(self, name: str) -> bool:
        """Whether a logical database with this name lists its real databases."""
        found = self._databases.get(name.lower())
        return found is not None and bool(found.real)

    def owner(self, logical: TableName) -> str:
        """The logical table with this name, if its rule lists its real tables; otherwise empty."""
        database, name = logical[0].lower(), logical[1].lower()
        rule = self._tables.get((database, name)) or self._tables.get(("", name))
        return f"table {rule.label}" if rule is not None and rule.real else ""

    def key_has_shard(
        self, logical: TableName, database: LogicalDatabase | None, rule: LogicalTable | None
    ) -> bool:
        """Whether keys name the real table; raise MappingError where ``never`` is certain to collide."""
        choice = rule.rules.shard_in_key if rule is not None else "auto"
        other_tables = self._has_other_tables(logical[0], rule)
        if choice == "never" and other_tables:
            raise MappingError(
                f"table {'.'.join(logical)} has shard_in_key: never, but other logical tables share its "
                "topic, so that keys of two tables are equal; give it a topic of its own, or omit it"
            )
        if choice != "auto":
            return choice == "always"
        return other_tables or _has_several(database, rule)

    def _has_other_tables(self, database: str, rule: LogicalTable | None) -> bool:
        """Whether the topic has several logical tables."""
        if rule is not None and rule.topic:
            return rule.share_topic
        return bool(self.topic(database, rule))


def _key(topic: str) -> str:
    return topic.replace(".", "_")


def _has_several(database: LogicalDatabase | None, rule: LogicalTable | None) -> bool:
    """Whether rules may bring several real tables to one logical table."""
    names = [RealName.of_table(one) for one in (rule.real or (rule.name,))] if rule else []
    if len(names) > 1 or not all(one.literal for one in names):
        return True
    if names and names[0].database:
        return False
    if rule is not None and rule.topic and not rule.database:
        return True  # of any database
    databases = [RealName.of_database(one) for one in (database.real if database else ())]
    return len(databases) > 1 or not all(one.literal for one in databases)


# The record formats that the rules of a mapping give to topics, each with the rule that states
# it.
#
# Invariant: a table rule without a logical database has the format of each logical database that
# it may apply to. So a topic to which rules give one format here has one format in every listed
# database.


TopicOf = Callable[[str, LogicalTable | None], str]
"""Returns the topic of a logical database and table."""


def stated_formats(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...], topic_of: TopicOf
) -> dict[str, dict[str, str]]:
    """Return the formats of each topic that a rule names, each format with the first rule that states it."""
    stated: dict[str, dict[str, str]] = defaultdict(dict)
    for one in databases:
        if one.topic:
            stated[one.topic].setdefault(one.format or DEBEZIUM, f"database {one.name}")
    for rule in tables:
        topic = topic_of(rule.database, rule)
        if topic:
            for name, label in _formats_of(rule, databases):
                stated[topic].setdefault(name, label)
    return stated


def _formats_of(
    rule: LogicalTable, databases: tuple[LogicalDatabase, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the formats of a rule's tables, each with its label."""
    label = f"table {rule.label}"
    if rule.rules.format:
        yield rule.rules.format, label
    elif rule.database:
        own = next((one for one in databases if one.name.lower() == rule.database.lower()), None)
        yield (own.format if own else "") or DEBEZIUM, label
    else:
        found = [one for one in databases if _may_apply(rule, one)]
        for one in found:
            yield one.format or DEBEZIUM, f"{label} in database {one.name}"
        if not found:
            yield DEBEZIUM, label


def _may_apply(rule: LogicalTable, database: LogicalDatabase) -> bool:
    """Whether a rule for any logical database may have tables of this one."""
    names = [found for text in rule.real or (rule.name,) if (found := _table_name(text))]
    if not all(one.database for one in names):
        return True
    own = [RealName.of_database(text) for text in database.real or (database.name,)]
    return any(_meet(RealName.of_database(name.database), one) for name in names for one in own)


def _table_name(text: str) -> RealName | None:
    """A real name; None for an invalid one, which is a fault of its own."""
    try:
        return RealName.of_table(text)
    except ValueError:
        return None


def _meet(one: RealName, other: RealName) -> bool:
    """Whether two names of databases may mean one database; two patterns always may."""
    if not one.literal and not other.literal:
        return True
    pattern, name = (other, one) if one.literal else (one, other)
    return bool(re.fullmatch(pattern.expression, name.name, re.IGNORECASE | re.DOTALL))


# Collisions of a mapping that its entries alone show.
#
# Two patterns that match one table cannot be found in general without that table's name:
# `Mapping.of` refuses such a table when it is looked up.


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
    """Tags with a topic of their own that no record can have."""
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
    """Whether a real name has a database, so that the database of its rule does not narrow it."""
    try:
        return bool(RealName.of_table(text).database)
    except ValueError:
        return False


def _topics(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...]
) -> Iterator[str]:
    """Topics that Kafka refuses, and topics that two logical names may not share."""
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
    """Topics for which two rules state different numbers of partitions, present or earlier."""
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
