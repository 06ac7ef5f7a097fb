"""``python -m tests.crash``: every fault, then every mutant, and a table of the outcomes.

Invariant: the last line counts runs and outcomes, and the exit code is 0 only if all survived.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import tests.crash.faults  # noqa: F401 - it names the scenarios
from tests.crash import report
from tests.crash.choice import chosen, new_folder, part_of, say, seed_of, take_choice
from tests.crash.mutants import MUTANTS, caught
from tests.crash.scenario import SCENARIOS, Outcome, Scenario, run_together
from tests.crash.servers import Servers, servers


def main() -> int:
    """Run what is asked for."""
    options = _parser().parse_args()
    if options.list:
        for name, one in SCENARIOS.items():
            say(f"{name:34} {one.what}")
        for name, mutant in MUTANTS.items():
            say(f"mutant.{name:27} {mutant.what}; seen by {mutant.scenario}")
        return 0
    if options.table:
        say(report.write())
        return 0
    seed = seed_of(options)
    began = time.monotonic()
    wanted = part_of([name for name in SCENARIOS if chosen(name, options)], options.part)
    mutants = part_of([name for name in MUTANTS if chosen(f"mutant.{name}", options)], options.part)
    if not wanted and not mutants:
        say("crash: no fault is chosen by that; --list names them")
        return 2
    folder = new_folder(options, "crash-")
    say(f"crash: seed {seed}, logs in {folder}")
    if not options.only and not options.part:
        report.forget()
    outcomes: list[Outcome] = []
    found: dict[str, str | None] = {}
    with servers(folder / "servers") as running:
        for group in _groups([SCENARIOS[name] for name in wanted], options.together):
            done = _several(group, running, folder, seed=seed, tries=options.repeat)
            outcomes += done
            report.keep(done, {})
        for name in mutants:
            found[name] = caught(MUTANTS[name], running, folder, seed=seed)
            say(f"{'ok' if found[name] else 'FAIL':4} mutant.{name:27} {found[name] or 'missed'}")
            report.keep([], {name: found[name]})
    if not options.only:
        report.write()
    good = all(one.survived for one in outcomes) and all(found.values())
    if good and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"crash: all of it took {(time.monotonic() - began) / 60:.1f} minutes")
    say(report.summary(outcomes, found))
    return 0 if good else 1


def _several(
    group: list[Scenario], running: Servers, folder: Path, *, seed: int, tries: int
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for n in range(tries):
        outcomes = run_together(group, running, folder / f"{n}", seed=seed + n)
        for outcome in outcomes:
            say(outcome.line())
        if not all(one.survived for one in outcomes):
            break
    return outcomes


def _groups(wanted: list[Scenario], most: int) -> list[list[Scenario]]:
    """Groups of the given size; a scenario that changes its source or topics for good is alone in its group."""
    groups: list[list[Scenario]] = []
    for one in wanted:
        last = groups[-1] if groups else None
        if last is None or one.is_alone or last[-1].is_alone or len(last) >= most:
            groups.append([one])
        else:
            last.append(one)
    return groups


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name all faults and mutants")
    take_choice(parser)
    parser.add_argument(
        "--together", type=int, default=3, help="so many on the same topics, with one verdict (3)"
    )
    parser.add_argument("--repeat", type=int, default=1, help="each so many times, seed by seed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
