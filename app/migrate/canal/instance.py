"""An instance of Canal as a destination: its servers, account, filters, standby and decoders."""

from __future__ import annotations

from app.migrate.canal.configuration import ADDRESS, Instance, Keys
from app.migrate.draft import Draft, Entry
from app.migrate.foreign_values import NOTHING, TLS_MODES, fault_of, password_file, server_id
from app.migrate.yaml_text import YamlPath

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
    _account(draft, path, keys)
    _tls(draft, path, keys, role)


def _account(draft: Draft, path: YamlPath, keys: Keys) -> None:
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
