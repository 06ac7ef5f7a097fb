"""What readers of a connector's topics see is kept: names of topics, forms of values, converters, transforms.

Invariant: what is not kept is reported by its key, even if the key has Debezium's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.migrate.debezium.connector import Connector
from app.migrate.draft import Draft, Entry
from app.migrate.yaml_text import YamlPath
from app.settings.mapping import ConnectSettings
from tables.rules.routes.topic_names import TopicRename

Renames = list[tuple[Entry, str, str]]
"""Keys, each with the expression and the replacement that it configures."""

_MODES = {
    "decimal.handling.mode": ("decimal", "precise"),
    "time.precision.mode": ("time", "adaptive_time_microseconds"),
    "bigint.unsigned.handling.mode": ("bigint_unsigned", "long"),
    "binary.handling.mode": ("binary", "bytes"),
}
"""The settings of the format ``connect``, and Debezium's defaults."""
_PLAIN_NAMES = ("SchemaTopicNamingStrategy", "DefaultTopicNamingStrategy")
_REGEX_NAMES = "DefaultRegexTopicNamingStrategy"
_KEY_OF_LOGICAL = "__dbz__physicalTableIdentifier"
_UNWRAPPED = "ExtractNewRecordState"
_OF_UNWRAP = ("type", "drop.tombstones", "delete.tombstone.handling.mode", "delete.handling.mode")
_TRUE, _FALSE = "true", "false"
_NO_STATEMENTS = (
    "{} gets no more records; statements are on {}.__ddl.{}, in another form: docs/wire.md"
)


def convert_records(draft: Draft, path: YamlPath, connector: Connector) -> None:
    """Put the names and the forms of the destination's records."""
    draft.choose(
        ("topics", "existing"), "keep", "topics that exist keep their partitions and retention"
    )
    prefix = connector.get("topic.prefix", "database.server.name")
    renames = list(_transforms(draft, path, connector))
    if prefix:
        _names(draft, path, connector, prefix, renames)
        draft.settings.put((*path, "connect", "source_name"), prefix.value, prefix.origin)
    _values(draft, (*path, "connect"), connector)
    _converters(draft, path, connector, shares=bool(renames))
    _other_topics(draft, connector, prefix.value if prefix else "", str(path[-1]))
    _fields(draft, connector)


def _names(
    draft: Draft, path: YamlPath, connector: Connector, prefix: Entry, renames: Renames
) -> None:
    """Put the name of each table's topic, and whether tables may share a topic."""
    rule = (*path, "row_topics", 0)
    delimiter = connector.stated("topic.delimiter", ".")
    strategy = connector.stated(
        "topic.naming.strategy", "io.debezium.schema.SchemaTopicNamingStrategy"
    )
    kind = strategy.value.rpartition(".")[2]
    name = delimiter.value.join((prefix.value, "{database}", "{table}"))
    draft.take(prefix, (*rule, "topic"), name)
    draft.take(delimiter, (*rule, "topic"), name)
    if kind == _REGEX_NAMES:
        regex, new = connector.get("topic.regex"), connector.get("topic.replacement")
        if regex and new:
            renames.insert(0, (regex, regex.value, new.value))
            draft.take(strategy, (*rule, "renames", 0, "regex"), regex.value)
            draft.take(new, (*rule, "renames", 0, "replacement"), new.value)
    elif kind in _PLAIN_NAMES:
        draft.take(strategy, (*rule, "topic"), name)
    else:
        draft.lose(strategy, f"topics are named {name}, with `_` for what Kafka refuses")
    for number, (entry, expression, replacement) in enumerate(renames):
        at = (*rule, "renames", number)
        draft.take(entry, (*at, "regex"), _pythons(expression))
        draft.settings.put((*at, "replacement"), replacement, entry.origin)
    if renames:
        draft.settings.put((*rule, "shared"), value=True, origin=renames[0][0].origin)


def _pythons(regex: str) -> str:
    """A Java expression, with the names of its groups in Python's syntax."""
    return re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", regex)


