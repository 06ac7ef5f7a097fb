"""The time until the source purges the worker's position: by age, by space, caught up, lagging or stopped."""

import math

import pytest

from app.worker.destination.purge_watch import Observation, until_purged
from app.worker.status import Purge
from connectors.mysql.lookup.binlog_retention import Retention, age_limit, space_limit
from connectors.mysql.position import Coordinates

DAY = 86400.0
HOUR = 3600.0
FILES = (("b.000004", 100), ("b.000005", 200), ("b.000006", 50))


def look(
    at: float, *, behind: float = 0.0, left: float = math.inf, written: int = 0
) -> Observation:
    return Observation(at, behind, left, written)


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "2592000", "expire_logs_days": "0"}, 30 * DAY),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "3"}, 3 * DAY),
        ({"expire_logs_days": "0.500000"}, DAY / 2),
        ({"binlog_expire_logs_seconds": "0"}, None),
        ({"expire_logs_days": "0"}, None),
        ({"binlog_expire_logs_seconds": "9", "binlog_expire_logs_auto_purge": "OFF"}, None),
        ({}, None),
    ],
)
def test_the_limit_of_age_is_what_the_server_goes_by(
    variables: dict[str, str], seconds: float | None
) -> None:
    assert age_limit(variables) == seconds


def test_the_limit_of_space_is_the_smaller_one_that_is_set() -> None:
    assert space_limit({"max_binlog_total_size": "0"}) is None
    assert space_limit({"max_binlog_total_size": "500", "binlog_space_limit": "400"}) == 400


def test_a_file_lasts_from_its_end_on_and_the_last_one_from_now_on() -> None:
    kept = Retention(binlogs=FILES, seconds=DAY, space=1000)
    begun = {"b.000005": 1_000_000.0, "b.000006": 1_040_000.0}.__getitem__
    now = 1_050_000.0
    assert kept.seconds_left(Coordinates("b.000004", 9), now, begun) == DAY - 50_000
    assert kept.seconds_left(Coordinates("b.000005", 9), now, begun) == DAY - 10_000
    assert kept.seconds_left(Coordinates("b.000006", 9), now, begun) == DAY
    assert kept.space_left(Coordinates("b.000005", 9)) == 1000 - 250
    assert kept.is_end(Coordinates("b.000006", 50))
    assert not kept.is_end(Coordinates("b.000005", 200))


def test_who_keeps_up_is_never_purged_but_would_be_if_it_stopped() -> None:
    assert until_purged(DAY, [look(0), look(60)]) == Purge(DAY, math.inf)
    assert until_purged(DAY, [look(0, behind=500), look(60, behind=480)]) == Purge(DAY, math.inf)


def test_without_progress_the_whole_lag_remains() -> None:
    assert until_purged(DAY, [look(0, behind=0), look(60, behind=60)]) == Purge(DAY, DAY)


def test_a_worker_that_lags_by_half_has_twice_as_long() -> None:
    assert until_purged(DAY, [look(0, behind=10), look(60, behind=40)]) == Purge(DAY, 2 * DAY)


def test_space_is_filled_by_what_is_written_and_freed_by_what_is_read() -> None:
    # 10 bytes a second are written; of them 4 are read.
    looks = [look(0, left=36_600), look(100, left=36_000, written=1000)]
    assert until_purged(math.inf, looks) == Purge(HOUR, 36_000 / 6)
    kept_up = [look(0, left=36_000), look(100, left=36_000, written=1000)]
    assert until_purged(math.inf, kept_up) == Purge(HOUR, math.inf)


def test_one_look_gives_no_speed() -> None:
    assert until_purged(HOUR, [look(0, behind=99)]) == Purge(HOUR, math.inf)
    assert until_purged(0.0, [look(0)]) == Purge(0.0, 0.0)


def test_the_status_page_has_hours_and_null_for_no_limit() -> None:
    assert Purge(HOUR, math.inf).to_json() == {"hours": None, "hours_if_stopped": 1.0}
