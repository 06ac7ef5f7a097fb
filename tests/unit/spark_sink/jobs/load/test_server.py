"""What a SELECT can have seen: transactions that are executed, and those whose GTIDs are still owned."""

from __future__ import annotations

from typing import Any

import pytest

from spark_sink.jobs.load.server import SourceServer, owned_gtids

A, B = "7dcd7e6c-eb2b-11f1-873d-02fc00000001", "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, set()),
        ("", set()),
        (f"{A}:131599#59", {f"{A}:131599"}),
        (f"{A}:5#12:6#13\n{B}:7#1", {f"{A}:5", f"{A}:6", f"{B}:7"}),
        # As servers print it: nothing is between a session's number and the next UUID.
        (f"{B}:1457#68{A}:93284#29:93283#46", {f"{B}:1457", f"{A}:93284", f"{A}:93283"}),
        (f"{A}:4#1:blue:5#12:red:6#13", {f"{A}:4", f"{A}:blue:5", f"{A}:red:6"}),
        (f"{A}:5#12#13", {f"{A}:5"}),
    ],
)
def test_owned_gtids_are_without_their_sessions(text: str | None, found: set[str]) -> None:
    assert owned_gtids(text) == found


class Answering(SourceServer):
    """A server that answers in an order."""

    def __init__(self, executed: str, *owned: str) -> None:
        self.answers, self.executed_now = list(owned), executed

    def one(self, sql: str) -> Any:
        if "gtid_owned" not in sql:
            return self.executed_now
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_what_is_visible_and_not_executed_yet_is_waited_for() -> None:
    server, looks = (
        Answering(f"{A}:1-5", f"{A}:5#12:6#13", f"{A}:6#13:7#14", f"{A}:7#14"),
        list[float](),
    )
    # The sixth was rolled back, and the seventh began after the SELECT.

    def stopped(seconds: float) -> bool:
        looks.append(seconds)
        return False

    assert server.seen(stopped=stopped) == f"{A}:1-5"
    assert len(looks) == 2


def test_one_that_is_owned_for_longer_counts_as_seen() -> None:
    assert Answering(f"{A}:1-5", f"{A}:9#12").seen(stopped=lambda _: True) == f"{A}:1-5,{A}:9"
    assert Answering("", "").seen(stopped=lambda _: True) == ""
