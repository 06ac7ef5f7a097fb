"""The shortest of the crash tests, for every run of the tests; `make crash` has all of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

import tests.crash.faults  # noqa: F401 - it names the scenarios
from tests.crash.mutants import MUTANTS, caught
from tests.crash.scenario import SCENARIOS, run, run_together
from tests.crash.servers import Servers, servers

pytestmark = pytest.mark.stack
SEED = int(os.environ.get("AQUEDUCT_TEST_SEED", "") or random.SystemRandom().randrange(10**6))
FAULTS = (
    "kill.commit.after",
    "kafka.lost.end-transaction.answer",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(tmp_path_factory.mktemp("crash")) as found:
        yield found


def test_faults_one_after_the_other_lose_and_repeat_nothing(
    running: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    several = [SCENARIOS[name] for name in FAULTS]
    outcomes = run_together(several, running, tmp_path_factory.mktemp("faults"), seed=SEED)
    assert [one.line() for one in outcomes if not one.survived] == []
    assert [one.name for one in outcomes] == list(FAULTS)
    assert outcomes[-1].changes > 100


def test_a_cursor_written_by_hand_is_refused(
    running: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    forged = SCENARIOS["journal.seq-ahead"]
    outcome = run(forged, running, tmp_path_factory.mktemp("forged"), seed=SEED)
    assert outcome.survived, outcome.line()


@pytest.mark.parametrize("name", ["read-uncommitted", "row-skipped"])
def test_a_broken_guard_is_seen(
    running: Servers, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    assert caught(MUTANTS[name], running, tmp_path_factory.mktemp("mutant"), seed=SEED)
