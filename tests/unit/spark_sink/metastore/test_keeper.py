"""When the metastore is brought up to date, and that nothing of it reaches the sink."""

from __future__ import annotations

import logging

import pytest

from spark_sink.metastore.entries import Entry
from spark_sink.metastore.keeper import (
    SECONDS_UNTIL_AGAIN,
    SECONDS_UNTIL_ALL,
    MetastoreKeeper,
)
from spark_sink.metastore.registration import Registered


class Scene:
    """What registers, with results that are set, and a clock."""

    def __init__(self) -> None:
        self.now, self.tables, self.done = 1000.0, 1, 0
        self.result: Registered | Exception = Registered()
        self.keeper = MetastoreKeeper(
            registrar=lambda: self, state=lambda: self.tables, clock=lambda: self.now
        )

    def bring_up(self) -> Registered:
        self.done += 1
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


def test_it_ends_with_a_stop() -> None:
    at, waits = Scene(), iter([False, False, True])
    at.keeper.run(lambda _: next(waits))
    assert at.done == 1
