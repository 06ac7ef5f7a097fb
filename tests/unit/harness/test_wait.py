"""Waiting for a state."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tests.harness.wait import until, until_async, until_in_loop


def test_what_is_there_is_given_at_once_and_what_comes_later_when_it_comes() -> None:
    assert until(lambda: "there", seconds=0) == "there"
    looks = itertools.count()
    assert until(lambda: next(looks) >= 2 and "later", glance=0) == "later"
    assert next(looks) == 3


def test_what_does_not_come_fails_with_the_last_that_is_known() -> None:
    with pytest.raises(AssertionError, match="the log's end"):
        until(lambda: None, seconds=0, late=lambda: "the log's end")


def test_a_hopeless_wait_ends_at_once_with_the_error_that_was_asked_for() -> None:
    class Late(AssertionError):
        pass

    with pytest.raises(Late, match="it has ended"):
        until(lambda: None, hopeless=lambda: True, late=lambda: "it has ended", error=Late)
    assert until(lambda: "there", hopeless=lambda: True) == "there"


async def test_a_coroutine_is_waited_for_alike() -> None:
    looks = itertools.count()

    async def later() -> bool:
        return next(looks) >= 1

    assert await until_async(later)

    async def never() -> bool:
        return False

    with pytest.raises(AssertionError, match="not in time"):
        await until_async(never, seconds=0)


async def test_what_a_task_of_the_same_loop_does_is_waited_for() -> None:
    done: list[str] = []
    asyncio.get_running_loop().call_later(0.01, done.append, "done")
    assert await until_in_loop(lambda: done, glance=0.001) == ["done"]
    with pytest.raises(AssertionError, match="nothing is done"):
        await until_in_loop(lambda: None, seconds=0, late=lambda: "nothing is done")
