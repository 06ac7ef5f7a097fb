"""Tables of which an account may see only some columns, so that a schema history does not have them.

Invariant: a table is named only if the account's own privileges are the reason, and with the statement that
lets it be seen.
"""

from __future__ import annotations

from collections.abc import Collection

from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.schema.information_schema import InventoryReader
from connectors.mysql.server.facts import ServerFacts, SourceAddress, connected
from connectors.mysql.server.privileges import Privileges, remedy
from connectors.mysql.server.remedies import account, activation


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
