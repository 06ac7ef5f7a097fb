"""Canal's topics and partitions as a mapping, in so far as they name databases and tables.

Invariant: a pattern over several tables becomes no rule, since a mapping would make them one logical table;
it is reported instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from app.operations.migration.canal.keys import Keys
from app.operations.migration.draft import Draft
from app.operations.migration.findings import Entry
from app.operations.migration.table_expressions import fault_of, literal_name
from tables.table_filter import named_databases

_ALL_TABLES = re.compile(r"(.+?)\\+\.\.[*+]")
_EACH = frozenset({".*", ".+"})
_PRIMARY_KEY = "$pk$"
_BY_PATTERN = "{} is a pattern; write a rule for each table or database in the mapping"
_FLAT = "canal.mq.flatMessage"
_ENVELOPE = "records have Debezium's envelope, docs/wire.md; Canal's protobuf has no counterpart"
_UNNAMED = (
    "the databases and tables of the mapping have `format: canal`; records of all others have Debezium's "
    "envelope: name them too if their subscribers read flat messages"
)
_QUEUES = ("kafka", "rocketmq", "rabbitmq", "pulsarmq")


def convert_topics(draft: Draft, keys: Keys) -> None:
    """Put the topics and partitions of one instance's tables, if it publishes to topics."""
    if keys.text("canal.serverMode").lower() in _QUEUES:
        _topics(draft, keys)
        _partitions(draft, keys)


def share_topics(draft: Draft) -> None:
    """Let several rules have one topic, which a mapping refuses unless each of them says so."""
    rules = [
        (kind, name, rule.get("topic"))
        for kind, named in draft.mapping.values().items()
        for name, rule in named.items()
    ]
    counts = Counter(topic for _, _, topic in rules if topic)
    for kind, name, topic in rules:
        if counts[topic] > 1:
            draft.mapping.put((kind, name, "share_topic"), value=True)


def convert_format(draft: Draft, keys: Keys) -> None:
    """Give the mapping's databases and tables the format of flat messages, if an instance publishes them."""
    flat = keys.get(_FLAT)
    if keys.text("canal.serverMode").lower() not in _QUEUES:
        return
    if flat is None:
        # Canal's own default, also of an empty value.
        for path in _formats(draft):
            draft.mapping.put(path, "canal", f"the default of {_FLAT}")
        draft.note(_FLAT, f"not set, which means true to Canal: {_UNNAMED}")
    elif flat.value.lower() != "true":
        draft.instead(flat, _ENVELOPE)
    else:
        for path in _formats(draft):
            draft.take_rule(flat, path, "canal")
        draft.by_hand(flat, _UNNAMED)


def _formats(draft: Draft) -> list[tuple[str, str, str]]:
    """The databases of the mapping, and the tables of no such database."""
    mapping = draft.mapping.values()
    databases = mapping.get("databases", {})
    tables = [name for name in mapping.get("tables", {}) if name.partition(".")[0] not in databases]
    return [
        *(("databases", name, "format") for name in databases),
        *(("tables", name, "format") for name in tables),
    ]


def _topics(draft: Draft, keys: Keys) -> None:
    dynamic, fixed = keys.get("canal.mq.dynamicTopic"), keys.get("canal.mq.topic")
    if dynamic:
        for item in _items(dynamic.value):
            _dynamic_topic(draft, dynamic, item)
    elif fixed:
        _fixed_topic(draft, keys, fixed)


def _dynamic_topic(draft: Draft, entry: Entry, item: str) -> None:
    """One of ``pattern`` or ``topic:pattern``; without a topic, each match has one of its own name."""
    topic, colon, pattern = item.rpartition(":")
    whole = _ALL_TABLES.fullmatch(pattern)
    if name := literal_name(whole[1] if whole and colon else pattern):
        kind = "tables" if "." in name else "databases"
        if colon or kind == "databases":
            draft.take_rule(entry, (kind, name, "topic"), topic.strip() or name.lower())
            return
    if colon or (whole is None and not name):
        draft.by_hand(entry, _BY_PATTERN.format(item))


def _fixed_topic(draft: Draft, keys: Keys, topic: Entry) -> None:
    include = keys.text("canal.instance.filter.regex", r".*\..*")
    databases = [] if fault_of(include) else named_databases(include)
    for database in databases:
        draft.take_rule(topic, ("databases", database, "topic"), topic.value)
    if not databases:
        draft.by_hand(topic, "the filter names no databases; give each its topic in the mapping")


def _partitions(draft: Draft, keys: Keys) -> None:
    count = keys.get("canal.mq.partitionsNum")
    if count and count.value.isdecimal():
        draft.take(count, ("topics", "partitions"), int(count.value))
    if counts := keys.get("canal.mq.dynamicTopicPartitionNum"):
        for item in _items(counts.value):
            _partitions_of_topic(draft, counts, item)
    if hashes := keys.get("canal.mq.partitionHash"):
        for item in _items(hashes.value):
            _partition_by(draft, hashes, item)


def _partitions_of_topic(draft: Draft, entry: Entry, item: str) -> None:
    topic, _, number = item.rpartition(":")
    tables = draft.mapping.values().get("tables", {})
    owners = [name for name, rule in tables.items() if rule.get("topic") == topic]
    for name in owners:
        if number.isdecimal():
            draft.take_rule(entry, ("tables", name, "partitions"), int(number))
    if not owners:
        draft.by_hand(entry, f"{item} is of no table's topic; topics.partitions applies")


def _partition_by(draft: Draft, entry: Entry, item: str) -> None:
    """One of ``table:column^column``, ``table:$pk$``, or ``table``, whose rows have one partition."""
    pattern, colon, columns = item.rpartition(":")
    if columns.lower() == _PRIMARY_KEY:
        draft.instead(entry, "rows are partitioned by primary key")
    elif not (name := literal_name(pattern or columns)):
        draft.by_hand(entry, _BY_PATTERN.format(item))
    elif colon:
        draft.take_rule(entry, ("tables", name, "partition_by"), tuple(columns.split("^")))
    else:
        draft.take_rule(entry, ("tables", name, "partitions"), 1)


def _items(text: str) -> Iterator[str]:
    return (item.strip() for item in re.split(r"[,;]", text) if item.strip())
