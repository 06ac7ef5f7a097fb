"""The selection of the records that a subscriber gets from its topics.

Invariant: tags are compared by header, so that a record without a wanted tag is not parsed. A table that the
installation does not have is refused, unless it may be created later: otherwise a wrong name would drop all
records of a topic. A group that already reads a topic is not refused for a table without rows.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aqueduct_client.errors import UnknownTable
from aqueduct_client.records import RawRecord, Record

# A window of change ids: a record that was acknowledged before is dropped when it comes again.
#
# Invariant: a record is remembered when its batch is acknowledged, even if the acknowledgement
# fails, and not when it is delivered: a batch that was rolled back is delivered again. Of a get
# that fails, which returns nothing, no record is remembered. The window lives as long as the
# process.


@dataclass(slots=True)
class Window:
    """The newest change ids, each with its topic and destination: MariaDB servers may have equal GTIDs."""

    size: int
    _seen: dict[tuple[str, str, str], None] = field(default_factory=dict)

    def has(self, record: Record) -> bool:
        """Whether the change was acknowledged within the window."""
        return bool(self.size) and self._name(record) in self._seen

    def add(self, records: Iterable[Record]) -> None:
        """Remember changes."""
        if not self.size:
            return
        for record in records:
            self._seen[self._name(record)] = None
        while len(self._seen) > self.size:
            del self._seen[next(iter(self._seen))]

    def _name(self, record: Record) -> tuple[str, str, str]:
        return record.raw.partition.topic, record.destination, record.change_id


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The tables and tags that a subscriber wants."""

    tables: Mapping[str, frozenset[str] | None]
    """By topic, the logical tables wanted of it; None: all that it has."""
    tags: frozenset[str] = frozenset()
    """A record needs one of these; empty: records with and without tags."""
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By topic, the names that the subscriber gave for it."""
    not_yet: frozenset[str] = frozenset()
    """Tables that need not exist yet."""
    seen: set[str] = field(default_factory=set)
    """The tags of all records so far, if some are wanted."""

    def take(self, raw: RawRecord, window: Window) -> Record | None:
        """Return the record if it is wanted."""
        if raw.value is None:
            return None
        if self.tags:
            self.seen.update(tags := raw.tags)
            if self.tags.isdisjoint(tags):
                return None
        raw.check_format()
        record = Record(raw)
        if window.has(record):
            return None
        wanted = self.tables[raw.partition.topic]
        return record if wanted is None or record.logical_table in wanted else None

    def unmet(self) -> str | None:
        """Return a warning if records so far have tags, but no record has a wanted tag; otherwise None."""
        if not self.tags or not self.seen or not self.tags.isdisjoint(self.seen):
            return None
        wanted, seen = (", ".join(sorted(tags)[:10]) for tags in (self.tags, self.seen))
        return (
            f"no record so far has a tag of {wanted}, and all were passed over; the tags are {seen}"
        )

    def expected(self, topics: Iterable[str]) -> list[str]:
        """Return the tables of these topics that must exist."""
        return sorted(
            {name for topic in topics for name in self.names.get(topic, ())} - self.not_yet
        )

    def refuse_without_topic(self, topics: Iterable[str], existing: Collection[str]) -> None:
        """Raise UnknownTable for a table that must exist and whose topic does not."""
        for topic in sorted(topics):
            if missing := self.expected([topic]):
                alike = [each for each in existing if (".__" in each) == (".__" in topic)]
                raise UnknownTable(
                    f"{', '.join(missing)}: there is no topic {topic}{_near(topic, alike)}"
                )

    def refuse_absent(
        self,
        topics: Iterable[str],
        known: Collection[str],
        *,
        has_logical: bool,
        begun: Collection[str],
    ) -> None:
        """Raise UnknownTable for a table of a shared topic that is not among the known tables.

        Logical names are published some time after the rows, and a table may have no row. So a name that
        differs from all known names by more than its case only causes a warning in two cases: while no logical
        name exists, and for a group that has begun the topic, which may have had the table for long.
        """
        folded = {name.casefold() for name in known}
        for topic in sorted(topics):
            for name in self.expected([topic]):
                if name in known or not known:
                    continue
                text = f"no table is called {name}{_near(name, known)}"
                if name.casefold() in folded or (has_logical and topic not in begun):
                    raise UnknownTable(text, topic=topic)
                if topic in begun:
                    text += "; the group continues, since it has read this topic before"
                log.warning("%s [topic=%s]", text, topic)


def _near(name: str, existing: Collection[str]) -> str:
    """Return a text with the nearest names, names that differ only in case first; empty if no name is near."""
    by_fold: dict[str, list[str]] = {}
    for each in existing:
        by_fold.setdefault(each.casefold(), []).append(each)
    near = difflib.get_close_matches(name.casefold(), by_fold, n=3, cutoff=0.5)
    found = [each for fold in near for each in sorted(by_fold[fold])][:5]
    return f"; the nearest are {', '.join(found)}" if found else ""
