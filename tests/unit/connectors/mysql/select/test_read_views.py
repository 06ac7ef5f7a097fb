"""What is asked of each kind of server before a SELECT, and which answers are a proof."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from connectors.errors import SnapshotUnsupported, SourceLost, TableUnreadable
from connectors.mysql.ddl.definition import Server
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, SourceOffset
from connectors.mysql.select import read_views as module
from connectors.mysql.select.read_views import ReadViews, Seen, seen_at
from tests.unit.connectors.mysql.facts import ADDRESS

LOW = Coordinates("binlog.000003", 500)
GTIDS = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
NEWEST, OLD = Server(version=(9, 7, 0)), Server(version=(8, 0, 21))
MARIADB = Server(version=(11, 8, 2), mariadb=True)


@dataclass
class Source:
    """A server, as its connection and cursor; each answer is given once, the last one again and again."""

    gtid_mode: str = "OFF"
    executed: list[bytes] = field(default_factory=lambda: [b"1"])
    """Whether all GTIDs are executed."""
    anonymous: list[bytes | None] = field(default_factory=lambda: [b"0"])
    """Count of transactions without GTIDs that are being committed; None: it does not count them."""
    owned: list[bytes] = field(default_factory=lambda: [b""])
    engine: bytes = b"InnoDB"
    groups: list[int] = field(default_factory=lambda: [7])
    prepared: int = 0
    in_order: bytes = b"ON"
    asked: list[str] = field(default_factory=list)
    _rows: list[tuple[Any, ...]] = field(default_factory=list)

    def cursor(self) -> Source:
        return self

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, query: str, _args: object = None) -> int:
        self.asked.append(query)
        self._rows = list(self._answer(query))
        return len(self._rows)

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> Any:
        return self._rows

    def _answer(self, query: str) -> list[tuple[Any, ...]]:
        if "GTID_SUBSET" in query:
            return [(next_of(self.executed),)]
        if "gtid_mode" in query:
            return [(self.gtid_mode.encode(),)]
        if "gtid_owned" in query:
            return [(next_of(self.owned),)]
        if "Ongoing" in query:
            found = next_of(self.anonymous)
            return [] if found is None else [(b"Ongoing_anonymous_transaction_count", found)]
        if "Binlog_group_commits" in query:
            return [(b"Binlog_group_commits", str(next_of(self.groups)).encode())]
        if "VARIABLES" in query:
            return [(b"binlog_optimize_thread_scheduling", self.in_order), (b"wsrep_on", b"OFF")]
        if "information_schema.tables" in query:
            return [(self.engine,)]
        return [(b"xid",)] * self.prepared if query == "XA RECOVER" else []


def next_of(values: list[Any]) -> Any:
    return values.pop(0) if len(values) > 1 else values[0]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits end soon, and glances follow at once."""
    for name in ("VISIBLE_SECONDS", "_QUIET_SECONDS", "_GROUPS_SECONDS"):
        monkeypatch.setattr(module, name, 0.05)
    monkeypatch.setattr(module, "_GLANCE_SECONDS", 0)


def prove(source: Source, server: Server, sees: Seen = LOW, *, has_key: bool = True) -> str:
    return ReadViews(source, ADDRESS, server, ("shop", "t")).prove(sees, has_key=has_key)


@pytest.mark.parametrize(
    ("gtids", "seen"),
    [(GTIDS, GTIDS), (None, LOW), (MariadbGtidList.parse("0-1-5"), LOW)],
)
def test_what_is_to_be_seen_is_stated_by_gtids_only_at_mysql(
    gtids: Gtids | None, seen: Seen
) -> None:
    assert seen_at(SourceOffset(server_uuid="u", coordinates=LOW, gtid_set=gtids)) == seen


def test_with_gtids_all_of_them_are_waited_for_and_nothing_else() -> None:
    source = Source(gtid_mode="ON", executed=[b"0", b"0", b"1"], anonymous=[b"9"], owned=[b"u:6"])
    assert prove(source, NEWEST, GTIDS) == ""
    assert (len(source.executed), len(source.asked)) == (1, 4)
    with pytest.raises(SourceLost, match=r"it has not shown within .* that a SELECT sees"):
        prove(Source(gtid_mode="ON", executed=[b"0"]), NEWEST, GTIDS)


