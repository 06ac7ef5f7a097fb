"""Maintenance on request, through a running sink that also has other work."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from spark_sink.errors import MaintenanceIncomplete
from spark_sink.jobs.maintain import (
    MaintenanceRequest,
    Outcomes,
    RequestedMaintenance,
    ask,
    check,
    outcome_lines,
    request_row,
)
from spark_sink.settings.model import Maintenance as Plan
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.maintenance_schedule import Maintenance, Sources
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.table_status import status_lines
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness.memory_warehouse import MemoryUpkeep, MemoryWarehouse, memory_log

ALL = [("shop", "t"), ("shop", "u")]


class Sink:
    """A sink that maintains nothing but notes what it was asked for."""

    def __init__(self, log: SinkLog, name: str = "") -> None:
        self.done: list[Name] = []
        self.is_repaired = False
        self.waits = Waits(log, lambda: 1.0, sink=name)
        self.requested = RequestedMaintenance(
            waits=self.waits, maintain=self._maintain, tables=lambda: list(ALL), sink=name
        )

    def _maintain(self, name: Name) -> str:
        self.done.append(name)
        if name == ("shop", "x") and not self.is_repaired:
            return "ForeignTable: w/shop/x"
        return "there is no such table" if name == ("shop", "gone") else ""

    def work(self) -> None:
        """Takes all steps that are due."""
        self.waits.refresh()
        while step := self.requested.next():
            step()
            self.waits.refresh()


def request(log: SinkLog, number: str, *tables: Name, sink: str = "") -> None:
    asked = MaintenanceRequest(number=number, tables=tables, sink=sink)
    log.wait(request_row(asked, at_ms=int(number)))


def test_a_request_is_carried_out_once_and_again_after_a_restart_only_if_unanswered() -> None:
    log = memory_log()
    request(log, "1")
    request(log, "2", ("shop", "u"))
    sink = Sink(log)
    sink.work()
    assert sink.done == [*ALL, ("shop", "u")]
    sink.work()
    again = Sink(log)
    again.work()
    assert (len(sink.done), again.done) == (3, [])
    request(log, "3")
    killed = Sink(log)
    killed.waits.refresh()
    step = killed.requested.next()
    assert step is not None
    step()
    again.work()
    assert again.done == ALL


def test_a_sink_leaves_the_requests_for_another_and_states_of_tables_are_no_requests() -> None:
    log = memory_log()
    request(log, "1", sink="two")
    one, two = Sink(log), Sink(log, "two")
    Waits(log, lambda: 1.0).ask(Request(number="5", database="shop", table="t", sink="two"))
    one.work()
    two.work()
    assert (one.done, two.done) == ([], ALL)
    assert (one.waits.requests, [each.number for each in two.waits.requests]) == ([], ["5"])
    assert two.waits.tables == {}


def asked(log: SinkLog, *tables: Name, sink: Sink | None, timeout: float = 60) -> Outcomes:
    """What the command gets while a sink works beside it."""

    def stopped(_: float) -> bool:
        if sink is not None:
            sink.work()
        return False

    waits = Waits(log, lambda: 1.0)
    return ask(waits, tables, sink="", timeout=timeout, stopped=stopped)


@pytest.mark.remedy("sink.MaintenanceIncomplete")
def test_the_command_prints_each_table_and_fails_until_each_can_be_maintained() -> None:
    log = memory_log()
    found = asked(log, ("shop", "t"), ("shop", "gone"), ("shop", "x"), sink=Sink(log))
    assert outcome_lines(found) == [
        "shop.gone: not maintained: there is no such table",
        "shop.t: maintained",
        "shop.x: not maintained: ForeignTable: w/shop/x",
    ]
    with pytest.raises(MaintenanceIncomplete, match=r"2 of 3 tables: shop\.gone, shop\.x"):
        check(found)
    # Without the table that is none, and once the folder of the other one is free.
    repaired = Sink(log)
    repaired.is_repaired = True
    check(asked(log, ("shop", "t"), ("shop", "x"), sink=repaired))
    check(asked(log, sink=Sink(log)))


@pytest.mark.remedy("sink.MaintenanceIncomplete")
def test_a_request_that_nobody_answers_is_kept() -> None:
    log = memory_log()
    with pytest.raises(MaintenanceIncomplete, match=r"not answered within 0 s.*is kept"):
        asked(log, sink=None, timeout=0)
    waits = Waits(log, lambda: 1.0)
    with pytest.raises(MaintenanceIncomplete, match=r"was stopped.*is kept"):
        ask(waits, (), sink="", timeout=60, stopped=lambda _: False, ended=lambda: True)
    assert ask(waits, (), sink="", timeout=60, stopped=lambda _: True) == {}
    sink = Sink(log)
    sink.work()
    assert sink.done == [*ALL, *ALL, *ALL]


class Damaged(MemoryUpkeep):
    """A table's file is missing."""

    missing: Name | None = ("shop", "t")

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        if name == self.missing:
            raise OSError("part-0 does not exist")
        super().compact(name, seconds=seconds)

    def version(self, name: Name, *, at_least: bool = False) -> int:
        if name == self.missing and at_least:
            raise OSError("00000.json does not exist")
        return super().version(name, at_least=at_least)


