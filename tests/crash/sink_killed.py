"""The sink, killed within a step: ``python -m tests.crash.sink_killed CONFIG STEP SECONDS [NTH [stop]]``.

It is the product's own command. With a step of maintenance, its ledger is rewritten every second batch, and it
dies some seconds after it enters the step. With a step of a batch (``sink_steps``), it dies before or after the
NTH such write, or some seconds later. Its whole process group dies as by kill -9, its JVM included. With
``stop`` it gets SIGTERM instead, and that write takes so many seconds.
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
from spark_sink.jobs import stream
from spark_sink.warehouse import maintenance_schedule, opening
from spark_sink.warehouse.delta.log import DeltaLog
from spark_sink.warehouse.delta.maintenance import DeltaUpkeep
from spark_sink.warehouse.iceberg.catalog import IcebergTable
from spark_sink.warehouse.iceberg.maintenance import IcebergUpkeep
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.log_fold import Folded
from spark_sink.warehouse.notes import FileNotes
from tests.crash import sink_steps
from tests.unit.spark_sink.conftest import FORMAT

LEDGER_EVERY: Final = 2


def main(config: str, step: str, seconds: float, nth: int = 1, *, stops: bool = False) -> int:
    """Runs until the step, or forever where it is 'none'."""
    death = Death(seconds, step, nth)
    if stops:
        sink_steps.install(step, Stop(seconds, nth).come)
    elif step in STEPS:
        own: Any = stream
        own.open_warehouse = partial(opening.open_warehouse, every=LEDGER_EVERY)
        STEPS[step](death)
    elif step != "none":
        sink_steps.install(step, death.come)
    return command.main(["--config", config])


class Death:
    """Comes some time after a step has begun for the nth time."""

    def __init__(self, seconds: float, step: str, nth: int) -> None:
        self._seconds, self._step, self._left = seconds, step, nth
        self._counting = threading.Lock()

    def come(self) -> None:
        """Dies at once; or soon, from a thread of its own."""
        with self._counting:
            self._left -= 1
            if self._left:
                return
        if not self._seconds:
            self._die()
        threading.Thread(target=self._die, daemon=True).start()

    def _die(self) -> None:
        time.sleep(self._seconds)
        sys.stderr.write(f"killed step={self._step} seconds={self._seconds:.3f}\n")
        sys.stderr.flush()
        os.killpg(os.getpgrp(), signal.SIGKILL)


class Stop:
    """A signal to end in order within a step, which then takes long."""

    def __init__(self, seconds: float, nth: int) -> None:
        self._seconds, self._left = seconds, nth

    def come(self) -> None:
        """Sends it and waits."""
        self._left -= 1
        if self._left == 0:
            sys.stderr.write("stopped\n")
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(self._seconds)


def _before(owner: Any, name: str, death: Death, *, when: Callable[[Any], bool]) -> None:
    """Lets death come as a method is entered, on objects of which `when` is true."""
    real = getattr(owner, name)

    def entered(self: Any, *given: Any, **named: Any) -> Any:
        if when(self):
            death.come()
        return real(self, *given, **named)

    setattr(owner, name, entered)


def _any(_: Any) -> bool:
    return True


def _is_iceberg_table(table: Any) -> bool:
    return "/__aqueduct/" not in table.location()


_UPKEEP: Final = DeltaUpkeep if FORMAT == "delta" else IcebergUpkeep
_Steps = dict[str, Callable[[Death], None]]
_OF_DELTA: Final[_Steps] = {
    "table.vacuum": lambda d: _before(DeltaLog, "vacuum", d, when=_any),
    "table.forget": lambda d: _before(DeltaLog, "forget", d, when=_any),
}
_OF_ICEBERG: Final[_Steps] = {
    "table.expire": lambda d: _before(IcebergTable, "remove_unused", d, when=_is_iceberg_table),
}
STEPS: Final[_Steps] = {
    "log.compact": lambda d: _before(SinkLog, "compact", d, when=_any),
    # Then the older batches are written, and what replaces all files before the removal of these.
    "log.older": lambda d: _before(Folded, "split", d, when=_any),
    "log.whole": lambda d: _before(Folded, "records", d, when=_any),
    "log.remove": lambda d: _before(FileNotes, "remove", d, when=_any),
    "table.purge": lambda d: _before(_UPKEEP, "purge", d, when=_any),
    "table.optimize": lambda d: _before(_UPKEEP, "compact", d, when=_any),
    "table.record": lambda d: _before(maintenance_schedule.Maintenance, "_record", d, when=_any),
    **(_OF_DELTA if FORMAT == "delta" else _OF_ICEBERG),
}


if __name__ == "__main__":
    given = sys.argv[1:]
    nth = int(given[3]) if given[3:] else 1
    sys.exit(main(given[0], given[1], float(given[2]), nth, stops=given[4:] == ["stop"]))
