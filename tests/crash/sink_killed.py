"""The sink, killed within a step of its maintenance: ``python -m tests.crash.sink_killed CONFIG STEP SECONDS``.

It is the product's own command with its ledger rewritten every second batch; `SECONDS` after it enters the
step, its whole process group dies as by kill -9, its JVM included.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from spark_sink import __main__ as command
from spark_sink import stream
from spark_sink.names import LEDGER
from spark_sink.warehouse import maintenance, opening
from spark_sink.warehouse.delta.log import DeltaLog
from spark_sink.warehouse.delta.own_table import OwnTable

LEDGER_EVERY: Final = 2


def main(config: str, step: str, seconds: float) -> int:
    """Runs until the step, or forever where it is 'none'."""
    own: Any = stream
    own.open_warehouse = partial(opening.open_warehouse, every=LEDGER_EVERY)
    if step != "none":
        STEPS[step](Death(seconds, step))
    return command.main(["--config", config])


class Death:
    """Comes some time after a step has begun."""

    def __init__(self, seconds: float, step: str) -> None:
        self._seconds, self._step, self._coming = seconds, step, False

    def come(self) -> None:
        """Dies soon, from a thread of its own."""
        if not self._coming:
            self._coming = True
            threading.Thread(target=self._die, daemon=True).start()

    def _die(self) -> None:
        time.sleep(self._seconds)
        sys.stderr.write(f"killed step={self._step} seconds={self._seconds:.3f}\n")
        sys.stderr.flush()
        os.killpg(os.getpgrp(), signal.SIGKILL)


def _before(owner: Any, name: str, death: Death, *, when: Callable[[Any], bool]) -> None:
    """Lets death come as a method is entered, on objects of which `when` is true."""
    real = getattr(owner, name)

    def entered(self: Any, *given: Any) -> Any:
        if when(self):
            death.come()
        return real(self, *given)

    setattr(owner, name, entered)


def _after(owner: Any, name: str, death: Death) -> None:
    real = getattr(owner, name)

    def left(self: Any, *given: Any) -> Any:
        result = real(self, *given)
        death.come()
        return result

    setattr(owner, name, left)


def _any(_: Any) -> bool:
    return True


def _is_ledger(log: Any) -> bool:
    return str(log._path).endswith(LEDGER)


def _is_table(log: Any) -> bool:
    return not _is_ledger(log)


STEPS: Final[dict[str, Callable[[Death], None]]] = {
    "ledger.rewrite": lambda d: _before(OwnTable, "rewrite", d, when=_is_ledger),
    "ledger.vacuum": lambda d: _before(DeltaLog, "vacuum", d, when=_is_ledger),
    "ledger.forget": lambda d: _before(DeltaLog, "forget", d, when=_is_ledger),
    "table.purge": lambda d: _before(maintenance.Maintenance, "_purge", d, when=_any),
    # OPTIMIZE is what comes after the purge.
    "table.optimize": lambda d: _after(maintenance.Maintenance, "_purge", d),
    "table.vacuum": lambda d: _before(DeltaLog, "vacuum", d, when=_is_table),
    "table.forget": lambda d: _before(DeltaLog, "forget", d, when=_is_table),
    "table.record": lambda d: _before(maintenance.Maintenance, "_record", d, when=_any),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
