"""The assembly of a mapping from the entries of either form, with all faults in one message."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from connectors.errors import MappingError
from tables.rules.mapping.collisions import collisions
from tables.rules.mapping.logical import LogicalDatabase, LogicalTable, Tag
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.real_name import RealName
from tables.rules.mapping.rules import Rules

_NAME = re.compile(r"[^.,\s]+")


class Assembly:
    """Logical databases and tables as their entries are read."""

    def __init__(self) -> None:
        self._databases: dict[str, LogicalDatabase] = {}
        self._tables: dict[tuple[str, str], LogicalTable] = {}
        self._faults: list[str] = []

    def fault(self, where: str, text: str) -> None:
        """Add a fault of a document."""
        self._faults.append(f"{where}: {text}")

    def database(
        self,
        where: str,
        name: str,
        *,
        real: tuple[str, ...] = (),
        topic: str = "",
        share_topic: bool = False,
        record_format: str = "",
    ) -> None:
        """Add what an entry states about a logical database."""
        self._check(where, name, RealName.of_database, real)
        one = self._databases.setdefault(name.lower(), LogicalDatabase(name=name))
        self._databases[name.lower()] = replace(
            one,
            real=one.real + tuple(sorted(real)),
            topic=topic or one.topic,
            share_topic=share_topic or one.share_topic,
            format=record_format or one.format,
        )

    def table(
        self,
        where: str,
        database: str,
        name: str,
        *,
        real: tuple[str, ...] = (),
        topic: str = "",
        share_topic: bool = False,
        tags: dict[str, str] | None = None,
        rules: Rules | None = None,
    ) -> None:
        """Add what an entry states about a logical table."""
        self._check(where, name, RealName.of_table, real)
        key = (database.lower(), name.lower())
        one = self._tables.setdefault(key, LogicalTable(name=name, database=database))
        added = tuple(sorted(Tag(name=tag, column=column) for column, tag in (tags or {}).items()))
        if any(not _NAME.fullmatch(one.name) for one in added):
            self.fault(where, "a tag is empty or contains a comma, a dot or a space")
        self._tables[key] = replace(
            one,
            real=one.real + tuple(sorted(real)),
            topic=topic or one.topic,
            share_topic=share_topic or one.share_topic,
            tags=one.tags + added,
            rules=rules or one.rules,
        )

    def mapping(self) -> Mapping:
        """The mapping; raise MappingError that lists all faults."""
        databases = tuple(one for _, one in sorted(self._databases.items()))
        tables = tuple(one for _, one in sorted(self._tables.items()))
        faults = [*self._faults, *collisions(databases, tables)]
        if faults:
            raise MappingError.listed(faults)
        return Mapping(databases=databases, tables=tables)

    def _check(self, where: str, name: str, read: object, real: tuple[str, ...]) -> None:
        """Check a logical name and its real ones."""
        if not _NAME.fullmatch(name):
            self.fault(where, f"{name!r} is no logical name; use no comma, dot or space")
        counts = Counter(one.lower() for one in real)
        for text in sorted({one for one in real if counts[one.lower()] > 1}):
            self.fault(where, f"{text!r} is listed twice; remove one")
        for text in real:
            try:
                if not callable(read) or not text:
                    raise ValueError("a real name is empty; remove the comma")
                read(text)
            except ValueError as error:
                self.fault(where, str(error))
