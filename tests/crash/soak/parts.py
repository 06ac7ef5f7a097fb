"""The programs of a soak: two workers, the sink, their commands, and installations that look alike.

Invariant: a command is run as it is printed, by a shell, so a name with odd signs must be quoted in it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import NewTopic

from devstack import Stack
from devstack.programs import environment
from tests.crash.sink_scene import sinking
from tests.crash.soak.verdict import KEY
from tests.harness import topics
from tests.harness.beside import beside
from tests.harness.pair import Pair, pair_settings
from tests.harness.worker import Worker, running, settings

PREFIX = "soak"
INSIDE = f"{PREFIX}.eu"
"""An installation with a worker of its own, all of whose topics begin as ours do."""
ALIKE = (f"{PREFIX}x.test", f"test-{PREFIX}")
"""Installations whose topics have copies of our records, as of a later leader."""
COPIED = ("__schemas", "__journal", "__ddl.shop", "shop.orders", "shop.pairs", "shop.plain")
TIMEOUT = 1800.0
OMITTED = "as the worker publishes no TRUNCATE"
KEPT = (OMITTED, "as a mapping applied to them", "the rows of the earlier one are kept")
"""In the notes on rows that the source has no more, and that no record has removed."""
_COMMAND = re.compile(r"(?<!`)python -m (?:app|spark_sink) .+?(?=; |$)")
"""One that is to be run; what only shows something is printed between backticks."""
_ALTERNATIVE = re.compile(r"; or\b")
_TABLE = re.compile(r"(\S.*): (WAITING|RELOADING|APPLIED)")


def commands(lines: str) -> list[str]:
    """The commands that some lines print."""
    return [one for line in lines.splitlines() for one in _COMMAND.findall(line)]


def chosen(lines: str, chance: float) -> list[str]:
    """Those commands of some lines that an operator runs who chooses one of each line's alternatives."""
    found: list[str] = []
    for line in lines.splitlines():
        ways = [way for text in _ALTERNATIVE.split(line) if (way := commands(text))]
        found += ways[int(chance * len(ways))] if ways else []
    return found


def is_kept(lines: str) -> bool:
    """Whether some lines are about rows that the source has no more."""
    return any(one in lines for one in KEPT)


