"""Tables that an account may not see, or not with all columns, so that a schema history lacks them.

A server does not list a table on which an account has no privilege, as if the table did not exist.

Invariant: a table is reported only if the account's own privileges are the reason, and with the statement
that makes the table visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import PARTIAL_REVOKES, ServerFacts
from connectors.mysql.server.privileges import (
    Privileges,
    account,
    activation,
    database_pattern,
    grant,
    remedy,
)

_NONE_SUCH = "\0"
"""A name that no table or database has."""


class Sight:
    """The tables of a server that an account sees at one time."""

    def __init__(
        self,
        names: Iterable[TableName],
        privileges: Privileges,
        to: str,
        *,
        lowers: bool = False,
        described: Collection[TableName] | None = None,
    ) -> None:
        """``names``: the tables that the server lists; ``to``: the account, as GRANT names it.

        ``lowers``: whether the server has only lower-case names. ``described``: the tables without a known
        grant for which the server shows columns; None if this was not queried.
        """
        self._privileges, self._to, self._lowers = privileges, to, lowers
        self.names = frozenset(names)
        self.seen = self.names - self._privileges.in_part
        """The tables whose columns are all visible, as far as is known."""
        if described is not None:
            self.seen = self.seen - self.ungranted.difference(described)
        self._folded = frozenset(map(_folded, self.names))

    @property
    def ungranted(self) -> frozenset[TableName]:
        """The listed tables that the account may not read by its own grants; a role may permit it."""
        return frozenset(name for name in self.names if not self.covers(name))

    def covers(self, name: TableName) -> bool:
        """Whether the account may read a table by its own grants, so that an existing table is visible."""
        return self._privileges.covers(name)

    def spelled(self, name: TableName) -> TableName:
        """Convert a name that an operator has written to the case of the server's names."""
        return (lowered(name[0]), lowered(name[1])) if self._lowers else name

    def why_unseen(self, name: TableName) -> str | None:
        """Return why a table, if it exists, is not visible; None if it is visible, or would be."""
        if name in self.seen:
            return None
        if name in self.names:
            what = "only some" if name in self._privileges.in_part else "none"
            return f"{what} of its columns may be seen: {remedy(name, self._to)}"
        if self._privileges.covers(name) or _folded(name) in self._folded:
            # A filter matches without regard to case.
            return None
        return f"the account may not see it: {remedy(name, self._to)}"

    def lacking(self, databases: Collection[str]) -> list[str]:
        """Return the missing GRANTs that would make all tables of these databases visible.

        ``databases``: in lower case, as a filter names them; empty means all databases.
        """
        real = {database.lower(): database for database, _ in self.names}
        named = [real.get(one, one) for one in databases]
        is_literal = self._privileges.is_literal
        scopes = [(one, database_pattern(one, is_literal=is_literal)) for one in named]
        return [
            grant("SELECT", scope, self._to)
            for database, scope in scopes or [(_NONE_SUCH, "*.*")]
            if not self._privileges.covers((database, _NONE_SUCH))
        ]


def _folded(name: TableName) -> TableName:
    return name[0].lower(), name[1].lower()


def sight_of(
    address: SourceAddress,
    facts: ServerFacts,
    names: Iterable[TableName],
    *,
    described: Collection[TableName] | None = None,
) -> Sight:
    """Return what the account saw when these facts and names were read; ``described``: see Sight."""
    lowers = server_of(facts).lower_case_table_names == 1
    to = account(facts.current_user, address.user)
    return Sight(names, facts.privileges, to, lowers=lowers, described=described)


def sight_now(address: SourceAddress, facts: ServerFacts) -> Sight:
    """Query what the account sees now; raise SourceLost or SourceRefused."""
    with connected(address) as cursor:
        # Read before the names, so that an existing table that these grants make visible is listed.
        cursor.execute("SHOW GRANTS")
        grants = tuple(one for (one,) in cursor.fetchall())
        cursor.execute(f"SHOW GLOBAL VARIABLES LIKE '{PARTIAL_REVOKES}'")
        facts = replace(facts, grants=grants, variables={**facts.variables, **dict(cursor)})
        reader = InventoryReader(cursor, server_of(facts))
        found = sight_of(address, facts, reader.names())
        if not found.ungranted:
            return found
        # With another privilege, an account sees a table's name but no column.
        described = reader.described({database for database, _ in found.ungranted})
        return sight_of(address, facts, found.names, described=described)


def unseen_tables(
    address: SourceAddress,
    facts: ServerFacts,
    known: Collection[TableName],
    waiting: Iterable[TableName] = (),
) -> dict[TableName, str]:
    """Return the existing tables that are not known and only granted in part, each with what to do.

    The tables of ``waiting``, whose rows are to be read, are returned too if the account may not see them.
    Raise SourceLost or SourceRefused.
    """
    granted = facts.privileges.in_part.difference(known)
    hidden = set(waiting).difference(known)
    if not granted and not hidden:
        return {}
    with connected(address) as cursor:
        existing = InventoryReader(cursor, server_of(facts)).names()
    sight = sight_of(address, facts, existing)
    found = {name: why for name in sorted(hidden) if (why := sight.why_unseen(name)) is not None}
    return {**found, **seen_in_part(address, facts, granted & existing)}


def seen_in_part(
    address: SourceAddress, facts: ServerFacts, names: Collection[TableName]
) -> dict[TableName, str]:
    """Return the tables among ``names`` that are only granted in part, each with what to do."""
    granted, to = facts.privileges.in_part, account(facts.current_user, address.user)
    roles = activation(facts.inactive_roles, to, mariadb=facts.is_mariadb)
    return {
        name: f"only some of its columns may be seen: {remedy(name, to)}{roles} then restart the destination"
        for name in sorted(granted.intersection(names))
    }
