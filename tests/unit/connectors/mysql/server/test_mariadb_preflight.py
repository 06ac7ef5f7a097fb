"""The reasons to refuse a MariaDB, and the position at which reading begins."""

from typing import Any

import pytest

from connectors.errors import PositionGone, PreflightError, ServerIdConflict, SourceDiverged
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import resumable, start
from connectors.mysql.lookup.start import AfterGtids, Earliest, Latest
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.server import preflight
from connectors.mysql.server.facts import Replica, ServerFacts
from tests.unit.connectors.mysql.facts import ADDRESS, SERVER
from tests.unit.connectors.mysql.facts import facts as mysql_facts

GRANTS = ("GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `aqueduct`@`%`",)


def facts(variables: dict[str, str] | None = None, **other: Any) -> ServerFacts:
    """A MariaDB that is set up for capture, with these variables and facts instead."""
    found = mysql_facts(
        {
            "version": "10.11.18-MariaDB-log",
            "server_uid": "WZLhckQn2xqP9ehXxlkixiYXCS8=",
            "gtid_binlog_pos": "0-1-100,5-2-7",
            "gtid_binlog_state": "0-2-80,0-1-100,5-2-7",
            "gtid_slave_pos": "",
            "log_slave_updates": "ON",
            **(variables or {}),
        },
        **{"grants": GRANTS, "gtids_before_binlogs": "0-1-40", **other},
    )
    for name in ("server_uuid", "gtid_mode", "gtid_executed", "gtid_purged", "log_replica_updates"):
        del found.variables[name]
    return found


def at(gtids: str) -> MariadbGtidList:
    return MariadbGtidList.parse(gtids)


def offset(gtids: Gtids | None) -> SourceOffset:
    return SourceOffset(server_uuid="u", coordinates=Coordinates("b.000001", 4), gtid_set=gtids)


def described(of: ServerFacts) -> str:
    with pytest.raises(PreflightError) as caught:
        preflight.check(of, ADDRESS)
    return str(caught.value)


def test_a_server_that_is_set_up_passes() -> None:
    preflight.check(facts(), ADDRESS)
    preflight.check(facts({"version": "11.8.6-MariaDB-0+deb13u1 from Debian-log"}), ADDRESS)


@pytest.mark.parametrize(
    ("variables", "mended_by"),
    [
        ({"binlog_format": "MIXED"}, "SET GLOBAL binlog_format = 'ROW'"),
        ({"binlog_row_image": "FULL_NODUP"}, "SET GLOBAL binlog_row_image = 'FULL'"),
        ({"binlog_row_metadata": "NO_LOG"}, "SET GLOBAL binlog_row_metadata = 'FULL'"),
        ({"log_bin": "OFF"}, "start mysqld with --log-bin"),
        ({"version": "10.4.32-MariaDB"}, "MariaDB 10.5 or newer is needed"),
    ],
)
def test_each_fault_is_named_with_what_repairs_it(
    variables: dict[str, str], mended_by: str
) -> None:
    text = described(facts(variables))
    assert "1 problem(s)" in text
    assert mended_by in text
    assert "PERSIST" not in text


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        (("GRANT SELECT ON *.* TO `a`@`%`",), "REPLICATION SLAVE, BINLOG MONITOR"),
        (("GRANT REPLICATION SLAVE ON *.* TO `a`@`%`",), "BINLOG MONITOR"),
    ],
)
def test_missing_privileges_are_named_as_this_server_calls_them(
    grants: tuple[str, ...], missing: str
) -> None:
    assert f"GRANT {missing} ON *.* TO 'aqueduct'" in described(facts(grants=grants))


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT ALL PRIVILEGES ON *.* TO `a`",
        "GRANT REPLICATION REPLICA, REPLICATION CLIENT ON *.* TO `a`",
    ],
)
def test_other_names_of_the_privileges_will_do(grant: str) -> None:
    preflight.check(facts(grants=(grant,)), ADDRESS)


def test_a_replica_must_write_its_sources_changes_to_its_own_binlog() -> None:
    assert "--log-slave-updates" in described(facts({"log_slave_updates": "OFF"}, is_replica=True))
    # A replica that was promoted writes all changes that it gets.
    preflight.check(facts({"log_slave_updates": "OFF"}, was_replica=True), ADDRESS)


def test_another_replica_with_our_number_is_reported_by_its_host() -> None:
    number = ADDRESS.server_id
    preflight.check(facts(replicas=(Replica(server_id=number, host="", uuid=""),)), ADDRESS)
    other = Replica(server_id=number, host="elsewhere", uuid="")
    with pytest.raises(ServerIdConflict, match="elsewhere"):
        preflight.check(facts(replicas=(other,)), ADDRESS)


def test_a_new_destination_begins_before_the_first_file_or_at_the_end() -> None:
    assert start.first_offset(Earliest(), facts(), ADDRESS).gtid_set == at("0-1-40")
    assert start.first_offset(Latest(), facts(), ADDRESS).gtid_set == at("0-1-100,5-2-7")
    new = facts({"gtid_binlog_pos": ""}, gtids_before_binlogs="")
    assert start.first_offset(Latest(), new, ADDRESS).gtid_set == MariadbGtidList()


@pytest.mark.parametrize("gtids", ["0-1-100", "0-1-40", "0-2-80", "0-1-60,5-2-7"])
def test_a_position_the_server_has_is_resumed_from(gtids: str) -> None:
    resumable.check(offset(at(gtids)), facts(), ADDRESS)
    assert start.first_offset(AfterGtids(at(gtids)), facts(), ADDRESS).gtid_set == at(gtids)


@pytest.mark.parametrize("gtids", ["", "0-1-39", "5-2-7"])
def test_a_position_before_the_first_file_is_gone(gtids: str) -> None:
    with pytest.raises(PositionGone, match="begin after 0-1-40"):
        resumable.check(offset(at(gtids)), facts(), ADDRESS)


@pytest.mark.parametrize("gtids", ["0-1-101", "0-2-81", "0-1-50,6-1-1", "0-3-50"])
def test_a_position_the_server_never_wrote_is_another_servers(gtids: str) -> None:
    with pytest.raises(SourceDiverged, match="never wrote"):
        resumable.check(offset(at(gtids)), facts(), ADDRESS)


def test_a_server_made_from_a_backup_knows_where_it_was_made() -> None:
    made = facts({"gtid_slave_pos": "0-3-50"}, gtids_before_binlogs="")
    resumable.check(offset(at("0-3-50")), made, ADDRESS)


def test_gtids_of_the_other_make_of_server_are_refused() -> None:
    theirs = GtidSet.parse(f"{SERVER}:1-5")
    with pytest.raises(SourceDiverged, match="the server is a MariaDB"):
        resumable.check(offset(theirs), facts(), ADDRESS)
    with pytest.raises(SourceDiverged, match="not a MariaDB"):
        resumable.check(offset(at("0-1-1")), mysql_facts(), ADDRESS)


def test_an_empty_cursor_is_read_as_this_servers() -> None:
    found = start.in_current_terms(offset(GtidSet()), facts(), ADDRESS)
    assert isinstance(found.gtid_set, MariadbGtidList)
