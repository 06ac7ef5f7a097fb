"""The baseline of an account with few privileges: visible tables are correct, invisible ones are named."""

import re

import pytest

from connectors.errors import PreflightError
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import Baseline, read_baseline
from connectors.mysql.schema.unseen_tables import Sight, sight_now, unseen_tables
from connectors.mysql.server.facts import read_facts
from connectors.mysql.server.preflight import check, warnings
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import run
from tests.integration.baseline.conftest import SERIES
from tests.integration.worker.source import address_of

DATABASES = ("seen", "other", "a_b")


def read_as(mysql: Mysql, *grants: str) -> Baseline:
    """The baseline of an account with these privileges and what replication needs."""
    for name in DATABASES:
        run(mysql, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        run(mysql, *(f"CREATE TABLE {name}.{t} (a int, b int PRIMARY KEY, c text)" for t in "xyz"))
    run(
        mysql,
        "GRANT USAGE ON *.* TO 'few'@'%'"
        if is_old(mysql)
        else "CREATE USER IF NOT EXISTS 'few'@'%'",
    )
    run(mysql, "DROP USER 'few'@'%'", "CREATE USER 'few'@'%' IDENTIFIED BY 'few'")
    run(mysql, "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'few'@'%'")
    run(mysql, *(f"GRANT {grant} TO 'few'@'%'" for grant in grants))
    address = address_of(mysql, user="few", password="few")
    return read_baseline(address, read_facts(address))


def unseen_as(mysql: Mysql, *known: TableName) -> dict[TableName, str]:
    """The tables that this account may see in part, besides those known."""
    address = address_of(mysql, user="few", password="few")
    return unseen_tables(address, read_facts(address), known)


def sight_as(mysql: Mysql) -> Sight:
    """What this account sees."""
    address = address_of(mysql, user="few", password="few")
    return sight_now(address, read_facts(address))


def is_old(mysql: Mysql) -> bool:
    return read_facts(address_of(mysql)).variables["version"].startswith(("5.5", "5.6"))


@pytest.mark.parametrize("series", SERIES)
def test_only_fully_granted_tables_are_described_and_the_others_named(
    servers: Servers, series: str
) -> None:
    found = read_as(
        servers(series),
        "SELECT ON seen.x",
        "SELECT (a, b) ON seen.y",
        "DELETE ON seen.z",
        "SELECT ON `a\\_b`.*",
    )
    assert set(found.tables) == {("seen", "x"), ("a_b", "x"), ("a_b", "y"), ("a_b", "z")}
    assert all(len(table.columns) == 3 for table in found.tables.values())
    assert set(found.unseen) == {("seen", "y"), ("seen", "z")}
    assert "GRANT SELECT ON `seen`.`y` TO 'few'" in found.unseen["seen", "y"]
    unseen = unseen_as(servers(series), *found.tables)
    assert set(unseen) == {("seen", "y")}
    assert "GRANT SELECT ON `seen`.`y` TO 'few'" in unseen["seen", "y"]
    sight = sight_as(servers(series))
    assert sight.seen == {("seen", "x"), ("a_b", "x"), ("a_b", "y"), ("a_b", "z")}
    for table, what in (("y", "only some of its columns"), ("z", "none of its columns")):
        assert (sight.why_unseen(("seen", table)) or "").startswith(f"{what} may be seen: GRANT")
    assert "the account may not see it: GRANT" in (sight.why_unseen(("other", "x")) or "")
    assert len(sight.lacking(["other", "a_b"])) == 1
    assert not unseen_as(servers(series), ("seen", "y"))
    run(servers(series), "DROP TABLE seen.y")
    assert not unseen_as(servers(series))
    assert set(found.databases) >= {"seen", "a_b"}


def test_column_privileges_besides_the_tables_change_nothing(servers: Servers) -> None:
    found = read_as(
        servers("9.7"), "SELECT (a) ON seen.x", "SELECT ON seen.*", "SELECT (a) ON other.x"
    )
    assert ("seen", "x") in found.tables
    assert set(found.unseen) == {("other", "x")}


def test_a_fully_revoked_database_is_absent(servers: Servers) -> None:
    mysql = servers("9.7")
    run(mysql, "SET GLOBAL partial_revokes = ON")
    try:
        read_as(mysql, "SELECT ON *.*")
        run(mysql, "REVOKE SELECT ON other.* FROM 'few'@'%'")
        address = address_of(mysql, user="few", password="few")
        found = read_baseline(address, read_facts(address))
    finally:
        run(mysql, "DROP USER 'few'@'%'", "SET GLOBAL partial_revokes = OFF")
    assert {database for database, _ in found.tables} >= {"seen", "a_b"}
    assert "other" not in {database for database, _ in found.tables}


def test_with_partial_revokes_a_grants_database_has_no_wildcards(servers: Servers) -> None:
    mysql = servers("9.7")
    run(mysql, "CREATE DATABASE axb", "CREATE TABLE axb.x (a int)")
    try:
        read_as(mysql, "SELECT ON `a_b`.*")
        assert ("axb", "x") in sight_as(mysql).seen
        before = read_facts(address_of(mysql, user="few", password="few"))
        # The server keeps what it has decided until the privileges are read again.
        run(mysql, "SET GLOBAL partial_revokes = ON", "FLUSH PRIVILEGES")
        sight = sight_now(address_of(mysql, user="few", password="few"), before)
        (missing,) = sight.lacking(["axb", "a_b"])
        (like,) = sight.lacking(["s_en"])
        run(mysql, "CREATE DATABASE s_en", "CREATE TABLE s_en.x (a int)", missing, like)
        after = sight_as(mysql)
    finally:
        run(mysql, "SET GLOBAL partial_revokes = OFF", "FLUSH PRIVILEGES", "DROP USER 'few'@'%'")
        run(mysql, "DROP DATABASE axb", "DROP DATABASE IF EXISTS s_en")
    assert sight.seen == {("a_b", "x"), ("a_b", "y"), ("a_b", "z")}
    assert (sight.why_unseen(("axb", "x")) or "").startswith("the account may not see it: GRANT")
    assert missing.startswith("GRANT SELECT ON `axb`.* TO")
    assert after.seen == sight.seen | {("axb", "x"), ("s_en", "x")}


@pytest.mark.parametrize("series", [one for one in SERIES if one != "5.5"])
def test_grants_are_understood_whatever_quotes_are_the_default(
    servers: Servers, series: str
) -> None:
    mysql = servers(series)
    run(mysql, "SET GLOBAL sql_mode = 'ANSI'", "SET GLOBAL sql_quote_show_create = 0")
    try:
        found = read_as(mysql, "SELECT ON seen.x", "SELECT (a, b) ON seen.y")
        unseen = unseen_as(mysql, *found.tables)
    finally:
        run(mysql, "SET GLOBAL sql_mode = DEFAULT", "SET GLOBAL sql_quote_show_create = DEFAULT")
    assert set(found.tables) == {("seen", "x")}
    assert set(found.unseen) == set(unseen) == {("seen", "y")}


@pytest.mark.parametrize("series", [one for one in SERIES if not one.startswith("5.")])
def test_the_statement_that_activates_a_role_lets_the_account_pass(
    servers: Servers, series: str
) -> None:
    mysql = servers(series)
    run(
        mysql,
        "DROP ROLE IF EXISTS reading",
        "DROP ROLE IF EXISTS basis",
        "CREATE ROLE reading",
        "CREATE ROLE basis",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO basis",
        "GRANT basis TO reading",
        "GRANT SELECT ON seen.* TO reading",
        "DROP USER IF EXISTS 'few'@'%'",
        "CREATE USER 'few'@'%' IDENTIFIED BY 'few'",
        "GRANT reading TO 'few'@'%'",
    )
    address = address_of(mysql, user="few", password="few")
    facts = read_facts(address)
    with pytest.raises(PreflightError) as caught:
        check(facts, address)
    (statement,) = re.findall(r"SET DEFAULT ROLE [^;]+", str(caught.value))
    assert statement in warnings(facts, address)[0]
    run(mysql, statement)
    facts = read_facts(address)
    check(facts, address)
    # A role of the active role is in effect, too.
    assert not facts.inactive_roles
    assert not warnings(facts, address)
    run(mysql, "DROP USER 'few'@'%'", "DROP ROLE reading", "DROP ROLE basis")
