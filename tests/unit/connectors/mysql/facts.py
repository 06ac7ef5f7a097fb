"""A server that is set up for capture, to be spoilt in one way or another."""

from __future__ import annotations

from typing import Any

from connectors.mysql.charsets import Charsets
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
REPLICA = "5e11fa47-71ca-11e1-9e33-c80aa9429562"

ADDRESS = SourceAddress(
    host="db", port=3306, user="aqueduct", password="p", server_id=5701, replica_uuid=REPLICA
)
GOOD = {
    "version": "8.4.6",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "server_id": "1",
    "server_uuid": SERVER,
    "log_replica_updates": "ON",
    "gtid_executed": f"{SERVER}:1-100",
    "gtid_purged": "",
}
PURGED = {"gtid_purged": f"{SERVER}:1-40"}
OFF = {"gtid_mode": "OFF", "gtid_executed": ""}
GRANTS = ("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `aqueduct`@`%`",)


def facts(variables: dict[str, str] | None = None, **other: Any) -> ServerFacts:
    """The good server with these variables and facts instead."""
    given: dict[str, Any] = {
        "grants": GRANTS,
        "replicas": (),
        "binlogs": (("b.000001", 1000), ("b.000002", 500)),
        "charsets": Charsets({}, {}),
        "is_replica": False,
        **other,
    }
    return ServerFacts(variables={**GOOD, **(variables or {})}, **given)


def offset(
    file: str = "b.000001", pos: int = 4, *, gtids: str | None = None, server: str = SERVER
) -> SourceOffset:
    """An offset on the good server, or on another."""
    gtid_set = None if gtids is None else GtidSet.parse(gtids)
    return SourceOffset(server_uuid=server, coordinates=Coordinates(file, pos), gtid_set=gtid_set)
