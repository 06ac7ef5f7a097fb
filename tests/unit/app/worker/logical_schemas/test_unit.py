"""The routes by the newest mapping, and the state for the status page and the metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable

from prometheus_client import Metric

from app import metrics
from app.worker.logical_schemas.plan import LogicalSchemasStatus
from app.worker.logical_schemas.unit import FollowedRoutes
from app.worker.status import State
from tables.history.logical_schemas.published import next_published
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import Mapping
from tables.rules.routes.routes import Routes
from tests.unit.tables.history.logical_schemas.made import NAME, Shards

MAPPING = from_yaml("tables: {trade.orders: {from: ['shop.orders_[0-9]+'], topic: trade}}")


def test_routes_follow_the_settings_and_the_mapping_and_are_made_once() -> None:
    settled = {"a": Routes(prefix="aq", destination="a")}
    known: list[Mapping] = []
    routes = FollowedRoutes(
        settled=lambda: dict(settled), newest=lambda: known[-1] if known else None
    )
    assert routes() is None
    known.append(MAPPING)
    found = routes()
    assert found is not None
    route = found["a"].of(("shop", "orders_1"))
    assert route is not None
    assert route.logical == NAME
    assert routes() is found
    known.append(Mapping())
    changed = routes()
    assert changed is not None
    assert changed["a"].mapping is known[-1]
    settled["b"] = Routes(prefix="aq", destination="b")
    assert set(routes() or ()) == {"a", "b"}


def test_the_status_lists_what_is_not_equal_and_shows_nothing_where_it_is_not_led() -> None:
    status = LogicalSchemasStatus()
    since = int((time.time() - 50) * 1000)
    first = next_published(Shards("a1", "b1").schema, None, since)
    second = next_published(Shards("a1", "b1").alter("b1", "id int not null; x int"), None, since)
    assert first is not None
    assert second is not None
    status.published = {("trade", "items"): first, NAME: second}
    status.show(State.RUNNING)
    status.measure()
    found = status.to_json()
    assert found["tables"] == {
        "equal": 1, "converging": 1, "conflict": 0, "accepted": 0, "waiting": 0,
    }  # fmt: skip
    assert found["not_equal"] == {
        "trade.orders": {
            "state": "converging",
            "since_ms": since,
            "changes": ["add x int: lacking on a:shop.orders_1"],
        }
    }
    assert values(metrics.LOGICAL_TABLES.collect())["converging"] == 1
    oldest = values(metrics.LOGICAL_TABLES_OLDEST.collect())
    assert 49 < oldest["converging"] < 90
    assert oldest["conflict"] == 0
    status.show(State.STANDBY)
    assert status.to_json()["not_equal"] == {}
    assert values(metrics.LOGICAL_TABLES.collect()) == {}


def values(collected: Iterable[Metric]) -> dict[str, float]:
    return {one.labels["state"]: one.value for metric in collected for one in metric.samples}
