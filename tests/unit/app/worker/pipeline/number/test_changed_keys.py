"""The record of changed keys, and its bound."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import count

import pytest

from app.worker.pipeline.number import changed_keys
from app.worker.pipeline.number.changed_keys import (
    Changed,
    ChangedKeys,
    Everything,
    GenerationBegun,
    Watched,
)

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")


@pytest.fixture
def keys() -> ChangedKeys:
    found = ChangedKeys()
    found.learn(Watched(frozenset({ORDERS, ITEMS})))
    return found


def new_keys() -> Iterator[list[str]]:
    """Portions of a hundred keys that did not occur before."""
    numbers = count()
    while True:
        yield [f'{{"id":{next(numbers)}}}' for _ in range(100)]


def test_a_read_is_compared_with_what_changed_since_its_generation_began(keys: ChangedKeys) -> None:
    keys.learn(Changed({ORDERS: ["1"]}))
    keys.learn(GenerationBegun(ORDERS, generation=1, kept=0))
    keys.learn(Changed({ORDERS: ["2"]}))
    assert keys.since(ORDERS, 0) == {"1", "2"}
    assert keys.since(ORDERS, 1) == {"2"}
    keys.learn(GenerationBegun(ORDERS, generation=2, kept=1))
    assert keys.since(ORDERS, 0) == {"2"}


def test_a_table_that_begins_no_generation_takes_no_more_memory(
    keys: ChangedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "MOST_KEYS", 2_000)
    keys.learn(Changed({ITEMS: ["1"]}))
    portions = new_keys()
    tracemalloc.start()
    try:
        for _ in range(10):
            keys.learn(Changed({ORDERS: next(portions)}))
        filled = tracemalloc.get_traced_memory()[0]
        for _ in range(400):
            keys.learn(Changed({ORDERS: next(portions)}))
        assert tracemalloc.get_traced_memory()[0] <= filled
    finally:
        tracemalloc.stop()
    # A read of it is refused, one of a table with few changes is not.
    assert isinstance(keys.since(ORDERS, 0), Everything)
    assert keys.since(ITEMS, 0) == {"1"}
    # The next read begins a generation, and what changes from then on is known again.
    keys.learn(GenerationBegun(ORDERS, generation=1, kept=0))
    keys.learn(Changed({ORDERS: ["7"]}))
    assert isinstance(keys.since(ORDERS, 0), Everything)
    assert keys.since(ORDERS, 1) == {"7"}


def test_keys_of_dropped_generations_do_not_count(
    keys: ChangedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "MOST_KEYS", 250)
    portions = new_keys()
    for generation in range(1, 50):
        keys.learn(GenerationBegun(ORDERS, generation=generation, kept=generation - 1))
        changed = next(portions)
        keys.learn(Changed({ORDERS: changed}))
        assert keys.since(ORDERS, generation) == set(changed)
