"""The route of each captured table: the name that subscribers know, the topic, its partitions, and
the key.

Invariant: no other module derives a topic's name from a table's name. All code that publishes rows,
or checks published rows, asks ``Routes``.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as Names
from dataclasses import dataclass, field, fields
from typing import Any

from connectors.errors import MappingError
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.forms import written_action
from tables.rules.mapping.mapping import MOST_TABLES, MappedTable, Mapping, PackedMapping
from tables.rules.mapping.rules import (
    CONNECT,
    DDL_TYPES,
    DEBEZIUM,
    DELETES,
    OMIT,
    OPERATIONS,
    RECORD,
    Rules,
)
from tables.rules.masking import MaskingKeys, MaskingRule, column_rules, masks
from tables.rules.routes.topic_names import TopicRule, stated_topic
from tables.rules.table_filter import TableFilter
from wire.topics import MAX_TOPIC_LENGTH, row_topic, shard_topic, tag_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The publication of one table's rows."""

    table: TableName
    """The table at the source."""
    logical: TableName
    """The database and table name for subscribers; several tables may share one."""
    topic: str
    partitions: int
    """Partitions of a new topic; an existing topic keeps the number recorded in its table versions."""
    key_columns: tuple[str, ...] | None = None
    """The columns of the records' key, in order; None: the table's primary key."""
    format: str = DEBEZIUM
    """The name of the records' format."""
    column_rules: Names[str, MaskingRule] = field(default_factory=dict)
    """Rules for values, by column in lower case; values of other columns are published as they are."""
    mapped: MappedTable | None = None
    """What the mapping states about the table; None if the mapping does not name it."""
    tag_topics: Names[str, str] = field(default_factory=dict)
    """By tag, the topic to which the records with the tag are published again."""
    shard: tuple[str, str, str] | None = None
    """Destination, database and table, if the records' keys begin with them."""
    is_alone: bool = False
    """Whether the settings state the topic's name, and no other table may have the topic."""
    truncates: str = RECORD
    """What is published of a TRUNCATE: its record, nothing, or the deletes of its rows."""
    connect: Names[str, Any] = field(default_factory=dict)
    """In the format ``connect``: what determines the form of keys and rows, by setting."""
    fault: str = ""
    """Why the mapping does not determine the topic, such as two rules of one rank; the rows wait meanwhile."""

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that its records are published to."""
        return () if self.fault else (self.topic, *self.tag_topics.values())

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that choose a row's partition; empty: its key does."""
        return self.mapped.rules.partition_by if self.mapped is not None else ()

    @property
    def stated(self) -> dict[str, Any]:
        """The effect of the mapping and of ``connect`` on keys, partitions and values, for the table's version.

        The members are ``shard``, the ``key`` of a rule, ``partition_by``, the action of each ``masked``
        column, and the new name of each ``renamed`` column, with columns in lower case; and the settings
        ``connect`` of a table in that format.
        """
        found: dict[str, Any] = {"shard": True} if self.shard is not None else {}
        if self.key_columns is not None:
            found["key"] = [one.lower() for one in self.key_columns]
        if self.partition_by:
            found["partition_by"] = [one.lower() for one in self.partition_by]
        rules = self.mapped.rules if self.mapped is not None else Rules()
        hiding = (one for one in rules.column_actions if one.kind.hides)
        masked = {one.column.lower(): written_action(one) for one in hiding}
        renamed = rules.renames
        return {
            **found,
            **({"masked": masked} if masked else {}),
            **({"renamed": renamed} if renamed else {}),
            **({"connect": dict(self.connect)} if self.connect else {}),
        }

    @property
    def masks(self) -> bool:
        """Whether values of any column are hidden, so that nothing raw of a row may leave the worker."""
        if self.fault:
            return True  # the rules are not known
        return self.mapped is not None and masks(self.mapped.rules.column_actions)

    @property
    def publishes_truncates(self) -> bool:
        """Whether subscribers learn that all rows are gone."""
        return self.truncates != OMIT

    @property
    def records_truncates(self) -> bool:
        """Whether a TRUNCATE has a record, which states that all rows are gone."""
        return self.truncates == RECORD

    @property
    def deletes_rows(self) -> bool:
        """Whether the rows that a TRUNCATE removes are deleted one by one."""
        return self.truncates == DELETES

    @property
    def publishes_all(self) -> bool:
        """Whether all changes are published, so that subscribers can have the source's rows and no other."""
        return self.mapped is None or set(OPERATIONS) <= set(
            self.mapped.rules.operations or OPERATIONS
        )

    @property
    def deletes_on_drop(self) -> bool:
        """Whether a DROP or RENAME of the table publishes for its rows what a TRUNCATE would.

        Subscribers of a logical table then see that this table's rows are gone, while the others' rows stay. In
        the warehouse, the rows of a mapped table have no name of their own under which they could be kept.
        """
        if self.mapped is None or not self.publishes_truncates:
            return False
        return self.mapped.rules.on_drop != "keep"

    def publishes_statements(self, verb: str) -> bool:
        """Whether statements with a verb, such as ``alter``, are published for the table's sake."""
        return self.mapped is None or verb in (self.mapped.rules.ddl or DDL_TYPES)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """All routes of one destination: a value made once from the settings.

    Raises ValueError if ``include`` or ``black`` is not a list of regular expressions.
    """

    prefix: str
    """The prefix of all topic names of the installation."""
    include: str = r".*\..*"
    """Tables that are captured: expressions over ``database.table``, with commas."""
    black: str = ""
    """Tables that are not captured, whatever ``include`` matches."""
    partitions: int = 1
    """Partitions of a new row topic."""
    format: str = DEBEZIUM
    """The name of the format of records without a rule, and of records that belong to no single table."""
    truncates: str = RECORD
    """What is published of a TRUNCATE of a table without a rule."""
    destination: str = ""
    """The destination, for keys that name the real table."""
    mapping: Mapping | PackedMapping | None = None
    """Logical names, topics and rules of real tables."""
    merged: bool = False
    """Whether rows of mapped tables go to topics of this destination alone, for a merge to read."""
    keys: MaskingKeys = field(default_factory=MaskingKeys)
    """The keys that the mapping's rules name, and that seal what cannot be masked yet."""
    row_topics: tuple[TopicRule, ...] = ()
    """The names of row topics that no rule of the mapping names; empty: Aqueduct's own names."""
    connect: Names[str, Any] = field(default_factory=dict)
    """What determines the form of keys and rows in the format ``connect``, by setting."""
    existing: Names[str, int] = field(default_factory=dict)
    """By name, the partition counts of existing topics that keep them."""
    masks_any: bool = field(init=False, repr=False, compare=False)
    """Whether the mapping hides values of any table."""
    omitted_statements: frozenset[str] = field(init=False, repr=False, compare=False)
    """The verbs, such as ``alter``, of statements that the mapping omits for any table."""
    _filter: TableFilter = field(init=False, repr=False, compare=False)
    _known: dict[TableName, Route | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_filter", TableFilter(self.include, self.black))
        object.__setattr__(self, "_known", {})
        tables = self.mapping.tables if self.mapping is not None else ()
        masks_any = any(masks(one.rules.column_actions) for one in tables)
        object.__setattr__(self, "masks_any", masks_any)
        omitted = (set(DDL_TYPES).difference(one.rules.ddl) for one in tables if one.rules.ddl)
        object.__setattr__(self, "omitted_statements", frozenset().union(*omitted))

    def __reduce__(self) -> tuple[Any, ...]:
        """The settings alone: a decoder's process computes its own routes, and keeps the mapping packed."""
        settings = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        if isinstance(self.mapping, Mapping):
            settings["mapping"] = PackedMapping.of_mapping(self.mapping)
        return _made, (settings,)

    def of(self, table: TableName) -> Route | None:
        """The route of a table of the source; None if the table is not captured.

        The route has a fault if the mapping does not determine the table's topic.
        """
        try:
            return self._known[table]
        except KeyError:
            pass
        try:
            route = self._route(table)
        except MappingError as error:
            fault = str(error.detail)
            route = Route(table=table, logical=table, topic="", partitions=1, fault=fault)
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        self._known[table] = route
        return route

    def rest(self) -> None:
        """Free what only new tables need, if no new table was met for some calls."""
        if isinstance(self.mapping, PackedMapping):
            self.mapping.rest()

    def topic(self, table: TableName) -> str:
        """The topic of a table's rows.

        Raise LookupError if the table is not captured, MappingError if the mapping does not determine it.
        """
        route = self.of(table)
        if route is None:
            raise LookupError(f"{'.'.join(table)} is not captured")
        if route.fault:
            raise MappingError(route.fault)
        return route.topic

    def captures(self, database: str, table: str) -> bool:
        """Whether rows of a table are published."""
        return self.of((database, table)) is not None

    def publishes_statement(self, verb: str, tables: Iterable[TableName]) -> bool:
        """Whether a statement on these tables is published.

        The rules of at least one captured table must allow it, unless no table is captured.
        """
        found = [route for table in tables if (route := self.of(table)) is not None]
        return not found or any(route.publishes_statements(verb) for route in found)

    def may_capture_of(self, database: str) -> bool:
        """Whether a table of this database may be captured, whatever its name is."""
        return self._filter.may_capture_of(database)

    def _route(self, table: TableName) -> Route | None:
        if not self._filter.captures(*table):
            return None
        mapped = self.mapping.of(table) if self.mapping is not None else None
        if mapped is None:
            topic, rule = self._row_topic(table, table)
            return Route(
                table=table,
                logical=table,
                topic=topic,
                partitions=self._partitions(topic, rule),
                format=self.format,
                is_alone=rule is not None and not rule.shared,
                truncates=self.truncates,
                connect=self._connect(self.format),
            )
        rules: Rules = mapped.rules
        rule = None
        if mapped.topic:
            topic = f"{self.prefix}.{mapped.topic}"
        else:
            topic, rule = self._row_topic(table, mapped.logical)
        if not TableFilter(rules.include or r".*\..*", rules.black).captures(*table):
            return None
        form = self.format if mapped.format == DEBEZIUM else mapped.format
        return Route(
            table=table,
            logical=mapped.logical,
            topic=self._published(topic),
            partitions=mapped.partitions or self._partitions(topic, rule),
            key_columns=rules.key or None,
            format=form,
            column_rules=self._column_rules(table, rules),
            mapped=mapped,
            tag_topics={
                one: self._published(tag_topic(self.prefix, topic, one)) for one in rules.tag_topics
            },
            shard=(self.destination, *table) if mapped.key_has_shard else None,
            is_alone=rule is not None and not rule.shared,
            truncates=self._truncates(rules),
            connect=self._connect(form),
        )

    def _connect(self, form: str) -> Names[str, Any]:
        return self.connect if form == CONNECT else {}

    def _partitions(self, topic: str, rule: TopicRule | None) -> int:
        if rule is not None and rule.partitions:
            return rule.partitions
        return self.existing.get(topic, self.partitions)

    def _truncates(self, rules: Rules) -> str:
        """What is published of a TRUNCATE, which is a delete of all rows."""
        if "delete" not in (rules.operations or OPERATIONS):
            return OMIT
        return rules.truncates or self.truncates

    def _published(self, topic: str) -> str:
        """The topic itself, or this destination's share of it; raise MappingError if its name is too long."""
        if not self.merged:
            return topic
        own = shard_topic(self.prefix, self.destination, topic)
        if len(own) > MAX_TOPIC_LENGTH:
            raise MappingError(
                f"the topic {own}, from which {topic} is merged, has more than {MAX_TOPIC_LENGTH} characters; "
                "name a shorter topic in the mapping"
            )
        return own

    def _column_rules(self, table: TableName, rules: Rules) -> Names[str, MaskingRule]:
        """The rules of a table's columns; raise MappingError if a key is missing."""
        try:
            return column_rules(rules.column_actions, self.keys)
        except KeyError as error:
            raise MappingError(
                f"a rule of {'.'.join(table)} names the key {error.args[0]!r}, which mapping.key_file lacks"
            ) from None

    def _row_topic(self, table: TableName, logical: TableName) -> tuple[str, TopicRule | None]:
        """The row topic of a table, and the rule that states it.

        Raise MappingError if a rule of the mapping names the topic.
        """
        # A rule may have a table's name in another case.
        is_same = [one.lower() for one in logical] == [one.lower() for one in table]
        stated = stated_topic(self.row_topics, self.prefix, table if is_same else logical)
        topic = row_topic(self.prefix, *logical) if stated is None else stated[0]
        own = topic.removeprefix(f"{self.prefix}.")
        if self.mapping is not None and own != topic:
            owner = self.mapping.owner_of_topic(own)
            if owner:
                raise MappingError(
                    f"the row topic {topic} of {'.'.join(table)} is to Kafka the topic of {owner}; "
                    "rename that topic"
                )
        return topic, None if stated is None else stated[1]


def _made(settings: dict[str, Any]) -> Routes:
    return Routes(**settings)
