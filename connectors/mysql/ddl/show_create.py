"""A definition as a CREATE TABLE statement.

Invariant: on a server that runs it, the new table has the same columns and keys as the old one;
partitions, foreign keys, checks and storage locations are not kept.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Column, Index, Table, TableName, is_hidden, is_of_period
from connectors.mysql.ddl.grammar.token_reader import quoted_name

_LABELLED = ("enum(", "set(")


def create_table(name: TableName, table: Table) -> str:
    """CREATE TABLE, without a semicolon."""
    columns = [column for column in table.columns if not is_hidden(column)]
    hidden = {column.name for column in table.columns if is_hidden(column)}
    lines = [_column(column) for column in columns]
    lines += [_index(index, hidden) for index in table.indexes]
    if period := _period(columns):
        lines.append(period)
    options = [table.options] if table.options else []
    options.append(f"DEFAULT CHARSET={table.charset} COLLATE={table.collation}")
    body = ",\n".join(f"  {line}" for line in lines)
    return f"CREATE TABLE {'.'.join(map(quoted_name, name))} (\n{body}\n) {' '.join(options)}"


def _column(column: Column) -> str:
    words = [quoted_name(column.name), column.exact_type or column.type]
    if column.charset is not None:
        words.append(f"CHARACTER SET {column.charset} COLLATE {column.collation}")
    elif column.type.startswith(_LABELLED):
        words.append("CHARACTER SET binary")
    if column.generated is not None:
        # The expression of a generated column precedes all other attributes.
        words.append(column.definition)
        words += [] if column.nullable or is_of_period(column) else ["NOT NULL"]
    else:
        words.append("NULL" if column.nullable else "NOT NULL")
        words += [column.definition] if column.definition else []
    if column.invisible:
        words.append("INVISIBLE")
    return " ".join(words)


def _index(index: Index, hidden: set[str]) -> str:
    if index.name == "PRIMARY":
        head = "PRIMARY KEY"
    else:
        kind = "UNIQUE" if index.unique else index.kind
        head = f"{kind} KEY {quoted_name(index.name)}".lstrip()
    texts = index.parts or ("",) * len(index.columns)
    parts = (
        f"{quoted_name(column) if column else ''}{text}"
        for column, text in zip(index.columns, texts, strict=True)
        if column not in hidden
    )
    return " ".join(filter(None, (head, f"({', '.join(parts)})", index.options)))


def _period(columns: list[Column]) -> str:
    shown = [column for column in columns if is_of_period(column)]
    if len(shown) != 2:
        return ""
    shown.sort(key=lambda column: "ROW END" in column.definition)
    return f"PERIOD FOR SYSTEM_TIME ({', '.join(quoted_name(one.name) for one in shown)})"
