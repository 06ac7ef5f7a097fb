"""``python -m tests.crash.soak``: all that may happen, at once, on real servers, and an audit of what arrived.

The MySQL server gives each session the worst defaults. Installations with prefixes that look alike publish
beside. Rows and tables change at random, while versions of the mapping come, existing rows are requested, and
the workers and the sink are killed. Then each table that does not wait by name must be equal to the source in
the topics and in the warehouse. What waits is listed with its error, and must be equal once the commands were
run that are printed for it.

Invariant: the last line counts what was lost, duplicated, different, waiting and ended; the exit code is 0 only
if nothing is wrong and all waits have ended.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from devstack import Stack
from tests.crash.choice import new_folder, say, seed_of
from tests.crash.soak import verdict
from tests.crash.soak.parts import INSIDE, OMITTED, PREFIX, Parts, commands, is_kept
from tests.crash.soak.verdict import MASKS
from tests.crash.soak.writer import MASKED, SCHEMA, SHARDS, Writer, is_mapped, tables_of
from tests.harness import topics
from tests.harness.beside import beside
from tests.harness.servers import own_stack
from tests.harness.sql import connected
from tests.harness.worst_defaults import set_by_init_connect, set_globally
from tests.integration.worker.source import end_of

ROUNDS = 5
"""What one command ends may show what another is needed for."""
OPTIONS = {
    "server_id": 9,
    "character_set_server": "latin1",
    "loose_character_set_client_handshake": "OFF",
    "max_binlog_size": 1 << 20,
}
STEPS = {
    "kill_worker": 3, "kill_sink": 2, "push": 3, "push_refused": 1, "read_again": 4, "remedy": 2,
}  # fmt: skip
REFUSED: Sequence[dict[str, Any]] = (
    {"shop.m_kept": {"row_filter": "sleep(1)"}},
    {"shop.m_emptied": {"shard_in_key": "always"}},
    {"shop.m_other": {"from": ["x"], "topic": "shop.m_kept"}},
)
"""By the command; by the worker, as records have other keys; by the worker, as another table has the topic."""
_OURS = re.compile(rf"{re.escape(PREFIX)}\.(?!eu\.|__(?!ddl\.)).+")


class Soak:
    """One run."""

    def __init__(self, stack: Stack, folder: Path, seed: int, ending: ExitStack) -> None:
        self._stack, self._seed = stack, seed
        self._began, self._chance = time.monotonic(), random.Random(seed)
        self._parts = Parts(stack, folder, self._note, ending)
        # Sessions from before the defaults are changed.
        self._cursor, *self._writing = [
            ending.enter_context(connected(stack.mysql, autocommit=False)) for _ in range(4)
        ]
        self._writer, self._dump = Writer(self._note), folder / "dump"
        self._rules: dict[str, Any] = {}
        """The mapping that was pushed last."""
        self._remedy = threading.Thread()
        """What carries out the commands for a table, which takes several batches of the sink."""
        self._masked: list[str] = []
        """The columns that are masked by now."""
        self.waited: dict[str, str] = {}
        """What waited at the end, by name: its error."""
        self._stale: set[str] = set()
        """Tables of whose rows a command has removed some from the warehouse, that the topics still have."""
        self.counts: Counter[str] = Counter()

    def _note(self, text: str) -> None:
        say(f"{time.monotonic() - self._began:6.0f} s {text}")

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        wrong = self.counts["lost"] + self.counts["duplicated"] + self.counts["different"]
        return not wrong and not self._parts.faults and self.counts["ended"] == len(self.waited)

    def run(self, seconds: float) -> None:
        """Begin, let things happen for some seconds, and judge."""
        cursor, mysql = self._cursor, self._stack.mysql
        for statement in SCHEMA:
            cursor.execute(statement)
        self._writer.fill(cursor, self._chance)
        with connected(mysql, user="aqueduct", password="aqueduct") as account:
            found = set_globally(cursor.connection)
            found += set_by_init_connect(cursor.connection, account.connection)
        self._note(f"the worst of {len({*found})} variables")
        self.push(last=True)
        self._inside = self._parts.start()
        self._parts.until(self._parts.has_read)
        begin, end_copies = end_of(mysql), self._parts.start_alike()
        self._note(f"begins at {begin}")
        with ExitStack() as writing:
            works = (self._writer.rows, self._writer.rows, self._writer.statements)
            for number, (work, own) in enumerate(zip(works, self._writing, strict=True)):
                chance = random.Random(self._seed * 31 + number)
                writing.enter_context(beside(partial(work, own, chance)))
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self._step()
                time.sleep(self._chance.uniform(2, 12))
        self._note(f"ends: {dict(self._writer.done)}")
        self._note(f"refused by MySQL, by number: {dict(self._writer.refused)}")
        if self._remedy.ident:
            self._remedy.join()
        self._rest()
        end_copies()
        self._judge()
        self._audit(f"{begin.file}:{begin.pos}")

    def _step(self) -> None:
        name = self._chance.choices([*STEPS], [*STEPS.values()])[0]
        if name != "kill_sink" or self._parts.sink_has_worked:
            self._note(name)
            getattr(self, name)()
        self._parts.check()

    def kill_worker(self) -> None:
        """Kill the worker that runs the destination, if one does."""
        states = self._parts.pair.states("shop")
        leads = [name for name, state in states.items() if state == "RUNNING"]
        self._parts.kill_worker(self._chance.choice(leads or [*states]))

    def kill_sink(self) -> None:
        """Kill the sink."""
        self._parts.kill_sink()

    def push(self, *, last: bool = False) -> None:
        """Push another version of the mapping; the last one publishes each TRUNCATE by its record."""
        rest = [one for one in MASKS if one not in self._masked]
        if rest and not last and self._chance.random() < 0.4:
            self._masked.append(self._chance.choice(rest))
        values = ("record",) if last else ("record", "omit", "deletes")
        self._rules = {
            f"shop.{name}": {"truncates": self._chance.choice(values)}
            for name in ("m_emptied", "m_kept", "m_plain", SHARDS)
        }
        self._rules[f"shop.{SHARDS}"]["from"] = [f"{SHARDS}_[0-9]"]
        if not last and self._chance.random() < 0.3:
            self._rules["shop.m_kept"] = {"on_drop": "keep"}
        self._rules["shop.m_topic"] = {"topic": self._chance.choice(("first", "second"))}
        if self._masked:
            actions = {one: MASKS[one][0] for one in self._masked}
            self._rules[f"shop.{MASKED}"] = {"column_actions": actions}
        self._set(self._rules)

    def push_refused(self) -> None:
        """Push one that must not come into force."""
        self._set(self._rules | self._chance.choice(REFUSED))

    def _set(self, rules: dict[str, Any]) -> None:
        file = self._parts.folder / "mapping.yaml"
        file.write_text(yaml.safe_dump({"tables": rules}))
        self._note(f"  {rules}")
        self._parts.shell(f"python -m app mapping set {file} --why 'a soak'")

    def read_again(self) -> None:
        """Request existing rows of a table, perhaps in place of what subscribers have."""
        known = self._parts.shown().get("snapshot") or {"shop.orders": None}
        replace = self._chance.choice(("", " --replace"))
        name = shlex.quote(self._chance.choice([*known]))
        self._parts.shell(f"python -m app snapshot start shop {name}{replace}")

    def remedy(self) -> None:
        """Begin to run what `status` prints for a table that waits, unless one is still being ended."""
        if not self._remedy.ident or not self._remedy.is_alive():
            self._remedy = threading.Thread(target=self._end_one, args=(self._chance.random(),))
            self._remedy.start()

    def _end_one(self, chance: float) -> None:
        found = [one for one in self._parts.waiting().items() if commands(one[1])]
        if found:
            name, lines = found[int(chance * len(found))]
            self._parts.end(name, lines, chance * len(found) % 1, seconds=60)
            if is_kept(lines):
                self._stale.add(name)

    def _rest(self) -> None:
        """Let all be published, by a mapping that fits all tables."""
        parts, cursor = self._parts, self._cursor

        def is_published() -> bool:
            cursor.execute("SELECT @@GLOBAL.gtid_executed")
            ((executed,),) = cursor.fetchall()
            reached = parts.shown().get("cursor") or {}
            return reached.get("gtid_set") == executed and parts.has_read()

        def note_quarantined() -> list[str]:
            found = {one["table"]: one["why"] for one in parts.shown()["set_aside"]}
            self.waited |= {f"quarantine of {name}": why for name, why in found.items()}
            return [*found]

        parts.until(parts.shown)
        if refused := (parts.shown().get("mapping") or {}).get("refused"):
            self.waited["mapping"] = refused
        note_quarantined()
        self.push(last=True)
        newest = json.loads(parts.shell("python -m app mapping history --format json"))[0]
        parts.until(
            lambda: (parts.shown().get("mapping") or {}).get("version") == newest["version"]
        )
        self._writer.last_rows(cursor, self._chance)
        parts.until(is_published)
        there = {f"shop.{one}" for one in tables_of(cursor)}
        cursor.execute("COMMIT")
        for name in note_quarantined():
            way = "--server" if name in there else "--give-up --yes-lose-rows"
            parts.shell(f"python -m app schema resolve shop {shlex.quote(name)} {way}")
        for name, one in parts.shown()["snapshot"].items():
            if one["state"] == "failed":
                self.waited[f"existing rows of {name}"] = one["error"]
                parts.end(name, one["error"], self._chance.random())
        parts.until(is_published)
        if left := note_quarantined():
            parts.fault(f"still quarantined: {left}")
        if self._inside.destination().get("state") != "RUNNING":
            parts.fault(f"{INSIDE} does not run: {self._inside.log[-1500:]}")

    def _judge(self) -> None:
        """Compare, run the commands for what waits, and compare again."""
        waiting = self._compared()
        for _ in range(ROUNDS):
            if not waiting:
                break
            self._parts.start_sink()
            at_once = {one for line in self._parts.together for one in shlex.split(line)}
            for name, lines in waiting.items():
                if name in at_once:
                    self._note(f"{name}: {lines.rstrip()}")
                else:
                    self._parts.end(name, lines, self._chance.random())
            for line in self._parts.together:
                self._parts.shell(line)
            for name, lines in waiting.items():
                if is_kept(lines):
                    self._repair(name)
            self._parts.until(self._parts.has_read)
            waiting = self._compared()
        for name, lines in waiting.items():
            self._parts.fault(f"{name} still waits: {lines}")
        self.counts["ended"] = len(self.waited) - len(waiting)

    def _repair(self, name: str) -> None:
        """Remove rows that the source has no more from the topics of a table of the warehouse."""
        for one in _sources(name, tables_of(self._cursor)):
            keyless = f"python -m app snapshot start shop {shlex.quote(one)} --replace"
            keyed = f"python -m app validate shop {shlex.quote(one)} --repair"
            self._parts.shell(keyless if one == "shop.m_plain" else keyed)
        self._cursor.execute("COMMIT")

    def _compared(self) -> dict[str, str]:
        """Compare, and report what differs of tables that do not wait; returns those that do."""
        self._parts.apply()
        waiting = self._parts.waiting()
        kept = {name for name, lines in waiting.items() if is_kept(lines)} | self._stale
        different = self._differences(waiting.keys() - kept)
        # The rows that an omitted TRUNCATE leaves are wanted, until a command removes them.
        for name in kept:
            real = [one.removeprefix("topics of shop.") for one in different]
            own = {name, *(f"topics of {one}" for one in _sources(name, real))}
            if different.keys() & own:
                waiting.setdefault(name, f"{OMITTED} of it\n")
            elif not commands(waiting.get(name, "")):
                waiting.pop(name, None)
            for one in own:
                different.pop(one, None)
        for name, lines in waiting.items():
            self.waited.setdefault(name, lines)
        for name, some in different.items():
            for one in verdict.shown(some):
                self._parts.fault(f"{name}: {one}")
            for one in some:
                twice = name == "seq" and not one.endswith(" 0 times")
                kind = "duplicated" if twice else "lost" if " lacks " in one else "different"
                self.counts[kind] += 1
        return waiting

    def _differences(self, left_out: set[str]) -> dict[str, list[str]]:
        """What differs, by table: in the warehouse, of tables that do not wait, and in the topics."""
        self._parts.shell(f"python -m spark_sink dump {self._dump}")
        source, held = verdict.source_tables(self._cursor), verdict.warehouse_rows(self._dump)
        names = filter(_OURS.fullmatch, topics.names(self._stack))
        records = verdict.read(self._stack.kafka, names)
        folded = verdict.folded(records)
        masks = {one: MASKS[one][1] for one in self._masked}
        found = {"seq": verdict.numbered(records)}
        logical = {name: table for name, table in source.items() if not _is_shard(name)}
        if shards := [source[name] for name in source.keys() - logical.keys()]:
            logical[SHARDS] = verdict.united(shards)
        for name, table in logical.items():
            rows = held.pop(name, [])
            if f"shop.{name}" not in left_out:
                found[f"shop.{name}"] = verdict.differences(name, table, rows, masks)
        for name, table in source.items():
            in_topics = verdict.unfolded(name, table, folded[name], masks)
            found[f"topics of shop.{name}"] = [*in_topics]
        for name, one in folded.items():
            if name not in source and is_mapped(name) and not one.is_kept and one.number:
                text = f"the topics have {one.number} rows of {name}, the source no such table"
                found[f"topics of shop.{name}"] = [text]
        for name, rows in held.items():
            if rows and "__dropped_" not in name:
                text = f"the warehouse has {len(rows)} rows of {name}, the source no such table"
                found[f"shop.{name}"] = [text]
        self._note(f"compared {len(source)} tables with {len(records)} records")
        return {name: lines for name, lines in found.items() if lines}

    def _audit(self, begin: str) -> None:
        """The audit by MySQL's own program, of the topics and of the warehouse."""
        program = self._stack.mysql.mysqlbinlog or ("mysqlbinlog",)
        printed = self._parts.shell(
            f"python -m app audit shop --mysqlbinlog {shlex.quote(shlex.join(program))} "
            f"--from {begin} --warehouse {self._dump}"
        )
        (self._parts.folder / "audit.txt").write_text(printed)
        lines = printed.splitlines() or ["none"]
        of_topics = _numbers(lines[-1])
        of_warehouse = _numbers(next((one for one in lines if one.startswith("warehouse: ")), ""))
        wrong = {one: of_warehouse.get(one, 0) for one in ("missing", "extra", "different")}
        self.counts["changes"] = of_topics.pop("changes", 0)
        if not of_warehouse or not self.counts["changes"]:
            self._parts.fault(f"there is no audit: {printed[-3000:]}")
        if any((*of_topics.values(), *wrong.values())):
            self._parts.fault(f"the audit: {printed[-6000:]}")
        self._note(f"  {of_warehouse}")
        self.counts["lost"] += of_topics.pop("lost", 0) + wrong.pop("missing")
        self.counts["duplicated"] += of_topics.pop("repeated", 0)
        self.counts["different"] += sum((*of_topics.values(), *wrong.values()))


