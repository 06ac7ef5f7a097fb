"""The definition by which a table's existing rows are read: known, unknown, or of no table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination.plan import Plan, Signals, SnapshotPlan
from app.worker.destination.snapshot.snapshot import Snapshot, snapshot_of
from app.worker.destination.takeover.takeover import TakenOver
from app.worker.pipeline.stage import StageSpec
from app.worker.status import DestinationStatus
from connectors.mysql.ddl.online import ShadowRules
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.select.chunk_reader import DefinitionChanged
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from tests.unit.connectors.mysql.facts import ADDRESS, facts
from tests.unit.tables.made import ORDERS, applied, begun, table

PARTS = ("part", "dropped")
"""Granted in part; one of them does not exist."""


def begun_run(state: DestinationState, *, is_only: bool = False) -> Snapshot:
    """The snapshot of a run with this state in the journal."""
    history = begun("orders", "dropped", "torn")
    applied(history, 200, "DROP TABLE dropped")
    applied(history, 300, "ALTER TABLE torn ADD CHECK (unknown_function() + ) x")
    led: Any = SimpleNamespace(
        opened=SimpleNamespace(history=history),
        state=state,
        facts=facts(
            grants=tuple(f"GRANT SELECT (`id`) ON `shop`.`{one}` TO `a`@`%`" for one in PARTS)
        ),
        address=ADDRESS,
        names=frozenset({ORDERS, ("shop", "late"), ("shop", "part"), ("other", "t")}),
        publisher=SimpleNamespace(shows_progress=False),
    )
    rules = SimpleNamespace(
        routes=Routes(prefix="aq", include=r"shop\..*"), shadow_rules=ShadowRules
    )
    spec: Any = SimpleNamespace(rules=rules, charsets=facts().charsets, server=server_of(facts()))
    plan: Any = SimpleNamespace(
        name="shop", snapshot=SnapshotPlan(is_only=is_only), kafka_options={}
    )
    status = DestinationStatus("shop")
    return snapshot_of(
        cast(Plan, plan), cast(TakenOver, led), cast(StageSpec, spec), status, Signals()
    )


@pytest.fixture
def snapshot() -> Snapshot:
    return begun_run(DestinationState("shop"))


def test_a_table_is_read_by_the_definition_that_its_history_has(snapshot: Snapshot) -> None:
    assert snapshot.definition(ORDERS) == table()


@pytest.mark.parametrize("name", ["late", "torn"])
def test_a_table_that_exists_is_waited_for_until_its_definition_is_known(
    snapshot: Snapshot, name: str
) -> None:
    with pytest.raises(DefinitionChanged, match="not known"):
        snapshot.definition(("shop", name))


def test_one_that_is_granted_in_part_is_waited_for_with_the_grant_that_it_needs(
    snapshot: Snapshot,
) -> None:
    with pytest.raises(
        DefinitionChanged, match=r"GRANT SELECT ON `shop`\.`part` TO .*; then restart"
    ):
        snapshot.definition(("shop", "part"))


@pytest.mark.parametrize("name", [("shop", "dropped"), ("shop", "never"), ("other", "t")])
def test_one_that_does_not_exist_or_is_not_captured_is_gone(
    snapshot: Snapshot, name: tuple[str, str]
) -> None:
    assert snapshot.definition(name) is None
