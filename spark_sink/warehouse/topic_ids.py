"""Kafka's ids of the topics of which the warehouse has offsets, and the topics that have lost records.

A topic that was deleted and made again has another id, and its offsets mean other records. The records that
were not read before are gone, so a table of such a topic waits until it is reloaded. A table also waits if
Kafka has removed unread records of a topic that still exists.

Invariant: a topic's id is noted before any of its records is applied. A new id is noted only once it is
recorded that the topic's tables wait and that its offsets are void.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from spark_sink.errors import ChangesLost, DataLost, ForeignTable, TableError, TopicReplaced
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import TOPICS, argument, snapshot_starts
from spark_sink.warehouse.notes import Notes
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.waiting_tables import Waits

_log = logging.getLogger(__name__)
_VERSION: Final = 1


class _Part(Protocol):
    @property
    def name(self) -> Name: ...

    @property
    def places(self) -> Collection[tuple[str, int]]: ...

    @property
    def is_apart(self) -> bool: ...


@dataclass(slots=True, kw_only=True)
class TopicIds:
    """The ids that a sink has noted, and the topics that were made again."""

    notes: Notes
    waits: Waits
    note: str = TOPICS
    """The name of the note of this sink."""
    tables: Callable[[], Collection[Name]] = tuple
    """Returns the names of the warehouse's tables."""
    shape: Callable[[str, str], Shape | None] = lambda *_: None
    """Returns a table by database and name."""
    sources: Callable[[Name], Collection[str]] = lambda _: ()
    """Returns the destinations that publish a table."""
    _ids: dict[str, str] | None = None
    _again: dict[str, list[Name]] = field(default_factory=dict)
    """Topics that were made again or lack records, each with the tables that have waited for it or need not."""
    _lost: dict[str, str] = field(default_factory=dict)
    """The topics that were not made again, but lack records, each with what it lacks."""

    def replaced(self, ids: Mapping[str, str]) -> set[str]:
        """The topics whose id differs from the noted one."""
        known = self._known()
        return {topic for topic, one in ids.items() if known.get(topic, one) != one}

    def unknown(self, topics: Collection[str]) -> set[str]:
        """The topics of which no id is noted."""
        return set(topics) - self._known().keys()

    def check(self, ids: Mapping[str, str]) -> None:
        """Note the ids of new topics. Raise DataLost if a topic was made again since."""
        if gone := self.replaced(ids):
            raise DataLost(
                f"topic {min(gone)} was deleted and made again",
                advice="Start the sink again: the tables of the topic then wait, and all others continue",
            )
        self.keep(ids)

    def keep(self, ids: Mapping[str, str]) -> None:
        """Note these ids."""
        known = self._known()
        if any(known.get(topic) != one for topic, one in ids.items()):
            self._ids = {**known, **ids}
            self._write()

    def wait(
        self,
        sources: Mapping[str, Mapping[Name, Collection[Name | None]]],
        earliest: Offsets,
        *,
        lost: Mapping[str, str] | None = None,
    ) -> None:
        """Make the tables wait whose topics were made again or lack records, from the offsets `earliest`.

        `sources` has the topics, each with its source tables and the tables that these fill (None if that is
        not known). `lost` has the topics that were not made again, each with what it lacks.
        """
        waits, _ = self.waits, self._known()
        lost = lost or {}
        if again := sorted(sources.keys() - lost.keys()):
            _log.error("topics were deleted and made again topics=%s", ", ".join(again))
        for text in lost.values():
            _log.error("changes that were not read are gone: %s", text)
        others = {one: text for one, text in self._lost.items() if one not in sources}
        self._lost = {**others, **lost}
        waits.refresh()
        concerned: dict[Name, set[str]] = {}
        there = {*self.tables()}
        for topic, own in sources.items():
            filled = {name for names in own.values() for name in names}
            names = there & {*own, *filled}
            if not own or None in filled:
                names |= {one for one in there if self._has(one, own)}
            names |= {
                name
                for name, held in waits.tables.items()
                if any(at[0] == topic for at in held.offsets)
            }
            self._again[topic] = sorted(names)
            for name in names:
                concerned.setdefault(name, set()).add(topic)
        for name, topics in sorted(concerned.items()):
            held = waits.waiting(name)
            offsets = held.offsets if held is not None else {}
            kept = {at: offset for at, offset in offsets.items() if at[0] not in topics}
            since = {at: offset for at, offset in earliest.items() if at[0] in topics}
            waits.begin(name, self._fault(name, topics), {**kept, **since})
        self._write()

    def faults(self, parts: Iterable[_Part]) -> dict[Name, TableError]:
        """The errors of tables that have to wait, as they have records in topics that were made again.

        A table that has waited does not wait again, and a new table need not wait. Nor need a table that no
        mapping fills: if it has rows of such a topic, it has waited, though perhaps under an earlier name.
        """
        found: dict[Name, TableError] = {}
        self._known()
        for part in parts if self._again else ():
            held = self.waits.tables.get(part.name)
            passed = {topic for topic, _ in held.offsets} if held is not None else set()
            topics = {topic for topic, _ in part.places} - passed
            again = [one for one in topics if part.name not in self._again.get(one, [part.name])]
            if again and part.name in self.tables() and self._is_mapped(part):
                found[part.name] = self._fault(part.name, again)
            elif again:
                for topic in again:
                    self._again[topic].append(part.name)
                self._write()
        return found

    def _is_mapped(self, part: _Part) -> bool:
        """Whether rows of a table come from mapped tables."""
        with suppress(ForeignTable):
            shape = self.shape(*part.name)
            return part.is_apart or (shape is not None and shape.apart)
        return True

    def _has(self, name: Name, sources: Collection[Name]) -> bool:
        """Whether mapped tables fill a table, and one of them may be among `sources`."""
        shape = None
        with suppress(ForeignTable):
            shape = self.shape(*name)
        if shape is None or not shape.apart:
            return False
        known = {(one[1], one[2]) for one in shape.followed}
        return not known or not known.isdisjoint(sources)

    def _known(self) -> dict[str, str]:
        if self._ids is None:
            try:
                body = json.loads(self.notes.read(self.note) or "{}")
                self._ids = dict(body.get("topics", {}))
                again = body.get("again", {}).items()
                self._again = {topic: [(d, t) for d, t in names] for topic, names in again}
                self._lost = dict(body.get("lost", {}))
            except (ValueError, AttributeError, TypeError):
                # A killed process has left the note incomplete; the present ids are noted again.
                self._ids = {}
        return self._ids

    def _write(self) -> None:
        body = {"version": _VERSION, "topics": self._known(), "again": self._again}
        self.notes.write(self.note, json.dumps({**body, "lost": self._lost}))

    def _fault(self, name: Name, topics: Collection[str]) -> TableError:
        """The error for which a table waits if topics of its rows were made again, or lack records."""
        again = f"python -m spark_sink reload {argument(name)}"
        texts = [self._lost[topic] for topic in sorted(topics) if topic in self._lost]
        if texts:
            return ChangesLost(
                "; ".join(texts),
                advice=f"Publish its existing rows again: {self._starts(name, ' --replace')}; and wait until "
                f"that is done, or accept that changes are missing. Then run: {again}",
            )
        return TopicReplaced(
            ", ".join(sorted(topics)),
            advice=f"Publish its existing rows again: {self._starts(name)}; once that is done, run: {again} "
            f"--from-beginning; or keep the rows as they are and add what the new topic has: {again}",
        )

    def _starts(self, name: Name, option: str = "") -> str:
        """The commands that publish a table's existing rows."""
        tables = [(one, name) for one in self.sources(name)]
        with suppress(ForeignTable):
            shape = self.shape(*name)
            if shape is not None and shape.apart and shape.followed:
                tables = [(one[0], (one[1], one[2])) for one in shape.followed]
        return snapshot_starts(sorted(set(tables)) or [("DEST", name)], option)
