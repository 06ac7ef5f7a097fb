"""A mapping file checked as a worker would, and what it states about named tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.settings.mapping import read_mapping
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.mapping import MappedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMapping:
    """A mapping without faults."""

    databases: int
    """Count of logical databases."""
    tables: int
    """Count of logical tables."""
    digest: str
    asked: tuple[tuple[TableName, MappedTable | None], ...]
    """The tables that were asked for, with what the mapping states about each."""


def checked_mapping(path: Path, tables: Iterable[TableName] = ()) -> CheckedMapping:
    """Return the summary of a mapping; raise MappingError with all its faults."""
    mapping = read_mapping(path)
    return CheckedMapping(
        databases=len(mapping.databases),
        tables=len(mapping.tables),
        digest=mapping.digest,
        asked=tuple((one, mapping.of(one)) for one in tables),
    )
