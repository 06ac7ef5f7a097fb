"""Faults of the link between the worker and Kafka."""

from __future__ import annotations

import re

from tests.crash import links
from tests.crash.scenario import fault
from tests.crash.scene import Scene

_SMALL_ROWS = 400_000
_ANSWER = 10.0
"""Seconds within which a transaction must be through."""


@fault("kafka.reset", "all connections to Kafka are reset, three times")
def reset(at: Scene) -> str:
    at.begin()
    for _ in range(3):
        at.pause(0.3, 1.5)
        at.kafka.reset()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("kafka.cut.up", "connections are cut after a random byte sent to Kafka, six times")
def cut_up(at: Scene) -> str:
    at.begin()
    for _ in range(6):
        at.kafka.way("up", cut_after=at.rng.randint(1, 60_000))
        at.pause(0.3, 1.5)
    at.kafka.restore()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("kafka.cut.down", "connections are cut after a random byte sent by Kafka, six times")
def cut_down(at: Scene) -> str:
    at.begin()
    for _ in range(6):
        at.kafka.way("down", cut_after=at.rng.randint(1, 4_000))
        at.pause(0.3, 1.5)
    at.kafka.restore()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("kafka.black.up", "requests to Kafka are held back for 14 s, then delivered")
def black_up(at: Scene) -> str:
    return _black(at, "up")


@fault("kafka.black.down", "responses from Kafka are held back for 14 s, then delivered")
def black_down(at: Scene) -> str:
    return _black(at, "down")


def _black(at: Scene, way: links.Direction) -> str:
    at.begin()
    at.kafka.way(way, held=True)
    at.pause(_ANSWER + 3, _ANSWER + 5)
    at.kafka.restore()
    return _on(at)


@fault("kafka.half-open", "Kafka's port accepts connections and does not answer for 14 s")
def half_open(at: Scene) -> str:
    at.begin()
    at.kafka.door("half_open")
    at.kafka.reset()
    at.pause(_ANSWER + 3, _ANSWER + 5)
    at.kafka.restore()
    at.kafka.reset()
    return _on(at)


@fault("kafka.slow", "Kafka's link has 30 ms more latency each way and 300 kB/s")
def slow(at: Scene) -> str:
    at.begin()
    for way in ("up", "down"):
        at.kafka.way(way, latency=0.03, bandwidth=300_000)
    at.pause(6, 8)
    at.kafka.restore()
    return _on(at)


@fault(
    "kafka.slow.large",
    f"Kafka's link has 300 kB/s throughout, with a transaction of {_SMALL_ROWS:,} small rows",
)
def slow_large(at: Scene) -> str:
    # As the settings are by default: of such rows a chunk is a hundred megabytes of records. The sink would
    # take minutes for them, in which nothing is done to it.
    at.not_sunk = r".*\.shop\.small"
    at.begin(publish={})
    at.pause(0.5, 1.5)
    for way in ("up", "down"):
        at.kafka.way(way, bandwidth=300_000)
    at.servers.run(
        "CREATE TABLE shop.small (id INT PRIMARY KEY, n TINYINT)",
        f"SET SESSION cte_max_recursion_depth = {_SMALL_ROWS}",
        "INSERT INTO shop.small "
        f"WITH RECURSIVE one (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < {_SMALL_ROWS}) "
        "SELECT n, 1 FROM one",
    )
    seconds = at.wait_recovered(seconds=900)
    sizes = re.findall(r"publishes (\d+) bytes at once from", at.worker.log)
    late = (
        f"{len(sizes)} time-outs, then at most {int(sizes[-1]):,} bytes at once; " if sizes else ""
    )
    at.kafka.restore()
    return f"published in {seconds:.0f} s; {late}{_on(at)}"


@fault("kafka.flip", "one bit of a record is flipped on the way to the broker, four times")
def flip(at: Scene) -> str:
    at.begin()
    sprung = 0
    for _ in range(4):
        at.kafka.trap(links.PRODUCE, act="flip", nth=at.rng.randint(1, 5))
        at.wait(lambda: at.kafka.seen()["sprung"] == 1, "produces nothing")
        sprung += 1
        at.pause(0.3, 1.0)
    return f"{sprung} refused by the broker; {_on(at)}"


@fault("kafka.late-commit", "an EndTxn request arrives 13 s late, after a new run has begun")
def late_commit(at: Scene) -> str:
    at.begin()
    at.kafka.trap(links.END_TXN, act="hold", nth=at.rng.randint(2, 8))
    at.wait(lambda: at.kafka.seen()["sprung"] == 1, "ends no transaction")
    at.pause(_ANSWER + 2, _ANSWER + 4)
    at.kafka.restore()
    return _on(at)


def _lost(name: str, kind: int, *, answered: bool) -> None:
    lost = "the response to" if answered else "the request"
    side = "answer" if answered else "request"

    @fault(f"kafka.lost.{name}.{side}", f"{lost} {name} is lost, and Kafka is unavailable for 2 s")
    def act(at: Scene) -> str:
        starts = kind in (links.INIT_PRODUCER_ID, links.FIND_COORDINATOR, links.FETCH)
        at.begin()
        at.pause(0.2, 1.0)
        # Of those at the start only one is certain.
        nth = 1 if starts else at.rng.randint(1, 6)
        at.kafka.trap(kind, answered=answered, nth=nth, shut=2.0)
        if starts:
            at.worker.kill()
        at.wait(lambda: at.kafka.seen()["sprung"] == 1, f"asks nothing of kind {name}")
        return _on(at)


for _kind, _name in (
    (links.INIT_PRODUCER_ID, "init-producer"),
    (links.FIND_COORDINATOR, "find-coordinator"),
    (links.ADD_PARTITIONS, "add-partitions"),
    (links.PRODUCE, "produce"),
    (links.END_TXN, "end-transaction"),
    (links.FETCH, "fetch"),
):
    for _answered in (False, True):
        _lost(_name, _kind, answered=_answered)


def _on(at: Scene) -> str:
    """By itself; or, where the broker's own abort looks like another leader, after a restart."""
    at.wait(lambda: at.state() in ("RUNNING", "FENCED"), "is neither RUNNING nor FENCED")
    at.pause(1.0, 1.5)
    if at.state() == "FENCED":
        at.worker.kill()
        return f"FENCED by the broker; after a restart recovered in {at.wait_recovered():.1f} s"
    return f"recovered in {at.wait_recovered():.1f} s"
