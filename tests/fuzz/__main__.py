"""The fuzzer: ``python -m tests.fuzz --cases 20000`` or ``--seconds 300``, or one case again.

Invariant: a case depends on its seed and number only. Each has a limit of CPU time, and all together one
of memory beyond the program's own: a length that claims 4 GB must not allocate it.
"""

from __future__ import annotations

import argparse
import gc
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from tests.fuzz.corpus_of import SERVERS, corpus_of
from tests.fuzz.targets import TARGETS

_LONGEST = 10.0
"""Seconds of CPU for one case; most take a millisecond."""
_MEMORY = 1 << 30


class Hung(BaseException):
    """A case does not end."""


def _hung(_number: int, _frame: object) -> None:
    raise Hung


def _limit_memory() -> None:
    for server in SERVERS:
        corpus_of(server)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + _MEMORY, held + _MEMORY))


def one(target: str, seed: int, number: int) -> bool:
    """One case; whether what was mutated was accepted."""
    signal.setitimer(signal.ITIMER_PROF, _LONGEST)
    try:
        return TARGETS[target][0](Random(f"{seed}:{target}:{number}"))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def say(text: str) -> None:
    """Print at once: a case may end the program."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(targets: list[str], seed: int, cases: int, seconds: float, most: int) -> int:
    """Run cases until there were enough, or until the time is over; how many went wrong."""
    weights = [TARGETS[target][1] for target in targets]
    total, accepted, faults = Counter[str](), Counter[str](), 0
    begun, number = time.process_time(), 0
    end = time.monotonic() + seconds
    while number < cases if cases else time.monotonic() < end:
        target = Random(f"{seed}:{number}").choices(targets, weights)[0]
        total[target] += 1
        try:
            accepted[target] += one(target, seed, number)
        except (Exception, Hung):
            faults += 1
            fault = traceback.format_exc(limit=-4, chain=False)
            gc.collect()
            say(f"FAULT: python -m tests.fuzz --target {target} --seed {seed} --only {number}")
            say(fault[-1500:])
            if faults >= most:
                break
        number += 1
    spent = max(time.process_time() - begun, 0.001)
    say(f"seed {seed}: {number} cases, {number / spent:.0f} each second of CPU, {faults} faults")
    for target in targets:
        say(f"  {target}: {total[target]} cases, {accepted[target]} accepted")
    return faults


def main() -> int:
    """Read the arguments and do so."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--target", choices=TARGETS, action="append", dest="targets")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--only", type=int, help="run this case alone")
    parser.add_argument("--most", type=int, default=20, help="faults after which it ends")
    given = parser.parse_args()
    signal.signal(signal.SIGPROF, _hung)
    _limit_memory()
    if given.only is not None:
        say(str(one(given.targets[0], given.seed, given.only)))
        return 0
    return min(
        run(given.targets or list(TARGETS), given.seed, given.cases, given.seconds, given.most), 1
    )


if __name__ == "__main__":
    sys.exit(main())
