"""Workers' reports on their /status, read at their advertised addresses.

Invariant: an answer is valid only if it is of the intended worker; one that does not arrive within
seconds is reported as missing, and delays nothing.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.worker.destination.background import in_its_own_thread

_SECONDS = 3.0


@dataclass(frozen=True, slots=True, order=True)
class WorkerAt:
    """A worker and the address of its HTTP server."""

    worker: str
    address: str


async def read_statuses(workers: Iterable[WorkerAt]) -> dict[WorkerAt, dict[str, Any] | str]:
    """Return each worker's report of its destinations, or why there is none."""
    wanted = sorted(set(workers))
    answers = await asyncio.gather(
        *(in_its_own_thread(partial(_read_status, worker)) for worker in wanted)
    )
    return dict(zip(wanted, answers, strict=True))


def _read_status(worker: WorkerAt) -> dict[str, Any] | str:
    if not worker.address:
        return f"worker {worker.worker} has no worker.advertised_address, so its /status cannot be read"
    url = f"http://{worker.address}/status"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        answers: dict[str, Any] = found["destinations"]
        answering = found["worker"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return f"worker {worker.worker} does not answer at {worker.address}: {reason}"
    if answering != worker.worker:
        return f"{worker.address} is worker {answering}, not {worker.worker}"
    return answers
