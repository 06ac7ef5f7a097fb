"""The import of a Debezium connector: settings, mapping and report.

Debezium's lists of columns, masks and keys become rules of a mapping. Invariant: a table with hidden columns is
not captured if no rule can hide them.
"""

from __future__ import annotations

import re
from pathlib import Path

from app.migrate.debezium.connector import (
    Connector,
    provided,
    read_connector,
    separated,
    with_worker,
)
from app.migrate.debezium.known_keys import KNOWN
from app.migrate.debezium.offset import convert_offset, convert_snapshots, read_offset
from app.migrate.debezium.records import convert_records
from app.migrate.draft import Draft, Entry, Imported, dotted
from app.migrate.foreign_values import (
    NOTHING,
    TLS_MODES,
    convert_login,
    destination_name,
    exclude_statements,
    fault_of,
    literal_name,
    password_file,
    server_id,
)
from app.migrate.yaml_text import Value, YamlPath

_SETTINGS = ("Settings of Aqueduct, imported from Debezium. docs/settings.md explains each.",)
_MAPPING = ("A mapping of Aqueduct, imported from Debezium: keys and columns of tables.",)
_PROVIDED = "comes from a config provider of Kafka Connect; set it by a file or a variable"


def import_debezium(
    file: Path, *, offsets: Path | None, prefix: str, worker: Path | None = None
) -> Imported:
    """Return the settings, mapping and report for a connector; raise UsageError if the file configures none."""
    connector = read_connector(file)
    if worker is not None:
        connector = with_worker(connector, worker)
    draft = Draft()
    _prefix(draft, connector, prefix)
    _kafka(draft, connector)
    _topics(draft, connector)
    _published(draft, connector)
    _connect(draft, connector)
    name = destination_name(connector.name)
    if name != connector.name:
        draft.note(connector.name, f"its destination is named {name}")
    path = ("destinations", name)
    convert_destination(draft, path, connector)
    convert_tables(draft, (*path, "filter"), connector)
    convert_columns(draft, connector)
    convert_records(draft, path, connector)
    if offsets is not None:
        convert_offset(draft, path, read_offset(offsets), offsets)
    convert_snapshots(draft, path, connector, resumes=offsets is not None)
    for entry in connector.entries:
        if provided(entry) and not draft.is_accounted(entry):
            draft.by_hand(entry, _PROVIDED)
    draft.account(((entry.key, entry) for entry in connector.entries), KNOWN)
    return draft.result(settings_head=_SETTINGS, mapping_head=_MAPPING)


# Debezium's lists of databases and tables as a filter.
#
# Both programs match whole names without regard to case. In Debezium, a table must match the list of databases
# and the list of tables. Commas separate the items of a list, unless a backslash precedes them. Databases are
# matched by name alone.


_HIDDEN = "has tables whose hidden columns no executed rule of the mapping hides"
_DATABASES = ("database.include.list", "database.whitelist")
_NO_DATABASES = ("database.exclude.list", "database.blacklist")
_TABLES = ("table.include.list", "table.whitelist")
_NO_TABLES = ("table.exclude.list", "table.blacklist")


def convert_tables(draft: Draft, path: YamlPath, connector: Connector) -> None:
    """Put the filter; nothing is captured while a list cannot be used."""
    lists = [connector.get(*names) for names in (_DATABASES, _NO_DATABASES, _TABLES, _NO_TABLES)]
    faults = [(entry, _fault(entry.value)) for entry in lists if entry]
    for entry, fault in faults:
        if fault:
            draft.lose(entry, f"{fault}. Nothing is captured until then")
            reason = "captures nothing until the filter is written"
            draft.choose((*path, "include"), NOTHING, reason)
    usable = [entry if entry and not _fault(entry.value) else None for entry in lists]
    _include(draft, (*path, "include"), usable[0], usable[2])
    _black(draft, (*path, "black"), connector, [entry for entry in (usable[1], usable[3]) if entry])


