"""The import of Canal's conf folder: settings, mapping and report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.migrate.canal.configuration import (
    ADDRESS,
    Configuration,
    Cursor,
    Instance,
    Keys,
    Surroundings,
    number_of,
    plain_name,
    read_configuration,
)
from app.migrate.canal.known_keys import KNOWN
from app.migrate.draft import Draft, Entry, Imported
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
from app.migrate.properties import is_unresolved
from app.migrate.yaml_text import YamlPath
from connectors.errors import UsageError
from tables.rules.mapping.rules import OMIT

# Canal's column filters as rules of a mapping.


_ALLOWED = "canal.instance.filter.field"
_BLACK = "canal.instance.filter.black.field"
_FIELD = re.compile(r"\s*([^.:\s]+)\.([^.:\s]+?)\s*:\s*([^:]*[^:/\s])\s*")


def convert_columns(draft: Draft, keys: Keys) -> None:
    """Put the columns to publish and the columns to drop, by table."""
    if allowed := keys.get(_ALLOWED):
        for table, columns in _tables(draft, allowed):
            draft.take_rule(allowed, ("tables", table, "columns"), columns)
    if black := keys.get(_BLACK):
        for table, columns in _tables(draft, black):
            for column in columns:
                draft.take_rule(black, ("tables", table, "column_actions", column), "drop")


def _tables(draft: Draft, entry: Entry) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Tables with their columns, as ``database.table:column/column``."""
    for item in filter(str.strip, entry.value.split(",")):
        if match := _FIELD.fullmatch(item):
            columns = tuple(one.strip() for one in match[3].split("/") if one.strip())
            yield f"{match[1]}.{match[2]}", columns
        else:
            text = f"{item.strip()} is not database.table:column/column, so Canal ignores it"
            draft.by_hand(entry, text)


# Where Canal keeps its cursors, by the Spring file of an instance: memory, files, ZooKeeper.


_JOURNAL = "Aqueduct commits the cursor to the journal topic, with the rows"
_MODES = {
    "memory-instance.xml": f"Canal kept cursors in memory only; {_JOURNAL}",
    "file-instance.xml": f"Canal wrote cursors to meta.dat after a while; {_JOURNAL}",
    "default-instance.xml": f"Canal wrote cursors to ZooKeeper after a while; {_JOURNAL}",
    "group-instance.xml": "Canal read several masters as one; here each is a destination, and a mapping "
    "can make their tables one logical table",
}
_OTHER = f"a Spring file of your own; {_JOURNAL}"
_IN_ZOOKEEPER = "default-instance.xml"
_EXPORT = (
    "its cursor is in ZooKeeper: save `zkCli.sh get /otter/canal/destinations/{name}/1001/cursor` in a "
    "file and import again with --cursor {name}=FILE; without it the start is that of instance.properties"
)
_MANAGER = "the configuration is in canal-admin; export its files into DIR and import again"


def convert_meta_mode(draft: Draft, instance: Instance) -> None:
    """Report the mode of an instance, and a cursor that has to be exported first."""
    keys = instance.keys
    own = f"canal.instance.{instance.name}"
    xml = keys.first(f"{own}.spring.xml", "canal.instance.global.spring.xml")
    if xml is not None:
        file = xml.value.rpartition("/")[2]
        draft.instead(xml, _MODES.get(file, _OTHER))
        if file == _IN_ZOOKEEPER and not instance.cursors:
            draft.note(instance.label, _EXPORT.format(name=instance.name))
    mode = keys.first(f"{own}.mode", "canal.instance.global.mode")
    if mode is not None and mode.value.lower() == "manager":
        draft.by_hand(mode, _MANAGER)


_SETTINGS = ("Settings of Aqueduct, imported from Canal. docs/settings.md explains each.",)
_MAPPING = (
    "A mapping of Aqueduct, imported from Canal: topics, partitions and columns of tables.",
)


def import_canal(folder: Path, surroundings: Surroundings, *, prefix: str) -> Imported:
    """Return the settings, mapping and report for a ``conf`` folder; raise UsageError if it has no instance."""
    found = read_configuration(folder, surroundings)
    draft = Draft()
    draft.settings.put(("prefix",), prefix)
    convert_server(draft, found.server)
    draft.choose(("kafka", "bootstrap_servers"), "127.0.0.1:9092", "name your brokers")
    _destinations(draft, found)
    _account(draft, found)
    return draft.result(settings_head=_SETTINGS, mapping_head=_MAPPING)


