"""The shortest of the crash tests, for every run of the tests; `make crash` has all of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

import tests.crash.faults  # noqa: F401 - it names the scenarios
from tests.crash.mutants import MUTANTS, caught
from tests.crash.scenario import SCENARIOS, run
from tests.crash.servers import Servers, servers

pytestmark = pytest.mark.stack
SEED = int(os.environ.get("AQUEDUCT_TEST_SEED", "") or random.SystemRandom().randrange(10**6))
FAULTS = (
    "kill.commit.before",
    "kill.commit.after",
    "mysql.cut.down",
    "kafka.lost.end-transaction.answer",
    "journal.seq-ahead",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(tmp_path_factory.mktemp("crash")) as found:
        yield found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_loses_and_repeats_nothing(
    running: Servers, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    outcome = run(SCENARIOS[name], running, tmp_path_factory.mktemp("fault"), seed=SEED)
    assert outcome.survived, outcome.line()
    assert outcome.changes > 0


@pytest.mark.parametrize("name", ["read-uncommitted", "row-skipped"])
def test_a_broken_guard_is_seen(
    running: Servers, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    assert caught(MUTANTS[name], running, tmp_path_factory.mktemp("mutant"), seed=SEED)
