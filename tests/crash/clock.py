"""A worker whose clock a test sets: ``python -m tests.crash.clock FILE …`` runs Faust with the other arguments.

Invariant: the file holds the clock's offset in seconds, as one double, and is read at each query of the clock;
the monotonic clock is not changed.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path

_OFF = struct.Struct("d")


def put(path: Path, seconds: float) -> None:
    """Set the clock of the process that reads the file."""
    # Truncated while it is mapped, it would end its reader by SIGBUS.
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(_OFF.pack(seconds))


def shift(path: Path) -> None:
    """Make this process use the clock of the file."""
    real, real_ns = time.time, time.time_ns
    with path.open("rb") as file:
        held = mmap.mmap(file.fileno(), _OFF.size, access=mmap.ACCESS_READ)

    def off() -> float:
        return float(_OFF.unpack_from(held)[0])

    time.time = lambda: real() + off()
    time.time_ns = lambda: real_ns() + round(off() * 1e9)


if __name__ == "__main__":
    shift(Path(sys.argv[1]))
    from faust.cli.faust import cli

    sys.argv = ["faust", *sys.argv[2:]]
    cli()
