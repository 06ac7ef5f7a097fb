"""The statements that errors recommend, written so that they run as printed.

Invariant: an account is named with its host, as the server knows it; a statement ends in a
semicolon, and further steps follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

PERSISTS = (8, 0)
"""Since this version MySQL can persist settings over restarts; MariaDB cannot."""


def account(current_user: str, user: str) -> str:
    """An account in the form of GRANT: from ``CURRENT_USER()``, else a user of any host."""
    name, at, host = current_user.rpartition("@")
    return f"{_quoted(name)}@{_quoted(host)}" if at else f"{_quoted(user)}@'%'"


def grant(privileges: str, on: str, to: str) -> str:
    """The GRANT of some privileges to an account."""
    return f"GRANT {privileges} ON {on} TO {to};"


def activation(roles: Sequence[str], to: str, *, mariadb: bool) -> str:
    """Return the advice to activate an account's roles by default; empty without roles.

    MariaDB can activate only one role, which is named without a host.
    """
    if not roles:
        return ""
    statement = f"{roles[0]} FOR" if mariadb else f"{', '.join(roles)} TO"
    return f" or activate what it has by {', '.join(roles)}: SET DEFAULT ROLE {statement} {to};"


def database_pattern(database: str) -> str:
    """All tables of a database, in the form of GRANT, where ``_`` and ``%`` are wildcards."""
    escaped = database.replace("`", "``").replace("_", r"\_").replace("%", r"\%")
    return f"`{escaped}`.*"


def setting(name: str, value: str, *, persists: bool) -> str:
    """The statement that sets a variable, and the further step that keeps it over a restart."""
    if persists:
        return f"SET PERSIST {name} = '{value}';"
    return f"SET GLOBAL {name} = '{value}'; and {name} = {value} in its configuration"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
