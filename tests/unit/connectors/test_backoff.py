"""The pauses between attempts."""

from random import Random

from connectors.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.pause() == 0.5


def test_jitter_takes_at_most_half_of_a_pause_and_does_not_shorten_the_next_ones() -> None:
    backoff = Backoff(1.0, 30.0, Random(1))
    whole = [1.0, 2.0, 4.0, 8.0, 16.0, *[30.0] * 3000]
    found = [backoff.pause() for _ in whole]
    assert all(most / 2 <= pause <= most for pause, most in zip(found, whole, strict=True))
    assert len(set(found[-100:])) > 50
