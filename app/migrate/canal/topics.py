"""What readers of Canal's topics see is kept: the names of topics, their partitions, the form of messages.

Invariant: what is not kept is reported by its key, even if the key has Canal's default. Source:
``MQMessageUtils.messageTopics`` and ``CanalKafkaProducer.send`` of Canal 1.1.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.migrate.canal.configuration_keys import Keys
from app.migrate.draft import Draft
from app.migrate.findings import Entry
from app.migrate.foreign_values import fault_of, literal_name
from app.migrate.yaml_text import YamlPath

_WILD = re.compile(r"[*?+|(){}\[\]\\$^]")
_QUEUES = ("kafka", "rocketmq", "rabbitmq", "pulsarmq")
_FLAT = "canal.mq.flatMessage"
_DDL = "canal.instance.filter.query.ddl"
_PARTITION = "canal.mq.partition"
_HASH = "canal.mq.partitionHash"
_PRIMARY_KEY = "$pk$"
_EVERYTHING = r".*\..*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """Tables, and their topic."""

    tables: str
    """An expression over ``database.table``."""
    topic: str
    pattern: str
    """The pattern as Canal has it."""
    is_of_database: bool


def convert_topics(draft: Draft, path: YamlPath, keys: Keys) -> None:
    """Put the topics of an instance's tables, and the form of its messages, if it publishes to topics."""
    if keys.text("canal.serverMode", "tcp").lower() not in _QUEUES:
        return
    draft.choose(
        ("topics", "existing"), "keep", "topics that exist keep their partitions and retention"
    )
    rules = list(_topics(draft, keys))
    for number, (entry, named) in enumerate(rules):
        rule = (*path, "row_topics", number)
        draft.take(entry, (*rule, "tables"), named.tables)
        draft.settings.put((*rule, "topic"), named.topic, entry.origin)
        draft.settings.put((*rule, "shared"), value=True, origin=entry.origin)
    _partitions(draft, path, keys, [named for _, named in rules])
    _messages(draft, path, keys)


def _messages(draft: Draft, path: YamlPath, keys: Keys) -> None:
    """Put the form of messages, and report where statements are published."""
    flat = keys.stated(_FLAT, "true")
    if flat.value.lower() == "true":
        draft.note("primary keys", "an update that changes a key is a DELETE and an INSERT")
        draft.take(flat, (*path, "format"), "canal")
    else:
        draft.lose(flat, "messages are Debezium's envelope in JSON, docs/wire.md, and not protobuf")
    ddl = keys.stated(_DDL, "false")
    if ddl.value.lower() not in ("true", "yes", "on"):
        prefix = draft.settings.get(("prefix",))
        draft.lose(
            ddl,
            f"topics of rows have no statements but TRUNCATE; they are on {prefix}.__ddl.{path[-1]}, in "
            "another form: docs/wire.md",
        )


def _topics(draft: Draft, keys: Keys) -> Iterator[tuple[Entry, _Named]]:
    """Yield the rules in the order in which Canal tries them: by table, by database, all others."""
    dynamic, fixed = keys.get("canal.mq.dynamicTopic"), keys.get("canal.mq.topic")
    if dynamic:
        rules = [found for item in _items(dynamic.value) if (found := _rule(draft, dynamic, item))]
        for of_database in (False, True):
            level = [one for one in rules if one.is_of_database is of_database]
            if _may_overlap(level):
                text = "a table that several items match is in the topic of the first alone"
                draft.lose(dynamic, text)
            yield from ((dynamic, one) for one in level)
    if fixed:
        topic = fixed.value.replace(".", "_") if dynamic else fixed.value
        every = _Named(tables=_EVERYTHING, topic=topic, pattern="", is_of_database=True)
        yield fixed, every


def _rule(draft: Draft, entry: Entry, item: str) -> _Named | None:
    """The rule of ``pattern`` or ``topic:pattern``; without a topic, each match has a topic of its name."""
    topic, colon, pattern = item.partition(":")
    pattern = (pattern if colon else item).strip()
    if fault := fault_of(pattern):
        draft.lose(entry, f"{pattern}: {fault}; its tables have other topics")
        return None
    is_wild = _WILD.search(pattern) is not None
    of_database = r"\." not in pattern if is_wild else "." not in pattern
    tables = pattern if is_wild else re.escape(pattern)
    own = "{lower_database}" if of_database else "{lower_database}_{lower_table}"
    return _Named(
        tables=rf"(?:{tables})\..*" if of_database else tables,
        topic=topic.strip().replace(".", "_") if colon else own,
        pattern=pattern,
        is_of_database=of_database,
    )


def _may_overlap(rules: list[_Named]) -> bool:
    """Whether one table may match two rules; Canal then publishes it to both topics."""
    wild = [one for one in rules if _WILD.search(one.pattern)]
    plain = [one.pattern for one in rules if one not in wild]
    matched = any(re.fullmatch(one.pattern, name, re.IGNORECASE) for one in wild for name in plain)
    return len(wild) > 1 or matched or len({name.lower() for name in plain}) < len(plain)


def _partitions(draft: Draft, path: YamlPath, keys: Keys, rules: list[_Named]) -> None:
    """Put one partition for all rows; if Canal spreads them by a hash, Kafka's own hash replaces it."""
    hashes, count = keys.get(_HASH), keys.get("canal.mq.partitionsNum")
    if hashes is None:
        place = keys.stated(_PARTITION, "0")
        if place.value != "0":
            draft.lose(place, "all rows are in partition 0")
        for number in range(len(rules)):
            draft.take(place, (*path, "row_topics", number, "partitions"), 1)
        return
    draft.lose(
        hashes,
        "a row is in the partition of its key by Kafka's own rule, so in another one than before: readers "
        "should have read all old records of a topic before they read new ones",
    )
    if count and count.value.isdecimal():
        draft.take(count, ("topics", "partitions"), int(count.value))
    for item in _items(hashes.value):
        pattern, colon, columns = item.rpartition(":")
        name = literal_name(pattern) if colon else ""
        if "." in name and columns.lower() != _PRIMARY_KEY:
            draft.take_rule(hashes, ("tables", name, "partition_by"), tuple(columns.split("^")))
    if counts := keys.get("canal.mq.dynamicTopicPartitionNum"):
        for item in _items(counts.value):
            _partitions_of_topic(draft, path, counts, item, rules)


def _partitions_of_topic(
    draft: Draft, path: YamlPath, entry: Entry, item: str, rules: list[_Named]
) -> None:
    topic, _, number = item.rpartition(":")
    owners = [at for at, one in enumerate(rules) if one.topic == topic.strip().replace(".", "_")]
    for at in owners:
        if number.strip().isdecimal():
            draft.take(entry, (*path, "row_topics", at, "partitions"), int(number))
    if not owners:
        draft.by_hand(entry, f"{item} is of no topic with a name; topics.partitions applies")


def _items(text: str) -> Iterator[str]:
    return (item.strip() for item in re.split(r"[,;]", text) if item.strip())
