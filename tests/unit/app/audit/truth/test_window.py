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
from app.audit.truth.window import file_of_last, first_file, is_purged, last_of, may_contain
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


def test_only_what_a_servers_binlog_can_have_may_be_the_beginning() -> None:
    assert may_contain(U, f"{U}:7")
    assert may_contain(U, "other:7")
    assert may_contain(U, f"{U}:b.000004:100")
    assert not may_contain(U, "other:b.000004:100")


@pytest.mark.parametrize(
    ("transaction", "purged"),
    [
        (f"{U}:1", True), (f"{U}:2", True), (f"{U}:3", False), (f"{U}:9", False),
        (f"{U}:b.000001:100", True), (f"{U}:b.000002:100", False), (f"{U}:b.000005:100", False),
    ],
)  # fmt: skip
def test_what_is_from_before_the_oldest_file_is_purged(transaction: str, purged: bool) -> None:
    assert is_purged(Files(dict(list(BINLOG.held.items())[1:])), transaction) is purged
    assert not is_purged(Files({}), transaction)


@pytest.mark.parametrize(
    ("begin", "file"),
    [(900, "b.1"), (2500, "b.1"), (5000, "b.1"), (5500, "b.2"), (6500, "b.3"), (9000, "b.4")],
)
def test_a_time_is_read_from_the_first_file_that_reaches_it_though_the_clock_went_back(
    begin: int, file: str
) -> None:
    times = {"b.1": [1000, 5000], "b.2": [2000, 6000], "b.3": [6000, 7000], "b.4": [7000, 8000]}

    class Timed(Files):
        def events(self, first: str) -> Generator[Event]:
            names = self.files()
            for name in names[names.index(first) :]:
                yield FileBegins(name)
                yield from (TransactionBegins(None, 100, at) for at in times[name])

    assert first_file(Timed({name: ("", []) for name in times}), begin) == file
