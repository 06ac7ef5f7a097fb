"""What a worker has one of, from a connector: prefix, Kafka, topics, DDL; and what only Kafka Connect does."""

from __future__ import annotations

import re

from app.migrate.account import ALL_DDL, convert_login
from app.migrate.debezium.connector import Connector
from app.migrate.draft import Draft
from app.migrate.findings import Entry
from app.migrate.yaml_text import Path

_HISTORIES = ("schema.history.internal.", "database.history.")
_PREFIX = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.-]{0,99}")
_CREATION = {
    "partitions": "partitions",
    "replication.factor": "replication_factor",
    "retention.ms": "retention_ms",
    "max.message.bytes": "max_message_bytes",
}


def convert_worker(draft: Draft, connector: Connector, *, prefix: str) -> None:
    """Put the prefix and the settings of Kafka, topics and DDL."""
    _prefix(draft, connector, prefix)
    _kafka(draft, connector)
    _topics(draft, connector)
    _published(draft, connector)
    _connect(draft, connector)


def _prefix(draft: Draft, connector: Connector, given: str) -> None:
    entry = connector.get("topic.prefix", "database.server.name")
    if given or entry is None:
        draft.settings.put(("prefix",), given or "aq")
    elif _PREFIX.fullmatch(entry.value):
        draft.take(entry, ("prefix",), entry.value)
    else:
        plain = re.sub(r"[^a-zA-Z0-9.-]+", "-", entry.value).strip("-.")[:100] or "aq"
        draft.settings.put(("prefix",), plain, entry.origin)
        draft.instead(
            entry,
            f"the prefix of Aqueduct's own topics is {plain}: it has letters, digits, '.' and '-' only; "
            "the sink reads no topics of rows without it",
        )


def _kafka(draft: Draft, connector: Connector) -> None:
    """The brokers and the account of the schema history, the only ones that a connector names."""
    names = [f"{history}kafka.bootstrap.servers" for history in _HISTORIES]
    if brokers := connector.get(*names, "signal.kafka.bootstrap.servers"):
        draft.take(brokers, ("kafka", "bootstrap_servers"), brokers.value)
    draft.choose(("kafka", "bootstrap_servers"), "127.0.0.1:9092", "name your brokers")
    for name, setting in (("security.protocol", "security_protocol"), ("sasl.mechanism",) * 2):
        if entry := connector.get(*(f"{history}producer.{name}" for history in _HISTORIES)):
            draft.take(entry, ("kafka", setting.replace(".", "_")), entry.value.upper())
    if login := connector.get(*(f"{history}producer.sasl.jaas.config" for history in _HISTORIES)):
        convert_login(draft, login)


def _topics(draft: Draft, connector: Connector) -> None:
    for name, setting in _CREATION.items():
        entry = connector.get(f"topic.creation.default.{name}")
        if entry and re.fullmatch(r"-?\d+", entry.value):
            _unless_default(draft, entry, ("topics", setting), int(entry.value))
    if policy := connector.get("topic.creation.default.cleanup.policy"):
        draft.take(policy, ("topics", "cleanup_policy"), policy.value)
    if compression := connector.get("topic.creation.default.compression.type"):
        value = compression.value.lower()
        if value in ("lz4", "gzip", "zstd", "snappy"):
            draft.take(compression, ("publish", "compression"), value)


def _unless_default(draft: Draft, entry: Entry, path: Path, value: int) -> None:
    """Put a number; -1 means the brokers' default, except for a retention."""
    if value != -1 or path[-1] == "retention_ms":
        draft.take(entry, path, value)
    else:
        draft.by_hand(entry, f"-1 means the brokers' default; set {path[-1]}")


def _published(draft: Draft, connector: Connector) -> None:
    query, markers = connector.get("include.query"), connector.get("provide.transaction.metadata")
    if query and query.value.lower() == "true":
        draft.take(query, ("include_query",), value=True)
    if markers and markers.value.lower() == "true":
        draft.take(markers, ("provide_transaction_metadata",), value=True)
    ddl = connector.get("include.schema.changes")
    if ddl and ddl.value.lower() == "false":
        draft.take(ddl, ("ddl", "exclude"), ALL_DDL)
    skipped = connector.get("skipped.operations")
    if skipped and set("cud") & set(skipped.value.replace(" ", "").split(",")):
        draft.lose(skipped, "they are published; a mapping has `operations` for each table")


def _connect(draft: Draft, connector: Connector) -> None:
    """What Kafka Connect has for converters of values."""
    for converter in filter(None, [connector.get("converters")]):
        for name in converter.value.split(","):
            for entry in connector.beginning(f"{name.strip()}."):
                draft.by_hand(
                    entry, "belongs to a converter of values, which Aqueduct does not run"
                )
