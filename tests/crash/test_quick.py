"""The shortest of the crash tests, for every run of the tests; `make crash` has all of them."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator

import pytest

import tests.crash.faults  # noqa: F401 - it names the scenarios
from tests.crash import impatient
from tests.crash.mutants import MUTANTS, caught
from tests.crash.scenario import SCENARIOS, run, run_together
from tests.crash.scene import scene
from tests.crash.servers import Servers, servers

pytestmark = pytest.mark.stack
SEED = int(os.environ.get("AQUEDUCT_TEST_SEED", "") or random.SystemRandom().randrange(10**6))
FAULTS = (
    "kill.commit.after",
    "kafka.lost.end-transaction.answer",
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    # The sink has tests of its own; here the topics and the journal are judged.
    with servers(tmp_path_factory.mktemp("crash"), with_sink=False) as found:
        yield found


def test_faults_one_after_the_other_lose_and_repeat_nothing(
    running: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    several = [SCENARIOS[name] for name in FAULTS]
    outcomes = run_together(several, running, tmp_path_factory.mktemp("faults"), seed=SEED)
    assert [one.line() for one in outcomes if not one.survived] == []
    assert [one.name for one in outcomes] == list(FAULTS)
    assert outcomes[-1].changes > 100


@pytest.mark.long("unit/tables/state/journal has the check, make crash each forgery")
def test_a_cursor_written_by_hand_is_refused(
    running: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    forged = SCENARIOS["journal.seq-ahead"]
    outcome = run(forged, running, tmp_path_factory.mktemp("forged"), seed=SEED)
    assert outcome.survived, outcome.line()


@pytest.mark.parametrize(
    "name",
    [
        "read-uncommitted",
        pytest.param(
            "row-skipped", marks=pytest.mark.long("another guard; make crash breaks each")
        ),
    ],
)
def test_a_broken_guard_is_seen(
    running: Servers, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    assert caught(MUTANTS[name], running, tmp_path_factory.mktemp("mutant"), seed=SEED)


@pytest.mark.remedy("KafkaSlow")
def test_a_slow_kafka_gets_less_at_once_after_a_time_out_and_more_again_later(
    running: Servers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, rows, most = tmp_path_factory.mktemp("slow"), 3_000, 1024 * 1024
    publish = {"max_bytes": most, "interval_ms": 20, "compression": None}
    with scene(running, folder, name="slow", seed=SEED, command=impatient.COMMAND) as at:
        worker = at.start(publish=publish)
        at.wait_running(worker)
        at.kafka.way("up", bandwidth=300_000)
        at.servers.run(
            "CREATE TABLE shop.small (id INT PRIMARY KEY, n TINYINT)",
            f"SET SESSION cte_max_recursion_depth = {rows}",
            "INSERT INTO shop.small WITH RECURSIVE one (n) AS "
            f"(SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < {rows}) SELECT n, 1 FROM one",
        )
        at.wait_recovered()
        assert "KafkaSlow" in worker.log
        sizes = [
            int(size) for size in re.findall(r"publishes (\d+) bytes at once from", worker.log)
        ]
        assert sizes
        assert sizes == sorted({*sizes}, reverse=True)
        assert sizes[0] == most // 2
        at.kafka.restore()
        at.load.start()
        at.wait(lambda: "bytes at once again" in worker.log, "never publishes more at once again")
        at.settle()
        assert at.examine() == {}
