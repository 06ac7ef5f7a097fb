"""Start positions: where a group without an offset begins to read.

Invariant: no change that qualifies is before the position. A binary search is used only for values that grow
along a partition: a destination's epoch, its ``seq`` within an epoch, and the time of writing to Kafka. Commit
times and GTIDs do not grow where several masters feed a topic, after a backlog, or where a server commits in
another order than it numbers. So they are compared record by record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from aqueduct_client.errors import InvalidSubscription, StartUnknown
from aqueduct_client.protocol import Log
from aqueduct_client.records import Partition, Record
from wire.changes import emptied_by

_MARIADB = re.compile(r"(\d+)-\d+-(\d+)")
_SERVER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_CLOCK_SKEW_MS = 600_000
"""How much later a source's clock may be than the worker's clock, which sets the time of Kafka's records."""
_LOOKS = 64
"""The number of offsets at which the clocks are compared: a clock may have been wrong only for a while."""
_NEAR = 1000
"""The number of offsets directly before a position in which all records are compared."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record that the topic has."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of the topic: only records from now on."""


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first change whose ``ts_ms``, the time of its commit in the source, is at or after this time."""

    ts_ms: int
    """Milliseconds since 1970 UTC. Before MySQL 8.0.1, commit times are whole seconds: give a whole second."""


@dataclass(frozen=True, slots=True)
class AfterSeq:
    """The first change whose number is greater than this."""

    seq: int
    destination: str | None = None
    """Needed if the topic has changes of several destinations: the number is this destination's."""


@dataclass(frozen=True, slots=True)
class AfterGtids:
    """The first change of a transaction that is not in this GTID set, such as gtid_executed of a copy."""

    gtids: str

    def __post_init__(self) -> None:
        parse_gtids(self.gtids)


Start = Earliest | Latest | AtTime | AfterSeq | AfterGtids
_Judge = Callable[[Record], bool]


async def start_offsets(
    log: Log, partitions: Collection[Partition], start: Start
) -> dict[Partition, int]:
    """Return the offset of a start position in each partition; raise StartUnknown if it cannot be found."""
    if isinstance(start, AfterSeq) and start.destination is not None:
        for topic in sorted({tp.topic for tp in partitions}):
            await _refuse_without(
                log, [tp for tp in partitions if tp.topic == topic], start.destination
            )
    if isinstance(start, AfterGtids):
        outside = _Outside(parse_gtids(start.gtids))
        return {tp: await outside.first(log, tp) for tp in sorted(partitions)}
    return {tp: await offset_of(log, tp, start) for tp in sorted(partitions)}


async def offset_of(log: Log, partition: Partition, start: Start) -> int:
    """Return the offset of a start position in a partition."""
    beginning, end = await log.bounds(partition)
    match start:
        case Earliest():
            return beginning
        case Latest():
            return end
        case AtTime(ts_ms):
            return await _at_time(log, partition, ts_ms)
        case AfterSeq():
            return await _Numbered(log, partition, start.destination).after(start.seq)
        case AfterGtids():
            return await _Outside(parse_gtids(start.gtids)).first(log, partition)


# --- times of commit, and sets of transactions: by reading ---


