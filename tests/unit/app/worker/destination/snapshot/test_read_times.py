"""A merge waits for existing rows from before their SELECT until they are published."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from app.worker.destination.idle_source_progress import CompletenessWatch
from app.worker.destination.snapshot.read_times import LaneTimes, ReadTimes
from connectors.mysql.lookup.binlog_end import BinlogEnd
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.select.chunk_reader import ChunkReader
from connectors.mysql.select.read_views import ROW_LOCKED, RowLocked
from tests.unit.app.worker.destination.snapshot.test_table_reading import Stream, Table, reading_of

SOURCE_MS = 5_000


class Session:
    """The source's clock in a session; ``before`` is called when it is asked for."""

    def __init__(self, times: ReadTimes, answer: Any = b"5000") -> None:
        self._times, self._answer = times, answer
        self.stated_meanwhile: list[int | None] = []

    def execute(self, statement: str) -> None:
        assert "NOW(3)" in statement
        self.stated_meanwhile.append(self._times.stated(9_000))
        if isinstance(self._answer, Exception):
            raise self._answer

    def fetchone(self) -> tuple[Any]:
        return (self._answer,)


def test_no_time_after_a_select_is_stated_until_its_rows_are_published() -> None:
    times = ReadTimes(is_merged=True)
    lane, session = LaneTimes(times), Session(times)
    assert times.stated(4_000) == 4_000
    assert lane.asked(session) == SOURCE_MS
    # While the clock is asked for, its time is not known.
    assert session.stated_meanwhile == [None]
    assert (times.stated(4_900), times.stated(9_000)) == (4_900, SOURCE_MS)
    first = lane.hand_in()
    other = LaneTimes(times)
    assert other.asked(Session(times, b"6000")) == 6_000
    assert lane.hand_in() is None
    lane.publish(first)
    assert times.stated(9_000) == 6_000
    other.drop()
    assert times.stated(9_000) == 9_000


def test_a_select_that_is_tried_again_has_the_time_of_the_last_attempt() -> None:
    times = ReadTimes(is_merged=True)
    lane = LaneTimes(times)
    lane.asked(Session(times))
    lane.asked(Session(times, b"7000"))
    assert times.stated(9_000) == 7_000
    with pytest.raises(OSError, match="gone"):
        lane.asked(Session(times, OSError("gone")))
    assert times.stated(9_000) is None
    lane.drop()
    assert times.stated(9_000) == 9_000


def test_a_record_without_a_select_is_not_before_what_was_stated() -> None:
    times, ahead = ReadTimes(is_merged=True), time.time_ns() // 1_000_000 + 3_600_000
    times.stated(ahead)
    lane = LaneTimes(times)
    assert lane.without_select() == ahead
    assert times.stated(ahead + 5) == ahead
    lane.publish(lane.hand_in())
    assert times.stated(ahead + 5) == ahead + 5


def test_without_a_merge_the_source_is_not_asked() -> None:
    lane = LaneTimes(ReadTimes())
    before = time.time_ns() // 1_000_000
    assert before <= lane.asked(None) <= time.time_ns() // 1_000_000


def test_the_watch_states_what_may_be_stated_and_nothing_twice() -> None:
    allowed: list[int | None] = [None, 40, 40, 45, 100]
    watch = CompletenessWatch(None, lambda _: allowed.pop(0))  # type: ignore[arg-type]
    end = BinlogEnd(server_uuid="u", binlogs=(("b.000001", 4),), gtids=None)
    offset = SourceOffset(server_uuid="u", coordinates=Coordinates("b.000001", 4), gtid_set=None)
    watch._ends.append((100, end))
    assert [watch.news(offset) for _ in range(5)] == [None, 40, None, 45, 100]
    assert watch.news(offset) is None


async def test_each_chunk_ends_its_read_with_its_commit_or_its_refusal() -> None:
    times = ReadTimes(is_merged=True)
    open_ = list[int]()

    class Asking(Table):
        def read(self, after: Any, sees: Any) -> Any:
            lane.asked(Session(times))
            open_.append(len(times._times))
            return super().read(after, sees)

    refused = {2}

    def refuses(portion: Any) -> str | None:
        number = int(portion.read.rpartition(":")[2])
        if number not in refused:
            return None
        refused.remove(number)
        return "changed"

    table, stream = Asking(9), Stream(refuses)
    reading, shown = reading_of(table, stream, times=times)
    lane = reading._times
    committing = asyncio.create_task(stream.commit())
    try:
        async with asyncio.timeout(20):
            await reading.run()
    finally:
        committing.cancel()
    assert shown[-1].rows == 9
    assert max(open_) > 1
    assert times._times == {}


def test_a_select_whose_rows_are_locked_holds_nothing_back_until_it_is_tried_again() -> None:
    times = ReadTimes(is_merged=True)
    lane = LaneTimes(times)
    reader: Any = object.__new__(ChunkReader)
    reader._clock, waited = lane, list[str]()
    reader._views = SimpleNamespace(
        prove=lambda *_, **__: "", was_locked=lambda: waited.append("x")
    )
    reader._connection = SimpleNamespace(cursor=lambda: nullcontext(Session(times)))

    def locked(*_: object, **__: object) -> None:
        assert times.stated(9_000) == SOURCE_MS
        raise pymysql.OperationalError(min(ROW_LOCKED), "locked")

    reader._connection._execute_command = locked
    with pytest.raises(RowLocked):
        reader._packets("SELECT", Coordinates("b.000001", 4), SimpleNamespace(), None)
    assert waited == ["x"]
    assert times.stated(9_000) == 9_000
