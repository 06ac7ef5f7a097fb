"""The faults by name: what is done to a worker and its servers, and what has to come of it.

The law: a scenario ends with the destination running and all published, or with the state it says; the verdict
over topics and journal is always asked.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.audited import audited
from tests.crash.scene import Scene, scene
from tests.crash.servers import Servers
from tests.crash.verdict import Findings, compare, told

Act = Callable[[Scene], str]
"""Does the fault and tells how it ended."""


class Skipped(Exception):
    """It cannot be done on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fault, and how it is done."""

    name: str
    what: str
    """What happens, in words."""
    act: Act
    settles: bool = True
    """Whether all has to be published in the end; else the act itself has seen where it stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a scenario ended."""

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
        """For a person who watches."""
        word = "skip" if self.skipped else "ok" if self.survived else "FAIL"
        return (
            f"{word:4} {self.name:34} seed {self.seed:<6} {self.seconds:6.1f} s "
            f"{self.changes:6} changes  {self.how}"
        )


SCENARIOS: dict[str, Scenario] = {}


def fault(name: str, what: str, *, settles: bool = True) -> Callable[[Act], Act]:
    """Give a fault its name."""

    def register(act: Act) -> Act:
        assert name not in SCENARIOS, name
        SCENARIOS[name] = Scenario(name=name, what=what, act=act, settles=settles)
        return act

    return register


def run(one: Scenario, servers: Servers, folder: Path, *, seed: int) -> Outcome:
    """Act it out and ask for the verdict."""
    began = time.monotonic()
    changes, findings, survived, skipped = 0, Findings(), False, False
    try:
        with scene(servers, folder / one.name, name=one.name, seed=seed) as at:
            how = one.act(at)
            if one.settles:
                at.settle()
            source, topics = at.source(), at.topics()
            if at.forged:
                topics.cursors = []
            changes = len(topics.rows)
            findings = compare(source, topics, whole=one.settles)
            if one.settles:
                findings |= audited(at)
            survived = not findings
            how = told(findings) or how
    except Skipped as why:
        how, skipped, survived = str(why), True, True
    except Exception as error:
        how = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
    return Outcome(
        name=one.name,
        what=one.what,
        seed=seed,
        how=how,
        survived=survived,
        skipped=skipped,
        seconds=time.monotonic() - began,
        changes=changes,
        findings=findings,
    )
