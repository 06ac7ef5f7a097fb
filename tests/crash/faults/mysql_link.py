"""Faults of the link between the worker and MySQL."""

from __future__ import annotations

import time

from tests.crash.scenario import fault
from tests.crash.scene import Scene

_SILENCE = 3.0
"""Three heartbeats of the scenes' one second."""


@fault("mysql.reset", "the connection to MySQL is reset, three times")
def reset(at: Scene) -> str:
    at.begin()
    for _ in range(3):
        at.pause(0.3, 1.5)
        at.mysql.reset()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("mysql.cut.down", "the connection is cut after a random byte sent by MySQL, six times")
def cut_down(at: Scene) -> str:
    at.begin()
    for _ in range(6):
        at.mysql.way("down", cut_after=at.rng.randint(1, 60_000))
        at.pause(0.3, 1.2)
    at.mysql.restore()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("mysql.cut.up", "the connection is cut within the worker's side of the handshake")
def cut_up(at: Scene) -> str:
    at.begin()
    for _ in range(5):
        at.mysql.way("up", cut_after=at.rng.randint(1, 700))
        at.mysql.reset()
        at.pause(0.4, 1.0)
    at.mysql.restore()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("mysql.black.down", "packets from MySQL are held back while the connection stays open")
def black_down(at: Scene) -> str:
    at.begin()
    at.mysql.way("down", held=True)
    began = time.monotonic()
    error = at.wait_state("RETRYING", "STARTING")
    took = time.monotonic() - began
    at.pause(0.5, 2)
    at.mysql.restore()
    assert took < 4 * _SILENCE, f"seen only after {took:.1f} s"
    return f"{error or 'a new run'} in {took:.1f} s; recovered in {at.wait_recovered():.1f} s"


@fault("mysql.black.up", "packets to MySQL are held back, on new connections too")
def black_up(at: Scene) -> str:
    at.begin()
    at.mysql.way("up", held=True)
    at.mysql.reset()
    at.pause(6, 9)
    state = at.state()
    at.mysql.restore()
    at.mysql.reset()
    return f"{state} meanwhile; recovered in {at.wait_recovered():.1f} s"


@fault("mysql.half-open", "MySQL's port accepts connections and never answers")
def half_open(at: Scene) -> str:
    at.begin()
    at.mysql.door("half_open")
    at.mysql.reset()
    at.pause(6, 9)
    state = at.state()
    at.mysql.restore()
    at.mysql.reset()
    return f"{state} meanwhile; recovered in {at.wait_recovered():.1f} s"


@fault("mysql.refused", "MySQL's port refuses connections for some seconds")
def refused(at: Scene) -> str:
    at.begin()
    at.mysql.door("refuse")
    at.mysql.reset()
    at.wait_state("RETRYING", "STARTING")
    at.pause(2, 4)
    at.mysql.restore()
    return f"recovered in {at.wait_recovered():.1f} s"


@fault("mysql.slow", "MySQL's link has 40 ms more latency and 150 kB/s")
def slow(at: Scene) -> str:
    at.begin()
    before = at.mysql.seen()["accepted"]
    at.mysql.way("down", latency=0.04, bandwidth=150_000)
    at.pause(5, 7)
    at.mysql.restore()
    took, again = at.wait_recovered(), at.mysql.seen()["accepted"] - before
    assert again <= 2, f"it connected {again} times"
    return f"caught up in {took:.1f} s"


@fault("mysql.sliced", "MySQL's data arrive in segments of 1 to 7 bytes")
def sliced(at: Scene) -> str:
    at.begin()
    at.mysql.way("down", slice=at.rng.randint(1, 7))
    at.pause(3, 4)
    at.mysql.restore()
    return f"caught up in {at.wait_recovered():.1f} s"


@fault("mysql.flip", "one bit sent by MySQL is flipped, without TLS, eight times")
def flip(at: Scene) -> str:
    at.tls = "disabled"  # TLS would see it first
    at.begin()
    seen: set[str] = set()
    for _ in range(8):
        at.mysql.way("down", flip_at=at.rng.randint(1, 20_000))
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            status = at.status()
            if status.get("error"):
                seen.add(str(status["error"]).partition(":")[0])
            time.sleep(0.05)
    at.mysql.restore()
    if at.state() == "FAILED":
        why = str(at.status()["error"]).partition(":")[0]
        at.worker.kill()
        return f"{why}; after a restart recovered in {at.wait_recovered():.1f} s"
    return f"{', '.join(sorted(seen)) or 'nothing'} seen; recovered in {at.wait_recovered():.1f} s"
