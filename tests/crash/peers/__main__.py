"""``python -m tests.crash.peers``: the faults with Debezium, and a table of their outcomes.

Invariant: it measures another program, so findings fail nothing; a fault that could not be judged does.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys

from tests.crash.choice import chosen, new_folder, part_of, say, seed_of, take_choice
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
            say(f"{name:34} {one.what}")
        return 0
    if options.table:
        say(report.write())
        return 0
    seed = seed_of(options)
    folder = new_folder(options, "peers-")
    variant = VARIANTS[options.variant]
    # Brokers are killed here: that a consumer says so many times is no news.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    say(f"crash of {VERSION}, {variant.title}: seed {seed}, logs in {folder}")
    wanted = part_of([name for name in FAULTS if chosen(name, options)], options.part)
    if not wanted:
        say("crash: no fault is chosen by that; --list names them")
        return 2
    outcomes: list[PeerOutcome] = []
    with servers(folder / "servers") as running:
        for name in wanted:
            if FAULTS[name].is_transactional and not variant.has_transactions:
                continue
            outcomes.append(run(name, variant, running, folder / name, seed=seed))
            say(outcomes[-1].line())
            report.keep(outcomes[-1:])
    if not options.only:
        report.write()
    good = all(one.judged for one in outcomes)
    if good and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    say(report.summary(outcomes, variant))
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.peers", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name all faults")
    take_choice(parser)
    parser.add_argument(
        "--variant", choices=VARIANTS, default="exactly-once", help="how deliveries are asked for"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