def _destinations(draft: Draft, found: Configuration) -> None:
    names: set[str] = set()
    for instance in found.instances:
        if instance.keys.get(ADDRESS) is None:
            draft.note(instance.label, f"not imported: it has no {ADDRESS}")
            continue
        name = destination_name(instance.label, names)
        names.add(name)
        _destination(draft, ("destinations", name), instance)
    if not names:
        raise UsageError("no instance has a server", remedy=f"Each needs {ADDRESS}")


def _destination(draft: Draft, path: tuple[str, ...], instance: Instance) -> None:
    if instance.label != path[1]:
        draft.note(instance.label, f"its destination is named {path[1]}")
    convert_instance(draft, path, instance)
    convert_start(draft, path, instance)
    convert_schema_history(draft, instance.keys)
    convert_topics(draft, path, instance.keys)
    convert_columns(draft, instance.keys)
    convert_meta_mode(draft, instance)
    for own in client_filters(instance):
        draft.by_hand(own, f"replaced the instance's filter at run time: {own.value}")


def _account(draft: Draft, found: Configuration) -> None:
    for name in found.missing:
        draft.note(name, "listed in canal.destinations, but it has no instance.properties")
    for name in found.not_run:
        draft.note(
            name, "not imported: canal.destinations does not list it, and canal.auto.scan is off"
        )
    whole = {(instance.file, instance.number) for instance in found.instances}
    for entry in found.entries:
        number = number_of(entry.key)
        if number and (entry.file, number) not in whole:
            draft.by_hand(entry, f"its file has no {ADDRESS} with the number {number}")
        if is_unresolved(entry.value) and draft.is_accounted(entry):
            draft.by_hand(entry, f"a placeholder has no value: {', '.join(_names(entry.value))}")
    draft.account(((plain_name(entry.key), entry) for entry in found.entries), KNOWN)


def _names(text: str) -> Iterator[str]:
    return (part.partition("}")[0].partition(":")[0] for part in text.split("${")[1:])


# The settings of Canal's server as a worker's settings: ZooKeeper, Kafka, DDL, the schema
# history.

_HTTP_PORT = 8083
_COMPRESSIONS = ("lz4", "gzip", "zstd", "snappy")
_JDBC = re.compile(r"jdbc:(?:mysql|mariadb)://(?:\[([^\]]+)\]|([^:/?,]+))(?::(\d+))?/([^?;]*)")
_OTHER_MODES = ("rocketmq", "rabbitmq", "pulsarmq")


def convert_server(draft: Draft, keys: Keys) -> None:
    """Put the settings that a worker has only once."""
    _worker(draft, keys)
    _zookeeper(draft, keys)
    _kafka(draft, keys)
    _published(draft, keys)


def _worker(draft: Draft, keys: Keys) -> None:
    address = keys.first("canal.register.ip", "canal.ip")
    if address is not None:
        path = ("worker", "advertised_address")
        draft.take(address, path, f"{address.value}:{_HTTP_PORT}")
    if mode := keys.get("canal.serverMode"):
        if mode.value.lower() in _OTHER_MODES:
            draft.lose(mode, "records are published to Kafka only")
        elif mode.value.lower() == "tcp":
            draft.lose(mode, "Canal's clients get nothing: they must become Kafka consumers")


def _zookeeper(draft: Draft, keys: Keys) -> None:
    """Put the servers; a path after them, the root of Canal's client, becomes part of Aqueduct's root."""
    if servers := keys.get("canal.zkServers"):
        hosts, slash, root = servers.value.partition("/")
        draft.take(servers, ("zookeeper", "hosts"), hosts)
        if slash:
            draft.take(servers, ("zookeeper", "root"), f"/{root.strip('/')}/aqueduct")


