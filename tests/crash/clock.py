"""A worker whose clock a test may set: ``python -m tests.crash.clock FILE …`` runs Faust with the other words.

The law: the file holds by how many seconds the clock is off, as one double, and is asked at each look at the
clock; the monotonic clock goes on as it does.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path

_OFF = struct.Struct("d")


def put(path: Path, seconds: float) -> None:
    """Set the clock of whoever looks there."""
    # Truncated while it is mapped, it would end its reader by SIGBUS.
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(_OFF.pack(seconds))


def shift(path: Path) -> None:
    """Let this process see the clock as the file says."""
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
