"""Merges in the settings: known destinations, each in one merge."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.settings.model import Settings
from app.worker.wiring import merge_plans, routes_of, topic_plans
from connectors.kafka.record_batches import MAX_BATCH_BYTES

SOURCE = {"host": "127.0.0.1", "port": 3306, "user": "u", "password": "p"}


def settings(merge: dict[str, Any], **more: Any) -> Settings:
    return Settings.model_validate(
        {
            "prefix": "aq",
            "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
            "destinations": {
                name: {"source": SOURCE, "server_id": number}
                for number, name in enumerate(("a", "b", "c"), start=1)
            },
            "merge": merge,
            **more,
        }
    )


@pytest.mark.parametrize(
    ("merge", "reason"),
    [
        ({"m": {"destinations": ["a", "d"]}}, "merge.m names d, which is no destination"),
        ({"m": {"destinations": ["a"]}}, "at least 2 items"),
        ({"m": {"destinations": ["a", "a"]}}, "a destination is named twice"),
        (
            {"m": {"destinations": ["a", "b"]}, "n": {"destinations": ["c", "b"]}},
            "merge.m and merge.n both name b",
        ),
        ({"m": {"destinations": ["a", "b"], "stalled": "skip"}}, "'pass' or 'wait'"),
    ],
)
def test_a_merge_that_cannot_be_is_refused(merge: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        settings(merge)


def test_a_merge_s_destinations_have_topics_of_their_own() -> None:
    found = settings({"m": {"destinations": ["a", "b"], "stalled": "wait"}})
    assert [routes_of(found, name).merged for name in ("a", "b", "c")] == [True, True, False]
    (plan,) = merge_plans(found, {}, topic_plans(found))
    assert (plan.unit, plan.destinations, plan.passes) == ("merge.m", ("a", "b"), False)


@pytest.mark.parametrize(("limit", "batch"), [(300_000, 300_000), (1 << 24, MAX_BATCH_BYTES)])
def test_a_merge_publishes_by_the_sizes_in_the_settings(limit: int, batch: int) -> None:
    found = settings(
        {"m": {"destinations": ["a", "b"]}},
        publish={"max_bytes": 1 << 20},
        topics={"max_message_bytes": limit},
    )
    (plan,) = merge_plans(found, {}, topic_plans(found))
    assert (plan.max_bytes, plan.max_batch_bytes) == (1 << 20, batch)
