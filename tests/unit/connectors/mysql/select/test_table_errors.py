"""Which of MySQL's errors are those of one table, and what is advised."""

from __future__ import annotations

import pymysql
import pytest
from pymysql.constants import CR, ER

from connectors.errors import SourceLost, SourceRefused, TableUnreadable
from connectors.mysql.select.table_checks import error_of_read, is_interrupted, without_values
from tests.unit.connectors.mysql.facts import ADDRESS

NAME = ("shop", "t`s")
INVALID_JSON = 3141


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ER.LOCK_WAIT_TIMEOUT, "End the session that holds the lock"),
        (3572, "End the session that holds the lock"),
        (ER.TABLEACCESS_DENIED_ERROR, "Run GRANT SELECT ON `shop`.`t``s` TO the account of "),
        (ER.COLUMNACCESS_DENIED_ERROR, "Run GRANT SELECT"),
        (ER.DBACCESS_DENIED_ERROR, "Run GRANT SELECT"),
        (ER.QUERY_INTERRUPTED, "Find out what kills statements"),
        (ER.QUERY_TIMEOUT, "raise max_execution_time"),
        (1969, "max_statement_time"),
        (ER.CRASHED_ON_USAGE, "Run CHECK TABLE"),
        (ER.GET_ERRNO, "Run CHECK TABLE"),
        (ER.NOT_KEYFILE, "Run CHECK TABLE"),
        (145, "Run CHECK TABLE"),
        (ER.TABLE_DEF_CHANGED, "Run a SELECT of all its columns"),
        (INVALID_JSON, "Run a SELECT of all its columns"),
        (ER.NET_PACKET_TOO_LARGE, "Run a SELECT of all its columns"),
    ],
)
def test_an_error_of_one_table_names_it_and_what_to_do(code: int, advice: str) -> None:
    error = error_of_read(pymysql.OperationalError(code, "what it says"), NAME, ADDRESS)
    assert type(error) is TableUnreadable
    assert error.detail == f"what it says (error {code})"
    assert error.context["table"] == "shop.t`s"
    assert advice in error.advice


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (CR.CR_SERVER_LOST, SourceLost),
        (CR.CR_SERVER_GONE_ERROR, SourceLost),
        (ER.SERVER_SHUTDOWN, SourceLost),
        (ER.CON_COUNT_ERROR, SourceLost),
        (ER.SPECIFIC_ACCESS_DENIED_ERROR, SourceRefused),
        (ER.ACCESS_DENIED_ERROR, SourceRefused),
        (ER.DISK_FULL, SourceRefused),
        (ER.NET_READ_ERROR, SourceRefused),
        (1927, SourceLost),
        (4031, SourceLost),
        (3032, SourceRefused),
        (0, SourceLost),
    ],
)
def test_an_error_of_the_server_or_of_the_connection_is_not_one_of_the_table(
    code: int, kind: type[Exception]
) -> None:
    error = error_of_read(pymysql.OperationalError(code, "what it says"), NAME, ADDRESS)
    assert type(error) is kind


def test_an_error_without_a_number_is_one_of_the_connection() -> None:
    assert type(error_of_read(pymysql.InterfaceError("closed"), NAME, ADDRESS)) is SourceLost


def test_what_was_killed_may_succeed_and_says_nothing_of_a_condition() -> None:
    codes = ER.QUERY_INTERRUPTED, ER.QUERY_TIMEOUT, ER.BAD_FIELD_ERROR
    assert [is_interrupted(pymysql.OperationalError(one, "")) for one in codes] == [
        True, True, False,
    ]  # fmt: skip


def test_of_a_masked_table_only_texts_without_values_are_shown() -> None:
    shown = pymysql.OperationalError(ER.LOCK_WAIT_TIMEOUT, "Lock wait timeout exceeded")
    assert without_values(shown) is shown
    hidden = without_values(pymysql.OperationalError(INVALID_JSON, 'Invalid JSON text: "raw"'))
    error = error_of_read(hidden, NAME, ADDRESS)
    assert "raw" not in str(error)
    assert "3141" in str(error)
