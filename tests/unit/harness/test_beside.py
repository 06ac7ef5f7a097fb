"""What is done beside a test ends with it, and its error is not lost."""

from __future__ import annotations

import threading

import pytest

from tests.harness.beside import beside


def waits(stop: threading.Event) -> None:
    assert stop.wait(60)


def fails(stop: threading.Event) -> None:
    stop.wait(60)
    raise KeyError("beside")


def test_it_ends_when_it_is_stopped_and_with_the_block() -> None:
    with beside(waits) as end:
        end()
    with beside(waits):
        pass


def test_its_error_is_raised_by_the_end_of_the_block_and_by_the_function() -> None:
    with pytest.raises(KeyError, match="beside"), beside(fails):
        pass
    with pytest.raises(KeyError, match="beside"), beside(fails) as end:
        end()


def test_the_error_of_the_block_is_the_one_that_is_raised() -> None:
    with pytest.raises(ValueError, match="block"), beside(fails):
        raise ValueError("block")