def _kafka(draft: Draft, keys: Keys) -> None:
    names = ["kafka.bootstrap.servers"]
    if keys.text("canal.serverMode", "kafka").lower() == "kafka":
        names.append("canal.mq.servers")
    if brokers := keys.first(*names):
        draft.take(brokers, ("kafka", "bootstrap_servers"), brokers.value)
    if protocol := keys.get("kafka.security.protocol"):
        draft.take(protocol, ("kafka", "security_protocol"), protocol.value.upper())
    if mechanism := keys.get("kafka.sasl.mechanism"):
        draft.take(mechanism, ("kafka", "sasl_mechanism"), mechanism.value.upper())
    if login := keys.get("kafka.sasl.jaas.config"):
        convert_login(draft, login)
    for name, entry in keys:
        if name.startswith("kafka.ssl.") and entry.value:
            draft.by_hand(entry, "export the CA as PEM and name it in kafka.ssl_cafile")
    if keys.is_true("kafka.kerberos.enable"):
        kerberos = keys.get("kafka.kerberos.enable")
        assert kerberos is not None
        draft.by_hand(kerberos, "Kerberos is not supported; make a SCRAM account")


def _published(draft: Draft, keys: Keys) -> None:
    if compression := keys.first("kafka.compression.type", "canal.mq.compressionType"):
        value = compression.value.lower()
        if value == "none":
            draft.take(compression, ("publish", "compression"), None)
        elif value in _COMPRESSIONS:
            draft.take(compression, ("publish", "compression"), value)
    if keys.is_true(_DDL) and (entry := keys.get(_DDL)):
        exclude_statements(draft, entry)
    if keys.is_true("canal.instance.filter.transaction.entry"):
        path = ("provide_transaction_metadata",)
        _take(draft, keys, "canal.instance.filter.transaction.entry", path, value=False)


def _take(draft: Draft, keys: Keys, name: str, path: YamlPath, value: str | bool) -> None:
    entry = keys.get(name)
    if entry is not None:
        draft.take(entry, path, value)


def convert_schema_history(draft: Draft, keys: Keys) -> None:
    """Put the store and the intervals of Canal's table metadata, TSDB; one history serves all destinations."""
    if not keys.is_true("canal.instance.tsdb.enable"):
        return
    if url := keys.get("canal.instance.tsdb.url"):
        _store(draft, keys, url)
    hours = ("canal.instance.tsdb.snapshot.interval", "canal.instance.tsdb.snapshot.expire")
    for name, setting in zip(hours, ("interval", "expire"), strict=True):
        if (entry := keys.get(name)) and entry.value.isdecimal():
            path = ("schema_history", f"snapshot_{setting}_hours")
            draft.take(entry, path, int(entry.value))


def _store(draft: Draft, keys: Keys, url: Entry) -> None:
    found = _JDBC.match(url.value)
    if found is None:
        draft.instead(url, "the schema history is kept in the journal; there is no H2 database")
        return
    below = ("schema_history", "mysql")
    if draft.settings.get((*below, "host")) is None:
        draft.settings.put(("schema_history", "store"), "mysql", url.origin)
    draft.take(url, (*below, "host"), found[1] or found[2])
    draft.take(url, (*below, "port"), int(found[3] or 3306))
    draft.take(url, (*below, "database"), found[4])
    _options(draft, url, url.value[found.end() :])
    if user := keys.get("canal.instance.tsdb.dbUsername"):
        draft.take(user, (*below, "user"), user.value)
    if password := keys.get("canal.instance.tsdb.dbPassword"):
        file = password_file("schema-history")
        draft.settings.put((*below, "password_file"), file, password.origin)
        draft.by_hand(password, f"write the password into {file}; it is not copied")


def _options(draft: Draft, url: Entry, text: str) -> None:
    """Take the TLS mode of a JDBC address; report other options by name only, since values may be secrets."""
    pairs = [one.partition("=") for one in re.split(r"[?;&]", text) if one]
    others = list[str]()
    for name, _, value in pairs:
        if name.lower() == "sslmode" and value.lower() in TLS_MODES:
            draft.take(url, ("schema_history", "mysql", "tls"), value.lower())
        else:
            others.append(name)
    if others:
        draft.by_hand(
            url,
            f"of its options are not taken over: {', '.join(others)}; schema_history.mysql has user, "
            "password_file, tls and tls_ca",
        )


# The start of a destination from Canal: the cursor that Canal has stored, or the configured
# position.
#
# Invariant: a start never skips a change that a client of Canal has not acknowledged; it may
# repeat changes. Canal's offset is the offset of the last acknowledged event, which may be within
# a transaction.

_FIRST = 4
_REPEATED = (
    "stop Canal before this file is read; changes of the second before {position} are published "
    "again, so subscribers must accept repeated changes"
)
_STOPPED = (
    "stop Canal before this file is read. What it had sent and not noted in this file is published again, as "
    "Canal would have done itself"
)
_GTIDS = (
    "stop Canal before this file is read. Canal before 1.1.3 may have counted a transaction of which "
    "clients got only a part: then start from {fallback} instead"
)


