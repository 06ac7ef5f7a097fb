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

from spark_sink.jobs.stream import Sink
from spark_sink.text.quoting import MOVED, MOVING, RELOAD
from spark_sink.warehouse.common.own_tables import TableLetters
from spark_sink.warehouse.coverage import Coverage
from spark_sink.warehouse.delta.own_tables import DeltaRecent
from spark_sink.warehouse.delta.tables import DeltaTables
from spark_sink.warehouse.iceberg.own_tables import IcebergRecent
from spark_sink.warehouse.iceberg.tables import IcebergTables
from spark_sink.warehouse.log import SinkLog
from spark_sink.warehouse.notes import FileNotes
from tests.unit.spark_sink.conftest import FORMAT

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


def _apart(tables: Any) -> str | None:
    """The name of the part of the warehouse that has tables which no reader sees; None for the others."""
    if isinstance(tables, IcebergTables):
        of = tables.prefix.strip("_").rpartition("_")[2]
        return f"__{of}" if of else None
    return next((name for name in (MOVING, RELOAD) if tables._root.endswith(f"/{name}")), None)


def _in_folder(name: str) -> Callable[..., bool]:
    return lambda self, *_, **__: _apart(self) == name


def _is_own(self: Any, *_: Any, **__: Any) -> bool:
    return _apart(self) is None


def _is_moved(self: Any, *_: Any, cut: Any = None, **__: Any) -> bool:
    return _is_own(self) and cut is not None and cut[0] == 0


def _is_reloaded(self: Any, *_: Any, cut: Any = None, **__: Any) -> bool:
    return _is_own(self) and cut is not None and cut[0] != 0


def _is_note(_: Any, name: str, text: str) -> bool:
    return name == MOVED and text != "{}"


def _is_end(_: Any, name: str, text: str) -> bool:
    return name == MOVED and text == "{}"


def _has_any(_: Any, given: Any, *__: Any, **___: Any) -> bool:
    return bool(given)


def _is_state(kind: str) -> Callable[..., bool]:
    return lambda _, *rows: any(row.get("kind") == kind for row in rows)


_Recent, _Tables = {
    "delta": (DeltaRecent, DeltaTables),
    "iceberg": (IcebergRecent, IcebergTables),
}[FORMAT]
WRITES: Final = {
    "recent.begin": Write(_Recent, "begin"),
    "recent.add": Write(_Recent, "add", most=2),
    "recent.tidy": Write(_Recent, "tidy"),
    "ddl.events": Write(SinkLog, "add_ddl", _has_any),
    "ddl.moving": Write(_Tables, "replace", _in_folder(MOVING), most=2),
    "ddl.note": Write(FileNotes, "write", _is_note),
    "ddl.put": Write(_Tables, "replace", _is_moved, most=2),
    "ddl.drop": Write(_Tables, "drop", _is_own),
    "ddl.done": Write(SinkLog, "done"),
    "ddl.end": Write(FileNotes, "write", _is_end),
    "table.floors": Write(SinkLog, "add_floors", _has_any),
    "table.letters": Write(TableLetters, "add"),
    "table.evolve": Write(_Tables, "evolve", _is_own),
    "table.truncate": Write(_Tables, "truncate", _is_own),
    "table.merge": Write(_Tables, "merge", _is_own, most=3),
    "batch.log": Write(SinkLog, "append"),
    # Before it the batch is planned in the checkpoint; before the next, it is committed there.
    "batch.whole": Write(Sink, "_batch", most=2),
    "reload.begin": Write(SinkLog, "wait", _is_state("reloading")),
    "reload.stage": Write(_Tables, "merge", _in_folder(RELOAD)),
    "reload.put": Write(_Tables, "replace", _is_reloaded),
    "reload.end": Write(SinkLog, "wait", _is_state("loaded")),
    "reload.clear": Write(_Tables, "drop", _in_folder(RELOAD), most=2),
}
STEPS: Final = tuple(f"{write}.{side}" for write in WRITES for side in ("before", "after"))


def most(step: str) -> int:
    """How often a round of the load comes to a step at least."""
    return WRITES[step.rpartition(".")[0]].most


def install(step: str, come: Come) -> None:
    """Calls `come` at a step, for as long as the process lives."""
    follower: Any = sys.modules["spark_sink.views.recent.follower"]
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
