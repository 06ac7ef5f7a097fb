"""One pass over a topic: folds the topic, and compares each of its tables with the source.

A table's rows are compared look by look; then the rows of the topic that no look covered are counted.

Invariant: a table that a statement or a rule changed meanwhile is compared again from the beginning, with its
topic folded again; differences by the earlier definition do not count. A difference is counted once, and only
if it is proven; what is not proven is counted by its reason, or as written meanwhile. A merge that does not
publish ends the comparison with PublishingStalled.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import count

from app.audit.topics.topics import Claims, Shares
from app.operator.journal_access import Journal
from app.operator.source_connection import ReachableSource
from app.operator.validation.definitions import Definitions, definitions_now
from app.operator.validation.errors import NotComparable, PublishingStalled, TableChanged
from app.operator.validation.folded_topic import FoldedTopic, Order, Unequal, UnknownVersion
from app.operator.validation.looks import (
    STALLED_SECONDS,
    After,
    Look,
    Looks,
    Places,
    PublishedPosition,
)
from app.operator.validation.present_images import PresentImages, TableForm, names_its_table, stored
from app.operator.validation.table_result import TableResult, removable_rows
from app.worker.merge.start_check import origin_of
from app.worker.pipeline.formats.registry import form_named, format_named
from app.worker.pipeline.oversize_records import claim_store
from connectors.errors import SnapshotUnsupported, TableUnreadable
from connectors.kafka.reading import (
    Follower,
    Partition,
    StoredRecord,
    TakeFollowed,
    newest,
    read_first,
    read_some,
    read_to_ends,
)
from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.select.chunk_reader import MOST_ROWS, ChunkReader, random_keys
from connectors.mysql.select.load_limits import LoadGate
from connectors.mysql.select.record_keys import RecordKeys
from tables.rules.routes.routes import Route
from wire.text import printed
from wire.validation import Kind

_MOST_ATTEMPTS = 5


_SAMPLE_ROWS = 1_000
"""Most rows of each sample."""
_MASKED = (
    "a repair leaves all rows: the key is masked, and requests would have it raw; `snapshot start` with "
    "--replace publishes them again"
)


class TopicPass:
    """Compares one topic after the other."""

    def __init__(
        self,
        *,
        journal: Journal,
        source: ReachableSource,
        definitions: Definitions,
        follower: Follower,
        published: PublishedPosition,
        gate: LoadGate,
        show: Callable[[TableResult], object],
        samples: int | None,
        most_listed: int,
    ) -> None:
        """``gate`` is where reads of the source wait. ``samples`` is the number of chunks of each table;
        None: all rows are compared. ``show`` receives each result as it grows."""
        self._journal, self._source, self._definitions = journal, source, definitions
        self._follower, self._published, self._gate = follower, published, gate
        self._show, self._samples, self._most_listed = show, samples, most_listed
        self._changes = published.changes
        """The value of ``published.changes`` before the definitions were read."""
        self._done: list[Partition] = []
        self._beginnings: dict[Partition, int] = {}
        self._runs: Iterator[int] = count(1)

    async def compare(self, topic: str, names: Sequence[TableName]) -> list[TableResult]:
        """Return the results of real tables whose records are in one topic.

        For a share, the topic into which it is merged is compared.
        """
        results, remaining, changes = list[TableResult](), list(names), Counter[TableName]()
        while remaining:
            try:
                return results + await self._compare(topic, remaining)
            except TableChanged as error:
                name = error.changed
                changes[name] += 1
                if changes[name] == _MOST_ATTEMPTS:
                    why = f"it changed each time it was compared: {error.detail}"
                    results.append(self._refused(topic, name, NotComparable(why)))
                    remaining.remove(name)
                self._changes = self._published.changes
                self._definitions = await definitions_now(self._journal, self._source.facts)
            except NotComparable as error:
                return results + [self._refused(topic, name, error) for name in remaining]
        return results

    async def _compare(self, topic: str, names: Sequence[TableName]) -> list[TableResult]:
        results, images = list[TableResult](), dict[TableName, PresentImages]()
        for name in names:
            try:
                images[name] = self._images(name)
            except (NotComparable, SnapshotUnsupported) as error:
                results.append(self._refused(topic, name, error))
        if not images:
            return results
        # The topic that subscribers read; for a share, the topic into which it is merged.
        rules = self._definitions.rules
        home = Shares(prefix=rules.prefix, destination=rules.destination).home(topic)
        partitions = await self._followed(home)
        lost = Counter[str]()
        with closing(self._folded(images, lost)) as folded:

            def take(partition: Partition, record: StoredRecord) -> None:
                try:
                    folded.take(partition[1], record)
                except UnknownVersion as error:
                    why = f"version {error.number} of its columns is new"
                    raise TableChanged(why, error.table) from error

            await read_to_ends(self._follower, partitions, take)
            wait = self._merge_wait(topic, folded, partitions, take) if home != topic else None
            for name in images:
                result = TableResult(name=name, topic=home, most_listed=self._most_listed)
                await self._table(result, folded, partitions, take, wait)
                result.notes += self._notes(name, partitions)
                results.append(result)
        self._done += partitions
        self._follower.pause(self._done)
        return results

    def _images(self, name: TableName) -> PresentImages:
        """Return how images of a table are read; raise NotComparable if it cannot be compared."""
        routes = self._definitions.rules.routes
        expected, route = self._definitions.expected, routes.of(name)
        assert route is not None
        found = expected.definition(name, self._definition(name))
        if why := format_named(route.format).incomparable(self._definitions.rules, found):
            raise NotComparable(why)
        form = TableForm(
            format=route.format,
            written=expected.written(name),
            logical=route.logical,
            names_real=route.shard is not None,
        )
        if not names_its_table(route, self._others(name)):
            raise NotComparable(
                f"records in the format {route.format} do not name the real table (shard_in_key: never)"
            )
        return PresentImages(name, self._definitions.versions, found, form)

    def _others(self, name: TableName) -> list[Route]:
        routes = self._definitions.rules.routes
        found = [routes.of(one) for one in self._definitions.tables if one != name]
        return [one for one in found if one is not None]

    def _definition(self, name: TableName) -> Table:
        found = self._definitions.tables.get(name)
        if found is None:
            raise NotComparable("it does not exist any more")
        return found

    def _folded(self, images: dict[TableName, PresentImages], lost: Counter[str]) -> FoldedTopic:
        rules = self._definitions.rules
        store = claim_store(rules) if rules.claims else None
        forms = partial(form_named, rules=rules)
        return FoldedTopic(rules.destination, images, Claims(store, lost), forms)

    def _merge_wait(
        self, share: str, folded: FoldedTopic, partitions: Sequence[Partition], take: TakeFollowed
    ) -> Callable[[], Awaitable[None]]:
        async def goals() -> Goals:
            found = await newest(
                self._journal.options, [share], since_ms=None, wanted=lambda one: bool(one.value)
            )
            last = {part: origin_of(one.value, one.headers) for (_, part), one in found.items()}
            return {part: (one.epoch, one.seq) for part, one in last.items()}

        return partial(wait_for_merge, folded, self._follower, partitions, newest=goals, take=take)

    async def _followed(self, topic: str) -> list[Partition]:
        """Follow the topic from its beginning."""
        number = (await self._follower.partitions([topic])).get(topic)
        if number is None:
            raise NotComparable("its topic does not exist yet")
        partitions = [(topic, one) for one in range(number)]
        self._beginnings = await self._follower.beginnings(partitions)
        await self._follower.follow(self._beginnings)
        return partitions

    async def _table(
        self,
        result: TableResult,
        folded: FoldedTopic,
        partitions: Sequence[Partition],
        take: TakeFollowed,
        wait: Callable[[], Awaitable[None]] | None,
    ) -> None:
        name, facts = result.name, self._source.facts
        table = self._definition(name)
        result.key = table.primary_key
        reader = ChunkReader(
            self._source.address,
            name,
            charsets=facts.charsets,
            server=server_of(facts),
            definition=lambda: table,
            is_masked=self._is_masked(name),
            gate=self._gate,
            keeps_keys=True,
            most_rows=MOST_ROWS if self._samples is None else _SAMPLE_ROWS,
        )
        looks = Looks(
            name=name,
            reader=reader,
            expected=self._definitions.expected,
            folded=folded,
            follower=self._follower,
            partitions=partitions,
            published=self._published,
            take=take,
            changes=self._changes,
            is_same=partial(self._is_same, name),
            caught_up=wait,
        )
        validation = TableValidation(
            looks,
            result,
            read_record=partial(self._record, result.topic),
            show=self._show,
            run=next(self._runs),
        )
        with closing(reader):
            try:
                if self._samples is None:
                    await validation.whole()
                else:
                    keys = self._random_keys(name, table, self._samples)
                    await validation.samples(await looks.tried(keys))
            except (NotComparable, SnapshotUnsupported, TableUnreadable) as error:
                result.not_compared = _reason(error)
        if result.counts[Kind.MISSING] and (topics := self._definitions.earlier_topics(name)):
            result.notes.append(
                f"it was published to {', '.join(topics)} before, by another name or route; rows from then are "
                "missing here until --repair, or a snapshot of the table, publishes them"
            )
        if self._definitions.expected.masks_key(name) and result.differences:
            result.notes.append(_MASKED)
        elif result.extra and result.not_compared is None:
            self._find_removable(result, table)

    def _find_removable(self, result: TableResult, table: Table) -> None:
        """Add the extra rows that a repair can delete, and the reasons why others stay."""
        name, facts = result.name, self._source.facts
        route = self._definitions.rules.routes.of(name)
        assert route is not None
        keys = RecordKeys(name, table, facts.charsets, server=server_of(facts))
        result.removable, obstacles = removable_rows(result.extra, route, table, keys)
        result.notes += [f"a repair leaves extra rows: {one}" for one in sorted(obstacles)]

    def _random_keys(
        self, name: TableName, table: Table, samples: int
    ) -> Callable[[], list[tuple[str, ...] | None]]:
        facts = self._source.facts
        return partial(
            random_keys,
            self._source.address,
            name,
            table,
            charsets=facts.charsets,
            server=server_of(facts),
            is_masked=self._is_masked(name),
            count=samples,
            chance=random.Random(),  # noqa: S311 - any rows do
        )

    def _is_masked(self, name: TableName) -> bool:
        route = self._definitions.rules.routes.of(name)
        return route is not None and route.masks

    async def _is_same(self, name: TableName) -> bool:
        """Return whether a table is still published by the definitions that it is compared by."""
        now = await definitions_now(self._journal, self._source.facts)
        return now.is_same(self._definitions, name)

    async def _record(self, topic: str, part: int, at: int) -> StoredRecord | None:
        found = await read_first(
            self._journal.options,
            topic,
            part,
            start=at,
            wanted=lambda _: True,
            waits_for_open=False,
        )
        return found if found is not None and found.offset == at else None

    def _notes(self, name: TableName, partitions: Sequence[Partition]) -> list[str]:
        """Return what may explain that rows are missing or extra."""
        found = list[str]()
        snapshot = self._definitions.state.snapshots.all.get(name)
        if snapshot is not None and snapshot.is_pending:
            found.append("its existing rows are still being published")
        elif snapshot is not None and snapshot.is_open:
            found.append(
                "the reading of its existing rows is paused, and the others may be missing"
            )
        begins = max(self._beginnings[one] for one in partitions)
        if begins and not self._definitions.rules.compacted:
            found.append(
                f"the first {begins} offset(s) of its topic have expired, and rows with them may be missing"
            )
        route = self._definitions.rules.routes.of(name)
        if route is not None and not route.publishes_truncates:
            found.append("no TRUNCATE of it is published, so rows from before one may be extra")
        return found

    def _refused(
        self, topic: str, name: TableName, error: NotComparable | SnapshotUnsupported
    ) -> TableResult:
        return TableResult(name=name, topic=topic, not_compared=_reason(error))


def _reason(error: NotComparable | SnapshotUnsupported | TableUnreadable) -> str:
    """Why a table is not compared, and what to do if the source's table has to change."""
    advice = f". {error.advice}" if isinstance(error, TableUnreadable) else ""
    return printed(f"{error.detail}{advice}")


