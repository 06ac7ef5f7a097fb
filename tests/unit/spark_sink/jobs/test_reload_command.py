"""Reloads of several tables by one command."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import Any

import pytest

from spark_sink.errors import KeyChanged, ReloadRefused, RenamedWhileWaiting, TableReplaced
from spark_sink.jobs.reload_command import request_reloads
from spark_sink.text.quoting import OR_DISCARD, action
from spark_sink.warehouse.table_status import status_lines
from spark_sink.warehouse.waiting_tables import LOADED, Request, Waits
from tests.harness.memory_warehouse import MemoryWarehouse


def waiting(kept: MemoryWarehouse, **tables: tuple[type[Any], str]) -> Waits:
    waits = Waits(kept.log, lambda: 0.0)
    waits.refresh()
    for table, (kind, options) in tables.items():
        fault = kind(f"shop.{table}", advice=f"{action(('shop', table))}{options}")
        waits.begin(("shop", table), fault, {})
    return waits


def requests(*tables: str) -> list[Request]:
    return [Request(number=uuid.uuid4().hex, database="shop", table=one) for one in tables]


def test_one_command_reloads_all_tables_that_wait_for_the_same() -> None:
    kept = MemoryWarehouse()
    again = " --from-beginning"
    waits = waiting(
        kept,
        **{"it is": (KeyChanged, ""), "b": (KeyChanged, "")},
        c=(RenamedWhileWaiting, again), e=(KeyChanged, ""),
        d=(RenamedWhileWaiting, f"{again}{OR_DISCARD}python -m spark_sink reload shop.d --discard"),
        f=(TableReplaced, "; if it is refused, add --from-beginning"), g=(KeyChanged, " --only-new"),
    )  # fmt: skip
    waits.ask(Request(number="1", database="shop", table="e"))
    found = [line for line in status_lines(kept) if line.startswith("to reload")]
    assert found == [
        "to reload 2 of them: python -m spark_sink reload shop.b 'shop.it is'",
        "to reload 2 of them: python -m spark_sink reload shop.c shop.d --from-beginning",
    ]


def test_each_table_is_answered_by_itself_and_refusals_are_raised_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    kept = MemoryWarehouse()
    asks = waiting(kept, a=(KeyChanged, ""), b=(KeyChanged, ""), c=(KeyChanged, ""))
    sink = Waits(kept.log, lambda: 0.0)
    answers = iter("abc")

    def answered(_: float) -> bool:
        sink.refresh()
        request = {one.table: one for one in sink.requests}[next(answers)]
        held = sink.tables[request.name]
        if request.table == "b":
            sink.refuse(held, ReloadRefused("b has no topic"), request)
        else:
            sink.loaded(held, {}, request)
        return False

    with pytest.raises(ReloadRefused, match=r": shop\.b\. The lines above"):
        request_reloads(asks, requests("a", "b", "c"), timeout=60, stopped=answered)
    assert [one.getMessage().partition(": A")[0] for one in caplog.records] == [
        "reload requested table=shop.a, shop.b, shop.c; waiting for the sink",
        "table reloaded table=shop.a",
        "table=shop.b: ReloadRefused",
        "table reloaded table=shop.c",
    ]
    answers = iter("b")
    with pytest.raises(ReloadRefused, match="b has no topic"):
        request_reloads(asks, requests("b"), timeout=60, stopped=answered)


def test_what_ends_a_wait_is_stated_after_each_refusal() -> None:
    kept = MemoryWarehouse()
    waits = waiting(kept, a=(KeyChanged, ""), b=(KeyChanged, ""))
    ends = action(("shop", "a"))
    for advice, stated in (
        ("Try again later", f"Try again later. {ends}"),
        ("Try again later", f"Try again later. {ends}"),
        ("", f"Try again later. {ends}"),
        (f"{ends} --only-new", f"{ends} --only-new"),
    ):
        held = waits.tables["shop", "a"]
        waits.refuse(held, ReloadRefused("so", advice=advice), requests("a")[0])
        assert waits.tables["shop", "a"].action == stated
    ended = replace(waits.tables["shop", "b"], kind=LOADED, action="")
    waits.refuse(ended, ReloadRefused("b does not wait", advice="Add more"), requests("b")[0])
    assert waits.tables["shop", "b"].action == "Add more"


def test_those_that_no_sink_answers_are_named_and_a_stop_ends_the_wait() -> None:
    waits = waiting(MemoryWarehouse(), a=(KeyChanged, ""), b=(KeyChanged, ""))
    with pytest.raises(ReloadRefused, match=r"has reloaded shop\.a, shop\.b within 0 s"):
        request_reloads(waits, requests("a", "b"), timeout=0, stopped=lambda _: False)
    assert not request_reloads(waits, requests("a"), timeout=9, stopped=lambda _: True)
