"""Waiting for a state."""

from __future__ import annotations

import itertools

import pytest

from tests.harness.wait import until, until_async


def test_what_is_there_is_given_at_once_and_what_comes_later_when_it_comes() -> None:
    assert until(lambda: "there", seconds=0) == "there"
    looks = itertools.count()
    assert until(lambda: next(looks) >= 2 and "later", glance=0) == "later"
    assert next(looks) == 3


def test_what_does_not_come_fails_with_the_last_that_is_known() -> None:
    with pytest.raises(AssertionError, match="the log's end"):
        until(lambda: None, seconds=0, late=lambda: "the log's end")


async def test_a_coroutine_is_waited_for_alike() -> None:
    looks = itertools.count()

    async def later() -> bool:
        return next(looks) >= 1

    assert await until_async(later)

    async def never() -> bool:
        return False

    with pytest.raises(AssertionError, match="not in time"):
        await until_async(never, seconds=0)
