"""The record formats that the rules of a mapping give to topics, each with the rule that states it.

Invariant: a table rule without a logical database has the format of each logical database that it may apply to,
so a topic whose rules give it one format here has one in every listed database.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

from tables.rules.mapping.logical import LogicalDatabase, LogicalTable
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.rules import DEBEZIUM

TopicOf = Callable[[str, LogicalTable | None], str]
"""Returns the topic of a logical database and table."""


def stated_formats(
    databases: tuple[LogicalDatabase, ...], tables: tuple[LogicalTable, ...], topic_of: TopicOf
) -> dict[str, dict[str, str]]:
    """Return the formats of each topic that a rule names, with the first rule that states each."""
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
    """Whether two names of databases may be one; of two patterns, that is not known."""
    if not one.literal and not other.literal:
        return True
    pattern, name = (other, one) if one.literal else (one, other)
    return bool(re.fullmatch(pattern.expression, name.name, re.IGNORECASE | re.DOTALL))
