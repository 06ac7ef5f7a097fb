"""The progress shown after a commit: cursor, rows, lag and duration."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app import metrics
from app.worker.destination.commit.run_participants import (
    FilterCheck,
    OperatorSkips,
    Progress,
    SkippedStatements,
    warnings,
)
from app.worker.destination.takeover.timings import Phases
from app.worker.pipeline.piece import Counts, TableChanges
from app.worker.status import DestinationStatus
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.errors import SourceLost
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.lookup.skipped_transactions import SkippedTransaction
from connectors.mysql.position import Coordinates
from tables.rules.routes.routes import Routes
from tables.state.cursor import Resume
from tables.state.operator_requests import SKIP_PART, Skips, skip_note
from tests.made import SERVER
from tests.unit.app.worker.destination.commit.made import (
    AFTER,
    BEFORE,
    BEGIN,
    END,
    GTID,
    SKIP,
    moving,
    piece,
)
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.tables.made import applied, begun
from tests.unit.tables.state.journal.states import state_with


def value(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, {"destination": "progress", **labels})


def test_a_commit_moves_cursor_and_lag_counts_rows_and_ends_the_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status, policy = DestinationStatus("progress"), ErrorPolicy()
    for _ in range(20):
        policy.decide(SourceLost("gone"))
    progress = Progress(status, policy, Phases())
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            progress.before(piece(), BEFORE)
            progress.committed(piece(), AFTER)
    assert (status.cursor, status.rows, status.committed_ms) == (AFTER, 4, 1_000)
    assert status.lag_seconds is not None
    assert status.lag_seconds > 0
    assert caplog.text.count("first commit after") == 1
    assert value("aqueduct_rows_published_total", op="c") == 4
    assert value("aqueduct_kafka_commit_seconds_count") == 2
    assert (policy.decide(SourceLost("gone")).pause or 0) <= 1


def test_a_piece_without_a_transaction_leaves_the_lag_as_it_was() -> None:
    status = DestinationStatus("progress", lag_seconds=3.0, committed_ms=7)
    Progress(status, ErrorPolicy(), Phases()).committed(moving(), AFTER)
    assert (status.lag_seconds, status.committed_ms) == (3.0, 7)


NAMES: set[TableName] = {("shop", "orders"), ("shop", "customers"), ("crm", "staff")}


@pytest.mark.parametrize(
    ("include", "black", "says"),
    [
        (r".*\..*", "", []),
        (r"shop\..*", r"shop\.orders", []),
        (r"shop\\..*", r"shop\\.orders", []),
        (r"shop\.order", "", ["captures none of", r"shop\.order matches no table; near it are shop.o"]),
        (r"shpo\..*", "", ["captures none of the 3", r"shpo\..* matches no table; near it are shop"]),
        (r"shop\..*", r"shop\.customer", [r"black: shop\.customer matches no table; near it are shop.c"]),
        (r"shop\..*,crn\.staff", "", [r"crn\.staff matches no table; near it are crm.staff"]),
        (r"zzz\..*", "", ["captures none", r"zzz\..* matches no table"]),
        (r"crm\..*", r"crm\..*", ["captures none"]),
        (r"mysql\.rds_.*", "", []),
    ],
)  # fmt: skip
def test_each_expression_that_matches_nothing_is_named_with_what_is_near(
    include: str, black: str, says: list[str]
) -> None:
    found = list(warnings(Routes(prefix="aq", include=include, black=black), NAMES))
    assert len(found) == len(says)
    for text, part in zip(found, says, strict=True):
        assert part in text


def test_a_server_without_tables_is_said_to_have_none() -> None:
    assert "no table that the account can see" in next(warnings(Routes(prefix="aq"), set()))


def test_the_warning_is_logged_once_and_ends_with_the_table_that_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    status = DestinationStatus("late")
    rules = replace(RULES, routes=Routes(prefix="aq", include=r"shop\.late"))
    check = FilterCheck(rules, NAMES, status)
    assert len(status.to_json()["warnings"]) == 2
    FilterCheck(rules, NAMES, status)
    assert caplog.text.count("matches no table") == 1
    made = applied(begun(), 100, "CREATE TABLE late (id int)")
    check.committed(piece(tables=TableChanges(history=[made])), AFTER)
    assert status.to_json()["warnings"] == []


def skipping(name: str = "shop") -> OperatorSkips:
    return OperatorSkips(name, state_with(SKIP).parts[SKIP_PART], SERVER)


def omitted(end: Coordinates = END) -> SkippedTransaction:
    return SkippedTransaction(GTID, BEGIN, end, Counter({30: 2, 16: 1}))


def test_a_piece_that_only_moves_is_due_once_it_passes_a_skipped_transaction() -> None:
    one = skipping()
    assert one.skipper is not None
    assert not one.is_due(moving())
    one.skipper.done.append(omitted(replace(END, pos=END.pos + 1)))
    assert not one.is_due(moving())
    one.skipper.done[:] = [omitted()]
    assert one.is_due(moving())


def test_the_record_says_where_it_was_and_how_many_events_it_had() -> None:
    one = skipping()
    assert one.skipper is not None
    one.skipper.done.append(omitted())
    done = replace(SKIP, done="b.000001:4", events=3)
    assert list(one.before(moving(), BEFORE)) == [skip_note(done)]


def test_a_skip_counts_once_and_only_after_the_commit(caplog: pytest.LogCaptureFixture) -> None:
    def counted() -> float | None:
        labels = {"destination": "skips", "type": "WRITE_ROWS", "handling": "skipped"}
        return metrics.REGISTRY.get_sample_value("aqueduct_binlog_events_total", labels)

    one = skipping("skips")
    assert one.skipper is not None
    one.skipper.done.append(omitted())
    one.before(moving(), BEFORE)
    assert (counted(), caplog.text) == (None, "")
    one.committed(moving(), AFTER)
    assert counted() == 2
    assert "was skipped with 3 event(s)" in caplog.text
    assert list(one.before(moving(), AFTER)) == []
    one.committed(moving(), AFTER)
    assert counted() == 2


def test_without_skips_nothing_is_due_or_added() -> None:
    one = OperatorSkips("shop", Skips(), SERVER)
    assert (one.skipper, one.is_due(moving()), list(one.before(moving(), BEFORE))) == (
        None,
        False,
        [],
    )


def test_the_rest_of_a_transaction_that_is_published_in_part_is_not_continued(
    caplog: pytest.LogCaptureFixture,
) -> None:
    resume = Resume(transaction_id=GTID, rows=3, published=2, part=1)
    publisher: Any = SimpleNamespace(cursor=replace(BEFORE, resume=resume))
    with caplog.at_level(logging.WARNING):
        assert skipping().start_cursor(publisher) == BEFORE
    assert publisher.cursor == BEFORE
    assert "2 record(s)" in caplog.text


def test_each_table_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    status = DestinationStatus("passes")
    for _ in range(2):
        SkippedStatements(status).committed(
            piece(counts=Counts(statements=Counter({("mysql", "rds_heartbeat2"): 3}))), AFTER
        )
    SkippedStatements(status).committed(piece(counts=Counts(statements=Counter())), AFTER)
    assert status.to_json()["statements_passed"] == {"mysql.rds_heartbeat2": 6}
    assert len(caplog.records) == 1
    assert "mysql.rds_heartbeat2" in caplog.text
    shown = metrics.REGISTRY.get_sample_value(
        "aqueduct_statements_passed_total", {"destination": "passes"}
    )
    assert shown == 6


def test_the_tables_that_are_listed_have_a_limit() -> None:
    status = DestinationStatus("many")
    SkippedStatements(status).committed(
        piece(counts=Counts(statements=Counter({("d", f"t{n}"): 1 for n in range(150)}))), AFTER
    )
    SkippedStatements(status).committed(
        piece(counts=Counts(statements=Counter({("d", "t1"): 1}))), AFTER
    )
    assert len(status.statements_passed) == 100
    assert status.statements_passed["d", "t1"] == 2
