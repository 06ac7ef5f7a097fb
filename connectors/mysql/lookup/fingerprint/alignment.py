"""Alignment of one server's last transactions with another's binlog, by their fingerprints.

Invariant: they match as an ordered run, never as a set. Several matches are as good as none. A
transaction that the other server lacks between two it has is lost there; an additional one between
two is the server's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

from connectors.mysql.lookup.fingerprint.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """The result of comparing two runs."""

    last_match: Fingerprint | None = None
    """The last published transaction, as the other server has it; None if no position is certain."""
    lacking: tuple[Fingerprint, ...] = ()
    """Published transactions that may still arrive there: they are after the last one it has."""
    lost: tuple[Fingerprint, ...] = ()
    """Published transactions that it lacks although it has later ones."""
    own: tuple[Fingerprint, ...] = ()
    """Its own transactions between published ones."""
    matches: int = 0
    """The number of positions at which the whole run matches."""
    skipped: int = field(default=0)
    """How many of the transactions read there were published."""


def align(kept: Sequence[Fingerprint], found: Sequence[Fingerprint]) -> Aligned:
    """Compare the last published transactions, in order, with those of the other server."""
    ends = [at for at in _starts(kept, found, len(kept)) if at + len(kept) <= len(found)]
    if kept and len(ends) == 1:
        last = ends[0] + len(kept)
        return Aligned(last_match=found[last - 1], matches=1, skipped=last)
    if len(ends) > 1 or not kept:
        return Aligned(matches=len(ends))
    return _with_gaps(kept, found)


def count_before_start(kept: Sequence[Fingerprint], found: Sequence[Fingerprint]) -> int | None:
    """The number of transactions in ``kept`` before the start of a binlog that begins with the next
    one and continues with all others.

    None if there is no such position, or more than one.
    """
    starts = [
        at
        for at in range(len(kept))
        if found and all(mine.is_of(theirs) for mine, theirs in zip(kept[at:], found, strict=False))
    ]
    return starts[0] if len(starts) == 1 else None


def _starts(kept: Sequence[Fingerprint], found: Sequence[Fingerprint], length: int) -> list[int]:
    """The positions of the first ``length`` of ``kept`` in ``found``, as far as that goes."""
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
    tail, end = kept[last.a + last.size :], last.b + last.size
    if end < len(found):
        lost += tail
        tail = ()
    return Aligned(
        last_match=found[end - 1],
        lacking=tuple(tail),
        lost=tuple(lost),
        own=tuple(own),
        skipped=end,
    )


def _names(
    kept: Sequence[Fingerprint], found: Sequence[Fingerprint]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The keys to compare by: with the time of the first commit only if both servers write it."""
    timed = all(one.original_us for one in (*kept, *found))
    keyed = [
        [(one.digest, one.original_us if timed else 0) for one in run] for run in (kept, found)
    ]
    return keyed[0], keyed[1]
