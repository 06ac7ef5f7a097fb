"""``python -m bench.takeover``: interruption of destinations by a worker's death, stop or restart.

Invariant: real workers, real servers, rows written continuously; an interruption ends when a
consumer of committed records sees the first one of the next leader.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pymysql
from aiokafka import AIOKafkaConsumer

from devstack import Stack
from tables.rules.routes.routes import Routes
from tests.harness.pair import SESSION, Pair, pair_settings

_EACH_SECONDS = 0.04
_KILL, _STOP, _ROLL = "kill -9 of a leader", "SIGTERM to a leader", "both restarted, one by one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The measured seconds, one for each interruption of a destination."""

    kind: str
    destinations: int
    seconds: list[float] = field(default_factory=list)

    def percentile(self, percent: float) -> float:
        """The percentile by nearest rank."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]

    def line(self) -> str:
        """A row of the table."""
        return (
            f"| {self.kind:<26} | {self.destinations:>12} | {len(self.seconds):>3} "
            f"| {statistics.median(self.seconds):>5.2f} | {self.percentile(95):>5.2f} "
            f"| {max(self.seconds):>5.2f} |"
        )


class Watch:
    """Records when each record of some topics becomes visible, and its epoch."""

    def __init__(self, kafka: str, topics: dict[str, str]) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {name: [] for name in topics}
        self._names = {topic: name for name, topic in topics.items()}
        self._stopping = threading.Event()
        self._kafka = kafka
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read()), daemon=True)
        self._thread.start()

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            *self._names,
            bootstrap_servers=self._kafka,
            isolation_level="read_committed",
            auto_offset_reset="latest",
            fetch_max_wait_ms=20,
            metadata_max_age_ms=1000,
        )
        await consumer.start()
        while not self._stopping.is_set():
            found = await consumer.getmany(timeout_ms=50)
            now = time.monotonic()
            for tp, records in found.items():
                seen = self._seen[self._names[tp.topic]]
                for record in records:
                    if record.value:
                        seen.append((now, orjson.loads(record.value)["source"]["epoch"]))
        await consumer.stop()

    def stop(self) -> None:
        """Stop the watch."""
        self._stopping.set()
        self._thread.join()

    def epoch(self, name: str) -> int:
        """The greatest epoch so far; waits for the first."""
        while not self._seen[name]:
            time.sleep(0.01)
        return max(epoch for _, epoch in list(self._seen[name]))

    def next_leader(self, name: str, since: float, epoch: int, timeout: float = 60.0) -> float:
        """Seconds from a time until a later epoch was seen."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for at, each in list(self._seen[name]):
                if each > epoch and at > since:
                    return at - since
            time.sleep(0.01)
        raise TimeoutError(f"{name}: no epoch above {epoch} in {timeout} s")

    def longest_gap(self, name: str, since: float) -> float:
        """The longest time without any record."""
        times = [since, *(at for at, _ in list(self._seen[name]) if at >= since)]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


@contextlib.contextmanager
def writing(stack: Stack, database: str, names: tuple[str, ...]) -> Iterator[None]:
    """Write rows to all tables continuously within the block."""
    stopping = threading.Event()

    def write() -> None:
        with _root(stack) as connection, connection.cursor() as cursor:
            while not stopping.wait(_EACH_SECONDS):
                for name in names:
                    cursor.execute(f"INSERT INTO {database}.{name} (x) VALUES (1)")

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _root(stack: Stack) -> pymysql.Connection:
    mysql = stack.mysql
    return pymysql.connect(host=mysql.host, port=mysql.port, user="root", autocommit=True)


