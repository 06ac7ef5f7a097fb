"""The variables of a session: by version, set at once, and read back."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest
from pymysql.constants import ER, SERVER_STATUS

from connectors.errors import SourceLost, SourceRefused
from connectors.mysql.server.connection import translated
from connectors.mysql.server.session_variables import DEFAULT, begin_session, session_variables
from tests.unit.connectors.mysql.server.test_connection_to import address

MARIADB_OLD, MARIADB_NEW = "5.5.5-10.11.6-MariaDB-log", "11.8.2-MariaDB-ubu2404"


class Session:
    """A connection to a server that has these variables, and denies some."""

    def __init__(self, *names: str, denied: tuple[str, ...] = (), status: int = 0) -> None:
        self.values = dict.fromkeys(names, "worst")
        self.denied, self.server_status = denied, status
        self.statements: list[str] = []
        self.found: list[Any] = []

    def cursor(self) -> Session:
        return self

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def execute(self, statement: str) -> None:
        self.statements.append(statement)
        if statement.startswith("SET SESSION "):
            given = dict(one.split(" = ") for one in statement[12:].split(", "))
            if missing := given.keys() - self.values.keys():
                raise pymysql.OperationalError(ER.UNKNOWN_SYSTEM_VARIABLE, f"Unknown {missing}")
            if given.keys() & {*self.denied}:
                raise pymysql.OperationalError(ER.SPECIFIC_ACCESS_DENIED_ERROR, "denied")
            self.values |= {name: one.strip("'") for name, one in given.items()}
        elif statement.startswith("SELECT"):
            names = statement.removeprefix("SELECT ").replace("@@SESSION.", "").split(", ")
            self.found = [tuple(self.values[name].encode() for name in names)]

    def fetchall(self) -> list[Any]:
        return self.found


def names(server_info: str) -> set[str]:
    return set(session_variables(server_info, time_zone="+00:00", isolation="READ-COMMITTED"))


@pytest.mark.parametrize(
    ("server_info", "has", "lacks"),
    [
        (
            "5.6.4",
            {"tx_isolation"},
            {"tx_read_only", "max_execution_time", "transaction_isolation"},
        ),
        ("5.6.51-log", {"tx_isolation", "tx_read_only", "max_error_count"}, {"max_execution_time"}),
        ("5.7.19", {"tx_isolation", "max_execution_time"}, {"transaction_isolation"}),
        ("5.7.22-log", {"transaction_isolation", "transaction_read_only"}, {"tx_isolation"}),
        ("8.0.15", {"information_schema_stats_expiry"}, {"max_error_count", "tx_isolation"}),
        ("9.7.4-2", {"show_gipk_in_create_table_and_information_schema"}, {"max_statement_time"}),
        (MARIADB_OLD, {"tx_isolation", "max_statement_time", "old_mode"}, {"max_execution_time"}),
        (MARIADB_NEW, {"transaction_isolation", "system_versioning_asof"}, {"tx_isolation"}),
    ],
)
def test_a_version_gets_the_variables_that_it_has(
    server_info: str, has: set[str], lacks: set[str]
) -> None:
    found = names(server_info)
    assert has <= found
    assert not lacks & found
    assert {"autocommit", "sql_mode", "time_zone", "sql_select_limit", "wait_timeout"} <= found


def test_all_are_set_by_one_statement_and_read_back() -> None:
    session = Session("a", "b", "c")
    begin_session(session, {"a": 1, "b": "x", "c": DEFAULT}, "db:3306")
    assert session.statements == [
        "SET SESSION a = 1, b = 'x', c = DEFAULT",
        "SELECT @@SESSION.a, @@SESSION.b, @@SESSION.c",
    ]


def test_a_transaction_that_has_begun_is_ended() -> None:
    session = Session("a", status=SERVER_STATUS.SERVER_STATUS_IN_TRANS)
    begin_session(session, {"a": 1}, "db:3306")
    assert session.statements[1] == "ROLLBACK"


def test_a_variable_that_the_server_lacks_is_omitted_and_the_others_are_set() -> None:
    session = Session("a", "c")
    begin_session(session, {"a": 1, "b": 2, "c": 3}, "db:3306")
    assert session.values == {"a": "1", "c": "3"}
    assert session.statements[-1] == "SELECT @@SESSION.a, @@SESSION.c"


def test_a_variable_that_is_denied_has_to_be_right_already() -> None:
    session = Session("a", "b", denied=("b",))
    with pytest.raises(SourceRefused) as caught:
        begin_session(session, {"a": 1, "b": 2}, "db:3306")
    assert "b is 'worst' in place of 2" in str(caught.value)
    assert "a is" not in str(caught.value)
    assert "global variables" in str(caught.value)
    session.values["b"] = "2"
    begin_session(session, {"a": 1, "b": 2}, "db:3306")


@pytest.mark.parametrize(
    ("found", "wanted"),
    [("ON", 1), ("OFF", 0), ("0.000000", 0), ("1", 1), ("Europe/Berlin", "europe/berlin")],
)
def test_a_value_is_compared_whatever_the_server_writes_it_as(
    found: str, wanted: int | str
) -> None:
    session = Session("a", denied=("a",))
    session.values["a"] = found
    begin_session(session, {"a": wanted}, "db:3306")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (1203, "max_user_connections"),
        (1205, "SHOW PROCESSLIST"),
        (1184, "init_connect"),
        (3159, "source.tls"),
        (1045, "password"),
    ],
)
def test_a_refusal_says_what_to_do_about_it(code: int, advice: str) -> None:
    error = translated(pymysql.OperationalError(code, "text"), address(3306))
    assert isinstance(error, SourceRefused)
    assert advice in str(error)
    assert ("password" in str(error)) == (code == 1045)


@pytest.mark.parametrize("code", [4031, 1927, 3169])
def test_a_session_that_the_server_ended_is_a_lost_connection(code: int) -> None:
    assert isinstance(translated(pymysql.OperationalError(code, "text"), address(3306)), SourceLost)


def test_other_errors_are_raised_as_they_are() -> None:
    class Lost(Session):
        def execute(self, _: str) -> None:
            raise pymysql.OperationalError(2013, "Lost connection")

    with pytest.raises(pymysql.OperationalError, match="Lost connection"):
        begin_session(Lost(), {"a": 1}, "db:3306")
