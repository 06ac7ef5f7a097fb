"""Rows of XA transactions are released once, before the event that commits them, or never."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.connectors.mysql.binlog.xa_source import Source, described
from tests.unit.connectors.mysql.cutting import START, fed
from tests.unit.connectors.mysql.wire import Wire

ACTIONS = st.sampled_from(["other", "prepare", "pack", "one", "pack one", "COMMIT", "ROLLBACK"])


@settings(deadline=None)
@given(
    actions=st.lists(ACTIONS, max_size=14),
    random=st.randoms(use_true_random=False),
    target=st.sampled_from([1, 100, 400, 1500, 10_000, 1 << 18]),
    keep=st.sampled_from([0, 500, 1 << 20]),
    most=st.sampled_from([3, 40, 300, 5000]),
    checksum=st.booleans(),
)
def test_rows_come_once_before_what_commits_them_and_else_never(
    actions: list[str], random: Random, target: int, keep: int, most: int, checksum: bool
) -> None:
    source = Source(Wire(checksum=checksum))
    for number, action in enumerate(actions):
        if action in ("COMMIT", "ROLLBACK"):
            if source.held:
                source.decide(random.choice(sorted(source.held)), action)
        elif action == "other":
            source.other(random)
        else:
            one_phase, packed = action.endswith("one"), action.startswith("pack")
            source.xa(f"x{number}", random, one_phase=one_phase, packed=packed)
    found = fed(source.cutter(target, keep), source.wire.data, random, most)
    assert described(found) == source.described
    for chunk in found:
        assert chunk.start.file == START.file
        assert (chunk.context_start is None) == (not chunk.context)
