"""Milestones: what all tables hold after a batch, as the ledger stores it with the batch.

A batch changes few of many tables. So the text of a milestone has only what has changed since the milestone
that its process stored before: the two are linked. The first text of a process is complete, and so is one in a
hundred.

Invariant: a milestone names the version of every table, and the newest change of every destination in any
table; a later write to a table does not change it. A text with only changes is read together with all texts
before it in its link.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, TypeVar

from spark_sink.source.positions import Offsets
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.moves import Place

_WHOLE = 1
_CHANGED = 2
"""The version of a text that has only changes."""
MOST_LINKED: Final = 100
"""The most milestones in a row whose texts have only changes."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A change of a destination; positions of one destination are ordered by (epoch, seq)."""

    epoch: int
    seq: int
    ts_ms: int = field(compare=False)
    """The newest commit time at the source up to this change, as commits may not be in order of their times. Of
    an existing row: the newest commit time before it, and 0 if that is not known."""
    transaction: str = field(compare=False, default="")
    """Its transaction (`transaction.id` of docs/wire.md); empty if unknown."""


@dataclass(frozen=True, slots=True, order=True)
class Commit:
    """A commit of a table."""

    version: int
    """The commit's number, see `protocol.Upkeep.version`."""
    number: str = ""
    """A text that no other commit has, not even one of the same version; empty if it is not known."""


Positions = Mapping[str, Position]
"""By destination."""


Link = tuple[str, int]
"""A series of milestones of one process, by a unique name, and the number of a milestone in it."""

