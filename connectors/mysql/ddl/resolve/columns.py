"""A column as a server stores it, from its definition in a statement.

Invariant: anything a definition omits is the server's default, by its version and the session's
settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl import column_types
from connectors.mysql.ddl.definition import Column, Database, Execution, Server, Session
from connectors.mysql.ddl.grammar import columns as grammar
from connectors.mysql.ddl.grammar.lexer import GrammarFault, lexed
from connectors.mysql.ddl.grammar.token_reader import Reader, quoted_string
from connectors.mysql.ddl.initial_value import UNKNOWN, initial, initial_after
from connectors.mysql.ddl.statement import AlterColumn, Attributes, ColumnSpec
from connectors.mysql.server_version import since


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The server and the session by which a statement is interpreted."""

    server: Server
    session: Session
    execution: Execution | None = None
    """None if it is not known; then the values that the statement gives to rows are not known, either."""


def same(name: str, other: str) -> bool:
    """Return whether two names of columns or keys are equal, ignoring case."""
    return lowered(name) == lowered(other)


def made(spec: ColumnSpec, defaults: Database, terms: Terms) -> Column:
    """The column that a definition creates in a table with this character set and collation."""
    own = column_types.resolved(spec.type, defaults, server=terms.server, session=terms.session)
    attributes = spec.attributes
    nullable = attributes.nullable
    if nullable is None:
        # In MariaDB, a generated TIMESTAMP is not implicitly NOT NULL.
        plain = attributes.generated is None or not terms.server.mariadb
        nullable = not (plain and own.type.startswith("timestamp") and _implicit_timestamps(terms))
    if attributes.row_period is not None:
        nullable = False
    return Column(
        name=spec.name,
        type=own.type,
        exact_type=own.exact,
        nullable=nullable,
        charset=own.charset,
        collation=own.collation,
        generated="stored" if attributes.row_period else attributes.generated,
        invisible=attributes.invisible,
        definition=definition_of(attributes),
    )


def added(column: Column, terms: Terms) -> Column:
    """Return a new column with its identity and its value in the table's rows, if the execution is known."""
    if terms.execution is None:
        return column
    attributes = attributes_in(column.definition) or Attributes(others=column.definition)
    is_plain = attributes.default is not None or attributes.generated is not None
    hides_default = column.type.startswith("timestamp") and not column.nullable and not is_plain
    if hides_default and _implicit_timestamps(terms):
        # Whether the default is the statement's time depends on the table's other columns.
        given = UNKNOWN
    else:
        given = initial(column, attributes, terms.execution, terms.server)
    return replace(column, origin=f"{column.name}@{terms.execution.mark}", initial=given)


def kept(old: Column, new: Column, terms: Terms) -> Column:
    """Return ``new`` with the identity of ``old``: the same column with a new name or definition."""
    origin = old.origin or (old.name if old.name != new.name else "")
    is_computed = new.generated is not None or is_numbered(new)
    given = initial_after(old, new, terms.execution, terms.server, is_computed=is_computed)
    return replace(new, origin=origin, initial=given)


def is_numbered(column: Column) -> bool:
    """Return whether a column is AUTO_INCREMENT."""
    attributes = attributes_in(column.definition) if "AUTO_INC" in column.definition else None
    return attributes is not None and attributes.auto_increment


def _implicit_timestamps(terms: Terms) -> bool:
    """Whether TIMESTAMP alone means NOT NULL."""
    explicit = terms.session.explicit_timestamps
    if explicit is None:
        explicit = since(terms.server, mysql=(8, 0, 2), mariadb=(10, 10, 0))
    return not explicit


def definition_of(attributes: Attributes) -> str:
    """The rest of a column's definition, as text."""
    found: list[str] = []
    if attributes.generated is not None:
        kept = attributes.generated.upper()
        found.append(f"GENERATED ALWAYS AS {attributes.expression} {kept}")
    if attributes.row_period is not None:
        found.append(f"GENERATED ALWAYS AS ROW {attributes.row_period.upper()}")
    if attributes.default is not None:
        found.append(f"DEFAULT {attributes.default}")
    if attributes.on_update is not None:
        found.append(f"ON UPDATE {attributes.on_update}")
    if attributes.auto_increment:
        found.append("AUTO_INCREMENT")
    if attributes.others:
        found.append(attributes.others)
    if attributes.comment is not None:
        found.append(f"COMMENT {quoted_string(attributes.comment)}")
    return " ".join(found)


def altered(column: Column, action: AlterColumn) -> Column:
    """A column after ALTER COLUMN."""
    if action.invisible is not None:
        return replace(column, invisible=action.invisible)
    attributes = attributes_in(column.definition)
    if attributes is None:
        return column
    return replace(column, definition=definition_of(replace(attributes, default=action.default)))


def attributes_in(definition: str) -> Attributes | None:
    """Parse a column's definition; return None if it does not have the form of ``definition_of``."""
    plain = Server(version=(99, 0, 0))
    try:
        reader = Reader(lexed(definition, plain, Session()), plain, Session())
        found = grammar.attributes(reader)
    except (GrammarFault, ValueError):
        return None
    return found if reader.at_end() else None


def required(column: Column) -> Column:
    """The column as NOT NULL, which removes a default of NULL."""
    if not column.nullable:
        return column
    definition = column.definition
    if "NULL" in definition.upper() and (attributes := attributes_in(definition)) is not None:
        is_null = (attributes.default or "").upper() == "NULL"
        attributes = replace(attributes, default=None if is_null else attributes.default)
        definition = definition_of(attributes)
    return replace(column, nullable=False, definition=definition)


def numbered(columns: Sequence[Column], name: str) -> int | None:
    """A column's index, or None."""
    wanted = lowered(name)
    return next((n for n, column in enumerate(columns) if lowered(column.name) == wanted), None)


def column_comment(column: Column) -> str | None:
    """A column's comment; None without one."""
    if "COMMENT" not in column.definition:
        return None
    attributes = attributes_in(column.definition)
    return (attributes.comment if attributes is not None else None) or None