def test_without_gtids_a_moment_without_a_commit_is_waited_for() -> None:
    source = Source(anonymous=[b"2", b"1", b"0"])
    assert prove(source, NEWEST) == ""
    assert source.anonymous == [b"0"]


def test_transactions_with_and_without_gtids_have_moments_of_their_own() -> None:
    """Since each transaction is of one kind, it is enough to have seen none of that kind once."""
    source = Source(anonymous=[b"1", b"0", b"1"], owned=[b"u:6", b"u:6", b"u:7", b""])
    assert prove(source, NEWEST) == ""
    assert (len(source.anonymous), len(source.owned)) == (1, 1)


def test_gtids_that_were_turned_off_since_are_not_enough() -> None:
    source = Source(gtid_mode="OFF_PERMISSIVE", anonymous=[b"1", b"1", b"0"])
    assert prove(source, NEWEST, GTIDS) == ""
    assert source.anonymous == [b"0"]


def test_a_server_that_always_commits_is_read_with_locks_that_are_not_waited_for() -> None:
    source = Source(anonymous=[b"5"])
    assert prove(source, NEWEST) == "FOR SHARE NOWAIT"
    assert source.asked[-1] == "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


@pytest.mark.parametrize(
    ("server", "engine", "has_key", "error"),
    [
        (OLD, b"InnoDB", True, SourceLost),
        (NEWEST, b"MyISAM", True, TableUnreadable),
        (NEWEST, b"InnoDB", False, TableUnreadable),
    ],
)
def test_where_locks_cannot_be_taken_or_are_too_many_the_moment_is_waited_for(
    server: Server, engine: bytes, has_key: bool, error: type[Exception]
) -> None:
    source = Source(anonymous=[b"5"], engine=engine)
    with pytest.raises(error, match="there is no moment without a commit"):
        prove(source, server, has_key=has_key)


def test_a_server_that_counts_no_commits_is_refused_by_name() -> None:
    with pytest.raises(SnapshotUnsupported, match="no answer to SHOW GLOBAL STATUS LIKE 'Ongoing_"):
        prove(Source(anonymous=[None]), NEWEST)


def test_mariadb_is_read_without_locks_once_more_groups_passed_than_were_on_their_way() -> None:
    assert prove(Source(groups=[7, 8, 10, 11]), MARIADB) == ""
    for groups in ([7], [7, 10]):
        assert prove(Source(groups=groups), MARIADB) == "LOCK IN SHARE MODE NOWAIT"


@pytest.mark.parametrize("more", [{"prepared": 1}, {"in_order": b"OFF"}])
def test_groups_prove_nothing_of_xa_transactions_and_where_they_are_not_in_order(
    more: dict[str, Any],
) -> None:
    source = Source(groups=[7, 12], **more)
    assert prove(source, MARIADB, has_key=False) == "LOCK IN SHARE MODE NOWAIT"


def test_rows_that_may_not_be_locked_are_read_once_more_groups_have_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Within the first time, in which locks are the alternative, and later.
    for seconds in (0.05, 0.0):
        monkeypatch.setattr(module, "_GROUPS_SECONDS", seconds)
        views = ReadViews(Source(groups=[*range(7, 30)]), ADDRESS, MARIADB, ("shop", "t"))
        assert views.prove(LOW, has_key=False, may_lock=False) == ""
    views = ReadViews(Source(groups=[7, 9, 9]), ADDRESS, MARIADB, ("shop", "t"))
    with pytest.raises(SourceLost, match="the table is too large to be locked"):
        views.prove(LOW, has_key=False, may_lock=False)


def test_mariadbs_other_engines() -> None:
    assert prove(Source(engine=b"Aria"), MARIADB) == ""
    assert prove(Source(engine=b"ROCKSDB", groups=[7, 11]), MARIADB) == ""
    with pytest.raises(SnapshotUnsupported, match=r"its engine, rocksdb.*\[table=shop\.t\]"):
        prove(Source(engine=b"ROCKSDB"), MARIADB)
