"""The stored binlogs of real servers, which are mutated.

Invariant: a corpus is one compressed file for each server: its collations, then its unchanged binlog files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson
import zstandard

from connectors.mysql.binlog.events import HEADER, EventType
from connectors.mysql.charsets import Charsets

FOLDER = Path(__file__).parent / "corpus"
SERVERS = ("mysql", "mariadb")
_MAGIC = b"\xfebin"
_LARGEST = 1 << 24
_MOST_COLLATIONS = 10_000
_LARGE = 1 << 16

Collations = dict[int, tuple[str, int]]
"""By number: the character set, and the most bytes of one character of it."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """What one server wrote."""

    mariadb: bool
    charsets: Charsets
    transactions: tuple[tuple[bytes, ...], ...]
    """Each with its events, whole, with their CRC32; what a reader deals with itself is among them."""

    @property
    def events(self) -> list[bytes]:
        """All of them, in order."""
        return [event for transaction in self.transactions for event in transaction]


def collations_of(charsets: Charsets) -> Collations:
    """All that a server has."""
    found: Collations = {}
    for number in range(_MOST_COLLATIONS):
        try:
            name = charsets.name(number)
        except KeyError:
            continue
        found[number] = (name, charsets.width(name))
    return found


def stored(files: list[bytes], collations: Collations) -> bytes:
    """A corpus, not yet compressed."""
    head = orjson.dumps([[len(file) for file in files], list(collations.items())])
    return head + b"\n" + b"".join(files)


@cache
def corpus_of(server: str) -> Corpus:
    """The corpus of one of ``SERVERS``."""
    packed = (FOLDER / f"{server}.zst").read_bytes()
    data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_LARGEST)
    head, _, rest = data.partition(b"\n")
    sizes, collations = orjson.loads(head)
    names = {number: name for number, (name, _) in collations}
    widths = {name: width for _, (name, width) in collations}
    events: list[bytes] = []
    for size in sizes:
        events += _events(rest[:size])
        rest = rest[size:]
    return Corpus(server == "mariadb", Charsets(names, widths), tuple(_transactions(events)))


def _events(file: bytes) -> list[bytes]:
    found, at = [], len(_MAGIC)
    while at < len(file):
        size = HEADER.unpack_from(file, at)[3]
        found.append(file[at : at + size])
        at += size
    return found


_BEGINS = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, 162}


def _transactions(events: list[bytes]) -> list[tuple[bytes, ...]]:
    """Cut where a transaction begins; what a server writes between two is with the first."""
    found: list[list[bytes]] = [[]]
    for event in events:
        if event[4] in _BEGINS:
            found.append([])
        found[-1].append(event)
    # Large ones only take long.
    return [tuple(group) for group in found if 0 < sum(map(len, group)) < _LARGE]