Existing = Mapping[tuple[str, str], Mapping[str, Place]]
"""For each table (database, name) and destination, the position of the last existing row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """What the tables hold after a batch."""

    reached: Positions
    """The newest change of each destination that any table holds."""
    versions: Mapping[tuple[str, str], int]
    """The version of each table, by database and name."""
    floors: tuple[Floor, ...] = ()
    """The truncates in force."""
    ddl: Mapping[str, Place] = field(default_factory=dict)
    """The position up to which the DDL of each destination is carried out in the tables."""
    recent: int | None = None
    """The version of the recent changes while the batch was merged; None without any."""
    is_whole: bool = False
    """Whether the batches so far hold each transaction wholly or not at all."""
    existing: Existing = field(default_factory=dict)
    """The last existing row of each table in the batch."""
    sink: str = ""
    """The name of the sink that has applied the batch."""
    left: Mapping[tuple[str, str], Commit] = field(default_factory=dict)
    """The commit at which this sink left each of its tables; for a waiting table, the last before the wait."""
    beside: Mapping[tuple[str, str, str], Commit] = field(default_factory=dict)
    """The same for what is stored beside these tables, by its kind and the table: see `integrity`."""

    def text(self, link: Link | None = None, since: Milestone | None = None) -> str:
        """The milestone as stored: complete, or what has changed `since` the one before it in the link."""
        if since is not None:
            changed, gone = self._changes(since)
            return changed._text({"version": _CHANGED, "link": link, "gone": gone})
        return self._text({"version": _WHOLE, **({"link": link} if link else {})})

    def _text(self, more: Mapping[str, object]) -> str:
        body = {
            **more,
            "reached": [[name, *astuple(one)] for name, one in sorted(self.reached.items())],
            "tables": [[*name, number] for name, number in sorted(self.versions.items())],
            "floors": [asdict(floor) for floor in self.floors],
            "ddl": [[name, *place] for name, place in sorted(self.ddl.items())],
            "recent": self.recent,
            "whole": self.is_whole,
            "existing": [
                [*name, destination, *place]
                for name, places in sorted(self.existing.items())
                for destination, place in sorted(places.items())
            ],
            "sink": self.sink,
            "left": [[*name, *astuple(one)] for name, one in sorted(self.left.items())],
            "beside": [[*one, *astuple(commit)] for one, commit in sorted(self.beside.items())],
        }
        return json.dumps(body, separators=(",", ":"))

    def _changes(self, since: Milestone) -> tuple[Milestone, dict[str, list[list[str]]]]:
        """What has changed, and what has been removed, by the name of the member in the text."""
        changed: dict[str, Any] = {}
        gone: dict[str, list[list[str]]] = {}
        for name, member in _MEMBERS.items():
            now, before = getattr(self, member), getattr(since, member)
            changed[member] = {at: one for at, one in now.items() if before.get(at) != one}
            if left := sorted(before.keys() - now.keys()):
                gone[name] = [list(at) for at in left]
        now, before = _by_source(self.floors), _by_source(since.floors)
        floors = tuple(one for at, one in now.items() if before.get(at) != one)
        if lowered := sorted(before.keys() - now.keys()):
            gone["floors"] = [list(at) for at in lowered]
        return replace(self, **changed, floors=floors), gone

    def _continued(self, gone: Mapping[str, Iterable[list[str]]], since: Milestone) -> Milestone:
        """The complete milestone, if this one has only what has changed `since` the one before it."""
        whole: dict[str, Any] = {}
        for name, member in _MEMBERS.items():
            left = {tuple(at) for at in gone.get(name, ())}
            whole[member] = _continued(getattr(since, member), getattr(self, member), left)
        left = {tuple(at) for at in gone.get("floors", ())}
        floors = since.floors
        if left or self.floors:
            found = _continued(_by_source(since.floors), _by_source(self.floors), left)
            floors = in_order(found.values())
        return replace(self, **whole, floors=floors)

    @classmethod
    def of(cls, text: str, since: Milestone | None = None) -> Milestone | None:
        """The stored milestone; None if a later version of the sink has stored it.

        `since` is the milestone before it in the link. Without `since`, return None for a text of changes, too.
        """
        body = json.loads(text)
        if body["version"] == _CHANGED and since is not None:
            return cls._of(body)._continued(body["gone"], since)
        return cls._of(body) if body["version"] == _WHOLE else None

    @classmethod
    def _of(cls, body: Mapping[str, Any]) -> Milestone:
        return cls(
            reached={name: Position(*rest) for name, *rest in body["reached"]},
            versions={(database, table): number for database, table, number in body["tables"]},
            floors=tuple(
                Floor(**{**one, "source": Source(**one["source"])}) for one in body["floors"]
            ),
            ddl={name: (epoch, seq) for name, epoch, seq in body.get("ddl", ())},
            recent=body["recent"],
            is_whole=body["whole"],
            existing=joined(
                {(database, table): {destination: (epoch, seq)}}
                for database, table, destination, epoch, seq in body.get("existing", ())
            ),
            sink=body.get("sink", ""),
            left={
                (database, table): Commit(*one) for database, table, *one in body.get("left", ())
            },
            beside={
                (kind, database, table): Commit(*one)
                for kind, database, table, *one in body.get("beside", ())
            },
        )


_MEMBERS: Final = {
    "tables": "versions",
    "left": "left",
    "beside": "beside",
}
"""The members with an entry for each table, by their names in the text; floors have one for each source."""
At = TypeVar("At", bound=Hashable)
One = TypeVar("One")


def in_order(floors: Iterable[Floor]) -> tuple[Floor, ...]:
    """The floors by table and source, as milestones have them."""
    return tuple(one for _, one in sorted(_by_source(floors).items()))


def _by_source(floors: Iterable[Floor]) -> dict[tuple[str, ...], Floor]:
    found: dict[tuple[str, ...], Floor] = {}
    for one in floors:
        of = one.source
        found[one.database, one.table, of.destination, of.database, of.table] = one
    return found


def _continued(
    since: Mapping[At, One], changed: Mapping[At, One], gone: Collection[At]
) -> Mapping[At, One]:
    """The entries of `since` with the changes; `since` itself if nothing changed, as in most milestones."""
    if not changed and not gone:
        return since
    whole = {**since, **changed}
    for at in gone:
        whole.pop(at, None)
    return whole


def milestones_of(texts: Iterable[str]) -> dict[str, Milestone | None]:
    """The milestone of each text, None if it cannot be read; the texts may be in any order.

    A text that has only changes can be read if all texts before it in its link are given.
    """
    found: dict[str, Milestone | None] = {}
    linked: dict[str, list[tuple[int, str]]] = {}
    for text in texts:
        link = json.loads(text).get("link")
        if link is None:
            found[text] = Milestone.of(text)
        else:
            linked.setdefault(link[0], []).append((link[1], text))
    for own in linked.values():
        before: tuple[int, Milestone | None] = -1, None
        for number, text in sorted(own):
            since = before[1] if before[0] + 1 == number else None
            found[text] = Milestone.of(text, since)
            before = number, found[text]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch in the ledger: what is merged after it, and its milestone."""

    at_ms: int
    """The time it was applied."""
    query_id: str
    until: Offsets
    """The offset up to which each partition is merged."""
    milestone: Milestone | None
    """None if an earlier version of the sink has applied it."""