def _fault(text: str) -> str:
    """Why a list cannot be used; a comma after a backslash is part of an expression."""
    found = (fault_of(part) for part in separated(text))
    if any(r"\," in part for part in separated(text)):
        return "an expression has a comma; write its alternatives as a list"
    return next(filter(None, found), "")


def _include(draft: Draft, path: YamlPath, databases: Entry | None, tables: Entry | None) -> None:
    if draft.settings.has(path):
        return
    if tables:
        within = _within(databases.value, tables.value) if databases else ""
        parts = [f"{within}(?:{one})" if within else one for one in separated(tables.value)]
        for entry in filter(None, (tables, databases)):
            draft.take(entry, path, ",".join(parts))
    elif databases:
        draft.take(databases, path, ",".join(map(_all_tables_of, separated(databases.value))))


def _within(databases: str, tables: str) -> str:
    """A condition on the database, before a table's expression; empty if all tables are in listed databases."""
    listed = {literal_name(part).lower() for part in separated(databases)}
    named = {literal_name(part).partition(".")[0].lower() for part in separated(tables)}
    if "" not in named and named <= listed:
        return ""
    return rf"(?=(?:{'|'.join(separated(databases))})\.)"


def _all_tables_of(database: str) -> str:
    name = literal_name(database)
    return rf"{re.escape(name)}\..*" if name else rf"(?:{database})\..*"


def _black(draft: Draft, path: YamlPath, connector: Connector, lists: list[Entry]) -> None:
    """Put the tables that are not captured, including those with hidden columns."""
    filtered = filtered_tables(connector)
    parts: list[str] = []
    for entry in lists:
        is_databases = entry.key in _NO_DATABASES
        parts += map(_all_tables_of if is_databases else str, separated(entry.value))
    whole = ",".join(dict.fromkeys([*parts, *filtered]))
    for entry in lists:
        draft.take(entry, path, whole)
    if filtered:
        draft.settings.put(path, whole, "column lists; see the report")
        draft.note(dotted(path), f"{_HIDDEN}: {', '.join(filtered)}")


# The settings that a worker has only once, from a connector: prefix, Kafka, topics, DDL; and the keys of what
# only Kafka Connect does.


_HISTORIES = ("schema.history.internal.", "database.history.")
_PREFIX = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.-]{0,99}")
_CREATION = {
    "partitions": "partitions",
    "replication.factor": "replication_factor",
    "retention.ms": "retention_ms",
    "max.message.bytes": "max_message_bytes",
}


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
    """Put the brokers and the account of the schema history; a connector names no others."""
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


def _unless_default(draft: Draft, entry: Entry, path: YamlPath, value: int) -> None:
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
        exclude_statements(draft, ddl)
    skipped = connector.get("skipped.operations")
    if skipped and set("cud") & set(skipped.value.replace(" ", "").split(",")):
        draft.lose(skipped, "they are published; a mapping has `operations` for each table")


def _connect(draft: Draft, connector: Connector) -> None:
    """Report the keys of converters of values, which only Kafka Connect runs."""
    for converter in filter(None, [connector.get("converters")]):
        for name in converter.value.split(","):
            for entry in connector.beginning(f"{name.strip()}."):
                draft.by_hand(
                    entry, "belongs to a converter of values, which Aqueduct does not run"
                )


_INCLUDE = ("column.include.list", "column.whitelist")
_EXCLUDE = ("column.exclude.list", "column.blacklist")
_HASH = re.compile(r"column\.mask\.hash(?:\.v2)?\.[^.]+\.with\.salt\..*")
_CHARACTERS = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_TRUNCATE = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_EVERYTHING = ".*"
_KEY_ID = "debezium"
_MOST_STARS = 16_383
"""The length of the longest VARCHAR of MySQL in utf8mb4, which is the type of what a mask publishes."""
_NULLS = "a NULL stays NULL, where Debezium writes the same text"
_BY_PATTERN = "{} is a pattern, and has no rule: write one for each table in the mapping"
_NOT_CAPTURED = (
    "{} is a pattern, and its tables are not captured: write a rule for each in the mapping"
)


