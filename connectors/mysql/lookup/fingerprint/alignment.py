"""Where one server's last transactions stand in another one's binlog, by their fingerprints.

The law: they match as an ordered run, never as a set. Several places are as good as none; what the other server
lacks between two that it has is lost there, and what it has between two is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

from connectors.mysql.lookup.fingerprint.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """What comparing two runs comes to."""

    behind: Fingerprint | None = None
    """The last transaction there that was published, as it stands there; None where no place is certain."""
    lacking: tuple[Fingerprint, ...] = ()
    """Published ones that may still come there: nothing stands behind the last that it has."""
    lost: tuple[Fingerprint, ...] = ()
    """Published ones that it lacks although later ones are there."""
    own: tuple[Fingerprint, ...] = ()
    """Those of its own between published ones."""
    places: int = 0
    """At how many places the whole run stands there."""
    skipped: int = field(default=0)
    """Of those that were read there, how many were published."""


def align(kept: Sequence[Fingerprint], found: Sequence[Fingerprint]) -> Aligned:
    """Compare the last published transactions, in their order, with those that the other server has."""
    ends = [at for at in _starts(kept, found, len(kept)) if at + len(kept) <= len(found)]
    if kept and len(ends) == 1:
        last = ends[0] + len(kept)
        return Aligned(behind=found[last - 1], places=1, skipped=last)
    if len(ends) > 1 or not kept:
        return Aligned(places=len(ends))
    return _with_gaps(kept, found)


def goes_on(kept: Sequence[Fingerprint], found: Sequence[Fingerprint]) -> int | None:
    """How many of ``kept`` stand before a binlog that begins with the next one and goes on with all the others.

    None where there is no such place, or more than one.
    """
    places = [
        at
        for at in range(len(kept))
        if found and all(mine.is_of(theirs) for mine, theirs in zip(kept[at:], found, strict=False))
    ]
    return places[0] if len(places) == 1 else None


def _starts(kept: Sequence[Fingerprint], found: Sequence[Fingerprint], length: int) -> list[int]:
    """Where the first ``length`` of ``kept`` stand in ``found``, as far as that goes."""
    return [
        at
        for at in range(len(found))
        if all(mine.is_of(theirs) for mine, theirs in zip(kept[:length], found[at:], strict=False))
    ]


def _with_gaps(kept: Sequence[Fingerprint], found: Sequence[Fingerprint]) -> Aligned:
    matcher = SequenceMatcher(None, *_names(kept, found), autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return Aligned(lacking=tuple(kept))
    lost: list[Fingerprint] = list(kept[: blocks[0].a])
    own: list[Fingerprint] = []
    for block, after in pairwise(blocks):
        lost += kept[block.a + block.size : after.a]
        own += found[block.b + block.size : after.b]
    last = blocks[-1]
    tail, behind = kept[last.a + last.size :], last.b + last.size
    if behind < len(found):
        lost += tail
        tail = ()
    return Aligned(
        behind=found[behind - 1],
        lacking=tuple(tail),
        lost=tuple(lost),
        own=tuple(own),
        skipped=behind,
    )


def _names(
    kept: Sequence[Fingerprint], found: Sequence[Fingerprint]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """What to compare by: with the time of the first commit only where both servers tell it."""
    timed = all(one.original_us for one in (*kept, *found))
    named = [
        [(one.digest, one.original_us if timed else 0) for one in run] for run in (kept, found)
    ]
    return named[0], named[1]
