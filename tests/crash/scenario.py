"""The faults by name: each changes a worker or its servers, and has an expected outcome.

Invariant: a scenario ends with the destination running and all published, or in its stated state; topics and
journal are always verified.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.crash.audited import audited
from tests.crash.scene import Scene, scene
from tests.crash.servers import Servers
from tests.crash.verdict import Findings, compare, described
from tests.crash.warehouse import apply, compared

Act = Callable[[Scene], str]
"""Injects the fault and returns the outcome."""


class Skipped(Exception):
    """It cannot be done on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fault, and how it is done."""

    name: str
    what: str
    """A description of the fault."""
    act: Act
    error: str | None = None
    """The name of the error that the destination has to stop with, which the act itself sees; None where all
    has to be published in the end."""

    @property
    def settles(self) -> bool:
        """Whether all must be published in the end."""
        return self.error is None

    @property
    def is_alone(self) -> bool:
        """Whether nothing else can be done to its topics or its source afterwards."""
        return not self.settles or self.name.startswith(
            ("two.", "binlog.", "source.", "switch.", "nemesis")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a scenario."""

    name: str
    what: str
    seed: int
    how: str
    survived: bool
    skipped: bool = False
    seconds: float = 0.0
    changes: int = 0
    findings: Findings = field(default_factory=dict)

    def line(self) -> str:
        """For an operator who watches."""
        word = "skip" if self.skipped else "ok" if self.survived else "FAIL"
        return (
            f"{word:4} {self.name:34} seed {self.seed:<6} {self.seconds:6.1f} s "
            f"{self.changes:6} changes  {self.how}"
        )


SCENARIOS: dict[str, Scenario] = {}


def fault(name: str, what: str, *, error: str | None = None) -> Callable[[Act], Act]:
    """Register a fault by name; with an error's name, the destination must stop with it."""

    def register(act: Act) -> Act:
        assert name not in SCENARIOS, name
        SCENARIOS[name] = Scenario(name=name, what=what, act=act, error=error)
        return act

    return register


def run(one: Scenario, servers: Servers, folder: Path, *, seed: int) -> Outcome:
    """Act it out alone and ask for the verdict."""
    return run_together([one], servers, folder, seed=seed)[0]


def run_together(
    several: Sequence[Scenario], servers: Servers, folder: Path, *, seed: int
) -> list[Outcome]:
    """Act them out one after the other on the same topics; the verdict at the end is that of each."""
    done: list[Outcome] = []
    last = several[-1]
    try:
        with scene(servers, folder / several[0].name, name=several[0].name, seed=seed) as at:
            for one in several:
                at.proceed(one.name)
                done.append(_acted(one, at))
                if not done[-1].survived:
                    at.proceed(one.name)
                    at.start()
                    return [*_judged(done[:-1], at, settles=True), done[-1]]
            return _judged(done, at, settles=last.settles)
    except Exception as error:
        return [*map(_unjudged, done[:-1]), replace(_outcome(last, seed), how=_trouble(error))]


def _acted(one: Scenario, at: Scene) -> Outcome:
    began = time.monotonic()
    outcome = _outcome(one, at.seed)
    try:
        outcome = replace(outcome, how=one.act(at), survived=True)
    except Skipped as why:
        outcome = replace(outcome, how=str(why), skipped=True, survived=True)
    except Exception as error:
        outcome = replace(outcome, how=_trouble(error))
    apply(at)
    return replace(outcome, seconds=time.monotonic() - began)


def _judged(done: list[Outcome], at: Scene, *, settles: bool) -> list[Outcome]:
    if not done:
        return done
    if settles:
        at.settle()
    source, topics = at.source(), at.topics()
    if at.forged:
        topics.cursors = []
    findings = compare(source, topics, whole=settles)
    findings |= compared(at, source, topics, whole=settles)
    if settles and at.has_gtids:
        findings |= audited(at)
    changes = len(topics.rows)
    if not findings:
        return [replace(one, changes=changes) for one in done]
    wrong = [replace(one, changes=changes, survived=False, how=described(findings)) for one in done]
    # They are counted once.
    return [*wrong[:-1], replace(wrong[-1], findings=findings)]


def _unjudged(one: Outcome) -> Outcome:
    return replace(one, survived=False, how=f"not judged, since a later one failed; {one.how}")


def _outcome(one: Scenario, seed: int) -> Outcome:
    return Outcome(name=one.name, what=one.what, seed=seed, how="", survived=False)


def _trouble(error: Exception) -> str:
    return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
