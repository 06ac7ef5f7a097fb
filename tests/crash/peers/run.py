"""One fault with Debezium and its check: the same comparisons as for our own worker.

Invariant: what Debezium does not have (numbers, epochs, a journal) is not required; a repeated record is
counted as repeated and not as out of order too.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from demo import checks
from tests.crash.peers.debezium import Variant
from tests.crash.peers.faults import FAULTS
from tests.crash.peers.scene import PeerScene, peer_scene
from tests.crash.scenario import Skipped
from tests.crash.servers import Servers
from tests.crash.verdict import (
    Findings,
    Read,
    Source,
    Topics,
    described,
    disordered,
    scattered,
    values,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOutcome:
    """The outcome of a fault."""

    name: str
    variant: str
    seed: int
    how: str
    judged: bool = False
    went_on: float | None = None
    helped: list[str] = field(default_factory=list)
    """The reason for each intervention of an operator."""
    rows: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """The number of findings of each kind."""
    wrong: str = ""

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.judged and not self.counts

    def line(self) -> str:
        """For an operator who watches."""
        word = "ok" if self.clean else "seen" if self.judged else "FAIL"
        told_so = f"; an operator {len(self.helped)} times: {self.helped[0]}" if self.helped else ""
        return (
            f"{word:4} {self.variant}.{self.name:34} seed {self.seed:<6} {self.seconds:6.1f} s "
            f"{self.rows:6} rows  {self.how}{told_so} {self.wrong}"
        )


def run(name: str, variant: Variant, servers: Servers, folder: Path, *, seed: int) -> PeerOutcome:
    """Act it out and ask for the verdict."""
    began = time.monotonic()
    how, helped, rows, counts, wrong = "", [], 0, {}, ""
    went_on, judged = None, False
    try:
        with peer_scene(servers, folder, name=name, seed=seed, variant=variant) as at:
            try:
                how = FAULTS[name].act(at)
                findings, rows = judge(at)
                counts = {kind: len(what) for kind, what in findings.items()}
                wrong, judged = described(findings), True
            finally:
                helped, went_on = at.helped, at.went_on
    except Skipped as why:
        how = str(why)
    except Exception as error:
        how = f"{how} {type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
    return PeerOutcome(
        name=name,
        variant=variant.name,
        seed=seed,
        how=how,
        judged=judged,
        went_on=went_on,
        helped=helped,
        rows=rows,
        seconds=time.monotonic() - began,
        counts=counts,
        wrong=wrong,
    )


def judge(at: PeerScene) -> tuple[Findings, int]:
    """The findings, and the number of records; all must be published unless it stopped rightly."""
    if not at.stopped:
        at.load.stop()
        at.wait_recovered()
    source, topics = at.source(), at.topics()
    return compare(source, topics, whole=not at.stopped), len(topics.rows)


def compare(source: Source, topics: Topics, *, whole: bool = True) -> Findings:
    """The checks that are possible for records without numbers."""
    expected = set().union(*source.truth.change_ids.values())
    records = [one.record for one in topics.rows]
    first = once(topics.rows)
    found = {
        "lost": sorted(checks.lost(expected, records)) if whole else [],
        "repeated": sorted(checks.duplicated(records)),
        "invented": [str(one) for one in checks.invented(expected, records)],
        "disordered": disordered(one.record for one in first),
        "scattered": scattered(topics.rows),
        "values": values(source.rows, first) if whole else [],
    }
    return {kind: what for kind, what in found.items() if what}


def once(rows: list[Read]) -> list[Read]:
    """The rows without those that came again."""
    seen: set[str | None] = set()
    kept = []
    for one in sorted(
        rows, key=lambda one: (one.record.topic, one.record.partition, one.record.offset)
    ):
        if one.record.change_id not in seen:
            seen.add(one.record.change_id)
            kept.append(one)
    return kept
