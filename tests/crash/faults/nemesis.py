"""Random faults one after another, for the seconds in AQUEDUCT_TEST_NEMESIS."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable

from tests.crash import links
from tests.crash.processes import children_of, kill_all
from tests.crash.scenario import fault
from tests.crash.scene import Scene
from tests.crash.warehouse import apply

SECONDS = float(os.environ.get("AQUEDUCT_TEST_NEMESIS", "") or 600)

Hurt = Callable[[Scene], None]


def kill_worker(at: Scene) -> None:
    at.worker.kill()


def freeze_worker(at: Scene) -> None:
    at.worker.signal(signal.SIGSTOP)
    at.pause(1, 5)
    at.worker.signal(signal.SIGCONT)


def kill_decoder(at: Scene) -> None:
    kill_all(children_of(at.worker.pid, "app.worker.pipeline.decoders.child")[:1])


def reset_mysql(at: Scene) -> None:
    at.mysql.reset()


def cut_mysql(at: Scene) -> None:
    at.mysql.way(at.rng.choice(("up", "down")), cut_after=at.rng.randint(1, 40_000))


def hold_mysql(at: Scene) -> None:
    at.mysql.way(at.rng.choice(("up", "down")), held=True)
    at.pause(1, 6)


def reset_kafka(at: Scene) -> None:
    at.kafka.reset()


def cut_kafka(at: Scene) -> None:
    at.kafka.way(at.rng.choice(("up", "down")), cut_after=at.rng.randint(1, 40_000))


def hold_kafka(at: Scene) -> None:
    at.kafka.way(at.rng.choice(("up", "down")), held=True)
    at.pause(1, 13)


def lose_request(at: Scene) -> None:
    kind = at.rng.choice((links.END_TXN, links.END_TXN, links.PRODUCE, links.ADD_PARTITIONS))
    at.kafka.trap(kind, answered=at.rng.random() < 0.5, nth=at.rng.randint(1, 4), shut=1.0)


def kill_mysqld(at: Scene) -> None:
    at.servers.mysql.kill()
    at.pause(0.1, 1)
    at.servers.mysql.start()


def kill_broker(at: Scene) -> None:
    at.servers.stack.kafka_server.kill()
    at.pause(0.1, 1)
    at.servers.stack.kafka_server.start()


def rotate(at: Scene) -> None:
    at.servers.run(*["FLUSH BINARY LOGS"] * 5)


HURTS: tuple[tuple[Hurt, int], ...] = (
    (kill_worker, 5),
    (freeze_worker, 2),
    (kill_decoder, 1),
    (reset_mysql, 3),
    (cut_mysql, 4),
    (hold_mysql, 2),
    (reset_kafka, 3),
    (cut_kafka, 4),
    (hold_kafka, 2),
    (lose_request, 5),
    (kill_mysqld, 1),
    (kill_broker, 1),
    (rotate, 2),
)


@fault("nemesis", "random faults one after another, chosen by the seed")
def nemesis(at: Scene) -> str:
    at.decoders = 2
    at.begin()
    done: Counter[str] = Counter()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        hurt = at.rng.choices([one for one, _ in HURTS], [weight for _, weight in HURTS])[0]
        hurt(at)
        done[hurt.__name__] += 1
        at.pause(0.2, 3)
        for wire in (at.mysql, at.kafka):
            wire.restore()
        if at.rng.random() < 0.4:
            _lead(at)
        if at.rng.random() < 0.1:
            apply(at)
    _lead(at)
    return f"{done.total()} faults in {SECONDS:.0f} s; recovered in {at.wait_recovered():.1f} s"


def _lead(at: Scene) -> None:
    """Wait until it publishes again; where the broker's own abort has fenced it, start it again."""
    at.wait(lambda: at.state() in ("RUNNING", "FENCED"), "is neither RUNNING nor FENCED")
    if at.state() == "FENCED":
        at.worker.kill()
        at.pause(0.5, 1)
        at.wait_running()
