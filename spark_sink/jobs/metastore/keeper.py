"""The updates of the metastore beside the batches, in a thread of its own; and their start from the settings.

Invariant: no batch waits for the metastore, and no failure of it reaches the sink.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import SparkSession

from spark_sink.errors import MetastoreUnreachable
from spark_sink.jobs.metastore.registration import Registrar
from spark_sink.settings.model import Metastore, Settings
from spark_sink.warehouse.opening import open_metastore
from spark_sink.warehouse.protocol import Name, Warehouse
from spark_sink.warehouse.shape import Shape

_log = logging.getLogger(__name__)
_UNREACHABLE: Final = MetastoreUnreachable.__name__
SECONDS_BETWEEN_LOOKS: Final = 1.0
SECONDS_UNTIL_AGAIN: Final = 30.0
"""Seconds until the next attempt after a failure."""
SECONDS_UNTIL_ALL: Final = 600.0
"""Seconds after which changes that others have made in the metastore are repaired."""


@dataclass(slots=True, kw_only=True)
class MetastoreKeeper:
    """Brings the metastore up to date after a change of the tables, and again after a failure."""

    registrar: Callable[[], Registrar]
    """Makes what registers tables; it may fail if the metastore does."""
    shapes: Callable[[], frozenset[Shape]]
    """Returns the shapes of the tables that this process has merged."""
    moved: Callable[[], int]
    """Returns a number that changes when tables are moved or removed."""
    clock: Callable[[], float]
    _registrar: Registrar | None = None
    _seen: tuple[frozenset[Shape], int] | None = None
    _registered: frozenset[Shape] = frozenset()
    _moved: int | None = None
    """The result of `moved` when all was last registered; None at first, when a move may have been missed."""
    _due: float = 0.0
    _error: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Look until a stop; `stopped` waits for so many seconds and returns whether to stop."""
        while not stopped(SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        """Bring the metastore up to date if that is due."""
        with self._lock:
            state = self.shapes(), self.moved()
            if state == self._seen and self.clock() < self._due:
                return
            changed = None
            if state[1] == self._moved:
                new = state[0] - self._registered
                changed = {(shape.database, shape.table) for shape in new}
            error = self._bring_up(changed)
            if not error:
                self._registered, self._moved = state
            # While the metastore does not answer, the same error has many texts.
            known = error.partition(":")[0] if error.startswith(_UNREACHABLE) else error
            if error and known != self._error:
                _log.warning("metastore not up to date, trying again: %s", error)
            elif self._error and not error:
                _log.info("metastore up to date again")
            self._error = known
            # A change leads to one look, without delay; the same state is looked at again only when due.
            self._seen = state
            wait = SECONDS_UNTIL_AGAIN if error else SECONDS_UNTIL_ALL
            self._due = self.clock() + wait

    def _bring_up(self, changed: Collection[Name] | None) -> str:
        """Register tables; return why that failed, wholly or for some tables; empty if it did not."""
        try:
            self._registrar = self._registrar or self.registrar()
            found = self._registrar.bring_up(changed)
        except Exception as failure:
            _log.debug("details", exc_info=failure)
            return f"{type(failure).__name__}: {failure}"
        if found.error:
            return found.error
        return "; ".join(f"{'.'.join(name)}: {why}" for name, why in sorted(found.faults.items()))


def keeper(
    registrar: Callable[[], Registrar],
    settings: Metastore,
    *,
    shapes: Callable[[], frozenset[Shape]],
    moved: Callable[[], int],
) -> MetastoreKeeper | None:
    """Return what keeps the metastore up to date beside a sink; None without a metastore."""
    if not settings.uri:
        return None
    return MetastoreKeeper(registrar=registrar, shapes=shapes, moved=moved, clock=time.monotonic)


def registrar(spark: SparkSession, settings: Settings, warehouse: Warehouse[Any]) -> Registrar:
    """Return what registers a warehouse's tables; the metastore is first asked when it registers tables."""
    return Registrar(
        metastore=open_metastore(spark, settings.metastore),
        tables=warehouse.tables,
        notes=warehouse.notes,
        root=settings.warehouse,
        databases=settings.metastore.databases,
        views=settings.metastore.views,
        clock=time.time,
    )
