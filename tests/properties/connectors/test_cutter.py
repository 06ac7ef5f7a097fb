"""Every event is returned once, in order, and cut only where it may be, in whatever pieces it was received."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.mysql.stream import cutter
from connectors.mysql.stream.cutter import Cutter
from tests.unit.connectors.mysql.cutting import PARTS, SMALL, START, assert_sound, fed
from tests.unit.connectors.mysql.wire import Wire


@pytest.fixture(autouse=True)
def small_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutter, "LARGE_PAYLOAD", SMALL)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    parts=st.lists(st.sampled_from(PARTS), max_size=12),
    random=st.randoms(use_true_random=False),
    target=st.sampled_from([1, 100, 400, 1500, 10_000, 1 << 18]),
    most=st.sampled_from([3, 40, 300, 5000]),
    checksum=st.booleans(),
)
def test_every_event_comes_out_once_and_in_order_cut_only_where_it_may_be(
    parts: list[Callable[[Wire, Random], None]],
    random: Random,
    target: int,
    most: int,
    checksum: bool,
) -> None:
    wire = Wire(checksum=checksum)
    wire.format()
    for part in parts:
        part(wire, random)
    found = fed(Cutter(START, checksum=True, target=target), wire.data, random, most)
    assert_sound(found, wire, target)
