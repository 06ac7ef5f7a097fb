"""The limit of dead letters in an hour: none past it, whatever has restarted since."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import Row

from spark_sink.batch import dead_letters
from spark_sink.batch.contents import Contents, TablePart
from spark_sink.batch.dead_letters import PutAside, Reasons
from spark_sink.errors import (
    DataLost,
    MalformedRecord,
    RowNotInRecord,
    UnsupportedPartialImage,
    UnusableLimitReached,
)
from spark_sink.metrics import Metrics
from tests.harness.memory_warehouse import MemoryLetters

AT = ("aq.shop.t", 0)
NAME = ("shop", "t")


class Batch:
    """A batch that records what is asked of it."""

    def __init__(self) -> None:
        self.conditions: list[str] = []

    def where(self, condition: str) -> Batch:
        self.conditions.append(condition)
        return self

    def select(self, *_: str) -> Batch:
        return self

    def collect(self) -> list[Any]:
        """It has no half of a move."""
        return []


class Setting:
    """Dead letters that batches add to, at a time of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
        self.letters, self.metrics, self.now = MemoryLetters(), Metrics(), 1_000_000.0
        self.limit = limit
        self.gone: set[int] = set()
        monkeypatch.setattr(dead_letters, "_rows", self._rows)

    def _rows(self, _: object, owner: Any, reasons: Reasons, at_ms: int) -> list[dict[str, Any]]:
        at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
        return [
            {"topic": topic, "partition": partition, "offset": offset, "at": at}
            | {"database": owner[0], "table": owner[1], "error": error, "reason": reason}
            for (topic, partition, offset), (error, reason) in reasons.items()
            if offset not in self.gone
        ]

    def aside(self, until: int = 1000) -> PutAside:
        """What a batch of the offsets from 0 on begins with; each is one of a new process."""
        return PutAside(
            letters=self.letters,  # type: ignore[arg-type]
            metrics=self.metrics,
            limit=self.limit,
            records=Batch(),  # type: ignore[arg-type]
            moved=({AT: 0}, {AT: until}),
            clock=lambda: self.now,
        )

    def put(self, *offsets: int, until: int = 1000, name: tuple[str, str] = NAME) -> PutAside:
        aside = self.aside(until)
        aside.without(Batch(), name, malformed(offsets))  # type: ignore[arg-type]
        return aside

    def stored(self) -> list[int]:
        return sorted(offset for _, _, offset in self.letters.stored)


def malformed(offsets: Iterable[int]) -> MalformedRecord:
    fault = MalformedRecord("somewhere")
    fault.reasons = {(*AT, offset): f"reason {offset}" for offset in offsets}
    return fault


def test_the_first_record_past_the_limit_is_named_and_none_of_its_step_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(monkeypatch, 3)
    setting.put(4)
    with pytest.raises(UnusableLimitReached) as caught:
        setting.put(10, 11, 12)
    assert setting.stored() == [4]
    assert caught.value.where.startswith(
        "topic aq.shop.t, partition 0, offset 12: MalformedRecord: reason 12 (3 records of shop.t"
    )
    assert "1 dead letters in the last hour; unusable_limit is 3" in caught.value.where
    assert "reload shop.t --skip-unusable" in caught.value.advice
    setting.put(10, 11)
    with pytest.raises(UnusableLimitReached, match="offset 20"):
        setting.put(20, name=("shop", "other"))
    assert setting.stored() == [4, 10, 11]


def test_the_hour_moves_on_and_a_new_process_does_not_begin_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(monkeypatch, 2)
    setting.put(1)
    setting.now += 1800
    setting.put(2)
    setting.now += 1799
    with pytest.raises(UnusableLimitReached):
        setting.put(3)
    setting.now += 2
    setting.put(3)
    with pytest.raises(UnusableLimitReached):
        setting.put(4)
    assert setting.stored() == [1, 2, 3]


