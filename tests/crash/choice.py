"""The selection of a run's faults: the options of both programs."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from devstack.paths import RUNS


def take_choice(parser: argparse.ArgumentParser) -> None:
    """Let a program take them."""
    parser.add_argument("--only", action="append", default=[], help="those that begin so")
    parser.add_argument("--skip", action="append", default=[], help="not those that begin so")
    parser.add_argument("--part", default="", help="a share of them, such as 2/3")
    parser.add_argument("--table", action="store_true", help="write the page of what was seen last")
    parser.add_argument("--seed", type=int, help="the same moments and the same load again")
    parser.add_argument("--folder", type=Path, help="where logs and data go")
    parser.add_argument("--keep", action="store_true", help="keep them where all went well too")


def chosen(name: str, options: argparse.Namespace) -> bool:
    """Whether a name has a requested prefix and no excluded one."""
    if options.only and not any(name.startswith(only) for only in options.only):
        return False
    return not any(name.startswith(one) for one in options.skip)


def part_of(names: list[str], part: str) -> list[str]:
    """The names of a part: ``2/3`` takes the second of each three."""
    which, _, of = part.partition("/")
    return names[int(which) - 1 :: int(of)] if part else names


def seed_of(options: argparse.Namespace) -> int:
    """The one that is asked for, else a new one."""
    return options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)


def new_folder(options: argparse.Namespace, prefix: str) -> Path:
    """The folder for this run's logs and data."""
    root: Path = options.folder or RUNS
    root.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=root))


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
