"""Character sets and collations of every server, and the defaults that databases and tables get."""

from __future__ import annotations

from itertools import product
from typing import Any

import pymysql
import pytest

from connectors.mysql.ddl.collations import (
    charset_named,
    chosen,
    default_collation,
    lasting,
    longest,
    of_collation,
    server_default,
)
from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.types.type_spec import Refused
from tests.harness.servers import Servers
from tests.harness.sql import connected
from tests.integration.ddl.test_types_oracle import MARIADB, SERIES, server_of

DATABASE = "collation_oracle"
NONE = Session()


@pytest.mark.parametrize("series", SERIES)
def test_every_collation_of_the_server_is_known_with_its_character_set(
    servers: Servers, series: str
) -> None:
    with connected(servers(series)) as cursor:
        server = server_of(cursor)
        listed = collations(cursor, server)
    assert [
        (collation, charset)
        for collation, charset in listed.items()
        if of_collation(collation, server=server) != Database(charset=charset, collation=collation)
    ] == []


@pytest.mark.parametrize("other", SERIES)
@pytest.mark.parametrize("series", ["9.7", "mariadb-11.8"])
def test_a_collation_that_only_another_server_has_is_refused(
    servers: Servers, series: str, other: str
) -> None:
    with connected(servers(series)) as cursor:
        server, own = server_of(cursor), {lasting(name) for name in collations(cursor, None)}
    with connected(servers(other)) as cursor:
        for name in {lasting(name) for name in collations(cursor, None)} - own:
            with pytest.raises(Refused):
                of_collation(name, server=server)


@pytest.mark.parametrize("series", SERIES)
def test_every_character_set_has_the_servers_default_and_width(
    servers: Servers, series: str
) -> None:
    with connected(servers(series)) as cursor:
        server = server_of(cursor)
        cursor.execute(
            "SELECT character_set_name, default_collate_name, maxlen"
            " FROM information_schema.character_sets"
        )
        theirs = set(cursor.fetchall())
    ours = {
        (
            charset_named(name, server=server),
            default_collation(name, server=server, session=NONE),
            longest(name),
        )
        for name, *_ in theirs
    }
    assert ours == theirs


@pytest.mark.parametrize("series", SERIES)
def test_a_server_started_without_a_setting_has_the_default_that_is_documented(
    servers: Servers, series: str
) -> None:
    with connected(servers(series)) as cursor:
        server = server_of(cursor)
        cursor.execute("SELECT @@collation_server")
        result = cursor.fetchone()[0]
    assert server_default(server, Session(server_collation=result)).collation == result
    if server.version >= (8, 0, 1) and not server.mariadb:
        assert server_default(server, NONE).collation == result


WORDS = (None, "latin2", "utf8", "utf8mb4", "default", "binary", "nix")
COLLATIONS = (
    None,
    "latin2_bin",
    "utf8_bin",
    "utf8mb4_unicode_ci",
    "default",
    "uca1400_as_cs",
    "nix",
)
Answer = Database | None


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("collation_first", [False, True])
def test_databases_and_tables_get_what_their_options_say(
    servers: Servers, series: str, *, collation_first: bool
) -> None:
    different = []
    with connected(servers(series)) as cursor:
        server = server_of(cursor)
        for charset, collation in list(product(WORDS, COLLATIONS))[1:]:
            words = [charset and f"CHARACTER SET {charset}", collation and f"COLLATE {collation}"]
            text = " ".join(filter(None, reversed(words) if collation_first else words))
            theirs = asked(cursor, text)
            ours = answered(charset, collation, server, collation_first=collation_first)
            if theirs != ours:
                different.append((text, theirs, ours))
    assert different == []


SERVER = Database(charset="latin1", collation="latin1_swedish_ci")
OWN = Database(charset="latin2", collation="latin2_czech_cs")
PARENT = Database(charset="greek", collation="greek_bin")