class Trial:
    """Two workers that share some destinations, all under load."""

    def __init__(self, stack: Stack, folder: Path, count: int) -> None:
        self._stack, self._folder = stack, folder
        self.names = tuple(f"d{number}" for number in range(1, count + 1))
        self._database = f"takeover{count}"

    def run(self, *, kills: int, stops: int, rolls: int) -> list[Times]:
        """Measure all three."""
        with _root(self._stack) as root, root.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self._database}")
            for name in self.names:
                cursor.execute(
                    f"CREATE TABLE {self._database}.{name} (id bigint PRIMARY KEY AUTO_INCREMENT, x int)"
                )
        self._folder.mkdir()
        wanted = pair_settings(
            self._stack, self._stack.mysql, self._folder, names=self.names, database=self._database
        )
        routes = Routes(prefix=wanted["prefix"])
        topics = {name: routes.topic((self._database, name)) for name in self.names}
        with (
            Pair(wanted, self._folder) as pair,
            writing(self._stack, self._database, self.names),
        ):
            pair.start("a")
            pair.start("b")
            leaders = self._balanced(pair)
            pair.until(lambda: all(self._has_rows(pair, each) for each in leaders.items()))
            watch = Watch(self._stack.kafka, topics)
            try:
                return [
                    self._times(
                        _KILL, (self._ended(pair, watch, signal.SIGKILL) for _ in range(kills))
                    ),
                    self._times(
                        _STOP, (self._ended(pair, watch, signal.SIGTERM) for _ in range(stops))
                    ),
                    self._times(_ROLL, (self._rolled(pair, watch) for _ in range(rolls))),
                ]
            finally:
                watch.stop()

    def _has_rows(self, pair: Pair, led: tuple[str, str]) -> bool:
        name, worker = led
        return bool(pair.status(worker)["destinations"][name]["rows"])

    def _times(self, kind: str, runs: Iterator[list[float]]) -> Times:
        times = Times(kind=kind, destinations=len(self.names))
        for seconds in runs:
            times.seconds.extend(seconds)
            measured = ", ".join(f"{each:.2f}" for each in seconds)
            sys.stdout.write(f"  {kind}, {len(self.names)} destination(s): {measured} s\n")
            sys.stdout.flush()
        return times

    def _balanced(self, pair: Pair) -> dict[str, str]:
        """The leader of each destination, once all are led, half of them by each worker."""

        def spread() -> dict[str, str] | None:
            leaders = {}
            for name in self.names:
                running = [one for one, state in pair.states(name).items() if state == "RUNNING"]
                if len(running) != 1:
                    return None
                leaders[name] = running[0]
            counts = Counter(leaders.values())
            return leaders if len(self.names) // 2 <= min(counts[each] for each in "ab") else None

        pair.settled()
        found: dict[str, str] = pair.until(spread)
        return found

    def _ended(self, pair: Pair, watch: Watch, number: signal.Signals) -> list[float]:
        """End a leader; return for each of its destinations the seconds to the next one's first record."""
        leaders = self._balanced(pair)
        time.sleep(1.0)
        worker = leaders[self.names[0]]
        led = {name: watch.epoch(name) for name, leader in leaders.items() if leader == worker}
        began = time.monotonic()
        pair.end(worker, number)
        took = [watch.next_leader(name, began, epoch) for name, epoch in led.items()]
        pair.start(worker)
        return took

    def _rolled(self, pair: Pair, watch: Watch) -> list[float]:
        """Restart both workers in turn; return the longest gap between records per destination."""
        self._balanced(pair)
        began = time.monotonic()
        for worker in ("a", "b"):
            pair.end(worker, signal.SIGTERM)
            pair.start(worker)
            self._balanced(pair)
        time.sleep(2.0)
        return [watch.longest_gap(name, began) for name in self.names]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kills", type=int, default=6, help="takeovers, for each number of destinations"
    )
    parser.add_argument("--stops", type=int, default=6)
    parser.add_argument("--rolls", type=int, default=1)
    parser.add_argument("--destinations", type=int, nargs="+", default=[1, 4])
    parser.add_argument(
        "--folder", type=Path, help="where logs are kept; a temporary one without it"
    )
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.folder
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="takeover-")))
        servers = stack.enter_context(Stack(folder / "stack"))
        found = [
            times
            for count in options.destinations
            for times in Trial(servers, folder / f"takeover{count}", count).run(
                # The worker that ends leads half of the destinations, and each is measured.
                kills=-(-options.kills // max(1, count // 2)),
                stops=-(-options.stops // max(1, count // 2)),
                rolls=options.rolls,
            )
        ]
    _print_summary(found)


def _print_summary(found: list[Times]) -> None:
    measured = [times for times in found if times.seconds]
    sys.stdout.write(
        f"Seconds without a record, ZooKeeper's session {SESSION:.0f} s\n"
        f"| {'event':<26} | destinations |   n |   p50 |   p95 |   max |\n"
        f"|{'-' * 28}|-------------:|----:|------:|------:|------:|\n"
        + "".join(f"{times.line()}\n" for times in measured)
    )
    killed = max((times.percentile(95) for times in measured if times.kind == _KILL), default=0.0)
    stopped = max((max(times.seconds) for times in measured if times.kind == _STOP), default=0.0)
    rolled = max((max(times.seconds) for times in measured if times.kind == _ROLL), default=0.0)
    sys.stdout.write(
        f"takeover: kill_p95={killed:.2f} stop_max={stopped:.2f} rolling_max={rolled:.2f}\n"
    )


if __name__ == "__main__":
    main()
