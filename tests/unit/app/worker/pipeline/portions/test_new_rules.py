"""New rules apply to all portions put after them, whichever decoder has them and however far it has read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import NewRules, Portion
from connectors.mysql.stream.chunk import Chunk
from tables.rules.routes.routes import Routes
from tests import made
from tests.unit.app.worker.pipeline.portions.test_inserted_rows import cursor
from tests.unit.app.worker.pipeline.runs import RULES, records_of, run_by_turns, run_stage, spec_of

OLD, NEW = made.int_table(1, "t"), made.int_table(2, "u")
ONLY_OLD = replace(RULES, routes=Routes(prefix="aq", include=r"shop\.t", partitions=1))
ONLY_NEW = replace(
    RULES, routes=Routes(prefix="aq", include=r"shop\.u", partitions=1), markers=False
)


def of_both(number: int) -> Chunk:
    """A transaction that writes both tables."""
    events = [made.gtid(number), made.query("BEGIN")]
    for table in (OLD, NEW):
        events += [made.table_map(table), made.int_rows(table, number)]
    return made.chunk_of(*events, made.xid())


PORTIONS: list[Chunk | Portion] = [
    of_both(1),
    of_both(2),
    NewRules(start=made.START, rules=ONLY_NEW, known={}),
    of_both(3),
    of_both(4),
]


def described(pieces: list[Piece]) -> list[tuple[str, int]]:
    """Topics of rows and numbers; of markers, the part of the transaction's name that is its own."""
    found = []
    for one in records_of(pieces):
        if one.value and one.op in "cud":
            found.append((one.topic, one.seq))
        elif one.value and "status" in one.value:
            found.append((one.value["status"], int(one.value["id"].rpartition(":")[2])))
    return found


EXPECTED = {
    *[("aq.shop.t", 8), ("BEGIN", 1), ("END", 1)],
    *[("aq.shop.t", 9), ("BEGIN", 2), ("END", 2)],
    *[("aq.shop.u", 10), ("aq.shop.u", 11)],
}


def test_rows_before_them_go_by_the_earlier_rules_and_rows_after_them_by_these() -> None:
    pieces = run_stage(PORTIONS, cursor(), spec_of(ONLY_OLD, cursor(), {}))
    assert set(described(pieces)) == EXPECTED
    assert pieces[2].only_moves
    assert pieces[2].coordinates == pieces[1].coordinates


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_they_are_the_same_whichever_decoder_has_them(count: int, ahead: int) -> None:
    pieces = run_by_turns(PORTIONS, cursor(), rules=ONLY_OLD, count=count, ahead=ahead)
    assert set(described(pieces)) == EXPECTED
    assert len(described(pieces)) == len(EXPECTED)


def test_versions_that_were_announced_before_them_are_not_announced_again() -> None:
    both = replace(RULES, markers=False)
    portions: list[Chunk | Portion] = [
        of_both(1),
        NewRules(start=made.START, rules=both, known={}),
        of_both(2),
    ]
    first, rules, second = run_stage(portions, cursor(), spec_of(RULES, cursor(), {}))
    assert [len(one.tables.versions) for one in (first, rules, second)] == [2, 0, 0]
