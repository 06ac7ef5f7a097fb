"""Source selection: in order, after a number of failures, or on request; a restart keeps the selection."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app import metrics
from app.worker.destination.failover.cursor_translation import TranslatedCursor
from app.worker.destination.failover.source_selection import SelectedSource, Sources
from app.worker.destination.plan import Failover, Plan, Source
from connectors.errors import (
    AqueductError,
    LostInReplication,
    NoSourceFits,
    PreflightError,
    SourceLost,
)
from connectors.kafka.reading import StoredRecord
from connectors.mysql.lookup.fingerprint import Fingerprint
from connectors.mysql.lookup.start import AfterGtids
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tables.state.operator_requests import SourceRequest, source_note

NAMES = ("a", "b", "c")


class World:
    """Three servers, what is wrong with each, and a destination that asks them."""

    def __init__(self, **failover: Any) -> None:
        self.faults: dict[str, AqueductError] = {}
        self.state = DestinationState("shop")
        self.described: list[str] = []
        self.sources = self._new(Failover(**failover))
        self._offset = 0

    def _new(self, failover: Failover) -> Sources:
        # A start that no dictionary takes.
        start = AfterGtids(MariadbGtidList.parse("0-1-9"))
        listed = tuple(Source(address=address(name), start=start) for name in NAMES)
        plan = SimpleNamespace(name="shop", sources=listed, failover=failover, rules=None)
        return Sources(cast(Plan, plan))

    def restart(self) -> None:
        self.sources = self._new(self.sources.failover)

    def lose(self, *names: str) -> None:
        for name in names:
            self.faults[name] = SourceLost("refused")

    def ask(self, name: str) -> None:
        self.note(
            source_note(
                SourceRequest(
                    destination="shop",
                    id=f"w{self._offset}",
                    address=f"{name}:3306",
                    by="me",
                    ts_ms=1,
                )
            )
        )

    def note(self, entry: tuple[bytes, bytes]) -> None:
        self._offset += 1
        self.state.apply(StoredRecord(*entry, self._offset))

    def select(self) -> str:
        selected: SelectedSource = self.sources.select(
            self.state, self._judge, self.described.append
        )
        for entry in selected.notes:
            self.note(entry)
        return selected.source.address.host

    def _judge(self, source: Source) -> tuple[SourceAddress, ServerFacts]:
        name = source.address.host
        if name in self.faults:
            raise self.faults[name]
        return source.address, cast(ServerFacts, SimpleNamespace(server_uuid=f"uuid-{name}"))


def address(name: str) -> SourceAddress:
    return SourceAddress(host=name, port=3306, user="u", password="", server_id=5, replica_uuid="")


def test_another_one_is_read_after_so_many_failures_and_not_before() -> None:
    world = World(retries=3)
    assert world.select() == "a"
    world.lose("a")
    for _ in range(2):
        with pytest.raises(SourceLost):
            world.select()
    assert world.select() == "b"
    assert world.state.source_choice.current is not None
    assert "a:3306 was given up: SourceLost: refused" in world.state.source_choice.current.why


def test_an_answer_in_between_begins_the_count_again() -> None:
    world = World(retries=2)
    world.lose("a")
    with pytest.raises(SourceLost):
        world.select()
    world.faults.clear()
    assert world.select() == "a"
    world.lose("a")
    with pytest.raises(SourceLost):
        world.select()


def test_a_heartbeat_that_failed_counts_as_all_of_them() -> None:
    world = World(retries=3)
    assert world.select() == "a"
    world.sources.silent()
    assert world.select() == "b"


def test_one_that_is_unfit_is_passed_over_and_the_list_goes_round() -> None:
    world = World(retries=1)
    world.lose("a")
    world.faults["b"] = PreflightError("log_bin is OFF")
    assert world.select() == "c"
    world.faults.clear()
    world.lose("c")
    assert world.select() == "a"


def test_none_that_fits_is_reported_with_the_reason_of_each() -> None:
    world = World(retries=1)
    world.lose("a", "c")
    world.faults["b"] = PreflightError("log_bin is OFF")
    with pytest.raises(NoSourceFits) as caught:
        world.select()
    for text in ("a:3306: SourceLost", "b:3306: PreflightError: log_bin is OFF", "c:3306"):
        assert text in str(caught.value)


def test_a_restart_stays_with_it_and_nothing_goes_back_by_itself() -> None:
    world = World(retries=1)
    world.lose("a")
    assert world.select() == "b"
    world.faults.clear()
    world.restart()
    assert world.select() == "b"


def test_an_earlier_one_is_gone_back_to_where_that_is_wanted_and_it_is_fit() -> None:
    world = World(retries=1)
    world.lose("a")
    assert world.select() == "b"
    world.sources.prefers_first = True
    assert world.select() == "b"
    world.faults.clear()
    world.sources.prefers_first = True
    assert world.select() == "a"


def test_a_look_at_an_earlier_one_leads_nobody_back_before_it_was_fit_for_long_enough() -> None:
    world = World(retries=1, back=True)
    world.lose("a")
    assert world.select() == "b"
    world.faults.clear()
    first = world.sources.sources[0]
    assert world.sources.fits(first, world.state, None)
    # Whatever begins a new run meanwhile.
    assert world.select() == "b"
    world.sources.go_back()
    assert world.select() == "a"
    assert world.state.source_choice.current is not None
    assert "it is fit again, and comes before b:3306" in world.state.source_choice.current.why


def test_where_it_is_disabled_only_an_operator_switches() -> None:
    world = World(retries=1, automatic=False)
    world.lose("a")
    for _ in range(5):
        with pytest.raises(SourceLost):
            world.select()
    world.ask("c")
    assert world.select() == "c"


def test_a_wish_is_tried_once_and_its_outcome_is_kept() -> None:
    world = World(retries=3)
    assert world.select() == "a"
    world.faults["b"] = PreflightError("log_bin is OFF")
    world.ask("b")
    assert world.select() == "a"
    current = world.state.source_choice.current
    assert current is not None
    assert (current.answers, current.refused) == ("w0", "PreflightError: log_bin is OFF")
    world.faults.clear()
    assert world.select() == "a"
    world.ask("nobody")
    assert world.select() == "a"
    current = world.state.source_choice.current
    assert current is not None
    assert current.refused == "it is not among the sources"


def test_what_a_move_costs_is_logged_where_it_is_made_and_not_at_each_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(retries=1, back=True)
    cursor = Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=1,
        versions=0,
        offset=SourceOffset(server_uuid="uuid-b", coordinates=Coordinates("b.000001", 4)),
    )
    world.state.cursor = cursor
    position = replace(cursor.offset, server_uuid="uuid-a", coordinates=Coordinates("a.000009", 44))
    lost = tuple(cast(Fingerprint, f"transaction {n}") for n in range(7))
    loss = LostInReplication("7 transaction(s) of server uuid-b")
    moved = TranslatedCursor(offset=position, lost=lost, loss=loss, skipped=16, clock_skew_ms=-2500)
    monkeypatch.setattr(
        "app.worker.destination.failover.source_selection.CursorTranslation.moved", lambda *_: moved
    )
    world.lose("a")
    assert world.select() == "b"
    world.faults.clear()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="app"):
        for _ in range(3):
            assert world.sources.fits(world.sources.sources[0], world.state, cursor)
        assert caplog.records == []
        world.sources.go_back()
        assert world.select() == "a"
    for text in (
        "shop: the clocks of the sources differ by -2500 ms",
        "7 transaction(s) of server uuid-b",
        "shop: lost in replication: transaction 6",
        "shop: 16 transaction(s) of a:3306 were published already, and it resumes after a.000009:44",
    ):
        assert caplog.text.count(text) == 1, text


def test_where_no_heartbeat_is_made_any_more_its_failures_are_not_exported() -> None:
    world = World(automatic=False)
    world.select()
    metrics.HEARTBEAT_FAILURES.labels("shop").set(2)
    world.sources.heartbeat(address("a"), world.state, cast(Any, None), reached=cast(Any, int))
    value = metrics.REGISTRY.get_sample_value
    assert value("aqueduct_source_heartbeat_failures", {"destination": "shop"}) is None