ReadRecord = Callable[[int, int], Awaitable[StoredRecord | None]]
"""Returns the record of a partition and offset of the topic, or None if it is gone."""
Show = Callable[[TableResult], object]
"""Receives a result as it grows."""

DEAD_LETTERS = "rows that cannot be decoded: their records would be dead letters"


class TableValidation:
    """One pass over one table."""

    def __init__(
        self,
        looks: Looks,
        result: TableResult,
        *,
        read_record: ReadRecord,
        show: Show,
        run: int,
    ) -> None:
        """``run``: a number that no other pass over the folded topic has."""
        self._looks, self._result, self._run = looks, result, run
        self._read_record, self._show = read_record, show
        self._folded: FoldedTopic = looks.folded

    async def whole(self) -> None:
        """Compare all rows."""
        after: After = None
        first: Places | None = None
        while True:
            look = await self._looks.at(after)
            await self._compare(look)
            first = first or look.began
            if look.is_last:
                break
            after = look.last
        self._count_unseen(first)

    async def samples(self, keys: Sequence[After]) -> None:
        """Compare a chunk of rows after each of these keys."""
        await self._compare(await self._looks.samples(keys))
        self._result.notes.append(
            f"only the rows after {len(keys)} random key(s) were compared, and no extra rows looked for"
        )

    async def _compare(self, look: Look) -> None:
        result = self._result
        result.rows += look.rows
        if look.dead_letters:
            result.unjudged[DEAD_LETTERS] += look.dead_letters
        for one in list(self._folded.compare(result.name, self._run)):
            await self._add(one)
        self._show(result)

    async def _add(self, one: Unequal) -> None:
        result, row = self._result, one.row
        if one.is_missing:
            result.add(Kind.MISSING, row.key, literals=row.literals or None)
        elif one.doubt is not None:
            result.unjudged[one.doubt] += 1
        else:
            columns = await self._columns(one) if result.lists_more else ()
            result.add(Kind.DIFFERENT, row.key, columns=columns, literals=row.literals or None)

    async def _columns(self, one: Unequal) -> tuple[str, ...]:
        """Return the columns in which a row differs from the last record of its key."""
        record = None if one.at is None else await self._read_record(*one.at)
        if record is None or not record.value:
            return ()
        image = self._folded.image_of(self._result.name, record)
        return () if image is None else differing(stored(image), one.row.image)

    def _count_unseen(self, first: Places) -> None:
        """Count the topic's rows that no look covered; rows written since the first look are not judged."""
        topic = self._result.topic
        for key, part, at in self._folded.unseen(self._result.name, self._run):
            if at < first[topic, part]:
                self._result.add(Kind.EXTRA, key)
            else:
                self._result.later += 1
        self._show(self._result)