@pytest.mark.remedy("sink.SparkFailed")
def test_a_table_that_cannot_be_maintained_stops_no_other_and_is_named_until_it_can() -> None:
    kept: Any = MemoryWarehouse()
    kept.upkeep = upkeep = Damaged(kept.tables)
    for name in ALL:
        kept.tables.evolve(None, Shape(*name, (("id", "int"),), ("id",)))
    counts: list[int] = []
    merged: Counter[Name] = Counter(dict.fromkeys(ALL, 5))
    maintenance = Maintenance(
        warehouse=kept,
        plan=Plan(every=5),
        complete_until=lambda: 0.0,
        busy_since=lambda: None,
        merged=merged,
        sources=Sources(notes=kept.notes, of_table=lambda _: (), newest={}),
        report=counts.append,
    )

    def all_due() -> dict[Name, str]:
        found = {}
        while (name := maintenance.due()) is not None:
            assert name not in found, "again and again"
            found[name] = maintenance.maintain(name)
        return found

    def lines() -> str:
        return "\n".join(status_lines(kept))

    found = all_due()
    assert (found[ALL[1]], "part-0 does not exist" in found[ALL[0]]) == ("", True)
    assert all_due() == {}, "not before the next batches"
    assert "maintenance: SparkFailed: part-0 does not exist" in lines()
    assert "Run: python -m spark_sink maintain shop.t" in lines()
    upkeep.missing = None
    assert maintenance.maintain(ALL[0]) == ""
    assert "maintenance" not in lines()
    assert (max(counts), counts[-1]) == (1, 0)
    upkeep.missing = ALL[0]
    maintenance.maintain(ALL[0])
    assert counts[-1] == 1
    kept.tables.drop(*ALL[0])
    maintenance.maintain(ALL[1])
    assert counts[-1] == 0, "the table is gone, and nothing else would end it"


def test_each_table_has_its_turn_though_all_are_due_again_after_each_batch() -> None:
    kept: Any = MemoryWarehouse()
    names = [("shop", name) for name in "abcd"]
    for name in names:
        kept.tables.evolve(None, Shape(*name, (("id", "int"),), ("id",)))
    merged: Counter[Name] = Counter()
    maintenance = Maintenance(
        warehouse=kept,
        plan=Plan(every=2),
        complete_until=lambda: 0.0,
        busy_since=lambda: None,
        merged=merged,
        sources=Sources(notes=kept.notes, of_table=lambda _: (), newest={}),
    )
    found = []
    for _ in range(8):
        merged.update(dict.fromkeys(names, 2))
        due = maintenance.due()
        assert due is not None
        assert maintenance.maintain(due) == ""
        found.append(due)
    assert sorted(found) == sorted(2 * names)


class Deadly(MemoryUpkeep):
    """A table of which the compaction needs more memory than there is."""

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        if name == ("shop", "t"):
            raise Ended
        super().compact(name, seconds=seconds)


class Ended(BaseException):
    """The process."""


