"""The settings of Canal's server as a worker's settings: ZooKeeper, Kafka, DDL, the schema history."""

from __future__ import annotations

import re

from app.migrate.canal.configuration_keys import Keys
from app.migrate.draft import Draft
from app.migrate.findings import Entry
from app.migrate.foreign_values import ALL_DDL, TLS_MODES, convert_login, password_file

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
    if keys.is_true("canal.instance.filter.query.ddl"):
        _take(draft, keys, "canal.instance.filter.query.ddl", ("ddl", "exclude"), ALL_DDL)
    if keys.is_true("canal.instance.filter.transaction.entry"):
        path = ("provide_transaction_metadata",)
        _take(draft, keys, "canal.instance.filter.transaction.entry", path, value=False)


def _take(draft: Draft, keys: Keys, name: str, path: tuple[str, ...], value: str | bool) -> None:
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
