"""The verdict: what each group of subscribers got, and what the warehouse has, against what was expected."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from demo.platform.expected import Change
from demo.platform.groups import ORDERS, TAG, Got
from demo.platform.parts import PREFIX
from demo.platform.warehouse import Rows

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One group, or the warehouse."""

    name: str
    expected: int
    lost: int
    repeated: int
    different: int
    shown: Sequence[str]
    """The first faults in full."""

    @property
    def good(self) -> bool:
        """Whether nothing was lost, repeated or different."""
        return not (self.lost or self.repeated or self.different)

    def line(self) -> str:
        """Return the counts in a line."""
        return (
            f"{self.name:10} {self.expected:8,} expected {self.lost:6,} lost {self.repeated:6,} repeated"
            f" {self.different:6,} different"
        )


def wanted_by(group: str, changes: Iterable[Change]) -> list[Change]:
    """Return the changes that a group has subscribed to."""
    if group == "plain":
        return list(changes)
    of_orders = (one for one in changes if one.logical == ORDERS)
    return [one for one in of_orders if group == "all" or TAG in one.tags]


def judge_group(name: str, wanted: Sequence[Change], got: Sequence[Got]) -> Judged:
    """Compare what a group got with what it wanted, by ChangeId, and then in full."""
    expected = {one.change_id: one for one in wanted}
    counts = Counter(one.change_id for one in got)
    lost = sorted(expected.keys() - counts.keys())
    repeated = sorted(one for one, count in counts.items() if count > 1)
    faults = [
        f"{one.change_id}: got {one}, expected {expected.get(one.change_id)}"
        for one in got
        if not _agree(one, expected.get(one.change_id))
    ]
    faults += _disorder(got)
    return Judged(
        name=name,
        expected=len(expected),
        lost=len(lost) + len(wanted) - len(expected),
        repeated=sum(counts[one] - 1 for one in repeated),
        different=len(faults),
        shown=[
            *(f"{name}: lost: {expected[one]}" for one in lost[:_SHOWN]),
            *(f"{name}: repeated: {one}" for one in repeated[:_SHOWN]),
            *(f"{name}: different: {one}" for one in faults[:_SHOWN]),
        ],
    )


def _agree(got: Got, wanted: Change | None) -> bool:
    if wanted is None or got.topic != f"{PREFIX}.{wanted.topic}":
        return False
    names = (one.name for one in fields(Change) if one.name != "topic")
    return all(getattr(got, name) == getattr(wanted, name) for name in names)


def _disorder(got: Iterable[Got]) -> list[str]:
    """Records that come after a later one of their master, in one partition."""
    faults, last = list[str](), defaultdict[tuple[str, int, str], int](int)
    for one in sorted(got, key=lambda one: one.position):
        stream = one.topic, one.part, one.source[0]
        if one.seq <= last[stream]:
            faults.append(f"seq {one.seq} follows {last[stream]} in {stream}")
        last[stream] = max(last[stream], one.seq)
    return faults


def judge_rows(expected: Rows, found: Rows, repeated: int) -> Judged:
    """Compare the warehouse's rows with the expected ones."""
    lost = sorted(expected.keys() - found.keys())
    different = sorted(key for key, row in found.items() if expected.get(key) != row)
    return Judged(
        name="warehouse",
        expected=len(expected),
        lost=len(lost),
        repeated=repeated,
        different=len(different),
        shown=[
            *(f"warehouse: lost: {one}" for one in lost[:_SHOWN]),
            *(
                f"warehouse: {one} is {found[one]}, expected {expected.get(one)}"
                for one in different[:_SHOWN]
            ),
        ],
    )


def last_line(changes: int, groups: int, judged: Iterable[Judged]) -> str:
    """Return the demo's last line."""
    found = list(judged)
    lost, repeated, different = (
        sum(getattr(one, name) for one in found) for name in ("lost", "repeated", "different")
    )
    return (
        f"platform: changes={changes} subscribers={groups} lost={lost} repeated={repeated} "
        f"different={different}"
    )
