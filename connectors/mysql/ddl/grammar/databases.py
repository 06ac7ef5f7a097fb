"""CREATE, ALTER and DROP DATABASE.

The law: of a database its character set and collation are kept, which tables take from it.
"""

from __future__ import annotations

from connectors.mysql.ddl.grammar import lexer
from connectors.mysql.ddl.grammar.options import database_options
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement.statement import AlterDatabase, CreateDatabase, DropDatabase

_RESERVED = frozenset({"DEFAULT", "CHARACTER", "CHAR", "COLLATE", "READ"})
"""No name without quotes, so that an option begins there."""
_MANGLED = "#mysql50#"


def create_database(reader: Reader, *, or_replace: bool) -> CreateDatabase:
    """What stands behind CREATE DATABASE."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    return CreateDatabase(
        name=reader.name(),
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        charset=database_options(reader),
    )


def alter_database(reader: Reader) -> AlterDatabase:
    """What stands behind ALTER DATABASE; the name may be missing."""
    name = None if _begins_options(reader) else reader.name()
    if reader.take("UPGRADE", "DATA", "DIRECTORY", "NAME"):
        # A directory of MySQL 5.0's time: its name was shown with a prefix, and is now as it was meant.
        return AlterDatabase(name=name, to=name.removeprefix(_MANGLED) if name else None)
    return AlterDatabase(name=name, charset=database_options(reader))


def _begins_options(reader: Reader) -> bool:
    """Whether there is no name: a server takes any word for one that can be one."""
    if reader.key == "COMMENT" and reader.server.mariadb:
        return reader.keys[reader.at + 1] in ("=", lexer.STRING)
    return reader.key in _RESERVED


def drop_database(reader: Reader) -> DropDatabase:
    """What stands behind DROP DATABASE."""
    if_exists = reader.take("IF", "EXISTS")
    return DropDatabase(name=reader.name(), if_exists=if_exists)
