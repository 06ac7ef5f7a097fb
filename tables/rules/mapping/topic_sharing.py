"""The topics of a mapping, and which real tables may share one.

Invariant: whether keys name the real table follows from the mapping alone, never from the tables that exist,
so a key keeps its form when a shard is added that a rule already covers.
"""

from __future__ import annotations

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.logical import LogicalDatabase, LogicalTable
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.rules import DEBEZIUM
from tables.rules.mapping.topic_formats import stated_formats


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
        """The rules by topic, in which ``.`` is ``_``."""
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
        """The number that a topic had before a change that a rule asks for; 0 if none does."""
        return self._before.get(topic, 0) if topic else 0

    def format(self, database: str, rule: LogicalTable | None) -> str:
        """The record format of a logical table; raise MappingError if another of its topic has another."""
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
        """Raise MappingError if rules give the topic another format; they cannot list every database."""
        topic = self.topic(database, rule)
        stated = self._formats.get(topic, {})
        if rule is not None and topic and own not in stated:
            (name, label), *_ = stated.items()
            raise MappingError(
                f"table {rule.label} of database {database} has the format {own} in topic {topic!r}, to which "
                f"{label} gives {name}; state the format in the table's rule"
            )

    def lists_others(self, name: str) -> bool:
        """Whether a logical database with this name lists its real ones."""
        found = self._databases.get(name.lower())
        return found is not None and bool(found.real)

    def owner(self, logical: TableName) -> str:
        """The logical table with this name, whose rule lists its real tables; empty if there is none."""
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