class Parts:
    """All programs; they end with ``ending``."""

    def __init__(
        self, stack: Stack, folder: Path, note: Callable[[str], None], ending: ExitStack
    ) -> None:
        self.folder, self._stack, self._note, self._ending = folder, stack, note, ending
        self.faults: list[str] = []
        self.together: list[str] = []
        """The commands for several tables that `status` printed last."""
        self.sink_config, self._sink_log = folder / "sink.yaml", folder / "sink.log"
        self.sink_config.write_text(yaml.safe_dump(self._sink_settings()))
        self.pair = ending.enter_context(Pair(self._worker_settings(), folder))
        self._sink = ending.enter_context(ExitStack())
        self.pair.write("one")

    def fault(self, text: str) -> None:
        """Report what is wrong with the run."""
        self.faults.append(text)
        self._note(f"FAULT {text}")

    def _worker_settings(self) -> dict[str, Any]:
        keys = self.folder / "keys"
        keys.write_text(f"k1: {base64.b64encode(KEY).decode()}\n")
        wanted = pair_settings(self._stack, self._stack.mysql, self.folder, root=f"/{PREFIX}")
        shop = wanted["destinations"]["shop"]
        shop |= {"filter": {"include": r"shop\..*"}, "snapshot": {"mode": "initial"}}
        del shop["start"]
        return wanted | {
            "prefix": PREFIX,
            "publish": {"max_bytes": 65_536, "interval_ms": 50},
            "provide_transaction_metadata": True,
            "mapping": {"store": "zookeeper", "key_file": str(keys)},
        }

    def _sink_settings(self) -> dict[str, Any]:
        return {
            "prefix": PREFIX,
            "bootstrap_servers": self._stack.kafka,
            "warehouse": str(self.folder / "wh"),
            "merge_interval": 10,
            "metrics": {"port": 0},
            "maintenance": {"every": 5, "retention_hours": 0.5},
            "log": {"file": str(self.folder / "sink-details.log")},
            "tables": [{"match": r"shop\.(words|ring)", "deletes": "hard"}],
        }

    def start(self) -> Worker:
        """Start workers and sink, and the worker inside; return the latter."""
        for name in ("one", "two"):
            self.pair.start(name)
        self.start_sink()
        folder = self.folder / "eu"
        folder.mkdir()
        wanted = settings(self._stack, self._stack.mysql, folder, decoders=0)
        wanted["prefix"] = INSIDE
        wanted["destinations"]["shop"]["filter"] = {"include": r"shop\.(orders|p.*)"}
        return self._ending.enter_context(running(wanted, folder))

    def start_alike(self) -> Callable[[], None]:
        """Begin to copy our records to the installations that look alike; returns what ends it."""
        wanted = [NewTopic(f"{prefix}.{name}", 2, 1) for prefix in ALIKE for name in COPIED]
        topics.on_kafka(self._stack, lambda admin: admin.create_topics(wanted))
        copy = partial(_copied, self._stack.kafka)
        return self._ending.enter_context(beside(lambda stop: asyncio.run(copy(stop))))

    def until(self, reached: Callable[[], Any]) -> None:
        """Wait for what takes long on a busy machine."""
        self.pair.until(reached, seconds=TIMEOUT)

    def shown(self) -> dict[str, Any]:
        """The status of the destination where it runs; empty if it runs on neither worker."""
        for name, worker in self.pair.workers.items():
            if worker.process.poll() is None:
                found = self.pair.status(name).get("destinations", {}).get("shop", {})
                if found.get("state") == "RUNNING":
                    return dict(found)
        return {}

    def has_read(self) -> bool:
        """Whether no existing rows are still to be published."""
        states = {one["state"] for one in (self.shown().get("snapshot") or {}).values()}
        return bool(states) and states.isdisjoint(("waiting", "reading"))

    def kill_worker(self, name: str) -> None:
        """Kill a worker, and start it again."""
        self.pair.end(name, signal.SIGKILL)
        self.pair.start(name)

    def start_sink(self) -> None:
        """Start the sink, until it is killed or stopped."""
        self._process = self._sink.enter_context(sinking(self.sink_config, "none", 0))
        self._batches = self._applied()

    def kill_sink(self) -> None:
        """Kill the sink with its JVM, and start it again."""
        self._sink.close()
        self.start_sink()

    def _applied(self) -> int:
        log = self._sink_log
        return log.read_text(errors="replace").count(" batch applied ") if log.exists() else 0

    @property
    def sink_has_worked(self) -> bool:
        """Whether the sink has applied a batch since its start."""
        return self._applied() > self._batches

    def check(self) -> None:
        """Report a program that has ended by itself, and start it again."""
        if self._process.poll() is not None:
            self.fault(f"the sink has ended: {self._sink_log.read_text(errors='replace')[-1500:]}")
            self.kill_sink()
        for name, worker in self.pair.workers.items():
            if worker.process.poll() is not None:
                self.fault(f"worker {name} has ended: {worker.log[-1500:]}")
                self.pair.start(name)

    def apply(self) -> None:
        """Stop the sink, and apply all that Kafka has by a run that ends."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        # A signal that comes before it has begun ends it too.
        if (code := self._process.wait(TIMEOUT)) not in (0, -signal.SIGTERM):
            self.fault(f"the sink ended with {code}")
        self._sink.close()
        self.shell("python -m spark_sink --mode available-now")

    def shell(self, printed: str) -> str:
        """Run a command as it is printed; returns what it prints."""
        ours = printed.replace("python -m app", f"{sys.executable} -m app").replace(
            "python -m spark_sink", f"{sys.executable} -m spark_sink --config {self.sink_config}"
        )
        self._note(f"  $ {printed}")
        done = subprocess.run(
            ["bash", "-c", ours],
            env=environment(AQUEDUCT_CONFIG=str(self.pair.config("one"))),
            capture_output=True,
            text=True,
            check=False,
        )
        last = (done.stderr if done.returncode else done.stdout).splitlines()[-1:]
        self._note(f"    ended with {done.returncode}: {' '.join(last)[:300]}")
        if "Traceback" in done.stderr or done.returncode == 127:
            self.fault(f"{printed}: {done.stderr[-2000:]}")
        return done.stdout

    def waiting(self) -> dict[str, str]:
        """The sink's tables that wait or lack rows, each with the lines of `status` that say so."""
        found: dict[str, str] = {}
        name = ""
        self.together = []
        for line in self.shell("python -m spark_sink status").splitlines():
            if line.startswith("to reload "):
                self.together += commands(line)
            if line.endswith(": REFUSED"):
                self.fault(line)
            if named := _TABLE.fullmatch(line):
                name = named[1]
                if named[2] != "APPLIED":
                    found[name] = ""
            elif name and (name in found or _COMMAND.search(line) or is_kept(line)):
                found[name] = f"{found.get(name, '')}{line.strip()}\n"
        return found

    def end(self, name: str, lines: str, chance: float, *, seconds: float = TIMEOUT) -> None:
        """Run the commands for a table, one of alternatives; those of the sink once existing rows have come.

        While rows change, those of a table without a key may never be.
        """
        self._note(f"{name}: {lines.rstrip()}")
        for printed in chosen(lines, chance):
            if printed.startswith("python -m spark_sink"):
                with suppress(AssertionError):
                    self.pair.until(self.has_read, seconds=seconds)
            self.shell(printed)


async def _copied(kafka: str, stop: threading.Event) -> None:
    names = [f"{PREFIX}.{name}" for name in COPIED]
    consumer = AIOKafkaConsumer(*names, bootstrap_servers=kafka, auto_offset_reset="earliest")
    async with consumer, AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        while not stop.is_set():
            for found in (await consumer.getmany(timeout_ms=500)).values():
                for one in found:
                    # As of a leader that is later by far: it would replace all that is ours.
                    value = one.value and one.value.replace(b'"epoch":', b'"epoch":9999')
                    for prefix in ALIKE:
                        name = prefix + one.topic.removeprefix(PREFIX)
                        # The end of a replacement has neither, which this producer does not send.
                        key = one.key if value is not None else one.key or b""
                        await producer.send(name, value, key=key, headers=[*one.headers])
