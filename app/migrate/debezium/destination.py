"""A connector as a destination: server and account."""

from __future__ import annotations

import re

from app.migrate.debezium.connector import Connector
from app.migrate.draft import Draft, dotted
from app.migrate.foreign_values import TLS_MODES, password_file, server_id
from app.migrate.yaml_text import YamlPath

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
