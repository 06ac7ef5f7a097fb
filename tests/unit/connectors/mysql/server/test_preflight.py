"""The preflight: all faults of a server at once, each with its remedy."""

from dataclasses import replace
from typing import Any

import pytest

from connectors.errors import PreflightError, ServerIdConflict
from connectors.mysql.server.facts import Replica, ServerFacts
from connectors.mysql.server.preflight import check
from tests.unit.connectors.mysql.facts import ADDRESS, GRANTS, OTHER, REPLICA, facts

READS = "GRANT SELECT ON `shop`.* TO `aqueduct`@`%`"


def described(of: ServerFacts) -> str:
    with pytest.raises(PreflightError) as caught:
        check(of, ADDRESS)
    return str(caught.value)


def test_a_server_that_is_set_up_passes() -> None:
    check(facts(), ADDRESS)
    check(facts({"gtid_mode": "OFF"}), ADDRESS)
    check(facts({"binlog_format": "row", "log_bin": "on", "version": "8.0.1-log"}), ADDRESS)


@pytest.mark.parametrize(
    ("variables", "mended_by"),
    [
        ({"binlog_format": "MIXED"}, "SET PERSIST binlog_format = 'ROW'"),
        ({"binlog_format": "STATEMENT"}, "SET PERSIST binlog_format = 'ROW'"),
        ({"binlog_row_image": "MINIMAL"}, "SET PERSIST binlog_row_image = 'FULL'"),
        ({"binlog_row_metadata": "MINIMAL"}, "SET PERSIST binlog_row_metadata = 'FULL'"),
        ({"binlog_row_metadata": ""}, "SET PERSIST binlog_row_metadata = 'FULL'"),
        ({"gtid_mode": "ON_PERMISSIVE"}, "SET PERSIST gtid_mode = 'ON'"),
        ({"log_bin": "OFF"}, "start mysqld with --log-bin"),
        ({"server_id": "5701"}, "give the destination another server_id"),
        ({"version": "5.7.44"}, "MySQL 8.0.1 or newer is needed"),
        ({"version": "10.4.32-MariaDB"}, "MariaDB 10.5 or newer is needed"),
        ({"version": ""}, "MySQL 8.0.1 or newer is needed"),
    ],
)
def test_each_fault_is_named_with_what_repairs_it(
    variables: dict[str, str], mended_by: str
) -> None:
    text = described(facts(variables))
    assert "1 problem(s) on db:3306" in text
    assert mended_by in text


@pytest.mark.parametrize(
    "variables",
    [
        {"binlog_row_metadata": "MINIMAL"},
        {"version": "5.7.44"},
        {"version": "5.6.51-log", "binlog_row_metadata": ""},
        {"version": "10.11.6-MariaDB", "binlog_row_metadata": "MINIMAL"},
    ],
)
def test_with_a_schema_history_the_binlog_need_not_name_columns(variables: dict[str, str]) -> None:
    of = facts(variables, grants=(*GRANTS, READS))
    if not of.variables["binlog_row_metadata"]:
        del of.variables["binlog_row_metadata"]
    check(of, ADDRESS, history=True)
    with pytest.raises(PreflightError, match="schema history"):
        check(of, ADDRESS)


def test_no_schema_history_helps_against_images_that_lack_columns() -> None:
    with pytest.raises(PreflightError, match="SET GLOBAL binlog_row_image = 'FULL'"):
        check(facts({"version": "5.7.44", "binlog_row_image": "MINIMAL"}), ADDRESS, history=True)


def test_what_a_server_that_cannot_persist_is_set_to_goes_into_its_configuration() -> None:
    with pytest.raises(PreflightError, match="and binlog_format = ROW in its configuration"):
        check(facts({"version": "5.7.44", "binlog_format": "MIXED"}), ADDRESS, history=True)


def test_a_history_that_has_to_name_columns_needs_to_read_tables() -> None:
    bare = facts({"binlog_row_metadata": "MINIMAL"})
    with pytest.raises(PreflightError, match=r"GRANT SELECT ON \*\.\* TO 'aqueduct'@'%';"):
        check(bare, ADDRESS, history=True)
    check(facts(), ADDRESS, history=True)


def test_a_version_that_was_never_tried_as_a_whole_is_refused_by_name() -> None:
    old = facts({"version": "5.5.62-log"}, grants=(*GRANTS, READS))
    with pytest.raises(
        PreflightError, match=r"version 5\.5\.62-log; MySQL 5\.6 or newer is needed"
    ):
        check(old, ADDRESS, history=True)


def test_a_server_that_keeps_no_uuids_knows_our_registration_by_its_host() -> None:
    old = facts({"version": "10.11.6-MariaDB", "server_id": "7"}, grants=(*GRANTS, READS))
    ours, number = replace(ADDRESS, report_host="worker"), ADDRESS.server_id
    check(
        replace(old, replicas=(Replica(server_id=number, host="worker", uuid=""),)),
        ours,
        history=True,
    )
    stranger = Replica(server_id=number, host="elsewhere", uuid="")
    with pytest.raises(ServerIdConflict, match="elsewhere"):
        check(replace(old, replicas=(stranger,)), ours, history=True)


