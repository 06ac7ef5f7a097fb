"""Faults of decoders and of their fork server."""

from __future__ import annotations

import functools
import os
import signal
import time
import urllib.request
from pathlib import Path

import yaml

from devstack.paths import PROJECT
from devstack.ports import HOST
from tests.architecture.promql import Labels, fires
from tests.crash.processes import children_of
from tests.crash.scenario import fault
from tests.crash.scene import DESTINATION, TIMEOUT, Scene
from tests.harness.wait import until

_DECODER, _FORK_SERVER = (
    "app.worker.pipeline.decoders.child",
    "app.worker.pipeline.decoders.fork_server",
)
_ALERT = "AqueductDecoderTrouble"


@fault("freeze.decoder", "SIGSTOP of a decoder process under load, without SIGCONT")
def freeze_decoder(at: Scene) -> str:
    at.decoders = 2
    at.begin()
    frozen = children_of(at.worker.pid, _DECODER)[0]
    began = time.monotonic()
    os.kill(frozen, signal.SIGSTOP)
    _wait_retrying(at, "DecoderStalled")
    seconds = time.monotonic() - began
    _wait_alert(at, "DecoderStalled")
    recovered = at.wait_recovered()
    assert f"pid={frozen}" in at.worker.log, "the log does not name the process"
    at.wait(lambda: not _runs(frozen), "leaves the frozen decoder there")
    return f"RETRYING with DecoderStalled and {_ALERT} after {seconds:.1f} s; recovered in {recovered:.1f} s"


@fault(
    "freeze.fork-server",
    "SIGSTOP of the decoders' fork server while MySQL is unavailable; then decoders are needed",
)
def freeze_fork_server(at: Scene) -> str:
    at.decoders = 2
    at.begin()
    at.mysql.door("refuse")
    at.mysql.reset()
    at.wait(lambda: not children_of(at.worker.pid, _DECODER), "keeps decoders without a source")
    # Until the run has ended, it may still ask that process about its decoders, and would replace it at once.
    _wait_retrying(at, "SourceLost")
    (frozen,) = children_of(at.worker.pid, _FORK_SERVER)
    os.kill(frozen, signal.SIGSTOP)
    began = time.monotonic()
    at.mysql.restore()
    _wait_retrying(at, "DecoderLost")
    seconds = time.monotonic() - began
    _wait_alert(at, "DecoderLost")
    recovered = at.wait_recovered()
    (other,) = children_of(at.worker.pid, _FORK_SERVER)
    assert other != frozen, "decoders are still copies of the frozen process"
    assert not _runs(frozen), "the frozen process is still there"
    return f"RETRYING with DecoderLost and {_ALERT} after {seconds:.1f} s; recovered in {recovered:.1f} s"


def _wait_retrying(at: Scene, error: str) -> None:
    """Wait until /status shows the error, and the destination as one that is tried again."""

    def is_shown() -> bool:
        status = at.status()
        return status.get("state") == "RETRYING" and str(status.get("error")).startswith(
            f"{error}: "
        )

    until(
        is_shown,
        seconds=TIMEOUT,
        late=lambda: f"RETRYING with {error} is never shown: {at.status()}",
    )


def _wait_alert(at: Scene, error: str) -> None:
    """Wait until the errors that the worker exports make the alert fire, as the first of their kind do."""
    at.wait(lambda: _is_alerted(_errors(at), error), f"exports no {error} that is alerted on")


def _is_alerted(found: dict[Labels, float], error: str) -> bool:
    now = time.time()

    def since(value: float, moment: float) -> float | None:
        return value if moment >= now - 60 else None

    name = "aqueduct_errors_total"
    own = {labels: value for labels, value in found.items() if ("error", error) in labels}
    series = {(name, labels): functools.partial(since, value) for labels, value in own.items()}
    return bool(own) and fires(_rule(), series, now)


def _rule() -> dict[str, str]:
    groups = yaml.safe_load((PROJECT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    (rule,) = (rule for group in groups for rule in group["rules"] if rule["alert"] == _ALERT)
    found: dict[str, str] = rule
    return found


def _errors(at: Scene) -> dict[Labels, float]:
    """The worker's counters of the destination's errors, by labels."""
    found: dict[Labels, float] = {}
    page = f"http://{HOST}:{at.worker.port}/metrics"
    with urllib.request.urlopen(page, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for line in lines:
        if line.startswith("aqueduct_errors_total{") and f'"{DESTINATION}"' in line:
            text, _, value = line.partition("{")[2].rpartition("} ")
            pairs = (pair.partition("=")[::2] for pair in text.split(","))
            found[frozenset((key, held.strip('"')) for key, held in pairs)] = float(value)
    return found


def _runs(pid: int) -> bool:
    """Whether a process exists; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
