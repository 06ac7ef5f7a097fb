"""A connector as a destination: server, account, start."""

from __future__ import annotations

import re
from pathlib import Path as File

from app.operations.migration.account import TLS_MODES
from app.operations.migration.debezium.connector import Connector
from app.operations.migration.debezium.offsets import Offset
from app.operations.migration.draft import Draft, dotted
from app.operations.migration.findings import Entry
from app.operations.migration.names import password_file, server_id
from app.operations.migration.yaml_text import Path

_TIME_ZONE = re.compile(r"UTC|GMT|[+-]\d{2}:\d{2}|\w+/[\w/+-]+")
_ONLY_NEW = ("no_data", "schema_only")
_STOP_FIRST = "stop the connector first: two replicas with one server id interrupt each other"
_OTHER_SERVERS = (
    "an offset's GTID set may lack other servers' transactions, which are then published"
)
_SKIPPING = ("warn", "skip", "ignore")


def convert_destination(draft: Draft, path: Path, connector: Connector) -> None:
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


def _server(draft: Draft, path: Path, connector: Connector) -> None:
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


def _password(draft: Draft, path: Path, connector: Connector) -> None:
    file = password_file(str(path[1]))
    given = [entry for entry in connector.entries if entry.key == "database.password"]
    draft.settings.put((*path, "password_file"), file, given[0].origin if given else "")
    for entry in given:
        draft.by_hand(entry, f"write the password into {file}; it is not copied")
    if not given:
        draft.note(dotted(path), f"write the password into {file}")


def _undecodable(draft: Draft, path: Path, connector: Connector) -> None:
    names = (
        "event.processing.failure.handling.mode",
        "event.deserialization.failure.handling.mode",
    )
    mode = connector.get(*names)
    if mode and mode.value.lower() in _SKIPPING:
        draft.take(mode, (*path, "poison"), "dead_letter")


def convert_offset(draft: Draft, path: Path, offset: Offset, file: File) -> None:
    """Put the position of an offset; the whole file where it is within a transaction without GTIDs."""
    entry = Entry(key="offset", value="", file=file.name)
    start = (*path, "start")
    if offset.gtid_set:
        draft.take(entry, (*start, "gtid_set"), offset.gtid_set)
    else:
        draft.take(entry, (*start, "file"), offset.file)
        if not offset.within:
            draft.take(entry, (*start, "pos"), offset.position)
    draft.by_hand(entry, "stop the connector before its offset is read")
    if offset.within:
        begin = "that transaction" if offset.gtid_set else f"all of {offset.file}"
        text = f"a part of a transaction is published already; {begin} is published again"
        draft.by_hand(entry, text)
    if offset.in_snapshot:
        draft.by_hand(entry, "the snapshot had not ended; Aqueduct does not read the rows it lacks")


def convert_snapshot_mode(draft: Draft, path: Path, connector: Connector) -> None:
    """Put the start of a connector without an offset: the oldest change, or for some modes the newest."""
    mode = connector.get("snapshot.mode")
    value = mode.value.lower() if mode else "initial"
    start = (*path, "start")
    if mode and value in _ONLY_NEW:
        draft.take(mode, start, "latest")
        draft.by_hand(mode, "give --offsets, or changes since the connector was stopped are lost")
    elif mode and value == "never":
        draft.take(mode, start, "earliest")
    else:
        reason = f"rows before the oldest change in the binlog are not read (snapshot.mode {value})"
        draft.choose(start, "earliest", f"{reason}; give --offsets to resume after the connector")
