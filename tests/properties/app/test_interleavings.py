"""Two workers, a broker and two servers in any order of turns, while they die and lose each other."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from connectors.errors import AqueductError
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.state import DestinationState
from tests.properties.app.interleaved.broker import Broker
from tests.properties.app.interleaved.servers import both
from tests.properties.app.interleaved.worker import (
    DESTINATION,
    ID,
    JOURNAL,
    Fate,
    Worker,
    delivered,
)
from tests.properties.examples import examples
from tests.unit.app.worker.pipeline.actions import Action, RowsOf, cuts, transactions
from tests.unit.app.worker.pipeline.runs import RULES, WHOLE, Record, read_batches

TOPICS = [("aq.shop.orders", 0), ("aq.shop.log", 0), ("aq.__ddl.shop", 0)]
WHO = st.sampled_from([0, 1])
MOST = 6
"""Transactions of a source."""
ROWS = RowsOf(("shop", "orders"), "c", ((1, 1), (2, 2)))
EXAMPLES = int(os.environ.get("INTERLEAVINGS", "0")) or examples(150)
"""Orders that are tried; thousands take minutes."""
ENOUGH = 2000
"""Steps within which a worker that nobody disturbs has published everything."""


class Interleavings(RuleBasedStateMachine):
    """The rules are what may happen at any moment; the invariants are what subscribers were promised."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.broker = Broker()
        self.history: list[list[Action]] = []
        self.workers = [self._worker(), self._worker()]
        self.runs: list[asyncio.Task[None] | None] = [None, None]
        self.published_by = RULES
        self.sources = both([[]])

    def _worker(self) -> Worker:
        return Worker(self.broker, lambda: self.sources)

    @initialize(first=transactions, max_bytes=st.sampled_from([1, 300, WHOLE]))
    def begin(self, first: list[Action], max_bytes: int) -> None:
        self.write(first)
        self.published_by = replace(RULES, max_bytes=max_bytes, markers=False)

    # What a source does.

    @precondition(lambda self: len(self.history) < MOST)
    @rule(more=transactions)
    def write(self, more: list[Action]) -> None:
        self.history.append(more)
        self.sources = both(self.history)

    # What workers do.

    @rule(who=WHO, server=WHO, cut=cuts)
    def lead(self, who: int, server: int, cut: Any) -> None:
        """With no regard to who leads: a lock in ZooKeeper may be believed by two."""
        if self._is_running(who):
            return
        self.runs[who] = self.loop.create_task(
            self.workers[who].lead(server=server, cut=cut, rules=self.published_by)
        )
        self._settle()

    @rule(who=WHO, times=st.integers(1, 12))
    def proceed(self, who: int, times: int) -> None:
        for _ in range(times):
            self._let(who, Fate.ANSWERED)

    @rule(who=WHO, times=st.integers(1, 8))
    def fold(self, who: int, times: int) -> None:
        self.workers[who].fold(times)

    # What befalls them.

    @rule(who=WHO, fate=st.sampled_from([Fate.LOST, Fate.ANSWER_LOST]))
    def cut_off(self, who: int, fate: Fate) -> None:
        self._let(who, fate)

    @rule(who=WHO, is_empty=st.booleans())
    def kill(self, who: int, is_empty: bool) -> None:
        """The process is gone; its tables come back from their changelogs, or not."""
        self._end(who)
        rows = self.workers[who].checkpoint.rows
        folded = self.workers[who].folded
        self.workers[who] = self._worker()
        if not is_empty:
            self.workers[who].checkpoint.rows.update(rows)
            self.workers[who].folded = folded

    @rule()
    def time_out(self) -> None:
        self.broker.time_out(ID)

    @rule()
    def compact(self) -> None:
        self.broker.compact(JOURNAL, keeps=lambda key: not key)

    # What must hold.

    @invariant()
    def nothing_is_repeated_or_out_of_order(self) -> None:
        records = self._records()
        numbered = self._numbered()
        assert [one.seq for one in numbered] == [*range(1, len(numbered) + 1)]
        expected = [one for one in self.sources[0].changes() if one[1] != "tombstone"]
        assert [_described(one) for one in numbered] == expected[: len(numbered)]
        for topic, _ in TOPICS:
            found = [one for one in records if one.topic == topic and one.value]
            assert [one.seq for one in found] == sorted(one.seq for one in found)
            epochs = [one.value["source"]["epoch"] for one in found]
            assert epochs == sorted(epochs)

    @invariant()
    def the_cursor_is_where_the_records_are(self) -> None:
        cursor = self._cursor()
        if cursor is None:
            assert not self._records()
            return
        assert cursor.seq == len(self._numbered())
        if cursor.resume is None:
            names = {name for _, _, name, _ in self.sources[0].changes()}
            behind = delivered(cursor)
            ended = sum(int(name.split(":")[-1].split("#")[0]) <= behind for name in names)
            values = {_described(one)[2] for one in self._numbered()}
            assert len(values) == ended

    @invariant()
    def only_what_passes_by_itself_ends_a_run(self) -> None:
        for run, worker in zip(self.runs, self.workers, strict=True):
            if run is not None and run.done() and not run.cancelled() and run.exception():
                raise AssertionError(f"{run.exception()!r}") from run.exception()
            assert worker.ended is None or isinstance(worker.ended, AqueductError)

    def teardown(self) -> None:
        try:
            self._end(1)
            self._end(0)
            for _ in range(ENOUGH if self.history else 0):
                if not self._is_running(0):
                    self.lead(0, 0, (True,))
                self._let(0, Fate.ANSWERED)
                cursor = self._cursor()
                if cursor is not None and delivered(cursor) == len(self.history):
                    break
            self.nothing_is_repeated_or_out_of_order()
            published = [_described(one) for one in self._numbered()]
            changes = self.sources[0].changes() if self.history else ()
            assert published == [one for one in changes if one[1] != "tombstone"]
        finally:
            self._end(0)
            self.loop.close()

    # How.

    def _is_running(self, who: int) -> bool:
        run = self.runs[who]
        return run is not None and not run.done()

    def _let(self, who: int, fate: Fate) -> None:
        if self._is_running(who) and self.workers[who].link.waits:
            self.workers[who].link.let(fate)
            self._settle()

    def _end(self, who: int) -> None:
        run = self.runs[who]
        if run is not None and not run.done():
            run.cancel()
            self._settle()
        self.runs[who] = None

    def _settle(self) -> None:
        """Let all continue until each waits for an answer or has ended."""
        for _ in range(6):
            self.loop.run_until_complete(asyncio.sleep(0))

    def _records(self) -> list[Record]:
        return [
            record
            for topic, partition in TOPICS
            for one in self.broker.seen((topic, partition))
            for record in _read(topic, partition, one.value)
        ]

    def _numbered(self) -> list[Record]:
        """Without tombstones, which share a number."""
        return sorted((one for one in self._records() if one.value), key=lambda one: one.seq)

    def _cursor(self) -> Cursor | None:
        found = [
            one for one in self.broker.seen(JOURNAL) if one.key == journal.cursor_key(DESTINATION)
        ]
        if not found:
            return None
        return Cursor.from_json(journal.decoded(found[-1]))