def convert_columns(draft: Draft, connector: Connector) -> None:
    """Put the rules of columns and keys that name their tables."""
    for entry in connector.entries:
        if not entry.value:
            continue
        if entry.key in _INCLUDE:
            _included(draft, entry)
        elif entry.key == "message.key.columns":
            # Keys of tables, as `database.table:column,column;…`.
            for item in filter(str.strip, entry.value.split(";")):
                pattern, _, columns = item.rpartition(":")
                name = literal_name(pattern)
                if name.count(".") == 1:
                    names = tuple(one.strip() for one in columns.split(",") if one.strip())
                    draft.take_rule(entry, ("tables", name, "key"), names)
                else:
                    draft.lose(entry, _BY_PATTERN.format(item.strip()) + "; keys are primary keys")
        elif (action := _action(entry.key)) is not None:
            _actions(draft, entry, *action)


def filtered_tables(connector: Connector) -> list[str]:
    """Return expressions for the tables with hidden or changed columns that no rule hides."""
    found: dict[str, None] = {}
    for entry in connector.entries:
        if entry.key in _INCLUDE and entry.value:
            found[_tables_without_columns(entry)] = None
        elif _action(entry.key) is not None:
            found |= dict.fromkeys(filter(None, map(_table_expression, separated(entry.value))))
    return [_EVERYTHING] if _EVERYTHING in found else list(found)


def _tables_without_columns(entry: Entry) -> str:
    """An expression for the tables that a list of columns does not name, and so leaves without columns."""
    names = [_split(literal_name(part))[0] for part in separated(entry.value)]
    named = [re.escape(name) for name in dict.fromkeys(names) if name]
    if not named:
        return _EVERYTHING
    return rf"(?!(?:{'|'.join(named)})$).*"


def _action(key: str) -> tuple[str, Value] | None:
    """The action of a key, with its argument; None if the key changes no column."""
    if key in _EXCLUDE:
        return "drop", None
    if _HASH.fullmatch(key):
        return "hmac", _KEY_ID
    if match := _CHARACTERS.fullmatch(key):
        return "redact", "*" * min(int(match[1]), _MOST_STARS) or None
    if match := _TRUNCATE.fullmatch(key):
        return "truncate", int(match[1])
    return None


def _actions(draft: Draft, entry: Entry, action: str, argument: Value) -> None:
    for part in separated(entry.value):
        table, column = _split(literal_name(part))
        if not table:
            draft.lose(entry, _NOT_CAPTURED.format(part))
        elif argument is None:
            draft.take_rule(entry, ("tables", table, "column_actions", column), action)
        else:
            draft.take_rule(entry, ("tables", table, "column_actions", column, action), argument)
    if stars := _CHARACTERS.fullmatch(entry.key):
        draft.lose(entry, _different_stars(int(stars[1])))
    if action == "hmac":
        draft.lose(entry, f"hashes get a key of their own, {_KEY_ID}, and differ from Debezium's")


def _different_stars(count: int) -> str:
    """What readers see otherwise of a column whose values were so many asterisks."""
    if count == 0:
        return "each value is NULL, and no empty text"
    if count > _MOST_STARS:
        return f"each value has {_MOST_STARS} asterisks; {_NULLS}"
    return _NULLS


def _included(draft: Draft, entry: Entry) -> None:
    columns: dict[str, list[str]] = {}
    for part in separated(entry.value):
        table, column = _split(literal_name(part))
        if table:
            columns.setdefault(table, []).append(column)
        else:
            draft.lose(entry, _NOT_CAPTURED.format(part))
    for table, names in columns.items():
        draft.take_rule(entry, ("tables", table, "columns"), tuple(names))


def _split(name: str) -> tuple[str, str]:
    """Table and column of ``database.table.column``; empty for another name."""
    table, _, column = name.rpartition(".")
    return (table, column) if table.count(".") == 1 else ("", "")


