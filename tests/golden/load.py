"""Binlogs out of a file: the steps of their transactions, as a server's connection would give them."""

from collections.abc import Iterator
from pathlib import Path

from connectors.mysql.charsets import Charsets
from connectors.mysql.events import EventType, format_has_checksum, parse_event, parse_rotate
from connectors.mysql.position import Coordinates
from connectors.mysql.stream import PlacedEvent
from connectors.mysql.transactions import Step, TransactionReader

MAGIC = b"\xfebin"
_BEFORE_CHECKSUMS = ("5.0", "5.1", "5.5")


def events_of(path: Path, *, begin: int = len(MAGIC), end: int | None = None) -> list[bytes]:
    """The events of a binlog file that stand between two offsets, behind its first one."""
    data = path.read_bytes()[:end]
    if not data.startswith(MAGIC):
        raise ValueError(f"{path} is not a binlog")
    head, at = _event(data, len(MAGIC))
    events, at = [head], max(at, begin)
    while at < len(data):
        event, at = _event(data, at)
        events.append(event)
    return events


def _event(data: bytes, at: int) -> tuple[bytes, int]:
    size = int.from_bytes(data[at + 9 : at + 13], "little")
    return data[at : at + size], at + size


def steps_of(
    path: Path,
    charsets: Charsets,
    *,
    begin: int = len(MAGIC),
    end: int | None = None,
    server_uuid: str = "",
) -> list[Step]:
    """The steps of all transactions between two offsets of a file."""
    events = events_of(path, begin=begin, end=end)
    return list(TransactionReader(server_uuid, charsets).steps(_placed(events, path.name)))


def _placed(events: list[bytes], file: str) -> Iterator[PlacedEvent]:
    checksum = False
    for data in events:
        is_head = data[4] == EventType.FORMAT_DESCRIPTION
        if is_head:
            checksum = format_has_checksum(data)
        event = parse_event(data, checksum=_head_has_checksum(data) if is_head else checksum)
        start = Coordinates(file, event.end_pos - event.size)
        yield PlacedEvent(event, start, Coordinates(file, event.end_pos))
        if event.type == EventType.ROTATE:
            file = parse_rotate(event)[0]


def _head_has_checksum(data: bytes) -> bool:
    """A file's first event has a checksum since MySQL knows of such, whether or not the others have one."""
    return not data[21:].startswith(tuple(version.encode() for version in _BEFORE_CHECKSUMS))
