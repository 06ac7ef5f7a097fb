"""Going back in the schema history."""

from __future__ import annotations

import pytest

from connectors.errors import HistoryTooShort
from tables.history.history import SchemaHistory
from tests.unit.tables.made import (
    ORDERS,
    applied,
    begun,
    between,
    names_of,
    offset,
)


def three() -> SchemaHistory:
    """A table with one more column at 200, 300 and 400."""
    history = begun("orders")
    for pos, name in ((200, "a"), (300, "b"), (400, "c")):
        applied(history, pos, f"ALTER TABLE orders ADD {name} INT")
    return history


def test_going_back_is_being_as_at_that_place() -> None:
    history = three()
    expected = history.at(offset(350)).tables()
    rewound = history.rollback(offset(350))
    assert (rewound.count, rewound.records) == (2, ())
    assert [record.number for record in rewound.forgotten] == [3]
    assert history.now().tables() == expected
    record = applied(history, 400, "ALTER TABLE orders ADD c INT")
    assert (record.number, names_of(history.find(*ORDERS))) == (3, ["id", "a", "b", "c"])


def test_going_back_forgets_checkpoints_after_that_place() -> None:
    history = three()
    heads = [history.checkpoint(between(pos), made_ms=0).head for pos in (250, 350, 450)]
    rewound = history.rollback(offset(300))
    assert rewound.heads == tuple(heads[1:])
    assert [head.number for head in history.checkpoints] == [1, 2]
    assert history.checkpoint(between(300), made_ms=0).head.number == 5


def test_going_back_forgets_a_checkpoint_of_a_later_place_though_nothing_happened_since() -> None:
    history = three()
    head = history.checkpoint(between(450), made_ms=0).head
    rewound = history.rollback(offset(420))
    assert (rewound.count, rewound.forgotten, rewound.heads) == (3, (), (head,))
    assert history.checkpoints[-1].position.start.pos == 100


def test_going_back_too_far_changes_nothing() -> None:
    history = three()
    with pytest.raises(HistoryTooShort):
        history.rollback(offset(99))
    assert history.count == 3
