"""The story of the demo: servers, programs, load, and the comparison of all that arrived."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from demo.load import Server
from demo.observe import sink_offsets
from demo.platform import shards, verdict, warehouse
from demo.platform.deeds import Deeds, store
from demo.platform.documents import Documents
from demo.platform.expected import Boundary, Change, changes_of
from demo.platform.groups import GROUPS, count_of, records_of
from demo.platform.load import Writer
from demo.platform.parts import PREFIX, Parts
from demo.platform.shards import FIRST, SECOND, SHARDS
from demo.platform.verdict import Judged
from demo.platform.workers import Workers
from demo.report import Console
from demo.supervise import NEVER, Program, Restarting, Supervisor
from devstack import Stack
from devstack import topics as consumed
from devstack.mysql import Mysql
from devstack.ports import free_port

RUN = Path(".run/platform")
_LEAST = 3_000
_PER_SECOND = 15.0
"""Transactions of each master."""
_TIMEOUT = 600.0
"""Seconds for what takes 10 to 40 s on an idle machine: others may use it too."""


class Story:
    """One run."""

    def __init__(self, ending: contextlib.ExitStack) -> None:
        """``ending`` ends all that is started."""
        self._ending, self._console = ending, Console()
        shutil.rmtree(RUN, ignore_errors=True)
        RUN.mkdir(parents=True)

    def run(self) -> int:
        """Run it; its exit code."""
        console = self._console
        console.print_line("starting two MySQL servers, Kafka and ZooKeeper")
        stack, mysql = self._servers()
        masters = {name: Server(host=one.host, port=one.port) for name, one in mysql.items()}
        parts = self._parts = Parts(
            folder=RUN.absolute(),
            masters=masters,
            kafka=stack.kafka,
            zookeeper=stack.zookeeper,
            workers=[free_port(), free_port()],
            sink_http=free_port(),
        )
        parts.write()
        for name, numbers in SHARDS.items():
            shards.create(masters[name], numbers)
        console.print_line(
            "storing Roma's four documents; starting two workers, the sink, three groups"
        )
        store(parts, parts.first_mapping, "the demo begins")
        writers = [
            Writer(masters[name], numbers, per_second=_PER_SECOND)
            for name, numbers in SHARDS.items()
        ]
        workers = self._workers = self._programs(writers)
        deeds = Deeds(workers=workers, parts=parts, mysql=mysql, console=console)
        deeds.until_published_by(1)
        console.print_line("load on both masters")
        for writer in writers:
            writer.start()
        deeds.all()
        for writer in writers:
            writer.stop()
        for name, statements in shards.EMPTYING.items():
            shards.run(masters[name], *statements)
        console.print_line("emptied and dropped some shards; reading the masters' own binlogs")
        changes, faults = self._expected()
        self._until_arrived(changes)
        console.print_line("everything has arrived; comparing")
        return self._conclude(
            changes, [*self._judge_groups(changes), self._judge_rows(changes)], faults
        )

    def _servers(self) -> tuple[Stack, dict[str, Mysql]]:
        stack = self._ending.enter_context(Stack(RUN / "stack"))
        second = stack.second_mysql("south")
        second.start()
        servers = dict(zip(SHARDS, (stack.mysql, second), strict=True))
        for one in servers.values():
            # The orderly end takes long, and the data are not used again.
            self._ending.callback(one.kill)
        return stack, servers

    def _programs(self, writers: Sequence[Writer]) -> Workers:
        """Start all programs; what is waited for by the workers checks the others too."""
        parts = self._parts
        count = range(len(parts.workers))
        workers = [self._start(parts.worker(one), Restarting(limit=20)) for one in count]
        others = [self._start(one) for one in (parts.sink(), *map(parts.group, GROUPS))]
        checks = [*(one.check for one in others), *(one.check for one in writers)]
        return Workers(supervisors=workers, ports=parts.workers, also=checks)

    def _start(self, program: Program, restarting: Restarting = NEVER) -> Supervisor:
        found = Supervisor(program, restarting)
        self._ending.callback(found.stop)
        found.start()
        return found

    def _expected(self) -> tuple[list[Change], list[str]]:
        """Return the expected changes, and what is wrong with the run itself."""
        positions = asyncio.run(_boundaries(self._parts.kafka))
        documents = {1: Documents.of_roma(FIRST), 2: Documents.of_yaml(SECOND)}
        found, faults = list[Change](), list[str]()
        for name, server in self._parts.masters.items():
            own = [
                Boundary.of(version, position, documents[version])
                for (destination, version), position in sorted(positions.items())
                if destination == name
            ]
            counts = dict.fromkeys(documents, 0)
            for version, change in changes_of(server, name, own):
                counts[version] += 1
                found.append(change)
            unused = [one for one, count in counts.items() if not count]
            faults += [f"{name} has no change under version {one}" for one in unused]
        if len(found) < _LEAST:
            faults.append(f"only {len(found)} changes were expected, not {_LEAST} or more")
        return found, faults

    def _until_arrived(self, changes: Sequence[Change]) -> None:
        """Wait until each group has as many records as it must get, and the sink has applied all.

        If records stay missing, this ends too, and the verdict names them.
        """
        wanted = {name: len(verdict.wanted_by(name, changes)) for name in GROUPS}
        deadline = time.monotonic() + _TIMEOUT
        while missing := {
            name: count - have
            for name, count in wanted.items()
            if (have := count_of(self._parts.store(name))) < count
        }:
            self._workers.check()
            if time.monotonic() > deadline:
                break
            if self._console.due:
                self._console.print_line(f"not there yet: {missing}")
            time.sleep(0.3)
        ends = asyncio.run(_ends(self._parts.kafka))
        self._workers.until(
            lambda: _has_applied(sink_offsets(self._parts.sink_http), ends),
            "the sink has not applied everything",
            _TIMEOUT,
        )
        time.sleep(2)  # one record too many would come now

    def _judge_groups(self, changes: Sequence[Change]) -> list[Judged]:
        return [
            verdict.judge_group(
                name, verdict.wanted_by(name, changes), records_of(self._parts.store(name))
            )
            for name in GROUPS
        ]

    def _judge_rows(self, changes: Sequence[Change]) -> Judged:
        answer = self._parts.folder / "rows.json"
        reader = self._start(self._parts.rows(answer))
        deadline = time.monotonic() + _TIMEOUT
        while not answer.exists():
            if reader.down and not answer.exists():
                reader.check()
            if time.monotonic() > deadline:
                raise reader.program.failed("gave no answer")
            time.sleep(0.2)
        found, repeated = warehouse.rows_of(answer)
        return verdict.judge_rows(warehouse.replayed(changes), found, repeated)

    def _conclude(
        self, changes: Sequence[Change], judged: Sequence[Judged], faults: list[str]
    ) -> int:
        """Print the verdict; the exit code."""
        workers = self._workers
        if workers.restarts != workers.kills:
            faults.append(
                f"{workers.kills} workers were killed, and {workers.restarts} started again"
            )
        print("\n" + "\n".join(one.line() for one in judged) + "\n")
        for fault in (*faults, *(text for one in judged for text in one.shown)):
            print(f"FAULT {fault}")
        print(f"logs, settings and what the groups stored: {self._parts.folder}")
        print(verdict.last_line(len(changes), len(GROUPS), judged), flush=True)
        return 0 if not faults and all(one.good for one in judged) else 1


async def _boundaries(kafka: str) -> dict[tuple[str, int], str]:
    """The position from which each version of the mapping is in force, by destination and version."""
    found: dict[tuple[str, int], str] = {}
    async for records in consumed.batches(kafka, [f"{PREFIX}.__journal"]):
        for one in records:
            if (one.key or b"").startswith(b"mapping/") and one.value is not None:
                note = json.loads(one.value)
                found[note["destination"], note["version"]] = note["position"]
    return found


async def _ends(kafka: str) -> dict[tuple[str, int], int]:
    topics = [f"{PREFIX}.trade", f"{PREFIX}.items"]
    found = await consumed.ends(kafka, topics)
    return {(one.topic, one.partition): end for one, end in found.items()}


def _has_applied(
    applied: dict[tuple[str, int], int] | None, ends: dict[tuple[str, int], int]
) -> bool:
    """Whether the sink has applied all records up to these ends."""
    return applied is not None and all(applied.get(one, 0) >= end for one, end in ends.items())
