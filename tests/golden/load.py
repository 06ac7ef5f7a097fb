"""Binlogs out of a file: the steps of their transactions, as a server's connection would give them."""

from pathlib import Path

from connectors.mysql.binlog.events import EventType, format_has_checksum, parse_event
from connectors.mysql.charsets import Charsets
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.transaction_reader import TransactionReader
from tests.steps import Step
from tests.steps import steps_of as steps_of_chunks

MAGIC = b"\xfebin"
SUFFIX = ".binlog"
"""The suffix of a recorded file's name, after the server's name."""
_BEFORE_CHECKSUMS = (b"5.0", b"5.1", b"5.5")


def statements(path: Path) -> list[str]:
    """The statements of an SQL file, each of which ends with a semicolon at its line's end."""
    return path.read_text().removesuffix(";\n").split(";\n")


def chunk_of(path: Path, *, begin: int = 0, end: int | None = None) -> Chunk:
    """The events of a binlog file between two offsets, after its first one."""
    data = path.read_bytes()[:end]
    if not data.startswith(MAGIC):
        raise ValueError(f"{path} is not a binlog")
    head, at = _event(data, len(MAGIC))
    checksum = format_has_checksum(head)
    # The first event has a checksum since MySQL knows of such, whether or not the others have one.
    parse_event(head, checksum=not head[21:].startswith(_BEFORE_CHECKSUMS))
    start = Coordinates(path.name.removesuffix(SUFFIX), max(at, begin))
    return Chunk(start=start, data=_without_rotate(data, start.pos), checksum=checksum)


def _event(data: bytes, at: int) -> tuple[bytes, int]:
    size = int.from_bytes(data[at + 9 : at + 13], "little")
    return data[at : at + size], at + size


def _without_rotate(data: bytes, at: int) -> bytes:
    """The events from ``at`` on up to the one that names the next file, which is for who reads files."""
    begin = at
    while at < len(data) and data[at + 4] != EventType.ROTATE:
        _, at = _event(data, at)
    return data[begin:at]


def steps_of(
    path: Path,
    charsets: Charsets,
    *,
    begin: int = 0,
    end: int | None = None,
    mariadb: bool = False,
) -> list[Step]:
    """The steps of all transactions between two offsets of a file."""
    reader = TransactionReader("", charsets, mariadb=mariadb)
    return list(steps_of_chunks([chunk_of(path, begin=begin, end=end)], reader))
