"""Sets of GTIDs as text, for the verdict."""

from __future__ import annotations


class GtidRanges:
    """A GTID set as text, to ask what is in it."""

    def __init__(self, text: str | None) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        for part in filter(None, plain(text).split(",")):
            source, *spans = part.split(":")
            ends = [span.partition("-")[::2] for span in spans]
            self._ranges[source] = [(int(a), int(b or a)) for a, b in ends]

    def __contains__(self, gtid: str) -> bool:
        source, _, number = gtid.lower().partition(":")
        return any(a <= int(number) <= b for a, b in self._ranges.get(source, ()))


def plain(text: str | None) -> str:
    """A set as text that can be compared: no blanks, small letters."""
    return "".join((text or "").split()).lower()
