"""Which character set and collation a database, a table or a column gets from the words that a statement has.

The law: a default is that of the server's version; what a version does not know is refused.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Database, Server, Session


class CharsetRefused(ValueError):
    """The server knows no such character set or collation, or the two do not go together."""


def server_default(server: Server, session: Session) -> Database:
    """What a database gets that is created without any word about it."""
    raise NotImplementedError


def chosen(
    charset: str | None,
    collation: str | None,
    inherited: Database,
    *,
    server: Server,
    session: Session,
) -> Database:
    """What a database or a table gets: ``[DEFAULT] CHARACTER SET charset COLLATE collation``, either or both
    missing.

    ``charset`` may be ``default`` (that of ``inherited``). Raises CharsetRefused.
    """
    raise NotImplementedError


def default_collation(charset: str, *, server: Server, session: Session) -> str:
    """The collation of a character set that is named alone."""
    raise NotImplementedError


def charset_of_collation(collation: str, *, server: Server) -> str:
    """The character set that a collation orders, as the server prints it; raise CharsetRefused."""
    raise NotImplementedError
