"""Any number of decoders, none included.

The law: how many there are changes the speed alone.
"""

from __future__ import annotations

from typing import Any

from app.pipeline.decoders.inline import Inline
from app.pipeline.decoders.pool import Pool
from app.pipeline.decoders.protocols import Decoders, Deliver, Fail, Limits, StageSpec


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
    """Start ``count`` processes, or none and decode in the thread that puts.

    ``state`` is that before the first portion; ``name`` shows in the processes' titles and in errors.
    ``deliver`` and ``fail`` are called by one thread, in order. Raises DecoderLost if the system has no
    processes to give, and with no processes whatever ``spec.make()`` raises.
    """
    if count == 0:
        return Inline(spec.make(), state=state, deliver=deliver, fail=fail)
    return Pool(
        spec, count=count, state=state, deliver=deliver, fail=fail, name=name, limits=limits
    )