def _transforms(
    draft: Draft, path: YamlPath, connector: Connector
) -> Iterator[tuple[Entry, str, str]]:
    """Convert the transforms; yield the renamings of topics, in their order."""
    listed = connector.get("transforms")
    names = [one.strip() for one in listed.value.split(",") if one.strip()] if listed else []
    if listed:
        draft.instead(listed, "each transform is reported by its own keys")
    for name in names:
        head = f"transforms.{name}."
        kind = connector.get(f"{head}type")
        if kind is None:
            continue
        if connector.get(f"{head}predicate"):
            predicate = connector.stated(f"{head}predicate", "")
            draft.lose(predicate, "predicates of transforms have no counterpart")
            continue
        short = kind.value.rpartition(".")[2].partition("$")[0]
        if short == "RegexRouter":
            yield from _renames(draft, connector, kind, (f"{head}regex", f"{head}replacement"))
        elif short == "ByLogicalTableRouter":
            _logical_keys(draft, connector, head)
            keys = (f"{head}topic.regex", f"{head}topic.replacement")
            yield from _renames(draft, connector, kind, keys)
        elif short == _UNWRAPPED:
            _unwrap(draft, path, connector, head)
        else:
            draft.lose(kind, f"{short} has no counterpart: records are published without it")


def _renames(
    draft: Draft, connector: Connector, kind: Entry, keys: tuple[str, str]
) -> Iterator[tuple[Entry, str, str]]:
    regex, new = connector.get(keys[0]), connector.get(keys[1])
    if regex is None:
        draft.lose(kind, "its expression is missing or comes from a config provider")
        return
    replacement = new.value if new else ""
    fault = TopicRename(regex=_pythons(regex.value), replacement=replacement).fault()
    if fault:
        draft.lose(regex, f"{fault}: topics keep their names")
        return
    draft.instead(kind, "row_topics.renames")
    if new:
        draft.instead(new, "row_topics.renames")
    yield regex, regex.value, replacement


def _logical_keys(draft: Draft, connector: Connector, head: str) -> None:
    """Report the field that ByLogicalTableRouter adds to keys, by default or explicitly."""
    unique = connector.stated(f"{head}key.enforce.uniqueness", _TRUE)
    if unique.value.lower() != _FALSE:
        field = connector.text(f"{head}key.field.name", default=_KEY_OF_LOGICAL)
        draft.lose(
            unique, f"keys lack the field {field}: equal keys of two tables are not distinguished"
        )
    else:
        draft.instead(unique, "keys are those of the tables")


def _unwrap(draft: Draft, path: YamlPath, connector: Connector, head: str) -> None:
    """Convert ExtractNewRecordState, whose records are the row alone."""
    kind = connector.stated(f"{head}type", "")
    draft.take(kind, (*path, "connect", "unwrap"), value=True)
    if draft.settings.get((*path, "truncates")) != "omit":
        draft.settings.remove((*path, "truncates"))
        draft.settings.put((*path, "truncates"), "omit", kind.origin)
        draft.lose(connector.stated("skipped.operations", "none"), "a TRUNCATE has no record")
    deletes = connector.get(f"{head}delete.tombstone.handling.mode")
    if deletes is None:
        older = connector.get(f"{head}delete.handling.mode", f"{head}drop.tombstones")
        deletes = older or connector.stated(f"{head}delete.tombstone.handling.mode", "tombstone")
    if deletes.key.endswith("tombstone.handling.mode") and deletes.value.lower() == "tombstone":
        draft.instead(deletes, "a delete is one record, whose value is null")
    else:
        draft.lose(deletes, "a delete is one record, whose value is null")
    for entry in connector.beginning(head):
        if entry.key.removeprefix(head) not in _OF_UNWRAP:
            draft.lose(entry, "records have the columns of the row alone, without this")


def _values(draft: Draft, path: YamlPath, connector: Connector) -> None:
    """Put the forms of values; Debezium's defaults are reported too."""
    for key, (name, default) in _MODES.items():
        entry = connector.stated(key, default)
        value = entry.value.lower()
        allowed = ConnectSettings.model_fields[name].annotation
        if value in getattr(allowed, "__args__", ()):
            draft.take(entry, (*path, name), value)
        else:
            draft.lose(entry, f"Aqueduct has no such mode: values are written as with {default}")
    years = connector.stated("enable.time.adjuster", _TRUE)
    draft.take(years, (*path, "adjust_years"), years.value.lower() != _FALSE)
    tombstones = connector.stated("tombstones.on.delete", _TRUE)
    draft.take(tombstones, (*path, "tombstones"), tombstones.value.lower() != _FALSE)


