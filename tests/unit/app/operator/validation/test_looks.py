"""While rows are written, every planted difference is found with its key, and nothing else is reported."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from typing import Any, cast

import orjson
import pytest

from app.audit.topics.topics import Claims
from app.operator.validation.errors import NotComparable, TableChanged
from app.operator.validation.folded_topic import FoldedTopic, SelectedRow
from app.operator.validation.looks import Looks
from app.operator.validation.table_result import TableResult
from app.operator.validation.topic_pass import TableValidation
from connectors.errors import SnapshotUnsupported, SourceLost, TableUnreadable
from connectors.kafka.reading import StoredRecord, read_to_ends
from connectors.mysql.select.chunk_reader import DefinitionChanged
from tests.unit.app.operator.validation.records import NAME, images, record, selected
from tests.unit.app.operator.validation.world import (
    CHUNK,
    PARTITION,
    Expected,
    Published,
    Reader,
    Topic,
    World,
)
from wire.validation import Kind

QUIET = range(100, 140)
"""Keys that no transaction changes."""
BUSY = range(100)


class Case:
    """A world, and the validation of its table."""

    def __init__(self, seed: int, **wrong: Any) -> None:
        chance = random.Random(seed)
        self.world = World(chance, BUSY, **wrong)
        self.world.fill({key: chance.randrange(1000) for key in (*BUSY[::2], *QUIET)})
        self.folded = FoldedTopic("shop", {NAME: images()}, Claims(None, Counter()))
        self.result = TableResult(name=NAME, topic=PARTITION[0], most_listed=1000)
        self.reader, self.published = Reader(self.world), Published(self.world)
        self.is_same = True

    def take(self, partition: Any, one: StoredRecord) -> None:
        self.folded.take(partition[1], one)

    async def record(self, _part: int, at: int) -> StoredRecord:
        return self.world.topic[at]

    def looks(self) -> Looks:
        async def is_same() -> bool:
            return self.is_same

        return Looks(
            name=NAME,
            reader=cast(Any, self.reader),
            expected=cast(Any, Expected()),
            folded=self.folded,
            follower=cast(Any, Topic(self.world)),
            partitions=[PARTITION],
            published=cast(Any, self.published),
            take=self.take,
            changes=0,
            is_same=is_same,
            seconds=0.0,
        )

    async def run(self) -> TableResult:
        looks = self.looks()
        with closing(self.folded):
            await read_to_ends(looks.follower, [PARTITION], self.take)
            validation = TableValidation(
                looks,
                self.result,
                read_record=self.record,
                show=lambda _: None,
                run=1,
            )
            await validation.whole()
        return self.result


def found(result: TableResult) -> dict[int, tuple[Kind, tuple[str, ...]]]:
    return {orjson.loads(one.key)["id"]: (one.kind, one.columns) for one in result.listed}


@pytest.mark.parametrize("seed", range(60))
async def test_equal_rows_are_equal_however_they_are_changed_meanwhile(seed: int) -> None:
    case = Case(seed)
    result = await case.run()
    assert (result.lines()[1:], result.differences) == (result.lines()[1:], 0), result.lines()
    assert result.is_complete
    assert result.rows >= len(QUIET)
    assert len(case.world.written) > 100, "nothing was written meanwhile"


@pytest.mark.parametrize("seed", range(20))
async def test_each_planted_difference_is_found_and_no_other(seed: int) -> None:
    wrong = {105: None, 120: 5000, 139: None, 700: 5, -3: 6}
    result = await Case(seed, wrong=wrong).run()
    assert found(result) == {
        105: (Kind.EXTRA, ()),
        139: (Kind.EXTRA, ()),
        120: (Kind.DIFFERENT, ("v",)),
        700: (Kind.MISSING, ()),
        -3: (Kind.MISSING, ()),
    }
    assert sorted(result.repairable) == [("-3",), ("120",), ("700",)]
    assert result.extra == [b'{"id":105}', b'{"id":139}']


async def test_of_rows_without_literals_none_is_kept_for_a_repair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def masked(_: Any, _name: Any, chunk: Any) -> tuple[list[SelectedRow], int]:
        rows = (selected(key, value) for key, value in chunk.found)
        return [one._replace(literals=()) for one in rows], 0

    monkeypatch.setattr(Expected, "of", masked)
    result = await Case(12, wrong={120: 5000, 700: 5}).run()
    assert {kind for kind, _ in found(result).values()} == {Kind.DIFFERENT, Kind.MISSING}
    assert result.repairable == []


async def test_a_row_that_changes_all_the_time_is_judged_too() -> None:
    case = Case(3)
    case.world.keys = range(1)
    case.world.wrong = {0: 77_777}
    case.world.limit = 5000
    result = await case.run()
    assert {key: kind for key, (kind, _) in found(result).items()} == {0: Kind.DIFFERENT}


async def test_samples_are_one_chunk_after_each_key_in_one_look() -> None:
    case = Case(4, wrong={120: 5000, 700: 5})
    looks = case.looks()
    validation = TableValidation(
        looks, case.result, read_record=case.record, show=lambda _: None, run=1
    )
    await read_to_ends(looks.follower, [PARTITION], case.take)
    await validation.samples([None, cast(Any, 117), cast(Any, 130)])
    assert case.result.rows == 3 * CHUNK
    assert found(case.result) == {120: (Kind.DIFFERENT, ("v",))}
    assert case.result.notes == [
        "only the rows after 3 random key(s) were compared, and no extra rows looked for"
    ]


async def test_a_look_at_a_table_that_is_emptied_meanwhile_is_repeated() -> None:
    case = Case(5)
    world, looks = case.world, case.looks()
    world.limit = 0
    await read_to_ends(looks.follower, [PARTITION], case.take)
    at = len(world.topic)
    world.topic.append(record(None, None, at=at, op="t"))
    world.written = [(key, None) for key, _ in world.written]
    look = await looks.at(None)
    assert (look.rows, look.is_last) == (0, True)
    # The topic was read on from after the TRUNCATE, the second time.
    assert look.began == {PARTITION: at + 1}
    assert list(case.folded.unseen(NAME, 1)) == []


async def test_what_changed_by_a_statement_is_not_compared_by_the_old_definition() -> None:
    case = Case(6)
    case.is_same = False

    class Changing(Published):
        async def settled(self) -> int:
            self.changes += 1
            return await super().settled()

    case.published = Changing(case.world)
    with pytest.raises(TableChanged):
        await case.run()


async def test_what_changed_before_the_first_look_is_noticed_too() -> None:
    case = Case(8)
    case.published.changes = 1
    looks = case.looks()
    await looks.at(None)
    case.published.changes = 2
    case.is_same = False
    with pytest.raises(TableChanged):
        await looks.at(None)
    # What was found to be no change of this table does not hide a later one.
    assert looks.changes == 1


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (DefinitionChanged("no column v"), NotComparable),
        (SnapshotUnsupported("a value of column 'v'"), SnapshotUnsupported),
        (TableUnreadable("SELECT command denied (error 1142)"), TableUnreadable),
    ],
)
async def test_a_table_that_cannot_be_read_is_tried_again_and_then_refused(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reported: type[Exception]
) -> None:
    monkeypatch.setattr("app.operator.validation.looks._AGAIN_SECONDS", 0.0)
    case, tries = Case(7), list[int]()

    class Failing(Reader):
        def read(self, _after: Any, _sees: Any) -> Any:
            tries.append(1)
            raise error

    case.reader = Failing(case.world)
    with pytest.raises(reported):
        await case.run()
    assert len(tries) == 5


class Failing(Reader):
    """A reader that fails some times at each place, and takes so many seconds of the clock."""

    def __init__(self, world: World, error: Exception, *, times: int, seconds: float = 0.0) -> None:
        super().__init__(world)
        self.error, self.times, self.seconds = error, times, seconds
        self.failed: Counter[Any] = Counter()
        self.now = 0.0

    def read(self, after: Any, sees: Any) -> Any:
        if self.failed[after] == self.times:
            return super().read(after, sees)
        self.failed[after] += 1
        self.now += self.seconds
        raise self.error


async def test_a_short_trouble_of_a_table_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.operator.validation.looks._AGAIN_SECONDS", 0.0)
    case = Case(9, wrong={120: 5000})
    case.reader = failing = Failing(case.world, TableUnreadable("killed (error 1317)"), times=2)
    result = await case.run()
    assert found(result) == {120: (Kind.DIFFERENT, ("v",))}
    assert len(failing.failed) > 3, "each chunk was tried again"


async def test_a_table_that_took_a_minute_to_fail_is_not_tried_again() -> None:
    case = Case(10)
    failing = Failing(case.world, TableUnreadable("locked"), times=9, seconds=61.0)
    looks = case.looks()
    looks.reader, looks.clock = cast(Any, failing), lambda: failing.now
    with pytest.raises(TableUnreadable, match="locked"):
        await looks.at(None)
    assert failing.failed.total() == 1


async def test_an_error_of_the_server_is_raised_at_once() -> None:
    case = Case(11)
    case.reader = failing = Failing(case.world, SourceLost("gone away"), times=9)
    with pytest.raises(SourceLost, match="gone away"):
        await case.run()
    assert failing.failed.total() == 1
