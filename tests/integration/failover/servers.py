"""A master and its standby, what is written to them, and what a consumer got of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql

from connectors.mysql.position import Coordinates
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import ask
from tests.harness.topics import Change, rows
from tests.harness.wait import until

_WITHOUT_GTIDS = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
_FIRST = Coordinates("binlog.000001", 4)
_REFUSED, _GONE, _LOST, _SHUTDOWN = 2003, 2006, 2013, 1053


@dataclass(slots=True)
class Pair:
    """Two servers; ``standby`` replicates from ``master``."""

    master: Mysql
    standby: Mysql

    def kill(self) -> None:
        """End both at once."""
        self.master.kill()
        self.standby.kill()

    def create(self) -> None:
        """Create the empty table ``shop.t`` on the master, and wait until the standby has it too."""
        ask(
            self.master,
            "CREATE DATABASE shop",
            "CREATE TABLE shop.t (id int PRIMARY KEY AUTO_INCREMENT, x int, note varchar(40))",
        )
        until(lambda: is_there(self.standby, "shop.t"))

    def caught_up(self) -> None:
        """Wait until the standby's table is the master's."""
        query = "SELECT COUNT(*), COALESCE(SUM(x), 0), MAX(id) FROM shop.t"
        until(lambda: ask(self.master, query) == ask(self.standby, query))


def is_there(server: Mysql, table: str) -> bool:
    """Whether a replica has applied the statement that creates a table, given with its database."""
    database, _, name = table.partition(".")
    tables = "SELECT 1 FROM information_schema.tables"
    return bool(
        ask(server, f"{tables} WHERE table_schema = '{database}' AND table_name = '{name}'")
    )


@contextlib.contextmanager
def pair(stack: Stack, name: str, *, gtids: bool = True, **standby: str) -> Iterator[Pair]:
    """Both, running, with an empty table ``shop.t``; the standby with options of its own."""
    own = {} if gtids else _WITHOUT_GTIDS
    servers = [
        stack.second_mysql(f"{name}-{number}", {"server_id": 20 + number, **own, **more})
        for number, more in ((1, {}), (2, standby))
    ]
    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    both = Pair(*servers)
    try:
        if not gtids:
            # Of the second in which a binlog begins it is unknown whether it has all.
            begun = ask(both.standby, "SELECT UNIX_TIMESTAMP()")
            until(lambda: ask(both.standby, "SELECT UNIX_TIMESTAMP()") != begun)
        follow(both.standby, both.master, gtids=gtids)
        both.create()
        yield both
    finally:
        both.kill()


def follow(
    replica: Mysql,
    source: Mysql,
    *,
    gtids: bool = True,
    since: Coordinates = _FIRST,
) -> None:
    """Replicate all that ``source`` has and will have, from its first binlog file on."""
    first = f"SOURCE_LOG_FILE = '{since.file}', SOURCE_LOG_POS = {since.pos}"
    ask(
        replica,
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{source.host}', SOURCE_PORT = {source.port}, "
        "SOURCE_USER = 'aqueduct', SOURCE_PASSWORD = 'aqueduct', GET_SOURCE_PUBLIC_KEY = 1, "
        f"SOURCE_CONNECT_RETRY = 1, {'SOURCE_AUTO_POSITION = 1' if gtids else first}",
        "START REPLICA",
    )


def promote(replica: Mysql) -> None:
    """Stop its replication for good."""
    ask(replica, "STOP REPLICA", "RESET REPLICA ALL")


def insert(server: Mysql, *notes: str) -> None:
    """A transaction for each."""
    ask(server, *(f"INSERT INTO shop.t (x, note) VALUES (1, '{note}')" for note in notes))


@dataclass(slots=True)
class Writer:
    """An application that writes row after row, and knows which ones the server confirmed."""

    server: Mysql
    prefix: str
    confirmed: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Writer:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def until(self, count: int) -> None:
        """Wait until it has written so much."""
        until(lambda: len(self.confirmed) >= count)

    def _run(self) -> None:
        number = 0
        try:
            connection = pymysql.connect(
                host=self.server.host, port=self.server.port, user="root", autocommit=True
            )
            with connection, connection.cursor() as cursor:
                while not self._over.is_set():
                    note = f"{self.prefix}{number}"
                    cursor.execute("INSERT INTO shop.t (x, note) VALUES (%s, %s)", (number, note))
                    self.confirmed.append(note)
                    number += 1
                    self._over.wait(0.003)
        except pymysql.MySQLError as error:
            if error.args[0] not in (_REFUSED, _GONE, _LOST, _SHUTDOWN):
                raise


def notes(stack: Stack, prefix: str) -> list[str]:
    """The table's records as a consumer reads them, by sequence number."""
    return [change.value["after"]["note"] for change in changed(stack, prefix)]


def changed(stack: Stack, prefix: str) -> list[Change]:
    """The changes of the table; fails where a number is missing, or a change comes twice."""
    found = rows(stack, prefix, "t")
    names = [change.change_id for change in found]
    assert len(set(names)) == len(names)
    numbers = [change.seq for change in found]
    assert sorted(set(numbers)) == numbers
    return found
