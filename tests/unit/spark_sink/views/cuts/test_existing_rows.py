"""Cuts among rows that existed already, which enter the stream between transactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_sink.errors import TableNotInCut
from spark_sink.views.cuts.cut_positions import Run, timed
from spark_sink.views.cuts.cut_tables import cut_lines
from spark_sink.warehouse.milestones import Position
from tests.unit.spark_sink.conftest import Warehouse
from tests.unit.spark_sink.views.cuts.bank import Bank
from tests.unit.spark_sink.views.cuts.test_cut_tables import Sink, held

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize("is_merged", [False, True], ids=["recent", "merged"])
@pytest.mark.long("runs of existing rows have the time of the commit before them")
def test_a_table_is_in_no_cut_before_the_last_of_its_rows_that_existed_already(
    warehouse: Warehouse, is_merged: bool
) -> None:
    bank = Bank(seed=11)
    sink = Sink(warehouse, bank)
    for table in ("a", "", "a", ""):
        bank.transfer()
        if table:
            bank.read(table)
    bank.settle()
    sink.store()
    if is_merged:
        sink.merge(sink.rows())
        bank.transfer()
        bank.settle()
        sink.store()
    _, first, read, _, third, read_again, last, *_ = sorted(bank.states)[1:]
    for seq in (first, third):
        cut = sink.cut(bank.ids[seq])
        assert (cut.positions["shop"].seq, cut.known()) == (seq, [("shop", "a"), ("shop", "b")])
        with pytest.raises(
            TableNotInCut, match=rf"shop\.a: rows .* up to epoch 1, seq {read_again} "
        ):
            cut.table("shop", "a")
        assert held(cut) == {"a": {}, "b": bank.states[seq]["b"]}
        assert any(
            line.startswith("shop.a: not in the cut: rows that existed before were still read")
            for line in cut_lines(cut)
        )
    for seq in (read_again, last):
        assert held(sink.cut(bank.ids[seq])) == bank.states[seq]
    assert sink.cut(("shop", read + 1)).positions["shop"].transaction == bank.ids[read]


@pytest.mark.parametrize(
    "publish",
    [
        pytest.param(Bank.read, id="read"),
        pytest.param(
            Bank.remove,
            id="removed",
            marks=pytest.mark.long("batch/test_existing_rows.py has the time of each batch"),
        ),
    ],
)
def test_a_time_is_that_of_commits_and_not_of_rows_that_existed_already(
    warehouse: Warehouse, publish: Callable[[Bank, str], str]
) -> None:
    bank = Bank(seed=13)
    sink = Sink(warehouse, bank)

    def merged() -> int:
        """Merges a batch that has whole transactions; returns the last change."""
        bank.settle()
        sink.merge(
            {at: end for at, end in bank.ends().items() if at[0].startswith("aq.shop.")},
            is_whole=True,
        )
        return max(bank.states)

    first = merged()
    bank.transfer()
    publish(bank, "b")
    second = merged()
    publish(bank, "a")
    assert sink.cut().positions["shop"].seq == second
    before = f"1970-01-01T00:16:40.{first:03}Z"
    assert sink.cut(before).positions["shop"].seq == first


def test_runs_of_existing_rows_have_the_time_of_the_commit_before_them() -> None:
    def run(destination: str, seq: int, ms: int, *, existed: bool) -> Run:
        at = Position(1, seq, ms)
        return Run(
            destination=destination, first=at, last=at, starts=True, is_seen=True, existed=existed
        )

    found = timed(
        [
            run("crm", 1, 5, existed=False),
            run("shop", 1, 900, existed=True),
            run("shop", 2, 100, existed=False),
            run("shop", 3, 50, existed=True),
            run("shop", 4, 950, existed=True),
            run("shop", 5, 110, existed=False),
        ]
    )
    assert [one.last.ts_ms for one in found] == [5, 900, 100, 100, 100, 110]
    assert [one.first for one in found] == [one.last for one in found]
