"""In which binlog file an audit begins, where some transactions have no GTIDs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest

from app.audit.truth.printed_events import (
    Before,
    Event,
    FileBegins,
    TransactionBegins,
    TransactionEnds,
)
from app.audit.truth.window import file_of_last, first_file, last_of
from app.audit.truth.witness import WitnessName
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass
class Files:
    """A witness of these files: the GTIDs before each, and the number of each transaction in it, or None."""

    held: dict[str, tuple[str, list[int | None]]]
    name = WitnessName.MYSQLBINLOG
    server_uuid = U

    def files(self) -> list[str]:
        return list(self.held)

    def events(self, first: str) -> Generator[Event]:
        names = self.files()
        for file in names[names.index(first) :]:
            before, numbers = self.held[file]
            yield FileBegins(file)
            yield Before(before)
            for at, number in enumerate(numbers, 1):
                yield TransactionBegins(None if number is None else f"{U}:{number}", 100 * at, 0)
                yield TransactionEnds(100 * at + 50)


BINLOG = Files(
    {
        "b.000001": ("", [1, 2, None]),
        "b.000002": (f"{U}:1-2", [None, None]),
        "b.000003": (f"{U}:1-2", []),
        "b.000004": (f"{U}:1-2", [3, None, 4]),
        "b.000005": (f"{U}:1-4", [5]),
    }
)


@pytest.mark.parametrize(
    ("known", "file", "last"),
    [
        ("1", "b.000001", Coordinates("b.000001", 100)),
        ("1-2", "b.000001", Coordinates("b.000001", 200)),
        ("1-3", "b.000004", Coordinates("b.000004", 100)),
        ("1-4", "b.000004", Coordinates("b.000004", 300)),
        ("1-5", "b.000005", Coordinates("b.000005", 100)),
    ],
)
def test_what_has_no_gtid_is_read_from_the_last_transaction_of_the_set_on(
    known: str, file: str, last: Coordinates
) -> None:
    begin = GtidSet.parse(f"{U}:{known}")
    first = file_of_last(BINLOG, first_file(BINLOG, begin), begin)
    assert (first, last_of(BINLOG, first, begin)) == (file, last)


def test_a_set_that_is_purged_begins_with_the_oldest_file() -> None:
    held = dict(list(BINLOG.held.items())[1:])
    begin = GtidSet.parse(f"{U}:1-2")
    first = file_of_last(Files(held), first_file(Files(held), begin), begin)
    assert (first, last_of(Files(held), first, begin)) == ("b.000002", None)