@dataclass(frozen=True, slots=True)
class Share:
    """One partition's share of a batch, as the ledger has it; see ledger.Entry."""

    at_ms: int
    query_id: str
    topic: str
    partition: int
    from_offset: int
    until_offset: int
    milestone: str | None


def batches(shares: Iterable[Share]) -> list[Batch]:
    """The batches of which the ledger still has a share, oldest first.

    Only the oldest shares of a partition may be missing: before the first given share, the partition was merged
    up to the offset at which that share begins.
    """
    ordered = sorted(shares, key=lambda one: (one.at_ms, one.from_offset))
    until: dict[tuple[str, int], int] = {}
    for one in ordered:
        until.setdefault((one.topic, one.partition), one.from_offset)
    until = {at: first for at, first in until.items() if first}
    found: list[Batch] = []
    texts: dict[int, list[str]] = {}
    for one in ordered:
        if one.milestone:
            texts.setdefault(one.at_ms, []).append(one.milestone)
    known = milestones_of(one.milestone for one in ordered if one.milestone)
    for number, one in enumerate(ordered):
        at = one.topic, one.partition
        until[at] = max(one.until_offset, until.get(at, 0))
        if number + 1 < len(ordered) and ordered[number + 1].at_ms == one.at_ms:
            continue
        milestone = _newest(known[text] for text in texts.get(one.at_ms, ()))
        found.append(
            Batch(at_ms=one.at_ms, query_id=one.query_id, until=dict(until), milestone=milestone)
        )
    return found


Stated = tuple[int, Milestone | None]
"""When a batch was applied (ms), and its milestone; None if an earlier version of the sink has applied it."""


def last_of_sinks(shares: Iterable[tuple[int, str | None]]) -> list[Stated]:
    """The last batch of each sink, and the last batch of all if it has no milestone; oldest first.

    `shares` have the moments and texts of milestones.
    """
    given = list(shares)
    known = milestones_of(text for _, text in given if text)
    last, found = 0, dict[str, tuple[int, int, Milestone]]()
    for at_ms, text in given:
        last = max(last, at_ms)
        one = known[text] if text else None
        if one is None:
            continue
        # Maintenance replaces versions in a batch's milestone by later ones.
        newer = at_ms, sum(one.versions.values()), one
        found[one.sink] = max(found.get(one.sink, newer), newer, key=lambda held: held[:2])
    ordered: list[Stated] = [
        (at_ms, one) for at_ms, _, one in sorted(found.values(), key=itemgetter(0))
    ]
    if last and (not ordered or ordered[-1][0] < last):
        ordered.append((last, None))
    return ordered


def _newest(milestones: Iterable[Milestone | None]) -> Milestone | None:
    """The last of a batch's milestones: maintenance replaces versions in it by later ones."""
    found = [one for one in milestones if one is not None]
    return (
        found[0]
        if len(found) == 1
        else max(found, key=lambda one: sum(one.versions.values()), default=None)
    )


def later(one: Positions, other: Positions) -> dict[str, Position]:
    """The later position of each destination, with the newer time of both."""
    names = {*one, *other}
    found = {n: max(p for p in (one.get(n), other.get(n)) if p is not None) for n in names}
    return timed(timed(found, times_of(one)), times_of(other))


def times_of(positions: Positions) -> dict[str, int]:
    """The times of positions, by destination."""
    return {name: one.ts_ms for name, one in positions.items()}


def timed(positions: Positions, times: Mapping[str, int]) -> dict[str, Position]:
    """The positions, with the time of their destination where that is newer."""
    return {
        name: replace(one, ts_ms=max(one.ts_ms, times.get(name, 0)))
        for name, one in positions.items()
    }


def joined(parts: Iterable[Existing]) -> dict[tuple[str, str], dict[str, Place]]:
    """The last position of each table and destination."""
    found: dict[tuple[str, str], dict[str, Place]] = {}
    for part in parts:
        for name, places in part.items():
            own = found.setdefault(name, {})
            for destination, place in places.items():
                own[destination] = max(place, own.get(destination, place))
    return found
