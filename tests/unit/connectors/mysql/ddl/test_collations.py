"""Defaults of versions that no test can start."""

import pytest

from connectors.mysql.ddl.collations import (
    chosen,
    default_collation,
    server_default,
)
from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.types.type_spec import Refused

LATIN1 = Database(charset="latin1", collation="latin1_swedish_ci")
LATIN2 = Database(charset="latin2", collation="latin2_bin")


@pytest.mark.parametrize(
    ("server", "collation"),
    [
        (Server(version=(5, 7, 44)), "latin1_swedish_ci"),
        (Server(version=(8, 0, 0)), "latin1_swedish_ci"),
        (Server(version=(8, 0, 1)), "utf8mb4_0900_ai_ci"),
        (Server(version=(9, 7, 4)), "utf8mb4_0900_ai_ci"),
        (Server(version=(11, 5, 2), mariadb=True), "latin1_swedish_ci"),
        (Server(version=(11, 6, 1), mariadb=True), "utf8mb4_uca1400_ai_ci"),
    ],
)
def test_each_version_has_a_default_of_its_own(server: Server, collation: str) -> None:
    assert server_default(server, Session()).collation == collation
    session = Session(server_collation="latin2_bin")
    assert server_default(server, session) == LATIN2


@pytest.mark.parametrize(
    ("server", "collation"),
    [
        (Server(version=(5, 7, 44)), "utf8mb4_general_ci"),
        (Server(version=(8, 0, 1)), "utf8mb4_0900_ai_ci"),
        (Server(version=(11, 4, 9), mariadb=True), "utf8mb4_general_ci"),
        (Server(version=(11, 5, 1), mariadb=True), "utf8mb4_uca1400_ai_ci"),
    ],
)
def test_four_byte_utf8_has_the_versions_default(server: Server, collation: str) -> None:
    assert default_collation("utf8mb4", server=server, session=Session()) == collation
    assert default_collation("latin2", server=server, session=Session()) == "latin2_general_ci"


def test_a_session_may_have_another_default() -> None:
    mysql, mariadb = Server(version=(9, 7, 4)), Server(version=(11, 8, 2), mariadb=True)
    session = Session(utf8mb4_collation="utf8mb4_general_ci")
    assert default_collation("utf8mb4", server=mysql, session=session) == "utf8mb4_general_ci"
    session = Session(charset_collations=(("latin2", "latin2_bin"),))
    assert default_collation("latin2", server=mariadb, session=session) == "latin2_bin"
    assert default_collation("utf8mb4", server=mariadb, session=session) == "utf8mb4_general_ci"


@pytest.mark.parametrize(
    ("version", "collation"),
    [((8, 0, 26), "utf8mb4_0900_ai_ci"), ((8, 4, 0), "utf8mb4_bin"), ((9, 7, 4), "utf8mb4_bin")],
)
def test_a_collation_before_the_character_set_was_once_forgotten(
    version: tuple[int, int, int], collation: str
) -> None:
    server = Server(version=version)
    found = chosen(
        "utf8mb4",
        "utf8mb4_bin",
        LATIN1,
        server=server,
        session=Session(),
        collation_first=True,
    )
    assert found == Database(charset="utf8mb4", collation=collation)


def test_without_a_clause_there_is_what_is_inherited_or_was() -> None:
    server = Server(version=(9, 7, 4))
    assert chosen(None, None, LATIN1, server=server, session=Session()) == LATIN1
    found = chosen(None, None, LATIN1, server=server, session=Session(), current=LATIN2)
    assert found == LATIN2


def test_two_that_do_not_go_together_are_refused() -> None:
    server = Server(version=(9, 7, 4))
    for first in (False, True):
        with pytest.raises(Refused, match=r"'latin2_bin' is not valid for .* 'latin1'"):
            chosen(
                "latin1",
                "latin2_bin",
                LATIN1,
                server=server,
                session=Session(),
                collation_first=first,
            )


def test_the_word_default_is_none_since_mysql_8() -> None:
    assert chosen("default", None, LATIN1, server=Server(version=(5, 7, 4)), session=Session())
    with pytest.raises(Refused, match="DEFAULT"):
        chosen("default", None, LATIN1, server=Server(version=(8, 0, 4)), session=Session())
