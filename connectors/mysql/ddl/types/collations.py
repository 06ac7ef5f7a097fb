"""The character set and collation of a database, a table or a column, from the clauses of a statement.

Invariant: a default is that of the server's version; names that a version does not know are
refused. Names are returned as that version prints them.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.ddl.types.collation_names import (
    CONTEXTUAL,
    FIRST,
    LONGEST,
    has_charset,
    has_collation,
)
from connectors.mysql.server_version import since

_NEWER_DEFAULTS = ("ucs2", "utf16", "utf32", "utf8mb3", "utf8mb4")
"""MariaDB's character sets whose default is a collation of UCA 14.0.0."""


class CharsetRefused(ValueError):
    """The server has no such character set or collation, or the two do not match."""


def server_default(server: Server, session: Session) -> Database:
    """The default of a database that is created without options."""
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
    """Return the result of ``[DEFAULT] CHARACTER SET charset COLLATE collation`` for a database or table.

    Either name is None if its clause is missing, and may be ``default``, in lower case. ``inherited`` is the
    default without these clauses, ``current`` the state before an ALTER. With ``collation_first``, COLLATE
    precedes CHARACTER SET; MySQL 8.0 and earlier then ignore COLLATE. Raise CharsetRefused.
    """
    if "default" in (charset, collation) and since(server, mysql=(8, 0, 0), mariadb=None):
        raise CharsetRefused("DEFAULT names no character set or collation since MySQL 8.0")
    named = None if charset is None else _named(charset, inherited, server, session)
    # MySQL treats DEFAULT like a missing clause, so that any collation is compatible with it.
    free = charset is None or (charset == "default" and not server.mariadb)
    own = None if free or named is None else named.charset
    base = current or inherited
    if collation is None:
        return named or base
    if not server.mariadb and collation == "default":
        found = inherited
    else:
        found = collated(own, collation, base, server=server, session=session)
    # 5.5 to 8.0.26 ignore it, 9.7 does not; the version of the change is unknown.
    forgets = collation_first and not since(server, mysql=(8, 4, 0), mariadb=(0, 0, 0))
    return named if named is not None and forgets else found


def _named(charset: str, inherited: Database, server: Server, session: Session) -> Database:
    if charset == "default":
        if not server.mariadb:
            return inherited
        # Only the character set is inherited, with its original default collation.
        first = FIRST[lasting(inherited.charset)]
        return Database(charset=inherited.charset, collation=_printed_collation(first, server))
    return Database(
        charset=charset_named(charset, server=server),
        collation=default_collation(charset, server=server, session=session),
    )


def collated(
    named: str | None, collation: str, base: Database, *, server: Server, session: Session
) -> Database:
    """Return the result of COLLATE after a named character set, or else applied to ``base``.

    Raise CharsetRefused.
    """
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
    """Return the collation of a character set that is named without a collation; raise CharsetRefused."""
    name = lasting(charset_named(charset, server=server))
    own = session.utf8mb4_collation if name == "utf8mb4" else None
    if session.charset_collations is not None:
        own = dict(session.charset_collations).get(name, own)
    elif own is None and name in _NEWER_DEFAULTS and since(server, mysql=None, mariadb=(11, 5, 0)):
        own = f"{name}_uca1400_ai_ci"
    elif own is None and name == "utf8mb4" and since(server, mysql=(8, 0, 1), mariadb=None):
        own = "utf8mb4_0900_ai_ci"
    return _printed_collation(lasting(own or FIRST[name]), server)


def of_collation(collation: str, *, server: Server) -> Database:
    """A collation with its character set, both as the server prints them; raise CharsetRefused."""
    name = lasting(collation)
    if not has_collation(server, name):
        raise CharsetRefused(f"Unknown collation: '{collation}'")
    charset = _printed_charset(name.partition("_")[0], server)
    return Database(charset=charset, collation=_printed_collation(name, server))


def binary_collation(charset: str, *, server: Server) -> Database:
    """Return a character set with its collation that compares bytes."""
    if lasting(charset) == "binary":
        return Database(charset="binary", collation="binary")
    return of_collation(f"{charset}_bin", server=server)


def charset_named(charset: str, *, server: Server) -> str:
    """Return a character set as the server prints it; raise CharsetRefused if the server does not have it."""
    name = lasting(charset)
    if not has_charset(server, name):
        raise CharsetRefused(f"Unknown character set: '{charset}'")
    return _printed_charset(name, server)


def longest(charset: str) -> int:
    """The maximum size of a character in bytes."""
    return LONGEST[lasting(charset)]


def lasting(name: str) -> str:
    """The permanent name of a character set or collation: MySQL's ``utf8`` became ``utf8mb3``."""
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
