"""Kafka's ids of the topics that a run writes to, compared with those in the journal.

Invariant: nothing is written to a topic before its id was compared once in the run, or noted in the same Kafka
transaction. A topic that is recreated while the run lasts is found within seconds. A difference counts only if
a second look confirms it, since a broker may lag.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from connectors.errors import AqueductError, Retry, RunRestarts, TopicReplaced
from connectors.kafka.topics import Topics
from tables.journal_format import Entry as Note
from tables.state.known_topics import KnownTopic, note_of

_LOOK_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_MOST_NAMES = 20
"""Topics, and tables of each, that an error names."""


@dataclass(slots=True, kw_only=True)
class TopicIds:
    """The topics of one run of a destination, or of a unit of work beside them."""

    destination: str
    topics: Topics
    reread: str
    """The topic whose records each run reads and judges: the journal, which cannot contain its own id."""
    known: dict[str, str] = field(default_factory=dict)
    """The ids in the journal."""
    tables: Callable[[], Mapping[str, Iterable[str]]] = dict
    """Returns the names of the tables that were published to each topic."""
    suspects: frozenset[str] = frozenset()
    """The topics that were recreated, by the last look."""
    _confirmed: dict[str, str] = field(default_factory=dict)
    """The topics that were compared in this run."""

    async def confirm(self, names: Collection[str]) -> list[Note]:
        """Compare existing topics with the journal; return the notes of topics that the journal lacks.

        Raise TopicReplaced for recreated topics. A topic is compared once.
        """
        unknown = [name for name in names if name not in self._confirmed]
        if not unknown:
            return []
        found = await self._twice(unknown)
        self._refuse(self._replaced(found))
        return self._noted(found)

    async def confirm_each(
        self, names: Collection[str]
    ) -> tuple[list[Note], dict[str, AqueductError]]:
        """Do as ``confirm`` for each topic; return the notes, and the recreated topics, each with its error."""
        unknown = [name for name in names if name not in self._confirmed]
        found, replaced = await self.check_each(unknown)
        return self._noted(found), replaced

    def _noted(self, found: Mapping[str, str]) -> list[Note]:
        """Take these ids as confirmed; return the notes of topics that the journal lacks."""
        self._confirmed |= found
        now_ms = time.time_ns() // 1_000_000
        new = {
            name: KnownTopic(destination=self.destination, topic=name, id=one, ts_ms=now_ms)
            for name, one in found.items()
            if name not in self.known and name != self.reread
        }
        return [note_of(one) for one in new.values()]

    async def check_each(
        self, names: Collection[str]
    ) -> tuple[Mapping[str, str], dict[str, AqueductError]]:
        """Return the ids of existing topics among these; and the recreated topics, each with its error."""
        found = await self._twice(names)
        replaced = self._replaced(found)
        sound = {name: one for name, one in found.items() if name not in replaced}
        return sound, {name: self._error({name}) for name in replaced}

    async def _twice(self, names: Collection[str]) -> Mapping[str, str]:
        """The ids of existing topics among these, by a second look if the first finds a recreated topic."""
        found = await self.topics.ids(names)
        if self._replaced(found):
            await asyncio.sleep(_AGAIN_SECONDS)
            found = await self.topics.ids(names)
        return found

    async def watch(self) -> None:
        """Look for recreated topics until cancelled; raise TopicReplaced, or RunRestarts for ``reread``."""
        suspected: set[str] = set()
        while True:
            await asyncio.sleep(_AGAIN_SECONDS if suspected else _LOOK_SECONDS)
            try:
                found = await self.topics.ids(list(self._confirmed))
            except AqueductError as error:
                if error.retry is not Retry.TIMED:
                    raise
                continue  # the run reports it, if it lasts
            replaced = {name for name, one in found.items() if one != self._confirmed[name]}
            if self.reread in replaced & suspected:
                raise RunRestarts(f"as {self.reread} was deleted and made again")
            self._refuse(replaced & suspected)
            suspected = replaced

    def _replaced(self, found: Mapping[str, str]) -> set[str]:
        return {
            name
            for name, one in found.items()
            if name != self.reread and self.known.get(name, one) != one
        }

    def _refuse(self, replaced: Collection[str]) -> None:
        """Raise TopicReplaced for recreated topics, if there are any."""
        self.suspects = frozenset(replaced)
        if replaced:
            raise self._error(replaced)

    def _error(self, replaced: Collection[str]) -> TopicReplaced:
        """The error of recreated topics."""
        tables = self.tables()
        names = sorted(replaced)[:_MOST_NAMES]
        of_topics = {name: sorted(tables.get(name, ()))[:_MOST_NAMES] for name in names}
        listed = [f"{name} ({', '.join(of)})" if of else name for name, of in of_topics.items()]
        more = len(replaced) - len(names)
        return TopicReplaced(
            "; ".join([*listed, *([f"and {more} more"] if more else [])]),
            destination=self.destination,
            remedy=_remedy(
                self.destination,
                ["--all"] if more else names,
                [table for of in of_topics.values() for table in of],
            ),
        )


def _remedy(destination: str, topics: Iterable[str], tables: Collection[str]) -> str:
    """Return the remedy: the commands, with these names."""
    accept = " ".join(map(shlex.quote, [destination, *topics]))
    again = " ".join(map(shlex.quote, [destination, *tables]))
    text = (
        "Nothing more is written to it. What it held is gone, unless it was restored from a copy. Continue "
        f"with it as it is: python -m app destination accept-topic {accept} --why REASON"
    )
    if tables:
        text += f"; publish existing rows again: python -m app snapshot start {again}"
    return f"{text}."
