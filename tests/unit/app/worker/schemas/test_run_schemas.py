"""When a run ends because a new one can bring a quarantined table back."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import Any, cast

import pytest

from app.worker.destination.plan import Signals
from app.worker.schemas.run_schemas import Schemas
from tables.history.position import HistoryPosition
from tables.rules.mapping.forms import from_yaml
from tables.state.quarantine import RESOLUTION, Outcome, Quarantine, Resolution
from tests.made import SERVER
from tests.unit.app.worker.destination.commit.made import AFTER, BEGIN, piece, run_of
from tests.unit.tables.made import applied, begun

SINCE = HistoryPosition(server_uuid=SERVER, start=BEGIN, end=BEGIN, gtid=None, ts_ms=1)
TORN, BENT = ("shop", "torn"), ("shop", "bent")


def resolution(name: tuple[str, str], number: str) -> Resolution:
    return Resolution(destination="shop", name=name, id=number, table=None, by="me", ts_ms=1)


class Scene:
    """A run with two quarantined tables, and the operator's resolutions that it receives."""

    def __init__(self, **postponed: str) -> None:
        self.signals, self.quarantine, run = Signals(), Quarantine("shop"), run_of("back")
        for name in (TORN, BENT):
            self.quarantine.add(name, "differs", SINCE)
        self.schemas = Schemas(
            None,
            self.quarantine,
            run.plan.rules,
            run.status,
            expiry=cast(Any, None),
            postponed={("shop", name): one for name, one in postponed.items()},
        )

    @property
    def ends(self) -> bool:
        return self.schemas.may_release(self.signals.resolutions.values())

    def parks(self, name: tuple[str, str]) -> None:
        one = piece()
        one.counts.parked = Counter({name: 1})
        self.schemas.committed(one, AFTER)


def test_rules_that_do_not_fit_a_table_are_shown_before_its_first_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = run_of("back")
    mapping = from_yaml(
        "{tables: {orders: {column_actions: {emial: redact}}, carts: {columns: [id]}}}"
    )
    routes = replace(run.plan.rules.routes, mapping=mapping)
    schemas = Schemas(
        begun("orders", "carts"),
        Quarantine("back"),
        replace(run.plan.rules, routes=routes),
        run.status,
        expiry=cast(Any, None),
    )
    known = schemas.known()
    assert len(known) == 2
    (warning,) = run.status.warnings["mapping"]
    assert "orders: there is no column 'emial', which its action redact names" in warning
    assert "its next row" in warning
    assert warning in caplog.text


def test_statements_on_captured_tables_and_quarantines_are_logged_once_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    history, run = begun("orders", "carts"), run_of("back")
    rules = replace(run.plan.rules, destination="back")
    schemas = Schemas(history, Quarantine("back"), rules, run.status, expiry=cast(Any, None))
    statements = (
        "ALTER TABLE orders ADD secret VARCHAR(9) DEFAULT 'hidden'",
        "TRUNCATE carts",
        "CREATE TABLE elsewhere.t (id INT)",
        "ALTER TABLE orders ADD x NOSUCHTYPE",
    )
    one = piece()
    one.tables.history = [
        applied(history, 200 + 100 * number, sql) for number, sql in enumerate(statements)
    ]
    schemas.committed(one, AFTER)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "back: ALTER TABLE of shop.orders at b.000001:200, resolved"),
        ("INFO", "back: TRUNCATE TABLE of shop.carts at b.000001:300, resolved"),
        (
            "WARNING",
            (
                "back: ALTER TABLE of shop.orders at b.000001:500, unresolved: `python -m app schema audit "
                "back --unresolved` has the reason"
            ),
        ),
        (
            "ERROR",
            (
                "back: shop.odd is quarantined from b.000001:4 on: its columns differ; `python -m app schema "
                "quarantine back` prints what releases it"
            ),
        ),
    ]
    assert "hidden" not in caplog.text


def test_a_resolution_is_not_hidden_by_one_of_another_table_that_follows_it() -> None:
    scene = Scene()
    scene.quarantine.entries[BENT] = replace(
        scene.quarantine.entries[BENT], outcome=Outcome.RELEASED
    )
    assert not scene.ends
    scene.signals.notify(RESOLUTION, resolution(TORN, "r1"))
    scene.signals.notify(RESOLUTION, resolution(BENT, "r2"))
    assert scene.ends


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.RELEASED, Outcome.GIVEN_UP])
def test_a_resolution_that_was_tried_ends_no_run(outcome: Outcome) -> None:
    scene = Scene()
    scene.signals.notify(RESOLUTION, resolution(TORN, "r1"))
    scene.quarantine.entries[TORN] = replace(
        scene.quarantine.entries[TORN], outcome=outcome, resolution="r1"
    )
    assert not scene.ends


def test_a_postponed_resolution_ends_the_run_once_its_table_has_a_waiting_event() -> None:
    scene = Scene(torn="r1")
    scene.signals.notify(RESOLUTION, resolution(TORN, "r1"))
    assert not scene.ends
    scene.parks(BENT)
    assert not scene.ends
    scene.parks(TORN)
    assert scene.ends


def test_another_resolution_of_the_table_is_tried_at_once() -> None:
    scene = Scene(torn="r1")
    scene.signals.notify(RESOLUTION, resolution(TORN, "r1"))
    scene.signals.notify(RESOLUTION, resolution(TORN, "r2"))
    assert scene.ends
