"""The tables that an account may see with all their columns, and the statements that errors recommend.

Invariant: a table counts as fully visible only if that is certain. A server shows an account only the
columns granted to it, as if there were no other columns, and does not list tables without a grant.
A recommended statement runs as printed: an account is named with its host, as the server knows it; the
statement ends in a semicolon, and further steps follow it.
Source: MySQL's manual, "SHOW GRANTS Statement" and "Privilege Restriction Using Partial Revokes".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from connectors.mysql.ddl.definition import TableName

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


def database_pattern(database: str, *, is_literal: bool) -> str:
    """All tables of a database, in the form of GRANT, where ``_`` and ``%`` are wildcards.

    With ``is_literal``, as of a server with ``partial_revokes``, they are not, and a backslash escapes nothing.
    """
    quoted = database.replace("`", "``")
    if not is_literal:
        quoted = quoted.replace("_", r"\_").replace("%", r"\%")
    return f"`{quoted}`.*"


def setting(name: str, value: str, *, persists: bool) -> str:
    """The statement that sets a variable, and the further step that keeps it over a restart."""
    if persists:
        return f"SET PERSIST {name} = '{value}';"
    return f"SET GLOBAL {name} = '{value}'; and {name} = {value} in its configuration"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


_QUOTED = r"""`(?:[^`]|``)+`|"(?:[^"]|"")+\""""
_NAME = rf"({_QUOTED}|[^\s.`\"]+)"
"""A session quotes names with backticks, in sql_mode ANSI_QUOTES with double quotes. Without
sql_quote_show_create, it quotes only names that require quotes."""
_STATEMENT = re.compile(
    rf"(GRANT|REVOKE) (.+) ON (?:TABLE )?{_NAME}\.{_NAME} (?:TO|FROM) ", re.DOTALL
)
_COLUMNS = rf"\((?:{_QUOTED})(?:, (?:{_QUOTED}))*\)"
_PRIVILEGE = re.compile(rf"([A-Z_ ]+[A-Z])(?:\s*({_COLUMNS}|\(.+))?(?:, |$)", re.DOTALL)
"""Before MySQL 8.0, columns are never quoted. The end of an unquoted list is uncertain, so no privilege is read
after such a list."""
_ROLE = rf"(?:{_QUOTED}|[^\s`\",@]+)(?:@(?:{_QUOTED}|[^\s,]+))?"
_ROLES = re.compile(rf"GRANT ({_ROLE}(?:, ?{_ROLE})*) TO (?:{_QUOTED}|[^\s`\",@]+)@", re.DOTALL)
"""Roles granted to an account, which has a host. MariaDB also lists the roles granted to an active role; these
are in effect."""
_READS = {"SELECT", "ALL PRIVILEGES"}
_SHOWS = {*_READS, "INSERT", "UPDATE", "REFERENCES"}
"""Any of these privileges on a table shows all its columns."""


class _Extent:
    """The extent to which an account has at least one of some privileges."""

    def __init__(self, privileges: set[str], *, is_literal: bool) -> None:
        self._privileges, self._is_literal = privileges, is_literal
        self._everywhere = False
        self._but: list[str] = []
        self._databases: list[re.Pattern[str]] = []
        self._tables: set[TableName] = set()
        self._in_part: set[TableName] = set()

    def take(self, statement: re.Match[str]) -> None:
        verb, privileges, database, table = statement.groups()
        granted = [
            bool(columns)
            for name, columns in _PRIVILEGE.findall(privileges)
            if name.strip() in self._privileges
        ]
        if granted:
            self._add(verb, _plain(database), _plain(table), in_part=all(granted))

    def _add(self, verb: str, database: str | None, table: str | None, *, in_part: bool) -> None:
        if database is None:
            self._everywhere |= verb == "GRANT"
        elif table is None and verb == "REVOKE":
            self._but.append(database)
        elif table is None:
            self._databases.append(_pattern(database, is_literal=self._is_literal))
        elif in_part:
            self._in_part.add((database, table))
        else:
            self._tables.add((database, table))

    def covers(self, name: TableName) -> bool:
        if self._everywhere and name[0] not in self._but:
            return True
        return name in self._tables or any(one.fullmatch(name[0]) for one in self._databases)

    @property
    def in_part(self) -> set[TableName]:
        return {name for name in self._in_part if not self.covers(name)}

    @property
    def is_everything(self) -> bool:
        return self._everywhere and not self._but

    @property
    def is_nothing(self) -> bool:
        return not (self._everywhere or self._databases or self._tables)


class Privileges:
    """The tables visible to an account, from its SHOW GRANTS."""

    def __init__(self, grants: Iterable[str], *, is_literal: bool = False) -> None:
        """``is_literal``: whether databases in grants have no wildcards, as with ``partial_revokes``."""
        self.is_literal = is_literal
        self._reads, self._shows = (_Extent(one, is_literal=is_literal) for one in (_READS, _SHOWS))
        for held in grants:
            if statement := _STATEMENT.match(held):
                self._reads.take(statement)
                self._shows.take(statement)

    @property
    def is_everything(self) -> bool:
        """Whether every table may be read."""
        return self._reads.is_everything

    @property
    def is_nothing(self) -> bool:
        """Whether no table at all may be read."""
        return self._reads.is_nothing

    def covers(self, name: TableName) -> bool:
        """Whether a table may be read."""
        return self._reads.covers(name)

    @property
    def in_part(self) -> set[TableName]:
        """The tables of which only some columns may be shown, whether they exist or not."""
        return self._shows.in_part


def remedy(name: TableName, to: str) -> str:
    """The statement that lets an account see a table; ``to`` in the form of ``remedies.account``."""
    database, table = (part.replace("`", "``") for part in name)
    return grant("SELECT", f"`{database}`.`{table}`", to)


def inactive_roles(grants: Iterable[str], active: str) -> list[str]:
    """Return the roles of an account that are not active, in the form of GRANT.

    ``active``: CURRENT_ROLE(), which is a list on MySQL, and a name without quotes on MariaDB.
    """
    granted = [
        role for held in grants if (found := _ROLES.match(held)) for role in _roles(found[1])
    ]
    known = {_bare(role) for role in _roles(active)} | {active}
    return [role for role in granted if _bare(role) not in known]


def _roles(listed: str) -> list[str]:
    return re.findall(_ROLE, listed, re.DOTALL)


def _bare(role: str) -> str:
    return role.replace("`", "").replace('"', "")


def _plain(name: str) -> str | None:
    """A name without its quotes; None for all names."""
    if name == "*":
        return None
    quote = name[0]
    return name[1:-1].replace(2 * quote, quote) if quote in '`"' else name


def _pattern(database: str, *, is_literal: bool) -> re.Pattern[str]:
    """A database name in a grant, where ``_`` and ``%`` are wildcards unless ``is_literal``."""
    if is_literal:
        return re.compile(re.escape(database))
    parts = re.split(r"(\\.|_|%)", database, flags=re.DOTALL)
    signs = {"_": ".", "%": ".*"}
    return re.compile(
        "".join(signs.get(part) or re.escape(part.removeprefix("\\")) for part in parts), re.DOTALL
    )
