"""The tables that a run begins to read: captured ones that its history has, or that wait for a grant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.destination.plan import SnapshotPlan
from app.destination.takeover.initial_snapshots import snapshots_of_run
from tables.journal.state import DestinationState
from tables.routes.routes import Routes
from tests.unit.connectors.mysql.facts import ADDRESS, facts
from tests.unit.tables.made import ORDERS, begun

NAMES = frozenset({ORDERS, ("shop", "part"), ("shop", "late"), ("other", "t")})
"""The server's tables: one of which only a column is granted, one that was created since, one not captured."""


def snapshots(*, missed: bool = False, is_initial: bool = True) -> dict[str, bool]:
    """The tables to read, and whether they are replaced."""
    routes = Routes(prefix="aq", include=r"shop\..*")
    plan: Any = SimpleNamespace(
        name="shop",
        snapshot=SnapshotPlan(is_initial=is_initial),
        rules=SimpleNamespace(routes=routes),
    )
    granted = ("shop`.`part", "shop`.`dropped", "other`.`t")
    grants = tuple(f"GRANT SELECT (`id`) ON `{one}` TO `a`@`%`" for one in granted)
    server = facts(grants=grants), ADDRESS
    history = begun("orders")
    found = snapshots_of_run(
        plan, DestinationState("shop"), history, server, missed=missed, names=NAMES
    )
    return {one.table: one.replaces for one in found}


@pytest.mark.parametrize("missed", [False, True])
def test_one_that_is_granted_in_part_is_not_left_out(missed: bool) -> None:
    assert snapshots(missed=missed) == {"orders": missed, "part": missed}


def test_without_a_mode_none_is_read() -> None:
    assert snapshots(is_initial=False) == {}