async def _at_time(log: Log, partition: Partition, ts_ms: int) -> int:
    """Return the offset of the first change committed then or later.

    The reading begins where the time of writing is ten minutes earlier, unless records before that show clocks
    that differ by more: then it begins with the partition. The records compared are all of the last 1,000
    offsets, some each at 2,000, 4,000, 8,000 and so on before the position, and some each at 64 evenly spaced
    offsets.

    If only the worker's clock was slow, a change that must not be skipped is followed by no record of a correct
    clock before the position: that one's time of writing, and so this change's time of commit, would be too
    early. So such changes end right before the position, and are missed only if more than 1,000 records with
    older commit times follow them, as of a backlog, and none of the other looks meets one of them. If the
    source's clock was fast, they may be anywhere: a time of less than a 64th of the records, that ended more
    than 1,000 records before the position, can be missed.
    """
    beginning, end = await log.bounds(partition)
    written = await log.offset_at(partition, max(0, ts_ms - _CLOCK_SKEW_MS))
    low = end if written is None else written
    looks = {beginning + (low - beginning) * number // _LOOKS for number in range(_LOOKS)}
    distance = 2 * _NEAR
    while distance < low - beginning:
        looks.add(low - distance)
        distance *= 2
    for at in sorted({*looks, max(beginning, end - 1000)}):
        if any(_is_ahead(Record(raw)) for raw in await log.read(partition, at)):
            low = beginning  # the time of writing does not limit the time of the commit
            break
    near = max(beginning, low - _NEAR), low
    if await _first(log, partition, near, _is_ahead) < low:
        low = beginning
    return await _first(log, partition, (low, end), lambda record: record.ts_ms >= ts_ms)


def _is_ahead(record: Record) -> bool:
    return record.ts_ms > record.raw.written_ms + _CLOCK_SKEW_MS


class _Outside:
    """Finds the changes whose transactions are not in a set."""

    def __init__(self, known: dict[str, tuple[tuple[int, int], ...]]) -> None:
        self._known = known
        self._owners: dict[str, str] = {}
        """By MariaDB domain of the set, the destination whose changes have it, in all partitions so far."""
        self._unproven: dict[str, int] = {}
        """By destination, the offset of the first existing row that no transaction of the set follows.

        Such a row has no GTID. It shows the table as of its position in the stream, so a copy that has a later
        transaction has the row too.
        """

    async def first(self, log: Log, partition: Partition) -> int:
        """Return the offset of the first change outside the set; the end without one."""
        beginning, end = await log.bounds(partition)
        self._unproven = {}
        found = await _first(log, partition, (beginning, end), self._is_outside)
        if any(server.isdigit() for server in self._known):
            # The set may be the one of a destination whose changes all come later.
            await _first(log, partition, (found, end), self._is_refused)
        return min([found, *self._unproven.values()])

    def _is_outside(self, record: Record) -> bool:
        if (transaction := _transaction_of(record)) is None:
            if record.source.get("snapshot", "false") == "false":
                topic, number = record.raw.partition
                raise StartUnknown(
                    "a change has no GTID", topic=topic, partition=number, offset=record.raw.offset
                )
            self._unproven.setdefault(record.destination, record.raw.offset)
            return False
        server, number = transaction
        self._refuse_shared(server, record)
        if any(low <= number <= high for low, high in self._known.get(server, ())):
            self._unproven.pop(record.destination, None)
            return False
        return True

    def _is_refused(self, record: Record) -> bool:
        """Raise StartUnknown as ``_refuse_shared`` does; otherwise return False, so that reading continues."""
        if (transaction := _transaction_of(record)) is not None:
            self._refuse_shared(transaction[0], record)
        return False

    def _refuse_shared(self, server: str, record: Record) -> None:
        """Raise StartUnknown if a MariaDB domain of the set has changes of several destinations.

        Each numbers them for itself, and a set does not distinguish them: its server id is the one that wrote
        the last transaction, which changes with a failover.
        """
        if server not in self._known or not server.isdigit():
            return
        owner = self._owners.setdefault(server, record.destination)
        if owner != record.destination:
            topic, number = record.raw.partition
            raise StartUnknown(
                f"a MariaDB GTID set has one number for each domain, and domain {server} has changes of "
                f"{', '.join(sorted((owner, record.destination)))}",
                topic=topic,
                partition=number,
                offset=record.raw.offset,
            )


async def _first(log: Log, partition: Partition, span: tuple[int, int], judge: _Judge) -> int:
    """Return the offset of the first record for which ``judge`` is true; the end without such a record."""
    at, end = span
    while at < end and (found := await log.read(partition, at)):
        for raw in found:
            if raw.offset < end and judge(Record(raw)):
                return raw.offset
        at = found[-1].offset + 1
    return end


# --- numbers of a destination: by binary search ---


async def _refuse_without(log: Log, partitions: list[Partition], destination: str) -> None:
    """Raise StartUnknown if a topic has changes, but no change of this destination."""
    seen: set[str] = set()

    def is_its(record: Record) -> bool:
        seen.add(record.destination)
        return record.destination == destination

    for tp in sorted(partitions):
        span = await log.bounds(tp)
        if await _first(log, tp, span, is_its) < span[1]:
            return
    if seen:
        raise StartUnknown(
            f"seq is numbered within a destination, and the topic has no change of {destination!r}; it has "
            f"those of {', '.join(sorted(seen))}",
            topic=partitions[0].topic,
        )


@dataclass(slots=True)
class _Numbered:
    """The changes of one destination in a partition; if no name is given, of the only destination."""

    log: Log
    partition: Partition
    destination: str | None
    _only: str | None = None

    async def after(self, seq: int) -> int:
        """Return the offset at which the changes with a greater number begin.

        Numbers grow within an epoch. A later epoch may begin with smaller numbers if a journal was restored.
        """
        low, end = await self.log.bounds(self.partition)
        while (first := await self._next(low, end)) is not None:
            epoch = first.epoch
            _, over = await self._halved(low, end, lambda each: each.epoch > epoch)  # noqa: B023
            found, at = await self._halved(low, over, lambda each: each.seq > seq)
            if found:
                return at
            low = over
        return low

    async def _halved(self, low: int, high: int, is_past: _Judge) -> tuple[bool, int]:
        """Return whether a change of the destination is past, and the offset after the last one that is not."""
        found = False
        while low < high:
            middle = (low + high) // 2
            each = await self._next(middle, high)
            if each is not None and not is_past(each):
                low = each.raw.offset + 1
            else:
                high, found = middle, found or each is not None
        return found, low

    async def _next(self, low: int, end: int) -> Record | None:
        """Return the destination's first change from ``low`` on and before ``end``."""
        found: list[Record] = []

        def is_its(record: Record) -> bool:
            found[:] = [record]
            return self._is_its(record)

        at = await _first(self.log, self.partition, (low, end), is_its)
        return found[0] if at < end else None

    def _is_its(self, record: Record) -> bool:
        topic, number = self.partition
        if self.destination is None:
            self._only = self._only or record.destination
            if record.destination != self._only:
                raise StartUnknown(
                    "seq is numbered within a destination, and the topic has changes of "
                    f"{', '.join(sorted((self._only, record.destination)))}; give the destination",
                    topic=topic,
                    partition=number,
                )
        return record.destination == (self.destination or self._only)


def _transaction_of(record: Record) -> tuple[str, int] | None:
    """Return the server (with a tag) or MariaDB domain of a change's GTID, and its number; None without a GTID.

    The deletes of a TRUNCATE have no GTID of their own, but belong to the transaction of the statement.
    """
    gtid = record.gtid or emptied_by(record.change_id)
    if gtid is None:
        return None
    if match := _MARIADB.fullmatch(gtid):
        return match[1], int(match[2])
    server, _, number = gtid.lower().rpartition(":")
    return server, int(number)


def parse_gtids(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the intervals of a GTID set: by server, with a tag if there is one, or by MariaDB domain."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part in filter(None, re.split(r"[\s,]+", text)):
        if match := _MARIADB.fullmatch(part):
            found.setdefault(match[1], []).append((1, int(match[2])))
            continue
        server, *items = part.lower().split(":")
        if not _SERVER.fullmatch(server) or not items:
            raise _not_a_set(text, part)
        prefix = server
        for item in items:
            if match := _INTERVAL.fullmatch(item):
                interval = int(match[1]), int(match[2] or match[1])
                found.setdefault(prefix, []).append(interval)
            elif _TAG.fullmatch(item):  # MySQL 8.3's, which applies to the intervals after it
                prefix = f"{server}:{item}"
            else:
                raise _not_a_set(text, part)
    if not found:
        raise _not_a_set(text, text)
    return {server: tuple(intervals) for server, intervals in found.items()}


def _not_a_set(text: str, part: str) -> InvalidSubscription:
    where = f", for {part!r}" if part != text else ""
    return InvalidSubscription(
        f"{text!r} is no GTID set{where}; write one as gtid_executed shows it"
    )
