"""MariaDB's GTIDs, ``domain-server-sequence``, and how far a reader is by them.

The law: a position holds one GTID for each domain, the last one read, and means it and all that stands before
it in that domain's order in the binlog. It parses from and prints to MariaDB's own text. Two GTIDs of a domain
are compared only where one server wrote both: unless gtid_strict_mode is on, another server's numbers may be
lower and come later.
Source: MariaDB's documentation, "Global Transaction ID"; sql/rpl_gtid.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_GTID = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
_MOST = (1 << 32, 1 << 32, 1 << 64)

Gtid = tuple[int, int, int]
"""Domain, server, sequence."""


def split_gtid(text: str) -> Gtid:
    """``0-1-100`` as numbers; raise ValueError where it is not such."""
    match = _GTID.fullmatch(text)
    numbers = tuple(map(int, match.groups())) if match else ()
    if not match or any(n >= most for n, most in zip(numbers, _MOST, strict=True)):
        raise ValueError(f"not a GTID of MariaDB (domain-server-sequence): {text!r}")
    domain, server, sequence = numbers
    return domain, server, sequence


class MariadbGtidList:
    """A position: the last GTID of each domain."""

    __slots__ = ("_last",)

    def __init__(self, last: dict[int, tuple[int, int]] | None = None) -> None:
        self._last = last or {}

    @classmethod
    def parse(cls, text: str) -> MariadbGtidList:
        """Read MariaDB's text, as ``gtid_binlog_pos`` prints it; raise ValueError where it is not such."""
        found = cls()
        for part in "".join(text.split()).split(","):
            if not part:
                continue
            domain, server, sequence = split_gtid(part)
            if domain in found._last:
                raise ValueError(f"a position with two GTIDs of domain {domain}: {text!r}")
            found._last[domain] = (server, sequence)
        return found

    @classmethod
    def ending(cls, gtids: Iterable[Gtid]) -> MariadbGtidList:
        """The position behind GTIDs that stand in the order of the binlog, as in a GTID_LIST event."""
        return cls({domain: (server, sequence) for domain, server, sequence in gtids})

    def add(self, gtid: str) -> None:
        """Go on to a GTID, which comes after all that came before in its domain."""
        domain, server, sequence = split_gtid(gtid)
        self._last[domain] = (server, sequence)

    def add_interval(self, source: str, _first: int, last: int) -> None:
        """Go on to the last of some GTIDs that begin with ``domain-server``; the first says nothing more."""
        self.add(f"{source}-{last}")

    def update(self, gtids: Iterable[str]) -> None:
        """Go on to each of these GTIDs, in their order."""
        for gtid in gtids:
            self.add(gtid)

    def copy(self) -> MariadbGtidList:
        """A position of its own with the same content."""
        return MariadbGtidList(dict(self._last))

    def lacking(self, other: MariadbGtidList) -> list[str]:
        """GTIDs of ``other`` that this position is certainly before: of no domain of its own, or of the same
        server with a higher sequence."""
        return [
            f"{domain}-{server}-{sequence}"
            for domain, (server, sequence) in sorted(other._last.items())
            if domain not in self._last
            or (self._last[domain][0] == server and self._last[domain][1] < sequence)
        ]

    def holds(self, gtid: str) -> bool:
        """Whether a GTID is at or before this position, by the numbers that a server gives: one higher than any
        that it has in the domain. Only servers that were written to without knowing of one another differ."""
        domain, _, sequence = split_gtid(gtid)
        return domain in self._last and sequence <= self._last[domain][1]

    def holds_all(self, other: MariadbGtidList) -> bool:
        """Whether another position is at or before this one, by the same numbers."""
        return all(self.holds(gtid) for gtid in str(other).split(",") if gtid)

    def unknown_to(self, state: MariadbGtidState) -> list[str]:
        """This position's GTIDs that a server with this state has never written."""
        return [
            f"{domain}-{server}-{sequence}"
            for domain, (server, sequence) in sorted(self._last.items())
            if sequence > state.last.get((domain, server), -1)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MariadbGtidList) and self._last == other._last

    __hash__ = None  # type: ignore[assignment]  # it changes, so it is no key

    def __bool__(self) -> bool:
        return bool(self._last)

    def __str__(self) -> str:
        return ",".join(
            f"{domain}-{server}-{sequence}"
            for domain, (server, sequence) in sorted(self._last.items())
        )

    def __repr__(self) -> str:
        return f"MariadbGtidList.parse({str(self)!r})"


class MariadbGtidState:
    """What a server has: the last sequence of each server that wrote into a domain."""

    __slots__ = ("last",)

    def __init__(self, last: dict[tuple[int, int], int]) -> None:
        self.last = last
        """By (domain, server)."""

    @classmethod
    def parse(cls, *texts: str) -> MariadbGtidState:
        """Read ``gtid_binlog_state`` and the like; of several texts, the highest sequence counts."""
        last: dict[tuple[int, int], int] = {}
        for part in ",".join(texts).split(","):
            if part:
                domain, server, sequence = split_gtid(part)
                last[domain, server] = max(sequence, last.get((domain, server), 0))
        return cls(last)
