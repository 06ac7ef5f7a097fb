"""When the metastore is brought up to date, and that nothing of it reaches the sink."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import cast

import pytest

from spark_sink.jobs.metastore import (
    SECONDS_UNTIL_AGAIN,
    SECONDS_UNTIL_ALL,
    Entry,
    MetastoreKeeper,
    Registered,
    Registrar,
)
from spark_sink.warehouse.protocol import Name
from spark_sink.warehouse.shape import Shape


class Scene:
    """What registers, with results that are set, and a clock."""

    def __init__(self) -> None:
        self.now, self.tables, self.done = 1000.0, 1, 0
        self.shapes = frozenset({Shape("shop", "t", (("id", "int"),), ("id",))})
        self.asked: list[Collection[Name] | None] = []
        self.result: Registered | Exception = Registered()
        self.keeper = MetastoreKeeper(
            registrar=lambda: cast(Registrar, self),
            shapes=lambda: self.shapes,
            moved=lambda: self.tables,
            clock=lambda: self.now,
        )

    def bring_up(self, changed: Collection[Name] | None = None) -> Registered:
        self.done += 1
        self.asked.append(changed)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def look(self, after: float = 0.0) -> int:
        """How often it was brought up, after so many seconds more."""
        self.now += after
        before = self.done
        self.keeper.look()
        return self.done - before


def test_it_is_brought_up_at_first_after_a_change_and_once_in_a_while() -> None:
    at = Scene()
    assert [at.look(), at.look(1), at.look(60)] == [1, 0, 0]
    at.tables = 2
    assert [at.look(1), at.look(1)] == [1, 0]
    assert [at.look(SECONDS_UNTIL_ALL - 2), at.look(2)] == [0, 1]


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("no such metastore"),
        Registered(error="no such metastore"),
        Registered(
            entries={("a", "b"): Entry(table=("a", "b"))},
            faults={("shop", "t"): "NameTaken: no such metastore"},
        ),
    ],
)
def test_a_failure_is_logged_once_and_tried_again(
    failure: Registered | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    at = Scene()
    at.result = failure
    assert [at.look(), at.look(1), at.look(SECONDS_UNTIL_AGAIN)] == [1, 0, 1]
    (warned,) = (one for one in caplog.records if one.levelno == logging.WARNING)
    assert "no such metastore" in warned.getMessage()
    at.result = Registered()
    assert at.look(SECONDS_UNTIL_AGAIN) == 1
    assert "up to date again" in caplog.text


def test_columns_are_read_again_of_tables_that_have_changed_until_that_has_succeeded() -> None:
    at = Scene()
    at.look()
    at.shapes |= {Shape("shop", "u", (("id", "int"),), ("id",))}
    at.result = Registered(error="away")
    at.look(1)
    at.result = Registered()
    at.look(SECONDS_UNTIL_AGAIN)
    at.look(SECONDS_UNTIL_ALL)
    at.tables = 2
    at.look(1)
    # At first and after a move, those of all tables.
    assert at.asked == [None, {("shop", "u")}, {("shop", "u")}, set(), None]


def test_an_unreachable_metastore_is_one_warning_whatever_its_error_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = Scene()
    for cause in ("Connection refused", "Broken pipe"):
        at.result = Registered(error=f"MetastoreUnreachable: it does not answer: {cause}")
        at.look(SECONDS_UNTIL_AGAIN)
    assert caplog.text.count("not up to date") == 1


def test_it_ends_with_a_stop() -> None:
    at, waits = Scene(), iter([False, False, True])
    at.keeper.run(lambda _: next(waits))
    assert at.done == 1
