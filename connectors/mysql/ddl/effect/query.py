"""The columns that the query of CREATE TABLE … SELECT gives.

The law: a column is told where MySQL's own rule for it is certain; any other is refused, never guessed.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Column
from connectors.mysql.ddl.effect.columns import Refused
from connectors.mysql.ddl.effect.draft import Draft


def selected(query: str, draft: Draft) -> tuple[Column, ...]:
    """The columns of a query."""
    del query, draft
    raise Refused("the columns of its query cannot be told")
