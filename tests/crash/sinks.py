"""A process with a sink, which carries out one order after another; Spark is started once for all.

Invariant: no test waits for a batch during faults; one that failed because Kafka was unavailable is repeated by
the next.
"""

from __future__ import annotations

import os
import secrets
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from devstack.ports import HOST
from devstack.processes import Children

KEY_VARIABLE = "AQUEDUCT_TEST_SINKING_KEY"
_TIMEOUT = 300.0
Tables = dict[str, list[dict[str, Any]]]


class Order(NamedTuple):
    """What to apply, where, and the tables of the database to report afterwards."""

    prefix: str
    bootstrap: str
    warehouse: str
    database: str
    tables: tuple[str, ...] = ()
    exclude: str = ""
    """Topics that are not applied, as the sink's own setting names them."""


class Done(NamedTuple):
    """The tables that were asked for, or the sink's own error."""

    tables: Tables
    error: str | None = None


class Sinking:
    """A process with Spark in it, started at the first order; orders are done one after another."""

    def __init__(self, folder: Path, mutant: str | None = None) -> None:
        self._log = folder / "sinking.log"
        self._mutant = mutant
        self._children = Children()
        self._orders: Connection | None = None
        # One thread: the process does one thing at a time.
        self._pool = ThreadPoolExecutor(1, "sinking")
        self._latest: Future[Done] | None = None

    def apply(self, order: Order) -> None:
        """Begin to apply the available records, unless that is in progress."""
        if self._latest is None or self._latest.done():
            self._latest = self._pool.submit(self._do, order)

    def tables(self, order: Order) -> Done:
        """Apply all available records, and return the tables' rows."""
        return self._pool.submit(self._do, order).result(_TIMEOUT)

    def wait(self) -> None:
        """Wait until nothing is being applied."""
        self._pool.submit(lambda: None).result(_TIMEOUT)

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._orders is not None:
            self._orders.close()
        self._children.close()

    def _do(self, order: Order) -> Done:
        self._orders = self._orders or self._start()
        self._orders.send(order)
        done: Done = self._orders.recv()
        return done

    def _start(self) -> Connection:
        key = secrets.token_hex()
        kept = {name: text for name, text in os.environ.items() if not name.startswith("AQUEDUCT_")}
        with Listener((HOST, 0), authkey=key.encode()) as listener:
            command = [sys.executable, "-m", "tests.crash.sinking", str(listener.address[1])]
            if self._mutant is not None:
                command.append(self._mutant)
            self._children.start(
                command, label="sinking", log=self._log, env=kept | {KEY_VARIABLE: key}
            )
            return listener.accept()