def test_dead_letters_of_a_batch_that_is_applied_again_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(monkeypatch, 3)
    counts = [
        (len(aside.found), aside.new)
        for aside in (setting.put(1, 2), setting.put(1, 2), setting.put(1, 2, 3))
    ]
    assert counts == [(2, 2), (2, 0), (3, 1)]
    value = setting.metrics.registry.get_sample_value
    labels = {"table": "shop.t", "error": "MalformedRecord"}
    assert value("aqueduct_sink_dead_letters_total", labels) == 3


def test_a_record_past_the_end_of_the_batch_is_omitted_and_not_yet_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(monkeypatch, 1)
    batch = Batch()
    setting.aside(until=5).without(batch, NAME, malformed([4, 5, 6]))  # type: ignore[arg-type]
    assert setting.stored() == [4]
    assert re.findall(r"^NOT .* IN \(([^)]*)\)", batch.conditions[-1]) == ["4, 5, 6"]


def test_a_row_that_lacks_columns_is_a_dead_letter_with_its_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(monkeypatch, 5)
    fault = UnsupportedPartialImage("somewhere")
    fault.places = [(*AT, 7)]
    setting.aside().without(Batch(), NAME, fault)  # type: ignore[arg-type]
    (letter,) = setting.letters.newest(9)
    assert (letter.offset, letter.error) == (7, "UnsupportedPartialImage")
    assert "lacks columns" in letter.reason


def test_a_row_that_lacks_columns_is_none_while_rows_from_before_a_rename_may_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(monkeypatch, 5)
    fault = UnsupportedPartialImage("somewhere")
    fault.places = [(*AT, 7)]
    aside = setting.aside()
    change = ("shop", ("shop", "s"), (1, 7))
    monkeypatch.setattr(dead_letters, "_followers", lambda _: {change})
    aside.is_late = lambda *one: one == change
    with pytest.raises(UnsupportedPartialImage) as caught:
        aside.without(Batch(), NAME, fault)  # type: ignore[arg-type]
    assert caught.value is fault
    assert setting.stored() == []


class Unusable(Batch):
    """A batch of one table whose records of these offsets cannot be used."""

    def __init__(self, *offsets: int) -> None:
        super().__init__()
        self.offsets = offsets

    def selectExpr(self, *_: str) -> Unusable:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[Any]:
        of = {"topic": AT[0], "partition": AT[1], "database": NAME[0], "table": NAME[1]}
        return [Row(**of, offset=one, reason=None, left_out="9000000") for one in self.offsets]

    def contents(self) -> Contents:
        part = TablePart(NAME, fault=RowNotInRecord("somewhere"), places={AT})
        return Contents(tables={NAME: part})


def test_a_table_does_not_wait_for_a_dead_letter_though_the_batch_has_no_other_record_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "contents", lambda _: Contents())
    setting, batch = Setting(monkeypatch, 2), Unusable(7, 8)
    given: Any = batch, batch.contents()
    assert setting.aside().sort_out(*given)[1].tables == {}
    assert setting.stored() == [7, 8]


def test_a_table_past_the_limit_waits_though_its_records_are_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "contents", lambda _: Contents())
    setting, batch = Setting(monkeypatch, 1), Unusable(7, 8)
    aside, given = setting.aside(), (batch, batch.contents())
    found = aside.sort_out(*given)[1]  # type: ignore[arg-type]
    # Its large values are not fetched, and what is fetched is without it.
    again = aside.sort_out(Unusable(), found)[1]  # type: ignore[arg-type]
    assert [type(one.tables[NAME].fault) for one in (found, again)] == [UnusableLimitReached] * 2
    assert setting.stored() == []


def test_an_error_that_names_no_record_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    setting, fault = Setting(monkeypatch, 5), MalformedRecord("nowhere")
    with pytest.raises(MalformedRecord) as caught:
        setting.aside().without(Batch(), NAME, fault)  # type: ignore[arg-type]
    assert caught.value is fault


def test_a_record_that_could_not_be_stored_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(monkeypatch, 5)
    setting.gone = {2}
    with pytest.raises(DataLost, match="offset 2"):
        setting.put(1, 2)