def convert_start(draft: Draft, path: YamlPath, instance: Instance) -> None:
    """Put the destination's start; without a position, it is the end of the binlog, as in Canal."""
    if instance.cursors and not instance.number:
        _from_cursor(draft, path, instance)
        return
    if instance.cursors:
        text = (
            f"{instance.cursor_file} has no position for each member of a group; set start by hand"
        )
        draft.note(".".join(map(str, path)), text)
    for role in ("master", "standby"):
        if role == "master" or instance.keys.get("canal.instance.standby.address"):
            at = path if role == "master" else (*path, "sources", 1)
            _configured(draft, (*at, "start"), instance.keys, f"canal.instance.{role}.")


def _configured(draft: Draft, path: YamlPath, keys: Keys, prefix: str) -> None:
    """Put the position in the properties: GTIDs, a file with offset or time, or a time."""
    gtid, file = keys.get(f"{prefix}gtid"), keys.get(f"{prefix}journal.name")
    offset, time = keys.get(f"{prefix}position"), keys.get(f"{prefix}timestamp")
    if gtid and keys.is_true("canal.instance.gtidon", default=True):
        draft.take(gtid, (*path, "gtid_set"), gtid.value)
        return
    if file:
        draft.take(file, (*path, "file"), file.value)
    if file and offset and offset.value.isdecimal() and int(offset.value) > _FIRST:
        draft.take(offset, (*path, "pos"), int(offset.value))
    elif time and time.value.isdecimal() and int(time.value):
        draft.take(time, (*path, "timestamp"), int(time.value))


def _from_cursor(draft: Draft, path: YamlPath, instance: Instance) -> None:
    cursor = min(instance.cursors, key=lambda one: one.age)
    entry = Entry(key=_label(cursor), value="", file=instance.cursor_file)
    if cursor.gtid_set and instance.keys.is_true("canal.instance.gtidon"):
        draft.take(entry, (*path, "start", "gtid_set"), cursor.gtid_set)
        fallback = f"{{file: {cursor.file}, timestamp: {cursor.timestamp}}}"
        draft.by_hand(entry, _GTIDS.format(fallback=fallback))
        return
    role = _server(cursor, instance.keys)
    if role is None:
        _at_time(draft, (*path, "start"), entry, cursor, instance.keys)
    elif role == "standby":
        _in_file(draft, (*path, "sources", 1, "start"), entry, cursor)
        _at_time(draft, (*path, "start"), entry, cursor, instance.keys)
    else:
        _in_file(draft, (*path, "start"), entry, cursor)
    if role == "master" and cursor.position > _FIRST:
        draft.by_hand(entry, _STOPPED)
    else:
        draft.by_hand(entry, _REPEATED.format(position=f"{cursor.file}:{cursor.position}"))


def _server(cursor: Cursor, keys: Keys) -> str | None:
    """The role of the server to which a cursor's file belongs; None if it is neither server."""
    for role, name in (("master", ADDRESS), ("standby", "canal.instance.standby.address")):
        host, port = address(keys.text(name))
        if (_one_name(host), port) == (_one_name(cursor.host), cursor.port):
            return role
    return None


def _one_name(host: str) -> str:
    """One name for the machine itself, which Java may name in several ways."""
    return "localhost" if host in ("127.0.0.1", "::1") else host


def _in_file(draft: Draft, path: YamlPath, entry: Entry, cursor: Cursor) -> None:
    """Put the file and the event of the last change; without an offset, its time, or else the whole file."""
    draft.take(entry, (*path, "file"), cursor.file)
    if cursor.position > _FIRST:
        draft.take(entry, (*path, "event"), cursor.position)
    elif cursor.timestamp:
        draft.take(entry, (*path, "timestamp"), cursor.timestamp)


def _at_time(draft: Draft, path: YamlPath, entry: Entry, cursor: Cursor, keys: Keys) -> None:
    """Put a time before the last change, as Canal does on another server than its cursor's."""
    fallback = keys.text("canal.instance.fallbackIntervalInSeconds", "60")
    seconds = int(fallback) if fallback.isdecimal() else 60
    draft.take(entry, (*path, "timestamp"), cursor.timestamp - 1000 * seconds)
    draft.by_hand(
        entry,
        f"the cursor is of {cursor.host}:{cursor.port}, another address than the first source's, so "
        f"the start is {seconds} s earlier by time",
    )


