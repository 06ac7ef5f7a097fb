"""The scope of a query's names: the columns of the tables that it selects from.

Invariant: a column's name that two tables have is refused, unless the query names the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column
from connectors.mysql.ddl.resolve.columns import Refused, attributes_in, definition_of, same
from connectors.mysql.ddl.statement import Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table or derived table, under its name in the query."""

    name: str
    """In lower case."""
    columns: tuple[Column, ...]
    shares: bool = False
    """Whether it is joined USING columns or NATURAL: ``*`` contains shared columns only once."""

    def missing(self) -> Source:
        """Return the source as it is on the side of an outer join that may have no row."""
        return replace(self, columns=tuple(replace(one, nullable=True) for one in self.columns))


class Scope:
    """All sources of a query."""

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources

    def all(self) -> Iterator[Column]:
        """The columns of ``*``."""
        if any(source.shares for source in self._sources):
            raise Refused("its query has * with USING or NATURAL")
        if not self._sources:
            raise Refused("its query has * without a table")
        for source in self._sources:
            yield from _seen(source)

    def of(self, name: str) -> Iterator[Column]:
        """The columns of ``name.*``."""
        return _seen(self._named(name))

    def column(self, table: str, name: str) -> Column:
        """Return a column by its name, and by its table's name unless that is empty."""
        sources = [self._named(table)] if table else self._sources
        found = [
            column for source in sources for column in source.columns if same(column.name, name)
        ]
        if len(found) != 1 or (not table and any(source.shares for source in sources)):
            raise Refused(f"the column {name} of its query is not certain")
        return found[0]

    def _named(self, name: str) -> Source:
        found = [source for source in self._sources if source.name == lowered(name)]
        if len(found) != 1:
            raise Refused(f"the table {name} of its query is not certain")
        return found[0]


def _seen(source: Source) -> Iterator[Column]:
    return (column for column in source.columns if not column.invisible)


def copied(column: Column) -> Column:
    """A column as the new table has it: visible, with stored values, and without AUTO_INCREMENT."""
    old = attributes_in(column.definition) or Attributes()
    default = "'0'" if old.auto_increment else old.default
    kept = Attributes(
        default=default if column.generated is None else None,
        on_update=old.on_update,
        comment=old.comment,
        others=old.others,
    )
    return replace(column, generated=None, invisible=False, definition=definition_of(kept))
