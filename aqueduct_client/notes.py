"""Notes about a group besides Kafka's offsets: the start positions of each topic, and the progress.

Kafka forgets the offsets of a group that is away longer than ``offsets.retention.minutes``, and the offsets in
a deleted topic. So a group without offsets is not necessarily new.

Invariant: a group begins a topic once. If several members begin it at the same time, the first note in the
compacted topic ``<prefix>.__subscribers`` counts; each note has its own key, so that compaction keeps it. A
partition's note counts only if it has the token of its topic's note.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aqueduct_client.protocol import Appends, OpensLog
from aqueduct_client.records import Partition, RawRecord

_FORGOTTEN: dict[str, Any] = {"token": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A group's position in a partition, noted at the end of a client or some minutes ago."""

    offset: int
    topic_id: str | None
    ts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNote:
    """A topic that a group has begun."""

    topic_id: str | None
    """None if the topic did not exist, or if Kafka has no topic ids."""
    starts: Mapping[int, int]
    """The start position in each partition that existed."""
    reached: Mapping[int, Reached] = field(default_factory=dict)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def topic_ids(self) -> frozenset[str]:
        """The ids of the topic that are known; empty for one that no member has read yet, or without ids."""
        found = {self.topic_id, *(each.topic_id for each in self.reached.values())}
        return frozenset(each for each in found if each is not None)

    def is_of_another(self, topic_id: str | None) -> bool:
        """Whether the note is about an earlier topic of the same name, which was deleted since."""
        return topic_id is not None and bool(self.topic_ids - {topic_id})


@dataclass(slots=True, kw_only=True)
class Notes:
    """The notes about one group."""

    logs: OpensLog
    appends: Appends
    topic: str
    group: str

    async def read(self) -> dict[str, TopicNote]:
        """Return the topics that the group has begun."""
        await self.appends(self.topic, [])  # so that the topic exists
        found = _Folded(self.group)
        at = 0
        async with self.logs() as log:
            while records := await log.read(Partition(self.topic, 0), at):
                for raw in records:
                    found.take(raw)
                at = records[-1].offset + 1
        return found.notes()

    async def begin(self, begun: Mapping[str, TopicNote]) -> dict[str, TopicNote]:
        """Note topics that the group begins; return all notes in force."""
        await self._write({(topic, note.token): _begun(note) for topic, note in begun.items()})
        return await self.read()

    async def reached(
        self,
        notes: Mapping[str, TopicNote],
        offsets: Mapping[Partition, int],
        ids: Mapping[str, str | None],
    ) -> dict[str, TopicNote]:
        """Note positions in topics that were begun; return the notes with them."""
        found, values = dict(notes), dict[tuple[str, int | str | None], dict[str, Any]]()
        for (topic, number), offset in offsets.items():
            note = found[topic]
            one = Reached(offset=offset, topic_id=ids.get(topic), ts_ms=_now_ms())
            found[topic] = replace(note, reached={**note.reached, number: one})
            values[topic, number] = {
                "token": note.token, "offset": offset, "topic_id": one.topic_id, "ts_ms": one.ts_ms
            }  # fmt: skip
        await self._write(values)
        return found

    async def moved(self, topic: str, topic_id: str | None, offsets: Mapping[int, int]) -> None:
        """Note that an operator has set the group to offsets of a topic."""
        notes = await self.read()
        if topic not in notes or notes[topic].is_of_another(topic_id):
            await self.forget([topic])
            notes = await self.begin({topic: TopicNote(topic_id=topic_id, starts=offsets)})
        positions = {Partition(topic, number): at for number, at in offsets.items()}
        await self.reached(notes, positions, {topic: topic_id})

    async def forget(self, topics: list[str]) -> None:
        """Note that the group begins these topics again when it next reads them."""
        await self._write({(topic, None): _FORGOTTEN for topic in topics})

    async def _write(
        self, values: Mapping[tuple[str, int | str | None], Mapping[str, Any]]
    ) -> None:
        """Write notes; ``values`` are by topic, and by partition or token."""
        records = []
        for (topic, part), value in values.items():
            key: dict[str, Any] = {"group": self.group, "topic": topic}
            if part is not None:
                key["token" if isinstance(part, str) else "partition"] = part
            records.append((json.dumps(key).encode(), json.dumps(value).encode()))
        if records:
            await self.appends(self.topic, records)


class _Folded:
    """The notes about a group, folded from records in order."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._begun: dict[str, TopicNote] = {}
        self._reached: dict[tuple[str, str], dict[int, Reached]] = {}

    def take(self, raw: RawRecord) -> None:
        """Apply a record."""
        key, value = json.loads(raw.key or b"{}"), json.loads(raw.value or b"{}")
        if key.get("group") != self._group:
            return
        topic, number, token = key["topic"], key.get("partition"), value["token"]
        if number is not None:
            self._reached.setdefault((topic, token), {})[number] = Reached(
                offset=value["offset"], topic_id=value["topic_id"], ts_ms=value["ts_ms"]
            )
        elif token is None:
            self._begun.pop(topic, None)
        elif topic not in self._begun:
            starts = {int(number): at for number, at in value["starts"].items()}
            self._begun[topic] = TopicNote(topic_id=value["topic_id"], starts=starts, token=token)

    def notes(self) -> dict[str, TopicNote]:
        """Return the topics begun, with the positions that belong to them."""
        return {
            topic: replace(note, reached=self._reached.get((topic, note.token), {}))
            for topic, note in self._begun.items()
        }


def _begun(note: TopicNote) -> dict[str, Any]:
    starts = {str(number): at for number, at in note.starts.items()}
    return {"token": note.token, "topic_id": note.topic_id, "starts": starts, "ts_ms": _now_ms()}


def _now_ms() -> int:
    return int(time.time() * 1000)