def test_a_table_amid_whose_maintenance_the_process_ended_waits_for_the_next_round() -> None:
    kept: Any = MemoryWarehouse()
    kept.upkeep = Deadly(kept.tables)
    for name in ALL:
        kept.tables.evolve(None, Shape(*name, (("id", "int"),), ("id",)))

    def process(*, broke_off: bool) -> Maintenance:
        return Maintenance(
            warehouse=kept,
            plan=Plan(every=5),
            complete_until=lambda: 0.0,
            busy_since=lambda: None,
            merged=Counter(dict.fromkeys(ALL, 5)),
            sources=Sources(notes=kept.notes, of_table=lambda _: (), newest={}),
            broke_off=lambda: broke_off,
        )

    def all_due(maintenance: Maintenance) -> dict[Name, str]:
        found = {}
        while (name := maintenance.due()) is not None:
            found[name] = maintenance.maintain(name)
        return found

    # As it was stopped the first time, it is no fault of the table.
    for broke_off in (False, False):
        with pytest.raises(Ended):
            all_due(process(broke_off=broke_off))
    maintenance = process(broke_off=True)
    assert "the sink ended amid it" in all_due(maintenance)[ALL[0]]
    assert "raise driver_memory" in "\n".join(status_lines(kept))
    # After as many batches again.
    maintenance.merged.update(dict.fromkeys(ALL, 5))
    with pytest.raises(Ended):
        all_due(maintenance)
    kept.upkeep = MemoryUpkeep(kept.tables)
    maintenance = process(broke_off=True)
    assert "the sink ended amid it" in all_due(maintenance)[ALL[0]]
    assert maintenance.maintain(ALL[0]) == ""
    assert "maintenance" not in "\n".join(status_lines(kept))


def test_maintenance_that_the_end_of_the_sink_cuts_short_is_no_fault_of_the_table() -> None:
    kept: Any = MemoryWarehouse()
    kept.tables.evolve(None, Shape(*ALL[0], (("id", "int"),), ("id",)))

    def process(*, broke_off: bool = False) -> Maintenance:
        return Maintenance(
            warehouse=kept,
            plan=Plan(every=5),
            complete_until=lambda: 0.0,
            busy_since=lambda: None,
            sources=Sources(notes=kept.notes, of_table=lambda _: (), newest={}),
            broke_off=lambda: broke_off,
        )

    first = process()

    class Ending(MemoryUpkeep):
        """The sink ends, because of an error elsewhere, and Spark with it."""

        def compact(self, name: Name, *, seconds: float | None = None) -> None:
            first.end()
            kept.notes.write = None
            raise OSError(f"the JVM is gone: {name}, {seconds}")

    write, kept.upkeep = kept.notes.write, Ending(kept.tables)
    assert first.maintain(ALL[0]) == "the sink ended amid it"
    kept.notes.write, kept.upkeep = write, MemoryUpkeep(kept.tables)
    assert "maintenance" not in "\n".join(status_lines(kept))
    assert process(broke_off=True).maintain(ALL[0]) == ""


class Torn(MemoryUpkeep):
    """A table one of whose files a kill has left incomplete, so that it cannot be parsed."""

    at = ""
    """The step that reads the file."""

    def version(self, name: Name, *, at_least: bool = False) -> int:
        self._read(name, "version")
        return super().version(name, at_least=at_least)

    def compact(self, name: Name, *, seconds: float | None = None) -> None:
        self._read(name, "compact")
        super().compact(name, seconds=seconds)

    def _read(self, name: Name, step: str) -> None:
        if name == ALL[0] and step == self.at:
            json.loads('{"version": 1')


@pytest.mark.parametrize("step", ["version", "compact"])
def test_whatever_prevents_the_maintenance_of_a_table_is_that_table_s_fault(step: str) -> None:
    kept: Any = MemoryWarehouse()
    kept.upkeep = upkeep = Torn(kept.tables)
    for name in ALL:
        kept.tables.evolve(None, Shape(*name, (("id", "int"),), ("id",)))
    maintenance = Maintenance(
        warehouse=kept,
        plan=Plan(every=5),
        complete_until=lambda: 0.0,
        busy_since=lambda: None,
        merged=Counter(dict.fromkeys(ALL, 5)),
        sources=Sources(notes=kept.notes, of_table=lambda _: (), newest={}),
    )
    upkeep.at = step
    done = {}
    while (due := maintenance.due()) is not None:
        done[due] = maintenance.maintain(due)
    assert done.keys() == {*ALL}
    assert [name for name, why in done.items() if why] == [ALL[0]]
    assert "JSONDecodeError" in done[ALL[0]]
    assert ".".join(ALL[0]) in "\n".join(status_lines(kept))
    upkeep.at = ""
    assert maintenance.maintain(ALL[0]) == ""
    assert "maintenance" not in "\n".join(status_lines(kept))
