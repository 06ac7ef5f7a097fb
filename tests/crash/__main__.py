"""``python -m tests.crash``: every fault, then every mutant, and a table of what came of it.

The law: the last line tells what there was and what came of it, and the exit code is 0 only where all survived.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import tests.crash.faults  # noqa: F401 - it names the scenarios
from devstack.paths import RUNS
from tests.crash import report
from tests.crash.mutants import MUTANTS, caught
from tests.crash.scenario import SCENARIOS, Outcome, Scenario, run_together
from tests.crash.servers import Servers, servers


def main() -> int:
    """Run what is asked for."""
    options = _parser().parse_args()
    if options.list:
        for name, one in SCENARIOS.items():
            _say(f"{name:34} {one.what}")
        for name, mutant in MUTANTS.items():
            _say(f"mutant.{name:27} {mutant.what}; seen by {mutant.scenario}")
        return 0
    if options.table:
        _say(report.write())
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    began = time.monotonic()
    RUNS.mkdir(parents=True, exist_ok=True)
    root = options.folder or RUNS
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="crash-", dir=root))
    _say(f"crash: seed {seed}, logs in {folder}")
    wanted = _part([name for name in SCENARIOS if _chosen(name, options)], options.part)
    mutants = _part([name for name in MUTANTS if _chosen(f"mutant.{name}", options)], options.part)
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
            _say(f"{'ok' if found[name] else 'FAIL':4} mutant.{name:27} {found[name] or 'missed'}")
            report.keep([], {name: found[name]})
    if not options.only:
        report.write()
    good = all(one.survived for one in outcomes) and all(found.values())
    if good and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    _say(f"crash: all of it took {(time.monotonic() - began) / 60:.1f} minutes")
    _say(report.summary(outcomes, found))
    return 0 if good else 1


def _several(
    group: list[Scenario], running: Servers, folder: Path, *, seed: int, tries: int
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for n in range(tries):
        outcomes = run_together(group, running, folder / f"{n}", seed=seed + n)
        for outcome in outcomes:
            _say(outcome.line())
        if not all(one.survived for one in outcomes):
            break
    return outcomes


def _groups(wanted: list[Scenario], most: int) -> list[list[Scenario]]:
    """So many at a time, but those alone that change their source or their topics for good."""
    groups: list[list[Scenario]] = []
    for one in wanted:
        last = groups[-1] if groups else None
        if last is None or one.is_alone or last[-1].is_alone or len(last) >= most:
            groups.append([one])
        else:
            last.append(one)
    return groups


def _part(names: list[str], part: str) -> list[str]:
    """The names of a part: ``2/3`` takes the second of each three."""
    which, _, of = part.partition("/")
    return names[int(which) - 1 :: int(of)] if part else names


def _chosen(name: str, options: argparse.Namespace) -> bool:
    if options.only and not any(name.startswith(only) for only in options.only):
        return False
    return not any(name.startswith(one) for one in options.skip)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name all faults and mutants")
    parser.add_argument("--only", action="append", default=[], help="those that begin so")
    parser.add_argument("--skip", action="append", default=[], help="not those that begin so")
    parser.add_argument("--part", default="", help="a share of them, such as 2/3")
    parser.add_argument(
        "--together", type=int, default=1, help="so many on the same topics, with one verdict"
    )
    parser.add_argument("--table", action="store_true", help="write the page of what was seen last")
    parser.add_argument("--seed", type=int, help="the same moments and the same load again")
    parser.add_argument("--repeat", type=int, default=1, help="each so many times, seed by seed")
    parser.add_argument("--folder", type=Path, help="where logs and data go")
    parser.add_argument("--keep", action="store_true", help="keep them where all went well too")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
