"""Retention of a schema history: only records covered by a later checkpoint are removed."""

from __future__ import annotations

from tables.history.codec import OLDEST, checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.history_retention import Expired, Retention
from tables.state.journal import state as journal
from tables.state.journal.state import DestinationState
from tests.unit.tables.made import (
    ORDERS,
    SERVER,
    WrittenJournal,
    applied,
    between,
    names_of,
    offset,
    table,
)

NEVER = 10**9


class Kept:
    """A journal with a statement at each hundred, and a checkpoint after every third one."""

    def __init__(self, count: int = 9) -> None:
        self.written = WrittenJournal()
        self.history = SchemaHistory()
        self.history.init("shop")
        first = self.history.baseline({ORDERS: table()}, {}, between(100), SERVER)
        self.commit(checkpoint_records(first))
        for number in range(1, count + 1):
            pos = 100 + 100 * number
            record = applied(self.history, pos, f"ALTER TABLE orders ADD c{number} INT")
            self.commit(history_records(record))
            if number % 3 == 0:
                made = self.history.checkpoint(between(pos + 50), made_ms=0)
                self.commit(checkpoint_records(made))

    def commit(self, entries: list[Entry], *, count: int | None = None) -> None:
        cursor = Cursor(
            destination="shop",
            installation="i",
            epoch=1,
            seq=1,
            versions=0,
            offset=offset(100),
            history=self.history.count if count is None else count,
        )
        key = journal.cursor_key("shop")
        self.written.write([*entries, (key, journal.encoded(cursor.to_json()))])

    def expired(self, expire_ms: int, *, needed: int | None = None) -> Expired:
        retention = Retention("shop")
        for record in self.written.records:
            retention.take(record)
        return retention.expired(expire_ms, needed=needed)

    def read(self) -> SchemaHistory:
        state = DestinationState.with_history_from("shop", OLDEST)
        for record in self.written.compacted():
            state.apply(record)
        if (base := state.other_base()) is not None:
            state = DestinationState.with_history_from("shop", base)
            for record in self.written.compacted():
                state.apply(record)
        history = state.history()
        assert history is not None
        return history


def kinds(expired: Expired) -> list[str]:
    """Offsets of records, and numbers of checkpoints."""
    found = []
    for key, _ in expired.entries:
        kind, _, *rest = key.decode().split("/")
        found.append(f"{kind} {rest[0] if kind == 'checkpoint' else rest[-1]}")
    return sorted(set(found))


def test_nothing_goes_while_no_checkpoint_is_old_enough() -> None:
    # The newest statement is of 1000 ms, the checkpoints of 100, 450, 750 and 1050.
    assert Kept().expired(951).entries == []
    assert Kept().expired(NEVER) == Expired(checkpoint=None, entries=[])


def test_the_newest_checkpoint_that_is_old_enough_is_the_new_beginning() -> None:
    expired = Kept().expired(300)
    assert expired.checkpoint == 3
    assert kinds(expired) == [
        "checkpoint 1",
        "checkpoint 2",
        "history 200",
        "history 300",
        "history 400",
        "history 500",
        "history 600",
        "history 700",
    ]


def test_every_place_of_the_time_that_is_kept_stays_within_reach() -> None:
    kept = Kept()
    kept.commit(kept.expired(300).entries)
    history = kept.read()
    assert history.checkpoints[0].number == 3
    for pos, count in ((750, 7), (801, 8), (1001, 10)):
        assert len(names_of(history.at(offset(pos)).find(*ORDERS))) == count


def test_a_second_time_nothing_more_goes() -> None:
    kept = Kept()
    kept.commit(kept.expired(300).entries)
    assert kept.expired(300) == Expired(checkpoint=3, entries=[])


def test_the_cursor_stays_within_reach_when_it_has_gone_back() -> None:
    kept = Kept()
    kept.commit([], count=4)
    expired = kept.expired(0)
    assert expired.checkpoint == 2
    assert "history 500" not in kinds(expired)
    kept.commit(expired.entries, count=4)
    assert kept.read().count == 4


def test_what_is_needed_otherwise_stays_within_reach() -> None:
    kept = Kept()
    expired = kept.expired(0, needed=5)
    assert expired.checkpoint == 2
    kept.commit(expired.entries)
    assert len(names_of(kept.read().at(offset(650)).find(*ORDERS))) == 6


def test_all_before_a_new_baseline_goes_when_that_is_old_enough() -> None:
    kept = Kept()
    anew = kept.history.baseline({ORDERS: table("n")}, {}, between(2000), SERVER)
    kept.commit(checkpoint_records(anew))
    expired = kept.expired(0)
    assert expired.checkpoint == 5
    assert len([key for key, _ in expired.entries if key.startswith(b"history/")]) == 9
    kept.commit(expired.entries)
    assert names_of(kept.read().find(*ORDERS)) == ["id", "n"]


def test_parts_of_a_checkpoint_that_never_got_its_head_go() -> None:
    kept = Kept(count=2)
    broken = kept.history.checkpoint(between(310), made_ms=0)
    kept.commit(checkpoint_records(broken)[:-1])
    assert kept.expired(NEVER).entries == []
    made = kept.history.checkpoint(between(320), made_ms=0)
    kept.commit(checkpoint_records(made))
    assert kinds(kept.expired(NEVER)) == ["checkpoint 2"]


def test_a_source_where_nothing_happens_loses_nothing() -> None:
    kept = Kept(count=1)
    # However long ago by the clock: the baseline is of 100 ms and the last statement of 200 ms.
    assert kept.expired(101).entries == []


def test_other_destinations_are_none_of_it() -> None:
    kept = Kept()
    retention = Retention("another")
    for record in kept.written.records:
        retention.take(record)
    assert retention.expired(0) == Expired(checkpoint=None, entries=[])