def _is_shard(name: str) -> bool:
    return is_mapped(name) and name.startswith(f"{SHARDS}_")


def _sources(name: str, real: Iterable[str]) -> list[str]:
    """The real tables of one of the warehouse, of those that are given without their database."""
    if name != f"shop.{SHARDS}":
        return [name] if name.removeprefix("shop.") in real else []
    return [f"shop.{one}" for one in sorted(real) if _is_shard(one)]


def _numbers(line: str) -> dict[str, int]:
    """The counts in a line of the audit."""
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}


def main() -> int:
    """Run it with the options of the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long things happen (3600)")
    parser.add_argument("--seed", type=int, help="the same steps again")
    parser.add_argument("--folder", type=Path, help="where logs and data go")
    options = parser.parse_args()
    folder, seed = new_folder(options, "soak-").resolve(), seed_of(options)
    say(f"soak: seed {seed}, {options.seconds:.0f} s, logs in {folder}")
    with ExitStack() as ending:
        stack = ending.enter_context(own_stack(folder / "servers", mysql_options=OPTIONS))
        soak = Soak(stack, folder, seed, ending)
        soak.run(options.seconds)
    for name, error in soak.waited.items():
        say(f"waited: {name}: {error.rstrip()}")
    counted = ("changes", "lost", "duplicated", "different")
    words = [f"{name}={soak.counts[name]}" for name in counted]
    say(" ".join(("soak:", *words, f"waiting={len(soak.waited)} ended={soak.counts['ended']}")))
    if soak.is_good:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if soak.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
