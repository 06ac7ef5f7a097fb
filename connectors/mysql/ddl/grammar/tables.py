"""CREATE TABLE in all its forms, and ALTER TABLE with its actions, one by one.

Invariant: the columns are parsed to the last attribute; only partitions and the query are skipped as a
whole. An unknown action is a fault of the whole statement, because the action might concern columns.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.mysql.ddl.definition import TableRef
from connectors.mysql.ddl.grammar import keys, lexer
from connectors.mysql.ddl.grammar.columns import column
from connectors.mysql.ddl.grammar.options import (
    begins_query,
    charset_clause,
    is_table_option,
    skip_partitions,
    table_options,
)
from connectors.mysql.ddl.grammar.token_reader import Reader, default_value, skip_value
from connectors.mysql.ddl.statement import (
    FIRST,
    Action,
    AddColumn,
    AddIndex,
    AddPeriod,
    AlterColumn,
    AlterTable,
    ChangeColumn,
    ColumnSpec,
    ConvertTo,
    CreateTable,
    DropColumn,
    DropIndex,
    IndexSpec,
    NoColumnWork,
    PartitionToTable,
    Period,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetOptions,
    SystemVersioning,
    TableToPartition,
)


class Elements:
    """The contents of the parentheses during parsing."""

    __slots__ = ("columns", "indexes", "periods")

    def __init__(self) -> None:
        self.columns: list[ColumnSpec] = []
        self.indexes: list[IndexSpec] = []
        self.periods: list[Period] = []


def create_table(reader: Reader, *, or_replace: bool, temporary: bool) -> CreateTable:
    """Parse the rest of CREATE TABLE."""
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.table()
    like = _like(reader)
    elements = Elements()
    if like is None and reader.key == "(" and not begins_query(reader):
        reader.enclosed(lambda: element(reader, elements))
    options = table_options(reader)
    skip_partitions(reader, begins_query)
    has_query = like is None and _has_query(reader)
    return CreateTable(
        name=name,
        temporary=temporary,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        columns=tuple(elements.columns),
        indexes=tuple(elements.indexes),
        periods=tuple(elements.periods),
        options=options,
        like=like,
        has_query=has_query,
    )


def _like(reader: Reader) -> TableRef | None:
    if reader.take("LIKE"):
        return reader.table()
    if reader.take("(", "LIKE"):
        table = reader.table()
        reader.need(")")
        return table
    return None


def element(reader: Reader, elements: Elements) -> None:
    """Parse one column, key, check or period between commas."""
    if keys.is_key(reader):
        if (key := keys.key(reader)) is not None:
            elements.indexes.append(key)
    elif reader.take("PERIOD", "FOR"):
        elements.periods.append(period(reader))
    else:
        spec = column(reader)
        elements.columns.append(spec)
        elements.indexes += keys.of_column(spec, reader.server)


def period(reader: Reader) -> Period:
    """Parse the rest of PERIOD FOR: its name, and its start and end columns."""
    name = reader.name()
    reader.need("(")
    begin = reader.column()
    reader.need(",")
    end = reader.column()
    reader.need(")")
    return Period(name=name, begin=begin, end=end)


def _has_query(reader: Reader) -> bool:
    """Whether the statement ends in a query, which is skipped."""
    _ = reader.take("IGNORE") or reader.take("REPLACE")
    reader.take("AS")
    if not begins_query(reader):
        return False
    while reader.key not in ("", ";"):
        reader.at += 1
    return True


_VISIBILITY = frozenset({"VISIBLE", "INVISIBLE", "IGNORED"})
_KEY = frozenset({"INDEX", "KEY"})
_ADDED = {
    "PRIMARY": "ADD PRIMARY KEY",
    "UNIQUE": "ADD UNIQUE INDEX",
    "FOREIGN": "ADD FOREIGN KEY",
}
_AFTER_ORDER = frozenset(
    {
        "ADD",
        "ALTER",
        "CHANGE",
        "CONVERT",
        "DROP",
        "FORCE",
        "LOCK",
        "ORDER",
        "RENAME",
    }
)
"""Words that cannot be unquoted column names."""


def alter_table(reader: Reader, *, ignore: bool) -> AlterTable:
    """Parse the rest of ALTER TABLE or ALTER IGNORE TABLE."""
    if_exists = reader.take("IF", "EXISTS")
    name = reader.table()
    keys.skip_wait(reader)
    actions: list[Action] = []
    while reader.key not in (lexer.END, ";"):
        actions += _actions(reader)
        if not reader.take(",") and reader.key not in ("PARTITION", "REMOVE"):
            break
    return AlterTable(
        type="ALTER TABLE",
        name=name,
        actions=tuple(actions),
        if_exists=if_exists,
        ignore=ignore,
    )


def _actions(reader: Reader) -> list[Action]:
    """One action, or the several actions of ADD (…)."""
    if (work := partition_work(reader)) is not None:
        return [work]
    if reader.take("ADD"):
        return _add(reader)
    if (action := _ACTIONS.get(reader.key)) is not None:
        reader.at += 1
        return [action(reader)]
    if skip_partitions(reader):
        return [NoColumnWork(kind="PARTITION BY")]
    if is_table_option(reader):
        return [SetOptions(options=table_options(reader, commas=False))]
    raise reader.fault("expected an action of ALTER TABLE")


# --- ADD --------------------------------------------------------------------------------------------


def _add(reader: Reader) -> list[Action]:
    if reader.take("SYSTEM", "VERSIONING"):
        return [SystemVersioning(kind="ADD SYSTEM VERSIONING", added=True)]
    # If a period of that name exists, its columns are NOT NULL already.
    if reader.take("PERIOD", "FOR") or reader.take("PERIOD", "IF", "NOT", "EXISTS", "FOR"):
        return [AddPeriod(period=period(reader))]
    if keys.is_key(reader):
        key = keys.key(reader)
        return [NoColumnWork(kind="ADD CHECK") if key is None else _add_key(key)]
    reader.take("COLUMN")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    if reader.key == "(":
        return _add_several(reader, if_not_exists)
    spec = column(reader)
    return [AddColumn(spec=spec, after=_position(reader), if_not_exists=if_not_exists)]


def _add_key(spec: IndexSpec) -> AddIndex:
    return AddIndex(kind=_ADDED.get(spec.kind, "ADD INDEX"), spec=spec)


def _add_several(reader: Reader, if_not_exists: bool) -> list[Action]:
    elements = Elements()
    reader.enclosed(lambda: element(reader, elements))
    # These keys are part of the column definitions, and are added with the columns.
    own = [key for spec in elements.columns for key in keys.of_column(spec, reader.server)]
    return [
        *(AddColumn(spec=spec, if_not_exists=if_not_exists) for spec in elements.columns),
        *(_add_key(spec) for spec in elements.indexes if spec not in own),
        *(AddPeriod(period=one) for one in elements.periods),
    ]


def _position(reader: Reader) -> str | None:
    if reader.take("FIRST"):
        return FIRST
    return reader.column() if reader.take("AFTER") else None


# --- CHANGE, MODIFY, ALTER --------------------------------------------------------------------------


def _change(reader: Reader) -> Action:
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.column()
    spec = column(reader)
    return ChangeColumn(
        kind="CHANGE COLUMN", name=name, spec=spec, after=_position(reader), if_exists=if_exists
    )


def _modify(reader: Reader) -> Action:
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    spec = column(reader)
    return ChangeColumn(
        kind="MODIFY COLUMN",
        name=spec.name,
        spec=spec,
        after=_position(reader),
        if_exists=if_exists,
    )


def _alter(reader: Reader) -> Action:
    if reader.take_one(_KEY):
        reader.take("IF", "EXISTS")
        reader.name()
        reader.take("NOT")
        if not reader.take_one(_VISIBILITY):
            raise reader.fault("expected VISIBLE or INVISIBLE")
        return NoColumnWork(kind="ALTER INDEX")
    if reader.take("CHECK") or reader.take("CONSTRAINT"):
        reader.name()
        reader.take("NOT")
        reader.need("ENFORCED")
        return NoColumnWork(kind="ALTER CONSTRAINT")
    return _alter_column(reader)


def _alter_column(reader: Reader) -> Action:
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.column()
    if reader.take("DROP", "DEFAULT"):
        return AlterColumn(name=name, if_exists=if_exists)
    reader.need("SET")
    if reader.take("DEFAULT"):
        return AlterColumn(name=name, default=default_value(reader), if_exists=if_exists)
    word = reader.take_one(frozenset({"VISIBLE", "INVISIBLE"}))
    if word is None:
        raise reader.fault("expected DEFAULT, VISIBLE or INVISIBLE")
    return AlterColumn(name=name, invisible=word == "INVISIBLE", if_exists=if_exists)


# --- DROP, RENAME, and the rest ---------------------------------------------------------------------


def _drop(reader: Reader) -> Action:
    if reader.take("PRIMARY", "KEY"):
        return DropIndex(kind="DROP PRIMARY KEY", name="PRIMARY")
    if reader.take("SYSTEM", "VERSIONING"):
        return SystemVersioning(kind="DROP SYSTEM VERSIONING", added=False)
    if reader.take("PERIOD", "FOR") or reader.take("PERIOD", "IF", "EXISTS", "FOR"):
        reader.name()
        return NoColumnWork(kind="DROP PERIOD")
    if reader.take_one(_KEY):
        if_exists = reader.take("IF", "EXISTS")
        return DropIndex(kind="DROP INDEX", name=reader.name(), if_exists=if_exists)
    if reader.take("CONSTRAINT"):
        if_exists = reader.take("IF", "EXISTS")
        return DropIndex(
            kind="DROP CONSTRAINT", name=reader.name(), if_exists=if_exists, constraint=True
        )
    if reader.take("FOREIGN", "KEY"):
        reader.take("IF", "EXISTS")
        reader.name()
        return NoColumnWork(kind="DROP FOREIGN KEY")
    if reader.take("CHECK"):
        reader.name()
        return NoColumnWork(kind="DROP CHECK")
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.column()
    _ = reader.take("RESTRICT") or reader.take("CASCADE")
    return DropColumn(name=name, if_exists=if_exists)


def _rename(reader: Reader) -> Action:
    if reader.take("COLUMN"):
        if_exists = reader.take("IF", "EXISTS")
        name = reader.column()
        reader.need("TO")
        return RenameColumn(name=name, to=reader.column(), if_exists=if_exists)
    if reader.take_one(_KEY):
        reader.take("IF", "EXISTS")
        name = reader.name()
        reader.need("TO")
        return RenameIndex(name=name, to=reader.name())
    _ = reader.take("TO") or reader.take("AS") or reader.take("=")
    return RenameTo(to=reader.table())


def _convert(reader: Reader) -> Action:
    reader.need("TO")
    return ConvertTo(charset=charset_clause(reader))


def _order(reader: Reader) -> Action:
    reader.need("BY")
    while True:
        reader.column()
        _ = reader.take("ASC") or reader.take("DESC")
        if reader.key != "," or _ends_order(reader.keys[reader.at + 1 :][:2]):
            return NoColumnWork(kind="ORDER BY")
        reader.at += 1


def _ends_order(following: list[str]) -> bool:
    """Whether the tokens after a comma begin another action and not a column."""
    return following[0] in _AFTER_ORDER or following == ["ALGORITHM", "="]


def _assigned(kind: str) -> Callable[[Reader], Action]:
    def read(reader: Reader) -> Action:
        reader.take("=")
        skip_value(reader)
        return NoColumnWork(kind=kind)

    return read


def _worded(kind: str, *words: str) -> Callable[[Reader], Action]:
    def read(reader: Reader) -> Action:
        if words:
            reader.need(*words)
        return NoColumnWork(kind=kind)

    return read


_ACTIONS: dict[str, Callable[[Reader], Action]] = {
    "CHANGE": _change,
    "MODIFY": _modify,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "CONVERT": _convert,
    "ORDER": _order,
    "ALGORITHM": _assigned("ALGORITHM"),
    "LOCK": _assigned("LOCK"),
    "FORCE": _worded("FORCE"),
    "ENABLE": _worded("ENABLE KEYS", "KEYS"),
    "DISABLE": _worded("DISABLE KEYS", "KEYS"),
    "WITHOUT": _worded("WITHOUT VALIDATION", "VALIDATION"),
    "WITH": _worded("WITH VALIDATION", "VALIDATION"),
    "SECONDARY_LOAD": _worded("SECONDARY_LOAD"),
    "SECONDARY_UNLOAD": _worded("SECONDARY_UNLOAD"),
    "UPGRADE": _worded("UPGRADE PARTITIONING", "PARTITIONING"),
}


_VERBS = frozenset(
    {
        "ADD",
        "ANALYZE",
        "CHECK",
        "COALESCE",
        "DROP",
        "OPTIMIZE",
        "REBUILD",
        "REORGANIZE",
        "REPAIR",
        "TRUNCATE",
    }
)
_TABLESPACE = frozenset({"DISCARD", "IMPORT"})
_SECONDARY = frozenset({"SECONDARY_LOAD", "SECONDARY_UNLOAD"})


def partition_work(reader: Reader) -> Action | None:
    """Work on partitions; None if something else follows.

    Invariant: it changes no column. Another table that it touches is in the action, such as a table that
    MariaDB makes of a partition.
    """
    key, following = reader.key, reader.keys[reader.at + 1]
    if key in _VERBS and following == "PARTITION":
        return _to_its_end(reader, f"{key} PARTITION")
    if key in _TABLESPACE and following in ("PARTITION", "TABLESPACE"):
        return _to_its_end(reader, f"{key} TABLESPACE")
    if key in _SECONDARY and following == "PARTITION":
        return _to_its_end(reader, key)
    if reader.take("REMOVE", "PARTITIONING"):
        return NoColumnWork(kind="REMOVE PARTITIONING")
    if reader.take("EXCHANGE", "PARTITION"):
        return _exchange(reader)
    if reader.take("CONVERT", "PARTITION"):
        reader.name()
        reader.need("TO", "TABLE")
        return PartitionToTable(table=reader.table())
    if reader.take("CONVERT", "TABLE"):
        table = reader.table()
        _to_its_end(reader, "")
        return TableToPartition(table=table)
    return None


def _to_its_end(reader: Reader, kind: str) -> Action:
    """Skip the whole rest: nothing else can follow work on partitions."""
    while reader.key not in (lexer.END, ";"):
        reader.at += 1
    return NoColumnWork(kind=kind)


def _exchange(reader: Reader) -> Action:
    reader.name()
    reader.need("WITH", "TABLE")
    table = reader.table()
    _ = reader.take("WITH", "VALIDATION") or reader.take("WITHOUT", "VALIDATION")
    return NoColumnWork(kind="EXCHANGE PARTITION", tables=(table,))