@cache
def _read(topic: str, partition: int, raw: bytes) -> list[Record]:
    return list(read_batches(topic, partition, raw))


def _described(record: Record) -> Any:
    name = next(value.decode() for key, value in record.headers if key == "change_id")
    return record.topic, record.op, name, None if record.key is None else record.key.decode()


def test_whatever_happens_in_whatever_order_each_change_is_published_once() -> None:
    run_state_machine_as_test(
        Interleavings,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None),
    )


def two_leaders() -> None:
    """The first one is within a transaction when the second one takes over."""
    one = Interleavings()
    try:
        one.begin([ROWS], WHOLE)
        one.lead(0, 0, (True,))
        one.proceed(0, 5)
        one.lead(1, 0, (True,))
        one.proceed(1, 40)
        one.proceed(0, 40)
        one.nothing_is_repeated_or_out_of_order()
        one.the_cursor_is_where_the_records_are()
    finally:
        one.teardown()


def an_old_checkpoint() -> None:
    """A worker's tables are older than the last that it published."""
    one = Interleavings()
    try:
        one.begin([ROWS], WHOLE)
        one.lead(0, 0, (True,))
        one.proceed(0, 4)
        one.fold(0, 8)
        assert one.workers[0].checkpoint.rows
        one.proceed(0, 40)
        one.kill(0, is_empty=False)
        one.lead(0, 1, (True,))
        one.proceed(0, 40)
        one.nothing_is_repeated_or_out_of_order()
        one.the_cursor_is_where_the_records_are()
    finally:
        one.teardown()


def test_two_leaders_and_an_old_checkpoint_change_nothing() -> None:
    two_leaders()
    an_old_checkpoint()


def test_without_fencing_two_leaders_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_producer(self: Broker, name: str, _epoch: int) -> Any:
        return self.owners[name]

    monkeypatch.setattr(Broker, "owner", any_producer)
    with pytest.raises(AssertionError):
        two_leaders()


def test_a_checkpoint_that_is_believed_without_the_journal_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def believe(self: Worker, state: DestinationState, start: int) -> None:
        if not start:
            await read(self, state, start)

    read = Worker.read
    monkeypatch.setattr(Worker, "read", believe)
    with pytest.raises(AssertionError):
        an_old_checkpoint()
