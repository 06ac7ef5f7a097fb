"""The session in a QUERY event's status variables."""

from __future__ import annotations

import struct

import pytest

from connectors.mysql.binlog.query_session import session_of, status_variables, user_of
from connectors.mysql.charsets import Charsets

CHARSETS = Charsets(
    {8: "latin1", 255: "utf8mb4", 45: "utf8mb4"},
    {"latin1": 1, "utf8mb4": 4},
    {8: "latin1_swedish_ci", 255: "utf8mb4_0900_ai_ci", 45: "utf8mb4_general_ci"},
)

FLAGS = b"\0" + struct.pack("<I", 0)
ANSI_QUOTES_AND_STRICT = 1 << 2 | 1 << 21
MODE = b"\1" + struct.pack("<Q", ANSI_QUOTES_AND_STRICT)
CATALOG = b"\6\3std"
CHARSET = b"\4" + struct.pack("<HHH", 255, 45, 8)
UTF8MB4 = b"\x12" + struct.pack("<H", 45)
EXPLICIT = b"\x10\1"
INVOKER = b"\x0b\4anna\7db.host"
DATABASES = b"\x0c\2shop\0crm\0"
TOO_MANY = b"\x0c\xfe"
XID = b"\x11" + bytes(8)


def test_the_session_is_found_by_the_variables_in_any_order() -> None:
    status = FLAGS + MODE + CATALOG + CHARSET + DATABASES + INVOKER + XID + UTF8MB4 + EXPLICIT
    session = session_of(status, database="shop", thread=7, charsets=CHARSETS)
    assert session.database == "shop"
    assert session.sql_mode == {"ANSI_QUOTES", "STRICT_TRANS_TABLES"}
    assert session.server_collation == "latin1_swedish_ci"
    assert session.utf8mb4_collation == "utf8mb4_general_ci"
    assert session.explicit_timestamps is True
    assert session.thread == 7


def test_what_is_not_given_is_the_servers_own_default() -> None:
    session = session_of(FLAGS, database=None, thread=0, charsets=CHARSETS)
    assert (session.server_collation, session.utf8mb4_collation) == (None, None)
    assert session.explicit_timestamps is None
    assert session.sql_mode == frozenset()


def test_a_variable_that_nobody_knows_ends_the_list() -> None:
    assert status_variables(MODE + b"\x7f" + CHARSET).keys() == {1}


@pytest.mark.parametrize("databases", [DATABASES, TOO_MANY])
def test_variables_after_a_list_of_databases_are_found(databases: bytes) -> None:
    assert user_of(FLAGS + databases + INVOKER) == "anna@db.host"


def test_most_statements_are_not_reported() -> None:
    assert user_of(FLAGS + MODE) is None
    assert user_of(b"\x0b\0\0") is None


@pytest.mark.parametrize(("flag", "explicit"), [(1 << 24, True), (0, False)])
def test_mariadb_states_by_a_flag_what_timestamp_means(flag: int, explicit: bool) -> None:
    status = b"\0" + struct.pack("<I", flag | 1 << 26)
    session = session_of(status, database=None, thread=0, charsets=CHARSETS, mariadb=True)
    assert session.explicit_timestamps is explicit


def test_mariadbs_own_collations_of_charsets_are_reported_and_what_is_after_them() -> None:
    own = b"\x83\2" + struct.pack("<HHHH", 8, 8, 45, 255)
    session = session_of(
        FLAGS + own + CHARSET, database=None, thread=0, charsets=CHARSETS, mariadb=True
    )
    assert session.charset_collations == (
        ("latin1", "latin1_swedish_ci"),
        ("utf8mb4", "utf8mb4_0900_ai_ci"),
    )
    assert session.server_collation == "latin1_swedish_ci"


def test_mariadb_can_have_none_of_them() -> None:
    session = session_of(FLAGS + b"\x83\0", database=None, thread=0, charsets=CHARSETS)
    assert session.charset_collations == ()


@pytest.mark.parametrize(("flags", "size"), [(2, 1), (4, 9), (8, 9)])
def test_variables_after_a_half_of_an_alter_in_two_phases_are_found(flags: int, size: int) -> None:
    started_or_ended = bytes([130, flags]) + bytes(range(1, size))
    assert status_variables(started_or_ended + CHARSET).keys() == {130, 4}
