"""Replacements of all rows of a source table: which are open, and what is stored of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from spark_sink.batch import contents
from spark_sink.batch.contents import Replacements, published_again
from spark_sink.errors import RowNotInRecord
from spark_sink.source.positions import Place
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness.memory_warehouse import MemoryWarehouse

WEST, EAST = Source("west", "shop", "t_1"), Source("east", "shop", "t_2")
NAME = ("shop", "t")


def begun(of: Source, at: Place) -> Replacements:
    return Replacements(begun={of: at})


def ended(of: Source, at: Place) -> Replacements:
    return Replacements(ended={of: at})


def of(*found: Replacements) -> dict[Source, Place]:
    """Those that are open."""
    result = Replacements()
    for one in found:
        result.add(one)
    return result.open


def test_a_replacement_is_open_until_an_end_of_its_own_source_that_is_not_before_it() -> None:
    assert of(begun(WEST, (1, 5))) == {WEST: (1, 5)}
    assert of(begun(WEST, (1, 5)), ended(EAST, (1, 9))) == {WEST: (1, 5)}
    # Of an empty table, the number before the end is that of the beginning.
    assert of(begun(WEST, (1, 5)), ended(WEST, (1, 5))) == {}
    assert of(begun(WEST, (1, 5)), ended(WEST, (2, 1))) == {}
    assert of(ended(WEST, (1, 9)), begun(WEST, (1, 5))) == {}


def test_a_second_replacement_ends_the_first() -> None:
    both = begun(WEST, (1, 5)), begun(WEST, (1, 20))
    assert of(*both, ended(WEST, (1, 9))) == {WEST: (1, 20)}
    assert of(*both, ended(WEST, (1, 30))) == {}


def group(version: int | None, **more: Any) -> Row:
    """A group of a batch's records, as Spark counts them."""
    counts = dict.fromkeys(contents._COUNTED, 0) | {"records": 1, "size": 1, "claims": []}
    ends = dict.fromkeys(("oldest", "newest", "first", "last", "committed", "existing"))
    names = ("shop", "t_1", "shop", "t", version)
    of = dict(zip(contents._GROUP, ("aq.t", 0, "west", *names), strict=True))
    return Row(**(of | counts | ends | more))


def detail(**more: Any) -> Row:
    return Row(**(contents._NOTHING.asDict() | more))


@pytest.mark.parametrize("is_first", [False, True])
def test_an_unusable_record_hides_neither_the_beginning_nor_the_end_of_a_replacement(
    *, is_first: bool
) -> None:
    left_out = Row(topic="aq.t", partition=0, offset=7, left_out="9000000")
    unusable = group(1, omitted=1), detail(left_out=left_out)
    begins = group(2, op_t=1), detail(begun=Row(epoch=1, seq=5), truncate=Row(epoch=1, seq=5))
    ends = group(None, ends=1), detail(ended=Row(epoch=1, seq=9))
    rows = [unusable, begins, ends] if is_first else [begins, ends, unusable]
    part = contents._gathered(rows).tables[NAME]
    assert isinstance(part.fault, RowNotInRecord)
    west = Source("west", "shop", "t")
    assert (part.replaced.begun, part.replaced.ended) == ({west: (1, 5)}, {west: (1, 9)})


def test_the_open_ones_of_a_waiting_table_are_stored_and_gone_with_its_wait() -> None:
    log = MemoryWarehouse().log
    waits = Waits(log, lambda: 1.0)
    fault = published_again(NAME, [WEST, EAST])
    assert "python -m app snapshot start east shop.t_2 --replace" in fault.advice
    assert "python -m spark_sink reload shop.t" in fault.advice
    waits.begin(NAME, fault, {("aq.t", 0): 3})
    waits.replaces(NAME, {WEST: (1, 5), EAST: (2, 7)})
    again = Waits(log, lambda: 1.0)
    again.refresh()
    held = again.tables[NAME]
    assert dict(held.replacing) == {WEST: (1, 5), EAST: (2, 7)}
    assert (held.waits_for, held.offsets) == ("RowsPublishedAgain", {("aq.t", 0): 3})
    number = len(log.rows())
    again.replaces(NAME, dict(held.replacing))
    assert len(log.rows()) == number, "nothing new is stored"
    request = Request(number="1", database="shop", table="t", replaced=True)
    again.ask(request)
    again.refresh()
    assert again.requests == [request]
    again.loaded(again.tables[NAME], {("aq.t", 0): 9}, request)
    waits.refresh()
    assert (waits.tables[NAME].replacing, waits.requests, waits.waiting(NAME)) == ((), [], None)


def test_a_request_of_an_operator_is_stored_as_before() -> None:
    first = (
        '"number": "1", "database": "shop", "table": "t", "from_beginning": false, "only_new": false, '
        '"skip_unusable": false, "time_zone": "", "topics": []'
    )
    request = Request(number="1", database="shop", table="t")
    assert request.text() == f'{{"version": 1, {first}}}'
    given = replace(request, sink="s", load="4", unknown_as_null=True, discard=True, replaced=True)
    more = '"sink": "s", "load": "4", "unknown_as_null": true, "discard": true, "replaced": true'
    assert given.text() == f'{{"version": 1, {first}, {more}}}'
