"""A reading of mappings by the seed's documents alone, for the judge of the demo.

Invariant: it shares no code with the product. It reads what the demo uses: logical databases and tables,
topics, tags by table and by field, and a filter that compares one column with a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self

import yaml

Row = Mapping[str, Any]
_FILTER = re.compile(r"(\w+) > (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The publication of one real table's rows."""

    logical: str
    topic: str
    tags: tuple[tuple[str, str], ...] = ()
    """Tag and column; an empty column: each record."""
    least: tuple[str, Decimal] | None = None
    """The column that must be greater than this number, in rows that are published."""

    def has(self, row: Row) -> bool:
        """Whether a row is published."""
        return self.least is None or row[self.least[0]] > self.least[1]

    @property
    def all_tags(self) -> tuple[str, ...]:
        """Those of a record that is no update."""
        return tuple(sorted(tag for tag, _ in self.tags))

    def tags_of(self, before: Row, after: Row) -> tuple[str, ...]:
        """Those of an update: the tags of the table, and of the fields that changed."""
        found = (tag for tag, column in self.tags if not column or before[column] != after[column])
        return tuple(sorted(found))


@dataclass(slots=True, kw_only=True)
class Documents:
    """One version of the mapping."""

    databases: dict[str, str] = field(default_factory=dict)
    """Logical databases by real ones."""
    patterns: list[tuple[str, str]] = field(default_factory=list)
    """Patterns of real tables, each with its logical table."""
    topics: dict[str, str] = field(default_factory=dict)
    """By logical database, or logical table with its database."""
    tags: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_roma(cls, texts: Mapping[str, str]) -> Self:
        """Read the four documents, by data id."""
        entries = {name.rpartition(".")[2]: json.loads(text) for name, text in texts.items()}
        found = cls()
        for one in entries["dbs"]:
            found.databases |= dict.fromkeys(one["realDbs"].split(","), one["logicDb"])
        for one in entries["tbs"]:
            found.patterns += [(real, one["logicTb"]) for real in one["realTbs"].split(",")]
        found.topics = {one["logicDb"]: one["topic"] for one in entries["topics"]}
        for one in entries["tags"]:
            # logicTb1,field1 has the tag of the table's records, and that of the field's changes.
            table, *columns = one["logicTb"].split(",")
            pairs = zip(one["tag"].split(","), ["", *columns], strict=True)
            found.tags.setdefault(table, []).extend(pairs)
        return found

    @classmethod
    def of_yaml(cls, text: str) -> Self:
        """Read the same in YAML."""
        read, found = yaml.safe_load(text), cls()
        for name, entry in read["databases"].items():
            found.databases |= dict.fromkeys(entry["from"], name)
            found.topics[name] = entry["topic"]
        for label, entry in read["tables"].items():
            name = label.rpartition(".")[2]
            found.patterns += [(real, name) for real in entry.get("from", [name])]
            found.tags[name] = [(tag, column) for column, tag in entry.get("tags", {}).items()]
            if "topic" in entry:
                found.topics[label] = entry["topic"]
            if "row_filter" in entry:
                found.filters[name] = entry["row_filter"]
        return found

    def rule(self, database: str, table: str) -> Rule:
        """Return the rule of a real table."""
        matches = (name for real, name in self.patterns if re.fullmatch(real, table))
        logical, name = self.databases[database], next(matches, table)
        label = f"{logical}.{name}"
        return Rule(
            logical=label,
            topic=self.topics.get(label) or self.topics[logical],
            tags=tuple(self.tags.get(name, ())),
            least=_least(self.filters.get(name, "")),
        )


def _least(text: str) -> tuple[str, Decimal] | None:
    found = _FILTER.fullmatch(text)
    return (found[1], Decimal(found[2])) if found else None
