"""MariaDB's GTIDs, ``domain-server-sequence``, and positions made of them.

Invariant: a position contains the last GTID read in each domain, and covers that GTID and all GTIDs
before it in the domain's binlog order. A position parses from and prints to MariaDB's own text.
Except in ``holds`` and ``holds_all``, two GTIDs of a domain are compared only if the same server
wrote both: unless gtid_strict_mode is on, another server may write lower numbers later.
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
    """Parse a GTID such as ``0-1-100``; raise ValueError for other text."""
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
        """Parse MariaDB's text, as ``gtid_binlog_pos`` prints it; raise ValueError for any other text."""
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
        """The position after GTIDs in binlog order, as in a GTID_LIST event."""
        return cls({domain: (server, sequence) for domain, server, sequence in gtids})

    def add(self, gtid: str) -> None:
        """Advance to a GTID, which comes after all earlier ones of its domain."""
        domain, server, sequence = split_gtid(gtid)
        self._last[domain] = (server, sequence)

    def add_interval(self, source: str, _first: int, last: int) -> None:
        """Advance to the last of a range of GTIDs of one ``domain-server``; the first is not needed."""
        self.add(f"{source}-{last}")

    def update(self, gtids: Iterable[str]) -> None:
        """Advance to each of these GTIDs in turn."""
        for gtid in gtids:
            self.add(gtid)

    def copy(self) -> MariadbGtidList:
        """Return an independent copy."""
        return MariadbGtidList(dict(self._last))

    def lacking(self, other: MariadbGtidList) -> list[str]:
        """Return the GTIDs of ``other`` that are certainly after this position.

        The position lacks the domain of such a GTID, or has a lower sequence of the same server there.
        """
        return [
            f"{domain}-{server}-{sequence}"
            for domain, (server, sequence) in sorted(other._last.items())
            if domain not in self._last
            or (self._last[domain][0] == server and self._last[domain][1] < sequence)
        ]

    def holds(self, gtid: str) -> bool:
        """Whether a GTID is at or before this position, by sequence number.

        A server's next number exceeds all in the domain; only servers written to independently break this.
        """
        domain, _, sequence = split_gtid(gtid)
        return domain in self._last and sequence <= self._last[domain][1]

    def holds_all(self, other: MariadbGtidList) -> bool:
        """Whether another position is at or before this one, by sequence number."""
        return all(self.holds(gtid) for gtid in str(other).split(",") if gtid)

    def unknown_to(self, state: MariadbGtidState) -> list[str]:
        """The GTIDs of this position that a server with this state has never written."""
        return [
            f"{domain}-{server}-{sequence}"
            for domain, (server, sequence) in sorted(self._last.items())
            if sequence > state.last.get((domain, server), -1)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MariadbGtidList) and self._last == other._last

    __hash__ = None  # type: ignore[assignment]  # mutable, so not hashable

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
    """A server's GTID state: the last sequence of each server that wrote into a domain."""

    __slots__ = ("last",)

    def __init__(self, last: dict[tuple[int, int], int]) -> None:
        self.last = last
        """The last sequence by (domain, server)."""

    @classmethod
    def parse(cls, *texts: str) -> MariadbGtidState:
        """Parse ``gtid_binlog_state`` and similar; of several texts, the highest sequence counts."""
        last: dict[tuple[int, int], int] = {}
        for part in ",".join(texts).split(","):
            if part:
                domain, server, sequence = split_gtid(part)
                last[domain, server] = max(sequence, last.get((domain, server), 0))
        return cls(last)
