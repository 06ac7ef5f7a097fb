"""Tables that an account may not see, or not with all columns, so that a schema history does not have them.

A server does not list a table on which an account has no privilege, as if there were none.

Invariant: a table is named only if the account's own privileges are the reason, and with the statement that
lets it be seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server.facts import ServerFacts, SourceAddress, connected
from connectors.mysql.server.privileges import Privileges, remedy
from connectors.mysql.server.remedies import account, activation, database_pattern, grant

_NONE_SUCH = "\0"
"""A name that no table or database has."""


class Sight:
    """What an account sees of a server's tables at a time."""

    def __init__(self, names: Iterable[TableName], grants: Iterable[str], to: str) -> None:
        """``names``: the tables that the server lists; ``to``: the account, as GRANT names it."""
        self._privileges, self._to = Privileges(grants), to
        self.names = frozenset(names)
        self.seen = self.names - self._privileges.in_part
        """The tables of which all columns are seen."""

    def why_unseen(self, name: TableName) -> str | None:
        """Why a table is not seen, if it exists; None if it is, or would be."""
        if name in self.seen:
            return None
        if name in self.names:
            return f"only some of its columns may be seen: {remedy(name, self._to)}"
        if self._privileges.covers(name):
            return None
        return f"the account may not see it: {remedy(name, self._to)}"

    def lacking(self, databases: Collection[str]) -> list[str]:
        """The GRANTs with which all tables of these databases, or of any without one, would be seen.

        ``databases``: in lower case, as a filter names them.
        """
        real = {database.lower(): database for database, _ in self.names}
        named = [real.get(one, one) for one in databases]
        scopes = [(one, database_pattern(one)) for one in named] or [(_NONE_SUCH, "*.*")]
        return [
            grant("SELECT", scope, self._to)
            for database, scope in scopes
            if not self._privileges.covers((database, _NONE_SUCH))
        ]


def sight_of(address: SourceAddress, facts: ServerFacts, names: Iterable[TableName]) -> Sight:
    """What the account saw when a server was asked for these facts and names."""
    return Sight(names, facts.grants, account(facts.current_user, address.user))


def sight_now(address: SourceAddress, facts: ServerFacts) -> Sight:
    """What the account sees now. Raises SourceLost or SourceRefused."""
    with connected(address) as cursor:
        # Before the names, so that a table that may be seen by these is listed if it exists.
        cursor.execute("SHOW GRANTS")
        grants = tuple(one for (one,) in cursor.fetchall())
        names = InventoryReader(cursor, server_of(facts)).names()
        return sight_of(address, replace(facts, grants=grants), names)


def unseen_tables(
    address: SourceAddress, facts: ServerFacts, known: Collection[TableName]
) -> dict[TableName, str]:
    """Return the tables that exist, are not known, and are granted in part, each with what to do.

    Raises SourceLost or SourceRefused.
    """
    granted = Privileges(facts.grants).in_part.difference(known)
    if not granted:
        return {}
    with connected(address) as cursor:
        existing = InventoryReader(cursor, server_of(facts)).names()
    return seen_in_part(address, facts, granted & existing)


def seen_in_part(
    address: SourceAddress, facts: ServerFacts, names: Collection[TableName]
) -> dict[TableName, str]:
    """Return those of these tables that are granted in part, each with what to do."""
    granted, to = Privileges(facts.grants).in_part, account(facts.current_user, address.user)
    roles = activation(facts.inactive_roles, to, mariadb=facts.is_mariadb)
    return {
        name: f"only some of its columns may be seen: {remedy(name, to)}{roles} then restart the destination"
        for name in sorted(granted.intersection(names))
    }
