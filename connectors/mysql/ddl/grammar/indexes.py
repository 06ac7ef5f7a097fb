"""CREATE INDEX and DROP INDEX, which are forms of ALTER TABLE.

Invariant: they become the same actions, so that their effects follow the same rules.
"""

from __future__ import annotations

from connectors.mysql.ddl.grammar.keys import key_options, part, skip_wait
from connectors.mysql.ddl.grammar.literals import skip_value
from connectors.mysql.ddl.grammar.token_reader import Reader
from connectors.mysql.ddl.statement.alter_actions import AddIndex, DropIndex
from connectors.mysql.ddl.statement.column_spec import IndexKind, IndexSpec
from connectors.mysql.ddl.statement.statement import AlterTable

_METHOD = frozenset({"USING", "TYPE"})


def create_index(reader: Reader, kind: str) -> AlterTable:
    """Parse the rest of CREATE INDEX."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    if reader.take_one(_METHOD):
        reader.name()
    reader.need("ON")
    table = reader.table()
    skip_wait(reader)
    parts = reader.enclosed(lambda: part(reader))
    options = key_options(reader)
    _skip_ways(reader)
    spec = IndexSpec(
        kind=_KINDS[kind], name=name, parts=parts, if_not_exists=if_not_exists, options=options
    )
    return AlterTable(
        type="CREATE INDEX", name=table, actions=(AddIndex(kind="ADD INDEX", spec=spec),)
    )


_KINDS: dict[str, IndexKind] = {
    "KEY": "KEY",
    "UNIQUE": "UNIQUE",
    "FULLTEXT": "FULLTEXT",
    "SPATIAL": "SPATIAL",
    "VECTOR": "VECTOR",
}


def drop_index(reader: Reader) -> AlterTable:
    """Parse the rest of DROP INDEX."""
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()
    reader.need("ON")
    table = reader.table()
    skip_wait(reader)
    _skip_ways(reader)
    action = DropIndex(kind="DROP INDEX", name=name, if_exists=if_exists)
    return AlterTable(type="DROP INDEX", name=table, actions=(action,))


def _skip_ways(reader: Reader) -> None:
    """Skip algorithm and lock clauses."""
    skip_wait(reader)
    while reader.take("ALGORITHM") or reader.take("LOCK"):
        reader.take("=")
        skip_value(reader)