@pytest.mark.parametrize("name", ["log_replica_updates", "log_slave_updates"])
def test_a_replica_must_write_its_sources_changes_to_its_own_binlog(name: str) -> None:
    spoilt = facts(is_replica=True)
    spoilt.variables.pop("log_replica_updates")
    spoilt.variables[name] = "OFF"
    assert f"--{name.replace('_', '-')}" in described(spoilt)


def test_log_replica_updates_does_not_matter_on_a_server_that_is_no_replica() -> None:
    check(facts({"log_replica_updates": "OFF"}), ADDRESS)


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        ((), "REPLICATION SLAVE, REPLICATION CLIENT"),
        (("GRANT USAGE ON *.* TO `aqueduct`@`%`",), "REPLICATION SLAVE, REPLICATION CLIENT"),
        (("GRANT REPLICATION SLAVE ON *.* TO `aqueduct`@`%`",), "REPLICATION CLIENT"),
        (("GRANT SELECT, REPLICATION CLIENT ON *.* TO `aqueduct`@`%`",), "REPLICATION SLAVE"),
        (
            ("GRANT ALL PRIVILEGES ON `shop`.* TO `aqueduct`@`%`",),
            "REPLICATION SLAVE, REPLICATION CLIENT",
        ),
    ],
)
def test_missing_grants_are_named_with_the_statement_that_gives_them(
    grants: tuple[str, ...], missing: str
) -> None:
    assert f"GRANT {missing} ON *.* TO 'aqueduct'" in described(facts(grants=grants))


@pytest.mark.parametrize(
    "grants",
    [
        ("GRANT ALL PRIVILEGES ON *.* TO `aqueduct`@`%` WITH GRANT OPTION",),
        (
            "GRANT REPLICATION SLAVE ON *.* TO `aqueduct`@`%`",
            "GRANT REPLICATION CLIENT ON *.* TO `aqueduct`@`%`",
        ),
    ],
)
def test_grants_may_come_in_any_form_that_holds_them(grants: tuple[str, ...]) -> None:
    check(facts(grants=grants), ADDRESS)


def test_all_faults_are_reported_at_once() -> None:
    text = described(
        facts(
            {"binlog_format": "MIXED", "binlog_row_image": "MINIMAL", "server_id": "5701"},
            grants=(),
        )
    )
    assert "4 problem(s)" in text
    for part in ("binlog_format", "binlog_row_image", "server_id", "REPLICATION SLAVE"):
        assert part in text


def replica(**other: Any) -> Replica:
    return Replica(**{"server_id": 5701, "host": "elsewhere", "uuid": OTHER, **other})


def test_another_replica_with_our_server_id_is_a_conflict() -> None:
    with pytest.raises(ServerIdConflict, match=f"elsewhere, UUID {OTHER}"):
        check(facts(replicas=(replica(server_id=9), replica())), ADDRESS)


def test_a_replica_that_does_not_say_who_it_is_is_a_conflict_too() -> None:
    with pytest.raises(ServerIdConflict, match="an unnamed host, UUID unknown"):
        check(facts(replicas=(replica(uuid="", host=""),)), ADDRESS)


def test_our_own_registration_that_the_server_still_has_is_no_conflict() -> None:
    check(facts(replicas=(replica(uuid=REPLICA), replica(server_id=9))), ADDRESS)


def test_the_databases_that_the_filter_names_and_the_account_with_its_host_are_granted() -> None:
    bare = facts({"binlog_row_metadata": "MINIMAL"}, current_user="o'cdc@x@10.0.0.%")
    with pytest.raises(PreflightError) as caught:
        check(bare, ADDRESS, history=True, databases=["shop_1", "crm"])
    said = "GRANT SELECT ON `crm`.* TO 'o''cdc@x'@'10.0.0.%'; GRANT SELECT ON `shop\\_1`.* TO "
    assert said in str(caught.value)


def test_a_server_on_its_way_to_gtids_is_led_there_step_by_step() -> None:
    text = described(facts({"gtid_mode": "OFF_PERMISSIVE", "enforce_gtid_consistency": "WARN"}))
    assert (
        "SET PERSIST enforce_gtid_consistency = 'ON'; SET PERSIST gtid_mode = 'ON_PERMISSIVE'; "
        "SET PERSIST gtid_mode = 'ON';"
    ) in text


def test_roles_that_are_not_active_are_named_with_what_activates_them() -> None:
    few = ("GRANT USAGE ON *.* TO `a`@`%`", "GRANT `r`@`%` TO `a`@`%`")
    given = facts(grants=few, current_user="a@%", inactive_roles=("`r`@`%`",))
    assert "SET DEFAULT ROLE `r`@`%` TO 'a'@'%';" in described(given)
    variables = {"version": "10.11.6-MariaDB"}
    given = facts(variables, grants=few, current_user="a@%", inactive_roles=("`r`",))
    assert "SET DEFAULT ROLE `r` FOR 'a'@'%';" in described(given)
    assert "SET DEFAULT ROLE" not in described(facts(grants=few))
