import dataclasses
from collections import Counter

import pytest

from demo.checks import Applied, Record
from demo.report import conclusion, table
from demo.topics import Contents, Layout
from demo.truth import Truth
from demo.verdict import Compared, Evidence, Verdict, judge
from tables.rules.routes.routes import Routes

_TOPIC = "aq.shop.orders"


def _record(n: int) -> Record:
    return Record(
        topic=_TOPIC,
        partition=0,
        offset=n,
        change_id=f"server:7#{n}",
        seq=n + 1,
        epoch=3,
        committed_ms=1000,
    )


def _evidence() -> Evidence:
    truth = Truth()
    for n in range(4):
        truth.add("orders", f"server:7#{n}", moved=False)
    contents = Contents()
    contents.rows["orders"] = [_record(n) for n in range(4)]
    return Evidence(
        layout=Layout(Routes(prefix="aq"), "shop"),
        counted=Counter(orders=4),
        truth=truth,
        contents=contents,
        compared={"orders": Compared(mysql_rows=3, warehouse_rows=3, different=0, shown=[])},
        applied={(_TOPIC, 0): [Applied(0, 4, 1800)]},
        restarts=1,
    )


def _judged(evidence: Evidence) -> Verdict:
    return judge(evidence, at_least=4)


def test_witnesses_that_agree_make_a_good_verdict_with_its_last_line() -> None:
    verdict = _judged(_evidence())
    assert verdict.good, verdict.faults
    assert verdict.last_line() == "demo: changes=4 lost=0 duplicated=0 different=0 restarts=1"
    assert verdict.tables[0].lag_p50 == verdict.tables[0].lag_p99 == 0.8


def test_a_lost_change_is_counted_and_named() -> None:
    evidence = _evidence()
    del evidence.contents.rows["orders"][2]
    verdict = _judged(evidence)
    assert "changes=3 lost=1 " in verdict.last_line()
    assert any("not in Kafka: server:7#2" in fault for fault in verdict.faults)
    assert any("seq 3 to 3 are missing" in fault for fault in verdict.faults)


def test_a_duplicate_is_counted_and_named() -> None:
    evidence = _evidence()
    again = dataclasses.replace(_record(1), offset=4, seq=5)
    evidence.contents.rows["orders"].append(again)
    verdict = _judged(evidence)
    assert "duplicated=1 " in verdict.last_line()
    assert any("more than once in Kafka: server:7#1" in fault for fault in verdict.faults)


def test_a_record_in_another_tables_topic_is_named() -> None:
    evidence = _evidence()
    rows = evidence.contents.rows["orders"]
    rows[1] = dataclasses.replace(rows[1], topic="aq.shop.customers")
    assert any("not in their table's topic" in fault for fault in _judged(evidence).faults)


def test_a_different_row_is_counted_and_shown() -> None:
    unlike = Compared(mysql_rows=3, warehouse_rows=3, different=1, shown=["orders (7): status"])
    verdict = _judged(dataclasses.replace(_evidence(), compared={"orders": unlike}))
    assert "different=1 " in verdict.last_line()
    assert "orders: 1 rows differ: orders (7): status" in verdict.faults


@pytest.mark.parametrize("restarts", [0, 2])
def test_any_number_of_restarts_but_the_one_caused_is_a_fault(restarts: int) -> None:
    verdict = _judged(dataclasses.replace(_evidence(), restarts=restarts))
    assert not verdict.good
    assert verdict.last_line().endswith(f"restarts={restarts}")


def test_a_rolled_back_row_that_was_published_is_a_fault() -> None:
    evidence = _evidence()
    evidence.contents.marked.append(_record(0))
    assert any("rolled back" in fault for fault in _judged(evidence).faults)


def test_an_invented_record_is_a_fault() -> None:
    evidence = _evidence()
    evidence.truth.change_ids["orders"].discard("server:7#3")
    assert any("no change in the binlog" in fault for fault in _judged(evidence).faults)


def test_a_load_whose_count_differs_from_the_binlogs_is_a_fault() -> None:
    verdict = _judged(dataclasses.replace(_evidence(), counted=Counter(orders=5)))
    assert "orders: the load changed 5 rows, the binlog has 4" in verdict.faults


def test_too_few_changes_prove_too_little() -> None:
    assert not judge(_evidence(), at_least=5).good


def test_the_ddl_topic_takes_part_in_the_numbering() -> None:
    evidence = _evidence()
    ddl = dataclasses.replace(_record(0), topic=evidence.layout.ddl_topic, seq=6, change_id=None)
    evidence.contents.statements.append(ddl)
    (fault,) = _judged(evidence).faults
    assert "seq 5 to 5 are missing before aq.__ddl.shop" in fault


def test_a_change_without_a_line_in_the_ledger_is_a_fault() -> None:
    evidence = dataclasses.replace(_evidence(), applied={(_TOPIC, 0): [Applied(0, 3, 1800)]})
    (fault,) = _judged(evidence).faults
    assert fault == "orders: 1 records are in no batch of the sink's ledger"


def test_the_tables_lines_are_aligned_under_their_headings() -> None:
    heading, line = table(_judged(_evidence()).tables)
    assert heading.split()[:1] == ["table"]
    assert line.split() == ["orders", "3", "3", "4", "0", "0", "0", "0.8", "s", "0.8", "s"]
    assert len(heading) <= len(line) + 1


def test_faults_are_reported_in_full() -> None:
    verdict = _judged(dataclasses.replace(_evidence(), restarts=2))
    assert any(line.startswith("FAULT the worker was started") for line in conclusion(verdict))
