"""``python -m tests.crash.day``: troubles of single tables, at random among thirty, on real servers.

Rows come into all tables all the time. Some tables get into trouble, up to three at once: a topic is deleted,
records are removed, a statement is not in the binlog, files of the warehouse are gone, another program alters a
table. What `/status` and `status` print for a table is run as it is printed, and nothing else.

Invariant: the last line counts the troubles, those that were listed by their error and ended by what was
printed, tables that waited without a trouble, rows that differ at the end, and the longest time of a row of all
other tables to its topic. The exit code is 0 only if all is well, and that time is below ten seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shlex
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from aiokafka.errors import TopicAlreadyExistsError

from devstack import Stack
from tests.crash.choice import new_folder, say, seed_of
from tests.crash.day.beat import Beat
from tests.crash.day.troubles import SECRET, TROUBLES, At, Trouble, configured
from tests.crash.soak import verdict
from tests.crash.soak.parts import PREFIX, Parts
from tests.harness.beside import beside
from tests.harness.servers import own_stack
from tests.harness.sql import connected
from tests.integration.process.test_topics import make

TABLES = tuple(f"t{number:02}" for number in range(30))
WITH_SECRET = TABLES[:6]
AT_ONCE = 3
LIMIT = 10.0
"""Seconds that a row of a table without a trouble may take to its topic."""
PATIENCE = 600.0
"""Seconds after which a trouble counts as not ended."""
MADE = "(id int PRIMARY KEY, n int NOT NULL, note varchar(40) DEFAULT 'first'{})"
_PRINTED = re.compile(
    r"(?:python -m (?:app|spark_sink)|kafka-(?:topics|configs)\.sh) [^`;]+?"
    r"(?= \[|[`;]|\.?$|\. |, and|, if|, which)",
    re.MULTILINE,
)


def printed(lines: str) -> list[str]:
    """The commands in what is printed for a table, in their order."""
    return list(dict.fromkeys(one.group() for one in _PRINTED.finditer(lines)))


@dataclass(slots=True)
class Open:
    """A trouble that has begun."""

    name: str
    kind: Trouble
    at: At
    began: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)
    """All that was printed for the table."""
    done: dict[str, float] = field(default_factory=dict)
    """The commands that were run, and when."""
    calm: int = 0
    """How often in a row it was not listed any more."""

    @property
    def is_shown(self) -> bool:
        """Whether all errors of it were listed."""
        return all(any(word in one for one in self.lines) for word in self.kind.shown)


class Day:
    """One run."""

    def __init__(self, stack: Stack, folder: Path, seed: int, ending: ExitStack) -> None:
        self._stack, self._ending, self._chance = stack, ending, random.Random(seed)
        self._began, self._folder = time.monotonic(), folder
        self._parts = Parts(stack, folder, self._note, ending)
        self._cursor, self._writing, self._causing = (
            ending.enter_context(connected(stack.mysql, autocommit=False)) for _ in range(3)
        )
        self._beat = Beat(TABLES)
        self._rules: dict[str, Any] = {
            f"shop.{one}": {"column_actions": SECRET} for one in WITH_SECRET
        }
        self._open: list[Open] = []
        self._apart: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """When each table was in trouble."""
        self.ended, self.disturbed, self.different, self.lag = 0, set[str](), 0, 0.0

    def _note(self, text: str) -> None:
        say(f"{time.monotonic() - self._began:6.0f} s {text}")

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong but troubles that did not end."""
        wrong = self.different or self.disturbed or self._parts.faults or self._beat.refused
        return not wrong and self.lag < LIMIT

    def run(self, troubles: int) -> None:
        """Begin, let troubles come and go, and compare."""
        self._cursor.execute("CREATE DATABASE shop")
        for one in TABLES:
            secret = ", secret varchar(20) DEFAULT 'key'" if one in WITH_SECRET else ""
            self._cursor.execute(f"CREATE TABLE shop.{one} {MADE.format(secret)}")
        parts, beat = self._parts, self._beat
        self._push()
        parts.pair.start("one")
        parts.start_sink()
        topics = [f"{PREFIX}.shop.{one}" for one in TABLES]
        with ExitStack() as running:
            running.enter_context(beside(partial(beat.write, self._writing)))
            parts.until(lambda: parts.has_read() and parts.sink_has_worked)
            running.enter_context(
                beside(lambda stop: asyncio.run(beat.read(self._stack.kafka, topics, stop)))
            )
            parts.until(lambda: not any(map(beat.missing, TABLES)))
            self._settled = time.monotonic()
            self._troubles(troubles)
            parts.until(lambda: max(map(beat.missing, TABLES)) <= 2)
            self._measure()
        self._compare()

    def _troubles(self, count: int) -> None:
        rounds, rest = divmod(count, len(TROUBLES))
        left = [*TROUBLES] * rounds + self._chance.sample([*TROUBLES], rest)
        self._chance.shuffle(left)
        names = self._chance.sample(TABLES, len(TABLES))
        while left or self._open:
            if left and len(self._open) < AT_ONCE:
                self._begin(left.pop(), names)
            self._look()
            self._parts.check()
            time.sleep(self._chance.uniform(1, 4))

    def _begin(self, name: str, names: list[str]) -> None:
        """Cause a trouble at a table that had none yet."""
        fits = [one for one in names if (one in WITH_SECRET) == (name == "masked dropped")]
        table = (fits or names)[0]
        names.remove(table)
        at = At(self._stack, self._causing, self._parts.folder / "wh", table, self._rules)
        self._note(f"{name}: shop.{table}")
        made = Open(name, TROUBLES[name], at)
        made.kind.cause(at)
        self._open.append(made)

    def _look(self) -> None:
        """Run a command for each table that waits, as it is printed."""
        worker = {one["table"]: f"{one['why']}\n{one['action']}" for one in self._aside()}
        listed = dict(self._parts.waiting())
        for name, lines in worker.items():
            listed[name] = f"{lines}\n{listed.get(name, '')}"
        for one in [*self._open]:
            lines = listed.pop(f"shop.{one.at.table}", "")
            if lines:
                one.calm = 0
                if lines not in one.lines:
                    self._note(f"  shop.{one.at.table}: {lines}")
                    one.lines.append(lines)
                self._act(one, lines)
            elif one.is_shown and not self._beat.missing(one.at.table) > 2:
                one.calm += 1
            if one.calm == 2:
                self._end(one, "ended", 1)
            elif time.monotonic() - one.began > PATIENCE:
                self._parts.fault(f"{one.name} of shop.{one.at.table} has not ended: {one.lines}")
                self._end(one, "left", 0)
        for name, lines in listed.items():
            if name not in self.disturbed:
                self.disturbed.add(name)
                self._parts.fault(f"{name} waits without a trouble: {lines}")

    def _aside(self) -> list[dict[str, Any]]:
        return list(self._parts.shown().get("set_aside", ()))

    def _act(self, one: Open, lines: str) -> None:
        """Run the next of its commands; each again after a minute only, as it may take its time."""
        if one.kind.mend is not None and "mended" not in one.done:
            one.done["mended"] = time.monotonic()
            before = dict(self._rules)
            one.kind.mend(one.at)
            if self._rules != before:
                self._push()
        now = time.monotonic()
        if not self._parts.has_read():
            # What follows is for when existing rows were published.
            return
        due = [each for each in printed(lines) if now - one.done.get(each, -PATIENCE) > 60]
        if due:
            one.done[due[0]] = now
            self._carry_out(one.at, due[0])

    def _carry_out(self, at: At, command: str) -> None:
        if command.startswith("kafka-topics.sh --create"):
            self._note(f"  $ {command}")
            with suppress(TopicAlreadyExistsError):
                make(self._stack, command)
        elif command.startswith("kafka-configs.sh"):
            self._note(f"  $ {command}")
            words = shlex.split(command)
            name, _, value = words[words.index("--add-config") + 1].partition("=")
            configured(at, name, value)
        else:
            sure = " --yes-lose-changes" if "accept-topic" in command else ""
            self._parts.shell(command + sure)

    def _end(self, one: Open, how: str, count: int) -> None:
        self._open.remove(one)
        now = time.monotonic()
        self._apart[one.at.table].append((one.began - 5, now))
        self.ended += count
        self._note(f"{one.name} of shop.{one.at.table} {how} after {now - one.began:.0f} s")

    def _push(self) -> None:
        file = self._folder / "mapping.yaml"
        file.write_text(yaml.safe_dump({"tables": self._rules}))
        self._parts.shell(f"python -m app mapping set {file} --why 'a day'")

    def _measure(self) -> None:
        """The longest time of a row of a table that was in no trouble then."""
        before = (0.0, self._settled)
        found = {
            name: max(self._beat.lags(name, [*self._apart[name], before]), default=0.0)
            for name in TABLES
        }
        self.lag = max(found.values())
        self._note(
            f"seconds to the topic, at most: {sorted(found.items(), key=lambda x: -x[1])[:5]}"
        )

    def _compare(self) -> None:
        dump = self._folder / "dump"
        self._parts.apply()
        self._parts.shell(f"python -m spark_sink dump {dump}")
        held = verdict.warehouse_rows(dump)
        for name, table in verdict.source_tables(self._cursor).items():
            shown = masked(table, self._rules.get(f"shop.{name}", {}))
            for line in verdict.differences(name, shown, held.get(name, []), {}):
                self.different += 1
                if self.different < 20:
                    self._parts.fault(line)


def masked(table: verdict.Table, rule: Mapping[str, Any]) -> verdict.Table:
    """The table with what its rule publishes in place of its values."""
    hidden = {
        column: action["redact"]
        for column, action in rule.get("column_actions", {}).items()
        if column in table.kinds
    }
    return replace(table, rows=[{**row, **hidden} for row in table.rows])


def main() -> int:
    """Run it with the options of the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.day", description=__doc__)
    parser.add_argument("--troubles", type=int, default=20, help="how many (20)")
    parser.add_argument("--seed", type=int, help="the same troubles again")
    parser.add_argument("--folder", type=Path, help="where logs and data go")
    options = parser.parse_args()
    folder, seed = new_folder(options, "day-").resolve(), seed_of(options)
    say(f"day: seed {seed}, logs in {folder}")
    with ExitStack() as ending:
        stack = ending.enter_context(own_stack(folder / "servers"))
        day = Day(stack, folder, seed, ending)
        day.run(options.troubles)
    words = f"troubles={options.troubles} ended={day.ended} disturbed={len(day.disturbed)}"
    say(f"day: {words} different={day.different} lag_seconds={day.lag:.1f}")
    is_good = day.is_good and day.ended == options.troubles
    if is_good:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
