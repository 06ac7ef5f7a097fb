"""Starts any number of decoder processes, or an inline decoder.

Invariant: the number of decoders affects only speed.
"""

from __future__ import annotations

from typing import Any

from app.worker.pipeline.decoders.inline import Inline
from app.worker.pipeline.decoders.pool import Pool
from app.worker.pipeline.decoders.protocols import Decoders, Deliver, Fail, Limits, StageSpec


def start(
    spec: StageSpec,
    *,
    count: int,
    state: Any,
    deliver: Deliver,
    fail: Fail,
    name: str = "",
    limits: Limits | None = None,
) -> Decoders:
    """Start ``count`` processes, or with 0 decode in the thread that puts.

    ``state`` is that before the first portion; ``name`` appears in process titles and errors. ``deliver`` and
    ``fail`` are called by one thread, in order. Raises DecoderLost if no process can be started and, with no
    processes, any error of ``spec.make()``.
    """
    if count == 0:
        return Inline(spec.make(), state=state, deliver=deliver, fail=fail)
    return Pool(
        spec, count=count, state=state, deliver=deliver, fail=fail, name=name, limits=limits
    )
