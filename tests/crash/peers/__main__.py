"""``python -m tests.crash.peers``: the faults done to Debezium, and a table of what came of it.

The law: it measures another program, so what it finds fails nothing; what could not be judged does.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

from devstack.paths import RUNS
from tests.crash.peers import report
from tests.crash.peers.debezium import VARIANTS, VERSION
from tests.crash.peers.faults import FAULTS
from tests.crash.peers.run import PeerOutcome, run
from tests.crash.servers import servers


def main() -> int:
    """Run what is asked for."""
    options = _parser().parse_args()
    if options.list:
        for name, one in FAULTS.items():
            _say(f"{name:34} {one.what}")
        return 0
    if options.table:
        _say(report.write())
        return 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    RUNS.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="peers-", dir=options.folder or RUNS))
    variant = VARIANTS[options.variant]
    # Brokers are killed here: that a consumer says so many times is no news.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    _say(f"crash of {VERSION}, {variant.title}: seed {seed}, logs in {folder}")
    wanted = [name for name in FAULTS if _chosen(name, options)]
    if options.part:
        which, _, of = options.part.partition("/")
        wanted = wanted[int(which) - 1 :: int(of)]
    outcomes: list[PeerOutcome] = []
    with servers(folder / "servers") as running:
        for name in wanted:
            if FAULTS[name].is_transactional and not variant.has_transactions:
                continue
            outcomes.append(run(name, variant, running, folder / name, seed=seed))
            _say(outcomes[-1].line())
            report.keep(outcomes[-1:])
    if not options.only:
        report.write()
    good = all(one.judged for one in outcomes)
    if good and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    _say(report.summary(outcomes, variant))
    return 0 if good else 1


def _chosen(name: str, options: argparse.Namespace) -> bool:
    if options.only and not any(name.startswith(only) for only in options.only):
        return False
    return not any(name.startswith(one) for one in options.skip)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.peers", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name all faults")
    parser.add_argument("--only", action="append", default=[], help="those that begin so")
    parser.add_argument("--skip", action="append", default=[], help="not those that begin so")
    parser.add_argument("--part", default="", help="a share of them, such as 2/3")
    parser.add_argument(
        "--variant", choices=VARIANTS, default="exactly-once", help="how deliveries are asked for"
    )
    parser.add_argument("--table", action="store_true", help="write the page of what was seen last")
    parser.add_argument("--seed", type=int, help="the same moments and the same load again")
    parser.add_argument("--folder", type=Path, help="where logs and data go")
    parser.add_argument("--keep", action="store_true", help="keep them where all went well too")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
