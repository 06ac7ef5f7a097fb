"""Each broken guard of reading existing rows is caught, by the storm or by a test: `make crash SUITE=existing`.

Invariant: a mutant that nothing catches is a fault of the tests. Only findings in the topics count, and tests
that fail; not an error of the worker itself.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devstack import Stack
from tests.architecture.tree import PROJECT
from tests.crash.choice import say
from tests.crash.existing.kills import SEED, finish, killed_at, wanted_settings
from tests.crash.existing.mutated import PATCHES, WHOLE, command
from tests.crash.existing.storm import SCHEMA, fill, raging
from tests.crash.existing.verdict import judged
from tests.harness.servers import own_mysql
from tests.harness.worker import running

_CHUNKS = "tests/integration/snapshot/test_chunks.py"
_ROWS = "tests/unit/app/worker/pipeline/portions/test_selected_rows.py"
_READING = "tests/unit/app/worker/destination/snapshot/test_table_reading.py"
_FAILED = 1
"""pytest's exit code if tests were run, and some failed."""
_TRIES = 4
"""Storms with kills: on a slow machine a transaction may hold all that a kill should come between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken guard, and what has to catch it."""

    test: str = ""
    """A test that fails with it."""
    storm: bool = False
    """Whether the storm's verdict has findings."""
    killed: bool = False
    """Whether its worker is killed after a commit."""
    statements: bool = False
    """Whether the storm has statements; they take chunks back, which hides what others do wrong."""


MUTANTS: dict[str, Mutant] = {
    # Between the binlog and what is visible there are microseconds: only a test can wait there.
    "low-too-early": Mutant(
        test=f"{_CHUNKS}::test_the_select_waits_for_the_transactions_that_it_is_to_see"
    ),
    "high-too-early": Mutant(
        test=f"{_READING}::test_chunks_follow_one_another_to_the_end_of_the_table", storm=True
    ),
    "chunk-repeated": Mutant(storm=True),
    "key-order": Mutant(test=f"{_CHUNKS}::test_text_keys_of_any_characters", storm=True),
    "last-row-twice": Mutant(test=f"{_CHUNKS}::test_text_keys_of_any_characters", storm=True),
    "last-row-omitted": Mutant(test=f"{_CHUNKS}::test_text_keys_of_any_characters", storm=True),
    "keys-forgotten": Mutant(
        test=f"{_ROWS}::test_a_generation_that_another_read_needs_is_kept", storm=True
    ),
    # Several chunks need one generation only at the beginning of a reading.
    "dropped-too-early": Mutant(test=f"{_ROWS}::test_a_generation_that_another_read_needs_is_kept"),
    # What refuses a chunk refuses those that were read before it, too, but for a quarantine that ends.
    "refused-alone": Mutant(
        test=f"{_ROWS}::test_a_read_that_follows_a_refused_one_of_the_same_attempt_is_refused_too"
    ),
    "note-apart": Mutant(
        test=f"{_ROWS}::test_they_are_numbered_with_the_stream_as_reads_and_move_nothing",
        storm=True,
        killed=True,
    ),
    "old-definition": Mutant(
        test=f"{_ROWS}::test_rows_that_were_read_before_a_statement_on_their_table_are_refused",
        storm=True,
        statements=True,
    ),
    "old-key-not-noted": Mutant(
        test=f"{_ROWS}::test_rows_whose_keys_changed_since_are_dropped_and_have_no_numbers",
        storm=True,
    ),
}


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Prints each mutant with what caught it, at the end."""
    found: list[str] = []
    yield found
    say("\n" + "\n".join(["mutant -> caught by", *found]))


def test_each_mutant_is_listed() -> None:
    assert MUTANTS.keys() == PATCHES.keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_guard_is_caught(
    stack: Stack, tmp_path: Path, table: list[str], name: str
) -> None:
    mutant, caught = MUTANTS[name], list[str]()
    if mutant.test:
        code = exit_code_of(name, mutant.test, tmp_path)
        assert code == _FAILED, f"{mutant.test} ends with {code}"
        caught.append(mutant.test.rpartition("/")[2])
    if mutant.storm:
        for seed in range(SEED, SEED + (_TRIES if mutant.killed else 1)):
            # The name of the folder is the prefix of the topics.
            (folder := tmp_path / f"{tmp_path.name}-{seed}").mkdir()
            if findings := stormed(stack, folder, name, mutant, seed=seed):
                break
        assert findings, "the storm finds nothing"
        caught.append(f"storm ({', '.join(findings)})")
    table.append(f"{name}: {(PATCHES[name].__doc__ or '').rstrip('.')} -> {'; '.join(caught)}")


@pytest.mark.parametrize("statements", [False, True])
def test_a_whole_worker_as_slow_as_a_broken_one_does_nothing_wrong(
    stack: Stack, tmp_path: Path, *, statements: bool
) -> None:
    none = Mutant(killed=True, statements=statements)
    assert stormed(stack, tmp_path, WHOLE, none) == {}


def exit_code_of(name: str, test: str, folder: Path) -> int:
    """The exit code of a test that is run with a guard broken."""
    arguments = ("pytest", test, "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    with (folder / "pytest.log").open("wb") as log:
        return subprocess.run(
            [*command(name), *arguments], cwd=PROJECT, stdout=log, stderr=log, check=False
        ).returncode


def stormed(
    stack: Stack, folder: Path, name: str, mutant: Mutant, *, seed: int = SEED
) -> dict[str, int]:
    """The count of findings of each kind after a storm over a broken worker."""
    chance = random.Random(seed)
    with own_mysql(stack, *SCHEMA) as mysql:
        fill(mysql)
        wanted = wanted_settings(stack, mysql, folder)
        with raging(mysql, seed, statements=mutant.statements) as storm:
            for _ in range(3 if mutant.killed else 0):
                passes = chance.randint(4, 12)
                killed_at(wanted, folder, "commit.after", passes=passes, name=name)
            with running(wanted, folder, command=command(name)) as worker:
                finish(worker, stack, mysql, wanted["prefix"], storm)
        findings, _ = judged(stack, mysql, wanted["prefix"])
        return {kind: len(what) for kind, what in findings.items()}