def _converters(draft: Draft, path: YamlPath, connector: Connector, *, shares: bool) -> None:
    """Put the converters; those of Kafka Connect's worker apply if the connector names none."""
    form = (*path, "format")
    for side in ("key", "value"):
        name = f"{side}.converter"
        entry = connector.get(name)
        if entry is None:
            missing = connector.stated(name, "the worker's")
            draft.lose(
                missing,
                f"each {side} is JSON without a schema; give --worker to keep what the worker converts to",
            )
            continue
        kind = entry.value.rpartition(".")[2]
        if kind == "JsonConverter":
            _json(draft, path, connector, entry)
        elif kind == "AvroConverter" and side == "value" and not shares:
            draft.lose(
                entry,
                "records are Avro with Aqueduct's own schemas (docs/formats.md), which the registry may refuse "
                "beside those of the connector; dates and times are texts",
            )
            draft.settings.put(form, "avro", entry.origin)
            registry = connector.get(f"{name}.schema.registry.url")
            if registry:
                draft.take(registry, ("mapping", "schema_registry", "url"), registry.value)
        else:
            draft.lose(entry, f"each {side} is JSON without a schema, and not what {kind} writes")
    draft.settings.put(form, "connect", "chosen; see the report")


def _json(draft: Draft, path: YamlPath, connector: Connector, entry: Entry) -> None:
    """Convert Kafka Connect's JSON converter, which by default includes schemas."""
    side = entry.key.partition(".")[0]
    draft.take(entry, (*path, "format"), "connect")
    schemas = connector.stated(f"{entry.key}.schemas.enable", _TRUE)
    draft.take(schemas, (*path, "connect", f"{side}_schemas"), schemas.value.lower() == _TRUE)
    decimals = connector.stated(f"{entry.key}.decimal.format", "BASE64")
    if side == "value":
        draft.take(decimals, (*path, "connect", "decimal_format"), decimals.value.lower())
    elif decimals.value.upper() != "BASE64":
        draft.lose(decimals, "decimals in keys are Base64")
    else:
        draft.instead(decimals, "decimals in keys are Base64")
    nulls = connector.stated(f"{entry.key}.replace.null.with.default", _TRUE)
    if nulls.value.lower() == _TRUE:
        draft.instead(nulls, "a NULL is null, also in a column with a default")


def _other_topics(draft: Draft, connector: Connector, prefix: str, name: str) -> None:
    """Report the topics other than those of rows."""
    installation = draft.settings.get(("prefix",))
    statements = connector.stated("include.schema.changes", _TRUE)
    if statements.value.lower() != _FALSE:
        draft.lose(statements, _NO_STATEMENTS.format(prefix, installation, name))
    markers = connector.stated("provide.transaction.metadata", _FALSE)
    if markers.value.lower() == _TRUE:
        draft.lose(
            markers,
            f"records have no `transaction`, and {prefix}.transaction gets no more records; markers are on "
            f"{installation}.__transactions.{name}, in another form: docs/wire.md",
        )
    else:
        draft.instead(markers, "`transaction` is null")
    beats = connector.stated("heartbeat.interval.ms", "0")
    if beats.value not in ("", "0"):
        topic = connector.text("topic.heartbeat.prefix", default="__debezium-heartbeat")
        draft.lose(beats, f"{topic}.{prefix} gets no more records")
    else:
        draft.instead(beats, "there is no topic of heartbeats")


def _fields(draft: Draft, connector: Connector) -> None:
    """Report the other keys that change the content of records."""
    failure = connector.stated("event.processing.failure.handling.mode", "fail")
    if not draft.is_accounted(failure):
        draft.instead(failure, "poison: stop")
    headers = connector.stated("extended.headers.enabled", _TRUE)
    if headers.value.lower() == _TRUE:
        draft.instead(headers, "records lack the headers __debezium.context.*")
    unchanged = connector.stated("skip.messages.without.change", _FALSE)
    if unchanged.value.lower() == _TRUE:
        draft.lose(unchanged, "updates that change no published column are published")
    else:
        draft.instead(unchanged, "each change in the binlog is published")
    for key in (
        "field.name.adjustment.mode",
        "schema.name.adjustment.mode",
        "sanitize.field.names",
    ):
        entry = connector.get(key)
        if entry and entry.value.lower() not in ("none", _FALSE):
            draft.lose(entry, "names are published as they are")
    for key in ("converters", "post.processors", "sourceinfo.struct.maker"):
        if entry := connector.get(key):
            draft.lose(entry, "Aqueduct does not run it: values are as without it")
    for key in ("column.propagate.source.type", "datatype.propagate.source.type"):
        if entry := connector.get(key):
            draft.lose(
                entry, "schemas of records have no types of the source; the schemas topic has them"
            )