def differing(one: bytes, other: bytes) -> tuple[str, ...]:
    """Return the names of the columns in which two stored images differ."""
    was, is_, absent = _exact(one), _exact(other), object()
    names = sorted(was.keys() | is_.keys())
    return tuple(name for name in names if was.get(name, absent) != is_.get(name, absent))


def _exact(image: bytes) -> dict[str, object]:
    """An image whose numbers are equal only if they are written equally."""
    found: dict[str, object] = json.loads(image, parse_float=_exact_number, parse_int=_exact_number)
    return found


def _exact_number(text: str) -> tuple[str, str]:
    return "number", text


Goals = Mapping[int, Order]
"""Epoch and seq of the last record in each partition of a share."""


async def wait_for_merge(
    folded: FoldedTopic,
    follower: Follower,
    partitions: Sequence[Partition],
    *,
    newest: Callable[[], Awaitable[Goals]],
    take: TakeFollowed,
    stalled_seconds: float = STALLED_SECONDS,
) -> None:
    """Wait until all that the destination has published by now is merged, and folded.

    ``partitions`` are those of the merged topic; ``newest`` reads the present goals. Raise PublishingStalled if
    none of its records is merged for ``stalled_seconds``.
    """
    goals, reached, moved = await newest(), folded.reached, time.monotonic()
    while missing := [at for at, goal in sorted(goals.items()) if reached.get(at, (0, 0)) < goal]:
        if time.monotonic() - moved > stalled_seconds:
            topic, part = partitions[0][0], missing[0]
            raise PublishingStalled(
                f"for {stalled_seconds:.0f} s no record of it is merged, and {topic} [{part}] ends "
                f"before seq {goals[part][1]}: the merge does not run, or waits",
                destination=folded.destination,
            )
        before = dict(reached)
        await read_some(follower, partitions, take)
        if reached != before:
            moved = time.monotonic()
