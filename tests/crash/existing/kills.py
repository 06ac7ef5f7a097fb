"""Workers killed at each step of reading existing rows, in a storm (`make crash SUITE=existing`)."""

from __future__ import annotations

import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.audit.verdict import Verdict
from app.failpoints import VARIABLE
from devstack import Stack
from devstack.mysql import Mysql
from tests.crash.choice import say
from tests.crash.existing.mutated import command
from tests.crash.existing.storm import KEYED, SCHEMA, Storm, fill, raging
from tests.crash.existing.verdict import judged
from tests.crash.verdict import Findings, described
from tests.harness.pair import Pair, pair_settings
from tests.harness.servers import WITHOUT_GTIDS, own_mysql, own_server
from tests.harness.sql import run
from tests.harness.topics import rows
from tests.harness.wait import until
from tests.harness.worker import Process, Worker, running, settings

SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
ROUNDS = int(os.environ.get("ROUNDS") or 2)
OF_READING = ("snapshot.before", "snapshot.read", "snapshot.handed", "snapshot.committed")
OF_COMMIT = ("handoff.taken", "produce.rows", "commit.before", "commit.after")
OF_DECODING = ("decode.before", "decode.after")
"""In the worker's own process, if it has no decoders."""
OF_START = ("recover.after", "claim.before", "claim.after")
TWO = ("a", "b")
SERVERS = ("9.7", f"9.7{WITHOUT_GTIDS}", "mariadb-11.8")
SLOW = {"binlog_group_commit_sync_delay": 5_000}
"""Of MySQL without GTIDs: microseconds from the binlog to what is visible, so that SELECTs come in between."""


def wanted_settings(
    stack: Stack, mysql: Mysql, folder: Path, *, decoders: int = 0
) -> dict[str, Any]:
    """Settings of a destination that begins with its existing rows."""
    wanted = settings(stack, mysql, folder)
    wanted["destinations"]["shop"] = existing(wanted["destinations"]["shop"], decoders)
    return published(wanted)


def existing(destination: dict[str, Any], decoders: int) -> dict[str, Any]:
    """A destination's settings, so that it begins with its existing rows."""
    whole = {name: value for name, value in destination.items() if name != "start"}
    own = {
        "snapshot": {"mode": "initial"},
        "decoders": decoders,
        "filter": {"include": r"shop\..*"},
    }
    return whole | own


def published(wanted: dict[str, Any]) -> dict[str, Any]:
    """Small transactions, with markers."""
    publish = {"max_bytes": 64 * 1024, "interval_ms": 20}
    return wanted | {"publish": publish, "provide_transaction_metadata": True}


def is_read(status: dict[str, Any]) -> bool:
    """Whether all tables are read."""
    states = {one["state"] for one in status.get("snapshot", {}).values()}
    return states == {"done"}


def keyed_are_read(status: dict[str, Any]) -> bool:
    """Whether the tables with keys are read."""
    found = status.get("snapshot", {})
    return all(found.get(f"shop.{table}", {}).get("state") == "done" for table in KEYED)


def killed_at(
    wanted: dict[str, Any], folder: Path, step: str, *, passes: int, name: str = ""
) -> int:
    """Run a worker until it is killed at a step; return how many tables are read by then."""
    with pytest.MonkeyPatch.context() as faults:
        faults.setenv(VARIABLE, f"{step}=kill@{passes}")
        with running(wanted, folder, command=command(name)) as worker:
            code = until(
                lambda: ended(worker.process), late=lambda: f"{step}: {worker.log[-2000:]}"
            )
            assert code == -signal.SIGKILL, f"{step}: it ended with {code}: {worker.log[-2000:]}"
            return worker.log.count("existing row(s) of")


def ended(process: Process) -> int | None:
    return process.poll()


def finish(worker: Worker, stack: Stack, mysql: Mysql, prefix: str, storm: Storm) -> None:
    """Let it read to the end, end the storm, and wait until all of it is published."""
    worker.wait(keyed_are_read)
    # The table without a key is read once no transaction changes it.
    storm.stop()
    worker.wait(is_read)
    end(stack, mysql, prefix)
    assert worker.stop() == 0


def end(stack: Stack, mysql: Mysql, prefix: str) -> None:
    """Write the last row, and wait until it is published."""
    run(mysql, "INSERT INTO shop.mark VALUES (1)")
    until(lambda: rows(stack, prefix, "mark"))


def steps_of(chance: random.Random, decoders: int) -> list[tuple[str, int]]:
    """The steps of a round in any order, each with the pass at which it kills."""
    found = [(step, chance.randint(1, 4)) for step in OF_READING]
    found += [(step, chance.randint(3, 15)) for step in OF_COMMIT]
    found += [(step, 1) for step in OF_START]
    if not decoders:
        found += [(step, chance.randint(3, 15)) for step in OF_DECODING]
    chance.shuffle(found)
    return found


