"""A position in MariaDB's GTIDs at a server that lacks some of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from connectors.mysql.lookup.mariadb_start import missing
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.server.facts import ServerFacts


def lacks(position: str, **variables: str) -> list[str]:
    facts = cast(Any, SimpleNamespace(variables=variables))
    return missing(MariadbGtidList.parse(position), cast(ServerFacts, facts))


def test_what_is_missing_comes_with_the_last_number_of_the_same_server() -> None:
    state = {"gtid_binlog_state": "0-22-9", "gtid_slave_pos": "0-21-5"}
    # What it applied counts, whether it is in its binlog or not; a higher number of another server does not.
    assert lacks("0-21-5", **state) == lacks("0-22-9", **state) == []
    assert lacks("0-21-6,7-21-1", **state) == [
        "0-21-6 (it has 0-21-5 at most of server 21 in domain 0)",
        "7-21-1 (it has none of server 21 in domain 7)",
    ]