def _label(cursor: Cursor) -> str:
    return f"cursor of client {cursor.client}" if cursor.client else "position of Canal's parser"


# What readers of Canal's topics see is kept: the names of topics, their partitions, the form of
# messages.
#
# Invariant: what is not kept is reported by its key, even if the key has Canal's default. Source:
# `MQMessageUtils.messageTopics`, `CanalKafkaProducer.send` and, for `filter.query.ddl`,
# `LogEventConvert.parseQueryEvent` of Canal 1.1.7.

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


# An instance of Canal as a destination: its servers, account, filters, standby and decoders.

_STANDBY = "canal.instance.standby.address"
_MOST_DECODERS = 64
_DECRYPT = " (it is encrypted by Druid: write the plain one)"


_OPERATIONS = "they are published; a mapping has `operations` for each table"
_WIDER = {
    "canal.instance.filter.dml.insert": _OPERATIONS,
    "canal.instance.filter.dml.update": _OPERATIONS,
    "canal.instance.filter.dml.delete": _OPERATIONS,
    "canal.instance.filter.rows": "rows are published too",
}
"""Switches by which Canal publishes less than Aqueduct does."""


def convert_instance(draft: Draft, path: YamlPath, instance: Instance) -> None:
    """Put a destination at a path, without its start."""
    keys = instance.keys
    has_standby = keys.get(_STANDBY) is not None
    for at, role in enumerate(("master", "standby") if has_standby else ("master",)):
        source = (*path, "sources", at) if has_standby else (*path, "source")
        _source(draft, source, keys, role)
    _server_id(draft, path, keys)
    _filter(draft, (*path, "filter"), keys)
    if has_standby:
        _failover(draft, (*path, "failover"), keys)
    _connection(draft, path, keys)
    _decoders(draft, path, keys)
    if keys.is_true(_DDL):
        # Canal's filter is before the kind of a statement is looked at, so it is of TRUNCATE, too.
        _take(draft, keys, _DDL, (*path, "truncates"), OMIT)
    for name, text in _WIDER.items():
        if (entry := keys.get(name)) and keys.is_true(name):
            draft.lose(entry, text)


def address(text: str) -> tuple[str, int]:
    """Return host and port of an address; raise ValueError if the port is not a number."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return text.strip("[]"), 3306
    return host.strip("[]"), int(port)


def _source(draft: Draft, path: YamlPath, keys: Keys, role: str) -> None:
    entry = keys.get(ADDRESS if role == "master" else _STANDBY)
    assert entry is not None
    try:
        host, port = address(entry.value)
    except ValueError:
        host, port = entry.value, 3306
        draft.by_hand(entry, f"{host} has no port that is a number")
    draft.take(entry, (*path, "host"), host)
    draft.take(entry, (*path, "port"), port)
    _put_account(draft, path, keys)
    _tls(draft, path, keys, role)


def _put_account(draft: Draft, path: YamlPath, keys: Keys) -> None:
    if user := keys.get("canal.instance.dbUsername"):
        draft.take(user, (*path, "user"), user.value)
    else:
        draft.choose((*path, "user"), "retl", "the account that Canal uses if none is given")
    file = password_file(str(path[1]))
    password = keys.get("canal.instance.dbPassword")
    draft.settings.put((*path, "password_file"), file, password.origin if password else "")
    if password:
        note = _DECRYPT if keys.is_true("canal.instance.enableDruid") else ""
        draft.by_hand(password, f"write the password into {file}; it is not copied{note}")
    else:
        draft.note(".".join(map(str, path)), f"write the password into {file}")


def _tls(draft: Draft, path: YamlPath, keys: Keys, role: str) -> None:
    mode = keys.get(f"canal.instance.{role}.sslMode")
    if mode and mode.value.lower() in TLS_MODES:
        draft.take(mode, (*path, "tls"), mode.value.lower())
    for name, entry in keys:
        if name.startswith(f"canal.instance.{role}.trustcertificate") and entry.value:
            draft.by_hand(entry, "export the CA as PEM and name it in the source's tls_ca")
        if name.startswith(f"canal.instance.{role}.clientcertificate") and entry.value:
            draft.by_hand(
                entry, "client certificates are not supported; use an account with a password"
            )


def _server_id(draft: Draft, path: YamlPath, keys: Keys) -> None:
    """Put Canal's own server id, or, without one or if another destination has it, one made of the name."""
    destinations = draft.settings.values().get("destinations", {})
    taken = {one["server_id"] for one in destinations.values() if "server_id" in one}
    entry = keys.get("canal.instance.mysql.slaveId")
    if entry and entry.value.isdecimal() and int(entry.value) and int(entry.value) not in taken:
        draft.take(entry, (*path, "server_id"), int(entry.value))
        draft.by_hand(
            entry, "stop Canal first: two replicas with one server id interrupt each other"
        )
        return
    reason = "made of the destination's name; no other replica of the server may have it"
    if entry and entry.value.isdecimal() and int(entry.value):
        draft.by_hand(entry, "another destination has this server id, so another one was made")
    draft.choose((*path, "server_id"), server_id(str(path[1]), taken), reason)