def report(findings: Findings, verdict: Verdict | None, storm: Storm, what: str) -> None:
    """Print the outcome, and fail if there is any finding."""
    if verdict is None:
        say(f"\n{what}, seed {SEED}: {storm.committed} transactions, {storm.altered} ALTERs")
        assert findings == {}, described(findings)
        return
    judged_rows = ", ".join(f"{count} {what}" for what, count in verdict.existing.items())
    say(
        f"\n{what}, seed {SEED}: {storm.committed} transactions, {storm.altered} ALTERs, "
        f"{verdict.changes} changes, {verdict.records} records; existing rows: {judged_rows}, "
        f"not judged: {dict(verdict.unjudged)}"
    )
    assert findings == {}, described(findings)
    assert sum(verdict.existing.values()) > 100, "the audit has judged no existing rows"


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("server", SERVERS)
def test_killed_at_each_step_it_ends_equal_to_the_source(
    stack: Stack, tmp_path: Path, round_: int, server: str
) -> None:
    chance = random.Random(SEED + round_)
    decoders = (0, 2)[round_ % 2]
    options = SLOW if server.endswith(WITHOUT_GTIDS) else {}
    with own_server(server, tmp_path / "server", *SCHEMA, options=options) as mysql:
        fill(mysql)
        wanted = wanted_settings(stack, mysql, tmp_path, decoders=decoders)
        steps = steps_of(chance, decoders)
        with raging(mysql, SEED + round_) as storm:
            for step, passes in steps:
                read = killed_at(wanted, tmp_path, step, passes=passes)
                say(f"killed at {step}, pass {passes}; tables read in that run: {read}")
            with running(wanted, tmp_path, command=command()) as worker:
                finish(worker, stack, mysql, wanted["prefix"], storm)
        findings, verdict = judged(stack, mysql, wanted["prefix"])
        report(
            findings, verdict, storm, f"{server}, killed at {len(steps)} steps, {decoders} decoders"
        )


def taken_over(pair: Pair, lost: str, signal_: signal.Signals) -> str:
    """The worker that leads after the other got a signal."""
    other = next(name for name in TWO if name != lost)
    pair.workers[lost].process.send_signal(signal_)
    pair.until(lambda: pair.states("shop").get(other) == "RUNNING")
    return other


def test_another_worker_takes_the_reading_over(stack: Stack, tmp_path: Path) -> None:
    with own_mysql(stack, *SCHEMA) as mysql:
        fill(mysql)
        wanted = pair_settings(stack, mysql, tmp_path)
        wanted["destinations"]["shop"] = existing(wanted["destinations"]["shop"], 0)
        wanted = published(wanted)
        with (
            raging(mysql, SEED) as storm,
            Pair(wanted, tmp_path, command=command()) as pair,
        ):
            for name in TWO:
                pair.start(name)
            leader = pair.leader("shop")
            for signal_ in (signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
                pair.until(partial(chunks, pair, leader))
                lost, leader = leader, taken_over(pair, leader, signal_)
                say(f"{signal_.name} of {lost}; {leader} leads")
                if signal_ is signal.SIGSTOP:
                    # It is fenced, and may write nothing more.
                    pair.workers[lost].process.send_signal(signal.SIGCONT)
                else:
                    pair.workers[lost].process.wait()
                    pair.start(lost)
                pair.until(partial(pair.status, lost))
            worker = pair.workers[pair.leader("shop")]
            finish(worker, stack, mysql, wanted["prefix"], storm)
        findings, verdict = judged(stack, mysql, wanted["prefix"])
        report(findings, verdict, storm, "taken over three times")


def chunks(pair: Pair, name: str) -> bool:
    """Whether a worker that leads has read some rows; all of them, where the other takes long to come back."""
    status = pair.status(name)["destinations"]["shop"]
    found = status.get("snapshot", {})
    return is_read(status) or any(
        one["state"] == "reading" and one["rows"] for one in found.values()
    )


KEYS = {
    "other": ("a", "b"),
    "longer": ("a", "a, b"),
    "shorter": ("b, a", "b"),
    "collation": ("k", "k"),
}
"""By case, the columns of a key before and after a statement."""
ROWS = 600


@pytest.mark.parametrize("case", KEYS)
def test_a_statement_that_changes_the_key_leaves_out_no_row(
    stack: Stack, tmp_path: Path, case: str
) -> None:
    before, after = KEYS[case]
    rows_ = ", ".join(f"({n}, {-n}, '{'Kk'[n % 2]}{n:04}', 0)" for n in range(ROWS))
    with own_mysql(
        stack,
        "CREATE DATABASE shop",
        "CREATE TABLE shop.mark (id int PRIMARY KEY)",
        f"CREATE TABLE shop.t (a int, b int, k varchar(20), v int, PRIMARY KEY ({before}))",
        f"INSERT INTO shop.t VALUES {rows_}",
    ) as mysql:
        wanted = wanted_settings(stack, mysql, tmp_path)
        with pytest.MonkeyPatch.context() as faults:
            faults.setenv(VARIABLE, "snapshot.before=freeze@6")
            with running(wanted, tmp_path, command=command()) as worker:
                until(lambda: is_frozen(worker.process), late=lambda: worker.log[-2000:])
                run(
                    mysql,
                    f"ALTER TABLE shop.t MODIFY k varchar(20) COLLATE utf8mb4_bin, DROP PRIMARY KEY, "
                    f"ADD PRIMARY KEY ({after})",
                )
                worker.process.send_signal(signal.SIGCONT)
                worker.wait(is_read)
                end(stack, mysql, wanted["prefix"])
                assert worker.stop() == 0
        found = {one.value["after"]["a"] for one in rows(stack, wanted["prefix"], "t")}
        missing = sorted(set(range(ROWS)) - found)
        assert missing == [], f"{len(missing)} of {ROWS} rows are in no record"


def is_frozen(process: Process) -> bool:
    """Whether a process has stopped itself."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
