"""The lag of the central store as a metric."""

from types import SimpleNamespace
from typing import Any, cast

from app import metrics
from app.worker.schemas.store_mirror import Mirror
from app.worker.status import DestinationStatus, State


def lag() -> float | None:
    return metrics.REGISTRY.get_sample_value(
        "aqueduct_schema_store_lag_records", {"destination": "mirrored"}
    )


def test_a_store_that_catches_up_after_the_lead_is_over_exports_no_lag() -> None:
    mirror, status = Mirror("mirrored", lambda: None), DestinationStatus("mirrored")
    history = cast(Any, SimpleNamespace(checkpoints=[SimpleNamespace(number=1)]))
    status.show(State.STARTING)
    mirror.begin(history, 7)
    assert lag() == 7
    status.show(State.STANDBY)
    mirror.done.count = 5
    mirror.show_lag()
    assert (lag(), mirror.status.lag_records) == (None, 2)
    status.show(State.STARTING)
    mirror.begin(history, 8)
    assert lag() == 3