def _filter(draft: Draft, path: YamlPath, keys: Keys) -> None:
    """Put both lists as they are; while one of them cannot be used, nothing is captured."""
    include = keys.get("canal.instance.filter.regex")
    black = keys.get("canal.instance.filter.black.regex")
    unusable = {one: fault_of(one.value) for one in (include, black) if one and fault_of(one.value)}
    for entry, fault in unusable.items():
        draft.by_hand(entry, fault)
        draft.choose((*path, "include"), NOTHING, "captures nothing until the filter is written")
    if include and include not in unusable:
        draft.take(include, (*path, "include"), include.value)
    if black and black not in unusable:
        draft.take(black, (*path, "black"), black.value)


def _failover(draft: Draft, path: YamlPath, keys: Keys) -> None:
    """Put the failover; Canal switches to its standby only with both detecting and heartbeatHaEnable."""
    detecting = keys.get("canal.instance.detecting.enable")
    switching = keys.get("canal.instance.detecting.heartbeatHaEnable")
    if detecting:
        enabled = keys.is_true("canal.instance.detecting.enable")
        draft.take(detecting, (*path, "heartbeat", "enabled"), enabled)
        switch = enabled and keys.is_true("canal.instance.detecting.heartbeatHaEnable")
        draft.take(switching or detecting, (*path, "enabled"), switch)
    if sql := keys.get("canal.instance.detecting.sql"):
        draft.take(sql, (*path, "heartbeat", "sql"), sql.value)
    _number(draft, keys, "detecting.interval.time", (*path, "heartbeat", "interval_seconds"))
    _number(draft, keys, "detecting.retry.threshold", (*path, "heartbeat", "retries"))
    _number(draft, keys, "fallbackIntervalInSeconds", (*path, "fallback_seconds"))


def _connection(draft: Draft, path: YamlPath, keys: Keys) -> None:
    if database := keys.get("canal.instance.defaultDatabaseName"):
        draft.take(database, (*path, "default_database"), database.value)
    if charset := keys.get("canal.instance.connectionCharset"):
        draft.take(charset, (*path, "connection_charset"), charset.value)


def _decoders(draft: Draft, path: YamlPath, keys: Keys) -> None:
    """Put the threads of Canal's parser as decoder processes; 0 if the parser is not parallel."""
    parallel = keys.get("canal.instance.parser.parallel")
    if parallel and not keys.is_true("canal.instance.parser.parallel"):
        draft.take(parallel, (*path, "decoders"), 0)
        return
    threads = keys.get("canal.instance.parser.parallelThreadSize")
    if threads and threads.value.isdecimal():
        draft.take(threads, (*path, "decoders"), min(int(threads.value), _MOST_DECODERS))


def _number(draft: Draft, keys: Keys, name: str, path: YamlPath) -> None:
    entry = keys.get(f"canal.instance.{name}")
    if entry is None:
        return
    if entry.value.isdecimal():
        draft.take(entry, path, int(entry.value))
    else:
        draft.by_hand(entry, "is no number")


def client_filters(instance: Instance) -> list[Entry]:
    """Return the filters with which clients have replaced the instance's filter."""
    own = instance.keys.text("canal.instance.filter.regex", r".*\..*")
    return [
        Entry(key=f"filter of client {one.client}", value=one.filter, file=instance.cursor_file)
        for one in instance.cursors
        if one.filter and one.filter != own
    ]
