"""CREATE, ALTER and DROP DATABASE.

Invariant: a database's character set and collation are kept, since its tables inherit them.
"""

from __future__ import annotations

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.options import database_options
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement.statement import AlterDatabase, CreateDatabase, DropDatabase

_RESERVED = frozenset({"DEFAULT", "CHARACTER", "CHAR", "COLLATE", "READ"})
"""These are no unquoted names, so that an option begins there."""
_MANGLED = "#mysql50#"


def create_database(reader: Reader, *, or_replace: bool) -> CreateDatabase:
    """Parse the rest of CREATE DATABASE."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    return CreateDatabase(
        name=reader.name(),
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        charset=database_options(reader),
    )


def alter_database(reader: Reader) -> AlterDatabase:
    """Parse the rest of ALTER DATABASE; the name may be missing."""
    name = None if _begins_options(reader) else reader.name()
    if reader.take("UPGRADE", "DATA", "DIRECTORY", "NAME"):
        # A directory of MySQL 5.0: its name had a prefix, and is now the plain name.
        return AlterDatabase(name=name, to=name.removeprefix(_MANGLED) if name else None)
    return AlterDatabase(name=name, charset=database_options(reader))


def _begins_options(reader: Reader) -> bool:
    """Whether there is no name: a server reads any word as one that can be one."""
    if reader.key == "COMMENT" and reader.server.mariadb:
        return reader.keys[reader.at + 1] in ("=", lexer.STRING)
    return reader.key in _RESERVED


def drop_database(reader: Reader) -> DropDatabase:
    """Parse the rest of DROP DATABASE."""
    if_exists = reader.take("IF", "EXISTS")
    return DropDatabase(name=reader.name(), if_exists=if_exists)
