"""The first transaction of a moment or later, where times grow and where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from connectors.errors import PositionPurged
from connectors.mysql.gtid import GtidSet
from connectors.mysql.lookup import position_by_time as module
from connectors.mysql.lookup.position_by_time import offset_at_time
from connectors.mysql.position import Coordinates
from tests.unit.connectors.mysql.facts import ADDRESS, facts


@dataclass(frozen=True, slots=True)
class Span:
    start: Coordinates
    end: Coordinates
    committed_ms: int
    gtid: str | None = None


class Binlog:
    """Files with the times of their transactions, and which of them were read."""

    def __init__(self, *files: list[int], created: tuple[int, ...] = ()) -> None:
        """``created``: the second of each file's creation; 0 without."""
        self.files = {f"b.{number:06}": times for number, times in enumerate(files, start=1)}
        self.created = dict(zip(self.files, created or [0] * len(files), strict=True))
        self.read: set[str] = set()

    def spans(self, _: object, file: str) -> Spans:
        return Spans(self, file)


class Spans:
    """See transaction_spans.Spans."""

    def __init__(self, binlog: Binlog, file: str) -> None:
        self.created = binlog.created[file]
        self.binlog, self.file, self.previous = binlog, file, GtidSet()

    def first_ms(self) -> int | None:
        return next(iter(self.binlog.files[self.file]), None)

    def __iter__(self) -> Iterator[Span]:
        for file, times in self.binlog.files.items():
            if file >= self.file:
                self.binlog.read.add(file)
                for number, ms in enumerate(times, start=1):
                    yield Span(
                        Coordinates(file, number * 10), Coordinates(file, number * 10 + 9), ms
                    )


def place(
    monkeypatch: pytest.MonkeyPatch,
    binlog: Binlog,
    ms: int,
    version: str,
    *,
    is_replica: bool = False,
) -> tuple[str, int]:
    monkeypatch.setattr(module, "Spans", binlog.spans)
    monkeypatch.setattr("connectors.mysql.lookup.mariadb_start.position_at", lambda *_: None)
    own = facts({"version": version, "gtid_mode": "OFF", "gtid_executed": ""})
    server = replace(own, binlogs=tuple((name, 1) for name in binlog.files), is_replica=is_replica)
    found = offset_at_time(ms, server, ADDRESS).coordinates
    return found.file, found.pos


def test_where_times_grow_the_file_of_the_moment_is_read_and_the_one_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    binlog = Binlog([10, 20], [30, 40], [50, 60], [70, 80])
    assert place(monkeypatch, binlog, 55, "8.4.0") == ("b.000003", 20)
    assert binlog.read == {"b.000002", "b.000003"}


@pytest.mark.parametrize(
    ("files", "created", "found"),
    [
        # As the clock is set back: between two files, within a file, before the first transaction of a file.
        ([[1000, 5000], [2000, 6000], [6000, 7000]], (1, 2, 6), ("b.000001", 20)),
        ([[1000, 6000, 2000], [2500, 5500], [6000, 7000]], (1, 2, 6), ("b.000001", 20)),
        (
            [[1000, 4000], [2000], [5500], [3000], [3100], [3200], [7000]],
            (0,) * 7,
            ("b.000003", 10),
        ),
        ([[1000, 2000], [5000], [1000], [1100], [1200], [9000]], (0,) * 6, ("b.000002", 10)),
        ([[1000, 5000], [1000], [1100], [1200], [9000]], (1, 5, 1, 1, 9), ("b.000001", 20)),
        ([[1000, 2000], [4000, 6000], [6000, 7000]], (1, 4, 6), ("b.000002", 20)),
    ],
)
@pytest.mark.parametrize("version", ["8.4.0", "5.7.44-log"])
def test_a_clock_that_was_set_back_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
    files: list[list[int]],
    created: tuple[int, ...],
    found: tuple[str, int],
    version: str,
) -> None:
    assert place(monkeypatch, Binlog(*files, created=created), 5000, version) == found


def test_a_purged_file_may_have_the_moment_if_the_clock_was_then_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    binlog = Binlog([], [1000, 2000], [3000, 9000], created=(0, 6, 3))
    del binlog.files["b.000001"]
    with pytest.raises(PositionPurged):
        place(monkeypatch, binlog, 5000, "8.4.0")
    # A replica's file may have the time of another server there.
    assert place(monkeypatch, binlog, 5000, "8.4.0", is_replica=True) == ("b.000003", 20)


@pytest.mark.parametrize("version", ["5.7.44-log", "11.8.2-MariaDB-log"])
def test_statements_that_began_earlier_may_be_logged_later(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    binlog = Binlog([10, 20], [30, 95], [40, 90], [35, 75], [50, 99])
    assert place(monkeypatch, binlog, 70, version) == ("b.000002", 20)
    assert "b.000001" in binlog.read, "which is the first that has nothing of the moment or later"


@pytest.mark.parametrize("version", ["5.7.44-log", "11.8.2-MariaDB-log"])
def test_all_files_of_a_replica_are_read_as_it_writes_the_times_of_another_server(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    backlog = Binlog([10, 95], [20, 30], [25, 35], [40, 99])
    assert place(monkeypatch, backlog, 90, version, is_replica=True) == ("b.000001", 20)
    assert place(monkeypatch, backlog, 97, version, is_replica=True) == ("b.000004", 20)
