"""The size of a Kafka transaction after slow and after fast ones."""

from app.worker.pipeline.publish.transaction_size import Budget
from connectors.mysql.stream.cutter import TARGET

MOST = 8 * 1024 * 1024


def test_without_trouble_it_is_what_the_settings_say() -> None:
    budget = Budget(MOST)
    for _ in range(100):
        budget.through(0.01)
    assert (budget.bytes, budget.chunk, budget.timeout_factor) == (MOST, TARGET, 1.0)


def test_each_time_out_halves_it_down_to_a_floor_that_holds_a_rows_event() -> None:
    budget = Budget(MOST)
    budget.too_slow()
    assert (budget.bytes, budget.chunk, budget.timeout_factor) == (MOST // 2, TARGET // 2, 2.0)
    for _ in range(50):
        budget.too_slow()
    assert (budget.bytes, budget.chunk) == (64 * 1024, 16 * 1024)
    assert budget.timeout_factor == 4.0


def test_it_is_never_more_than_the_settings_say() -> None:
    budget = Budget(10_000)
    budget.too_slow()
    assert budget.bytes == 10_000


def test_it_grows_again_once_many_in_a_row_went_through_with_ease() -> None:
    budget = Budget(MOST)
    budget.too_slow()
    assert not any(budget.through(0.1) for _ in range(24))
    assert not budget.through(0.5)
    assert not any(budget.through(0.1) for _ in range(24))
    assert budget.bytes == MOST // 2
    assert budget.through(0.1)
    assert budget.bytes == MOST
    assert not budget.through(0.1)


def test_batches_fit_the_topic_that_refused_one() -> None:
    budget = Budget(most=1000)
    assert budget.batch_bytes(1000) == 1000
    budget.refused(500, sent=900)
    assert budget.batch_bytes(1000) == 450
    budget.refused(800, sent=900)
    assert budget.batch_bytes(1000) == 450
    assert budget.batch_bytes(300) == 300


def test_batches_shrink_where_the_limit_is_not_known() -> None:
    budget = Budget(most=1000)
    budget.refused(None, sent=600)
    assert budget.batch_bytes(1000) == 300
    budget.refused(None, sent=200)
    assert budget.batch_bytes(1000) == 100


def test_a_limit_that_was_raised_again_is_found_by_a_later_run() -> None:
    budget = Budget(most=1000)
    for _ in range(200):
        budget.through(0.1)
    budget.refused(500, sent=900)
    assert budget.batch_bytes(1000) == 450
    for _ in range(200):
        budget.through(0.1)
    assert budget.batch_bytes(1000) == 1000
