"""Which character set and collation a database, a table or a column gets from the words that a statement has.

The law: a default is that of the server's version; what a version does not know is refused. Names come out as
that version prints them.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.ddl.server_version import since
from connectors.mysql.ddl.types.collation_names import (
    CONTEXTUAL,
    FIRST,
    LONGEST,
    has_charset,
    has_collation,
)

_NEWER_DEFAULTS = ("ucs2", "utf16", "utf32", "utf8mb3", "utf8mb4")
"""MariaDB's character sets with a collation of UCA 14.0.0 for their default."""


class CharsetRefused(ValueError):
    """The server knows no such character set or collation, or the two do not go together."""


def server_default(server: Server, session: Session) -> Database:
    """What a database gets that is created without any word about it."""
    collation = session.server_collation
    if collation is None and since(server, mysql=(8, 0, 1), mariadb=(11, 6, 0)):
        collation = "utf8mb4_uca1400_ai_ci" if server.mariadb else "utf8mb4_0900_ai_ci"
    return of_collation(collation or "latin1_swedish_ci", server=server)


def chosen(
    charset: str | None,
    collation: str | None,
    inherited: Database,
    *,
    server: Server,
    session: Session,
    current: Database | None = None,
    collation_first: bool = False,
) -> Database:
    """What a database or a table gets: ``[DEFAULT] CHARACTER SET charset COLLATE collation``, either or both
    missing, or ``default``, which is written in lower case here.

    ``inherited`` is what it would get without a word, ``current`` what an ALTER finds. ``collation_first`` says
    that COLLATE stands before CHARACTER SET: MySQL 8.0 and before forget it then. Raises CharsetRefused.
    """
    if "default" in (charset, collation) and since(server, mysql=(8, 0, 0), mariadb=None):
        raise CharsetRefused("DEFAULT names no character set or collation since MySQL 8.0")
    named = None if charset is None else _named(charset, inherited, server, session)
    # MySQL takes DEFAULT for no word at all, so that any collation goes with it.
    free = charset is None or (charset == "default" and not server.mariadb)
    own = None if free or named is None else named.charset
    base = current or inherited
    if collation is None:
        return named or base
    if not server.mariadb and collation == "default":
        found = inherited
    else:
        found = collated(own, collation, base, server=server, session=session)
    # 5.5 to 8.0.26 do it, 9.7 does not; between them it changed.
    forgets = collation_first and not since(server, mysql=(8, 4, 0), mariadb=(0, 0, 0))
    return named if named is not None and forgets else found


def _named(charset: str, inherited: Database, server: Server, session: Session) -> Database:
    if charset == "default":
        if not server.mariadb:
            return inherited
        # Of what is inherited it takes the character set alone, with the collation that this had first.
        first = FIRST[lasting(inherited.charset)]
        return Database(charset=inherited.charset, collation=_printed_collation(first, server))
    return Database(
        charset=charset_named(charset, server=server),
        collation=default_collation(charset, server=server, session=session),
    )


def collated(
    named: str | None, collation: str, base: Database, *, server: Server, session: Session
) -> Database:
    """What a collation means behind a character set, or else on ``base``; raise CharsetRefused."""
    own, word = named or base.charset, lasting(collation)
    if server.mariadb and word == "default":
        return _named(own, base, server, session)
    if server.mariadb and CONTEXTUAL.fullmatch(word):
        word = f"{lasting(own)}_{word}"
        if not has_collation(server, word):
            raise _apart(collation, own)
    found = of_collation(word, server=server)
    if named is not None and found.charset != own:
        raise _apart(collation, own)
    return found


def _apart(collation: str, charset: str) -> CharsetRefused:
    return CharsetRefused(f"COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'")


def default_collation(charset: str, *, server: Server, session: Session) -> str:
    """The collation of a character set that is named alone; raise CharsetRefused."""
    name = lasting(charset_named(charset, server=server))
    own = session.utf8mb4_collation if name == "utf8mb4" else None
    if session.charset_collations is not None:
        own = dict(session.charset_collations).get(name, own)
    elif own is None and name in _NEWER_DEFAULTS and since(server, mysql=None, mariadb=(11, 5, 0)):
        own = f"{name}_uca1400_ai_ci"
    elif own is None and name == "utf8mb4" and since(server, mysql=(8, 0, 1), mariadb=None):
        own = "utf8mb4_0900_ai_ci"
    return _printed_collation(lasting(own or FIRST[name]), server)


def charset_of_collation(collation: str, *, server: Server) -> str:
    """The character set that a collation orders, as the server prints it; raise CharsetRefused."""
    return of_collation(collation, server=server).charset


def of_collation(collation: str, *, server: Server) -> Database:
    """A collation with its character set, both as the server prints them; raise CharsetRefused."""
    name = lasting(collation)
    if not has_collation(server, name):
        raise CharsetRefused(f"Unknown collation: '{collation}'")
    charset = _printed_charset(name.partition("_")[0], server)
    return Database(charset=charset, collation=_printed_collation(name, server))


def binary_collation(charset: str, *, server: Server) -> Database:
    """The collation of a character set that compares bytes."""
    if lasting(charset) == "binary":
        return Database(charset="binary", collation="binary")
    return of_collation(f"{charset}_bin", server=server)


def charset_named(charset: str, *, server: Server) -> str:
    """A character set as the server prints it; raise CharsetRefused where it has none of that name."""
    name = lasting(charset)
    if not has_charset(server, name):
        raise CharsetRefused(f"Unknown character set: '{charset}'")
    return _printed_charset(name, server)


def longest(charset: str) -> int:
    """How many bytes a character may take."""
    return LONGEST[lasting(charset)]


def lasting(name: str) -> str:
    """The lasting name of a character set or collation: MySQL's ``utf8`` became ``utf8mb3``."""
    name = name.lower()
    return "utf8mb3" + name[4:] if name == "utf8" or name.startswith("utf8_") else name


def _printed_charset(name: str, server: Server) -> str:
    if name != "utf8mb3" or since(server, mysql=(8, 0, 28), mariadb=(10, 6, 0)):
        return name
    return "utf8"


def _printed_collation(name: str, server: Server) -> str:
    if not name.startswith("utf8mb3_") or since(server, mysql=(8, 0, 30), mariadb=(10, 6, 0)):
        return name
    return "utf8_" + name.removeprefix("utf8mb3_")