def asked(cursor: Any, options: str) -> list[Answer]:
    """The collations of a new and an old database and table after a statement; None for a refusal."""
    own = f"CHARACTER SET {OWN.charset} COLLATE {OWN.collation}"
    new, old = f"{DATABASE}_new", f"{DATABASE}_old"
    cursor.execute(f"SET collation_server = {SERVER.collation}")
    for name in (new, old, DATABASE):
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
    cursor.execute(f"CREATE DATABASE {old} {own}")
    parent = f"CHARACTER SET {PARENT.charset} COLLATE {PARENT.collation}"
    cursor.execute(f"CREATE DATABASE {DATABASE} {parent}")
    cursor.execute(f"CREATE TABLE {DATABASE}.old (a int) {own}")
    return [
        outcome(cursor, f"CREATE DATABASE {new} {options}", schema(new)),
        outcome(cursor, f"ALTER DATABASE {old} {options}", schema(old)),
        outcome(cursor, f"CREATE TABLE {DATABASE}.new (a int) {options}", table("new")),
        outcome(cursor, f"ALTER TABLE {DATABASE}.old {options}", table("old")),
    ]


def schema(name: str) -> str:
    return (
        "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
        f" WHERE schema_name = '{name}'"
    )


def table(name: str) -> str:
    return (
        "SELECT character_set_name, collation_name FROM information_schema.columns"
        f" WHERE table_schema = '{DATABASE}' AND table_name = '{name}' AND column_name = 'c'"
    )


def outcome(cursor: Any, statement: str, question: str) -> Answer:
    try:
        cursor.execute(statement)
    except pymysql.MySQLError:
        return None
    if "columns" in question:
        name = "new" if ".new" in statement else "old"
        cursor.execute(f"ALTER TABLE {DATABASE}.{name} ADD c enum('x')")
    cursor.execute(question)
    charset, collation = cursor.fetchone()
    return Database(charset=charset or "binary", collation=collation or "binary")


def answered(
    charset: str | None, collation: str | None, server: Server, *, collation_first: bool
) -> list[Answer]:
    def answer(inherited: Database, current: Database | None) -> Answer:
        try:
            return chosen(
                charset,
                collation,
                inherited,
                server=server,
                session=NONE,
                current=current,
                collation_first=collation_first,
            )
        except Refused:
            return None

    return [answer(SERVER, None), answer(SERVER, OWN), answer(PARENT, None), answer(PARENT, OWN)]


def collations(cursor: Any, server: Server | None) -> dict[str, str]:
    """Each collation that the server lists, with its character set."""
    name, kept = "collation_name", "collations"
    if server is None or server.mariadb:
        cursor.execute("SELECT VERSION()")
        if "MariaDB" in cursor.fetchone()[0]:
            name, kept = "full_collation_name", "collation_character_set_applicability"
    cursor.execute(
        f"SELECT {name}, character_set_name FROM information_schema.{kept}"
        " WHERE character_set_name IS NOT NULL"
    )
    return dict(cursor.fetchall())


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci"])
def test_the_default_of_utf8mb4_is_what_the_session_says(servers: Servers, collation: str) -> None:
    session = Session(utf8mb4_collation=collation)
    with connected(servers("9.7")) as cursor:
        cursor.execute(f"SET default_collation_for_utf8mb4 = {collation}")
        theirs = asked(cursor, "CHARACTER SET utf8mb4")
        server = server_of(cursor)
    ours = chosen("utf8mb4", None, SERVER, server=server, session=session)
    assert theirs == [ours] * 4


def test_mariadbs_defaults_are_what_the_session_says(servers: Servers) -> None:
    pairs = (("latin2", "latin2_bin"), ("utf8mb4", "utf8mb4_swedish_ci"))
    session = Session(charset_collations=pairs)
    with connected(servers(MARIADB[-1])) as cursor:
        server = server_of(cursor)
        text = ",".join("=".join(pair) for pair in pairs)
        cursor.execute(f"SET character_set_collations = '{text}'")
        for charset in ("latin2", "utf8mb4", "utf8mb3", "ucs2", "latin1"):
            theirs = asked(cursor, f"CHARACTER SET {charset}")
            ours = chosen(charset, None, SERVER, server=server, session=session)
            assert theirs == [ours] * 4, charset