def _table_expression(part: str) -> str:
    """The tables of an expression over columns; all if it cannot be split, empty if a rule hides the column."""
    table, _ = _split(literal_name(part))
    if table:
        return ""
    head, dot, column = part.rpartition(r"\.")
    is_plain = dot and re.fullmatch(r"\w+", column) and r"\." in head and "|" not in head
    return head if is_plain and "," not in head else _EVERYTHING


# A connector as a destination: server and account.

_TIME_ZONE = re.compile(r"UTC|GMT|[+-]\d{2}:\d{2}|\w+/[\w/+-]+")
_STOP_FIRST = "stop the connector first: two replicas with one server id interrupt each other"
_OTHER_SERVERS = (
    "an offset's GTID set may lack other servers' transactions, which are then published"
)
_SKIPPING = ("warn", "skip", "ignore")


def convert_destination(draft: Draft, path: YamlPath, connector: Connector) -> None:
    """Put the server, the account and the server id."""
    _server(draft, (*path, "source"), connector)
    _password(draft, (*path, "source"), connector)
    number = connector.get("database.server.id")
    if number and number.value.isdecimal():
        draft.take(number, (*path, "server_id"), int(number.value))
        draft.by_hand(number, _STOP_FIRST)
    reason = "made of the destination's name; no other replica of the server may have it"
    draft.choose((*path, "server_id"), server_id(str(path[1])), reason)
    zone = connector.get("database.connectionTimeZone", "database.serverTimezone")
    if zone and _TIME_ZONE.fullmatch(zone.value):
        draft.take(zone, (*path, "time_zone"), zone.value)
    for entry in connector.beginning("gtid.source."):
        draft.by_hand(entry, _OTHER_SERVERS)
    _undecodable(draft, path, connector)
    _truncates(draft, path, connector)


def _server(draft: Draft, path: YamlPath, connector: Connector) -> None:
    if host := connector.get("database.hostname"):
        draft.take(host, (*path, "host"), host.value)
    port = connector.get("database.port")
    if port and port.value.isdecimal():
        draft.take(port, (*path, "port"), int(port.value))
    if user := connector.get("database.user"):
        draft.take(user, (*path, "user"), user.value)
    for name in ("host", "user"):
        draft.choose((*path, name), f"the-{name}", f"write the {name} of the source")
    mode = connector.get("database.ssl.mode")
    if mode and mode.value.lower() in TLS_MODES:
        draft.take(mode, (*path, "tls"), mode.value.lower())
    for entry in connector.beginning("database.ssl.truststore"):
        draft.by_hand(entry, "export the CA as PEM and name it in the source's tls_ca")
    for entry in connector.beginning("database.ssl.keystore"):
        draft.by_hand(
            entry, "client certificates are not supported; use an account with a password"
        )


def _password(draft: Draft, path: YamlPath, connector: Connector) -> None:
    file = password_file(str(path[1]))
    given = [entry for entry in connector.entries if entry.key == "database.password"]
    draft.settings.put((*path, "password_file"), file, given[0].origin if given else "")
    for entry in given:
        draft.by_hand(entry, f"write the password into {file}; it is not copied")
    if not given:
        draft.note(dotted(path), f"write the password into {file}")


def _undecodable(draft: Draft, path: YamlPath, connector: Connector) -> None:
    names = (
        "event.processing.failure.handling.mode",
        "event.deserialization.failure.handling.mode",
    )
    mode = connector.get(*names)
    if mode and mode.value.lower() in _SKIPPING:
        draft.take(mode, (*path, "poison"), "dead_letter")


def _truncates(draft: Draft, path: YamlPath, connector: Connector) -> None:
    """Put whether a TRUNCATE has a record; since Debezium 2.0 it has one only if the connector requests it."""
    skipped, setting = connector.get("skipped.operations"), (*path, "truncates")
    if skipped:
        omits = "t" in skipped.value.replace(" ", "").split(",")
        draft.take(skipped, setting, "omit" if omits else "record")
    elif connector.get("topic.prefix") or not connector.get("database.server.name"):
        reason = "the default of skipped.operations is t since Debezium 2.0; record publishes each TRUNCATE"
        draft.choose(setting, "omit", reason)
