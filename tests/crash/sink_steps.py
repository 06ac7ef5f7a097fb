"""The sink's writes of a batch and of a reload: what happens just before or after one, for the crash tests.

A step is named ``<part>.<write>.<before|after>``.

Invariant: each durable write has both steps; the product has no switch for them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pytest

from spark_sink.names import MOVED, MOVING, RELOAD
from spark_sink.recent.coverage import Coverage
from spark_sink.stream import Sink
from spark_sink.warehouse.delta.ddl import DeltaDdl
from spark_sink.warehouse.delta.ledger import DeltaFloors, DeltaLedger
from spark_sink.warehouse.delta.letters import DeltaLetters
from spark_sink.warehouse.delta.notes import FileNotes
from spark_sink.warehouse.delta.recent import DeltaRecent
from spark_sink.warehouse.delta.tables import DeltaTables
from spark_sink.warehouse.delta.waits import DeltaWaits

Come = Callable[[], None]
BATCHES_BETWEEN_REWRITES: Final = 3
"""Of recent changes, so that a short run has some."""


class Write(NamedTuple):
    """A method that writes; on the objects and with the arguments of which `when` is true."""

    owner: type[Any]
    method: str
    when: Callable[..., bool] = lambda *_, **__: True
    most: int = 1
    """How often a round of the load makes it at least."""


def _in_folder(name: str) -> Callable[..., bool]:
    return lambda self, *_, **__: str(self._root).endswith(f"/{name}")


def _is_own(self: Any, *_: Any, **__: Any) -> bool:
    return not str(self._root).endswith((f"/{MOVING}", f"/{RELOAD}"))


def _is_moved(self: Any, *_: Any, cut: object = None, **__: Any) -> bool:
    return _is_own(self) and cut is None


def _is_reloaded(self: Any, *_: Any, cut: object = None, **__: Any) -> bool:
    return _is_own(self) and cut is not None


def _is_note(_: Any, name: str, text: str) -> bool:
    return name == MOVED and text != "{}"


def _is_end(_: Any, name: str, text: str) -> bool:
    return name == MOVED and text == "{}"


def _has_any(_: Any, given: Any, *__: Any, **___: Any) -> bool:
    return bool(given)


def _is_state(kind: str) -> Callable[..., bool]:
    return lambda _, row: row.get("kind") == kind


WRITES: Final = {
    "recent.begin": Write(DeltaRecent, "begin"),
    "recent.add": Write(DeltaRecent, "add", most=2),
    "recent.tidy": Write(DeltaRecent, "tidy"),
    "ddl.events": Write(DeltaDdl, "add", _has_any),
    "ddl.moving": Write(DeltaTables, "replace", _in_folder(MOVING), most=2),
    "ddl.note": Write(FileNotes, "write", _is_note),
    "ddl.put": Write(DeltaTables, "replace", _is_moved, most=2),
    "ddl.drop": Write(DeltaTables, "drop", _is_own),
    "ddl.done": Write(DeltaDdl, "done"),
    "ddl.end": Write(FileNotes, "write", _is_end),
    "table.floors": Write(DeltaFloors, "add", _has_any),
    "table.letters": Write(DeltaLetters, "add"),
    "table.evolve": Write(DeltaTables, "evolve", _is_own),
    "table.truncate": Write(DeltaTables, "truncate", _is_own),
    "table.merge": Write(DeltaTables, "merge", _is_own, most=3),
    "batch.ledger": Write(DeltaLedger, "append"),
    # Before it the batch is planned in the checkpoint; before the next, it is committed there.
    "batch.whole": Write(Sink, "_batch", most=2),
    "reload.begin": Write(DeltaWaits, "append", _is_state("reloading")),
    "reload.stage": Write(DeltaTables, "merge", _in_folder(RELOAD)),
    "reload.put": Write(DeltaTables, "replace", _is_reloaded),
    "reload.end": Write(DeltaWaits, "append", _is_state("loaded")),
    "reload.clear": Write(DeltaTables, "drop", _in_folder(RELOAD), most=2),
}
STEPS: Final = tuple(f"{write}.{side}" for write in WRITES for side in ("before", "after"))


def most(step: str) -> int:
    """How often a round of the load comes to a step at least."""
    return WRITES[step.rpartition(".")[0]].most


def install(step: str, come: Come) -> None:
    """Calls `come` at a step, for as long as the process lives."""
    follower: Any = sys.modules["spark_sink.recent.follower"]
    follower.Coverage = functools.partial(Coverage, batches=BATCHES_BETWEEN_REWRITES)
    _patch(step, come, setattr)


@contextmanager
def installed(step: str, come: Come) -> Iterator[None]:
    """The same within a block."""
    with pytest.MonkeyPatch.context() as patch:
        _patch(step, come, patch.setattr)
        yield


def _patch(step: str, come: Come, put: Callable[[Any, str, Any], None]) -> None:
    name, _, side = step.rpartition(".")
    write = WRITES[name]
    real = getattr(write.owner, write.method)

    @functools.wraps(real)
    def written(*given: Any, **more: Any) -> Any:
        is_it = write.when(*given, **more)
        if is_it and side == "before":
            come()
        result = real(*given, **more)
        if is_it and side == "after":
            come()
        return result

    put(write.owner, write.method, written)
