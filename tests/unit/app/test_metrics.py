"""Until when gauges are exported: what is no longer led or run here has no last values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import Gauge

from app import metrics
from app.worker.logical_schemas.plan import LogicalSchemasStatus
from app.worker.merge.plan import MergeStatus
from app.worker.status import DestinationStatus, State
from tests.unit.app.worker.merge.test_shares import PLAN

LABELLED = [one for one in vars(metrics).values() if isinstance(one, Gauge) and one._labelnames]
STATE, UP = "aqueduct_destination_state", "aqueduct_destination_up"
NOT_LED = (State.STANDBY, State.STOPPED)


def fill() -> None:
    for gauge in LABELLED:
        gauge.labels(*["gone"] * len(gauge._labelnames)).set(1)


def exported() -> set[str]:
    return {
        sample.name
        for family in metrics.REGISTRY.collect()
        if family.type == "gauge"
        for sample in family.samples
        if "gone" in sample.labels.values()
    }


@pytest.mark.parametrize("state", NOT_LED)
def test_no_gauge_keeps_its_last_value_once_its_subject_is_not_led_here(state: State) -> None:
    fill()
    assert len(exported()) == len(LABELLED)
    DestinationStatus("gone").show(state)
    MergeStatus(replace(PLAN, name="gone")).show(state)
    LogicalSchemasStatus().show(state)
    metrics.show_candidates([], {})
    # The process has a version, and each destination a state.
    assert exported() == {"aqueduct_build_info", STATE}
    metrics.remove_destination("gone")
    assert exported() == {"aqueduct_build_info"}


def test_a_fenced_destination_or_merge_is_another_workers_and_is_shown_as_not_up() -> None:
    destination, merge = DestinationStatus("gone"), MergeStatus(replace(PLAN, name="gone"))
    fill()
    merge.shards["a"].reached_ms = 1
    destination.show(State.FENCED, "AnotherWorkerLeads: x")
    merge.show(State.FENCED, "AnotherWorkerLeads: x")
    merge.measure()
    LogicalSchemasStatus().show(State.FENCED)
    metrics.show_candidates([], {})
    assert exported() == {"aqueduct_build_info", STATE, UP}
    assert metrics.REGISTRY.get_sample_value(UP, {"destination": "gone"}) == 0
    destination.show(State.STANDBY)
    assert UP not in exported()
