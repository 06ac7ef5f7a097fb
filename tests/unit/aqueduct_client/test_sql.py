"""Exactly once in a database of one's own: here sqlite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from aqueduct_client.errors import InvalidSubscription, NoTransaction, ProgressMoved
from aqueduct_client.records import Partition, RawRecord, Record
from aqueduct_client.sql import SqlProgress
from tests.unit.aqueduct_client.made import seqs, value

Opens = Callable[[], sqlite3.Connection]
PROGRESS = SqlProgress(subscriber="billing")


@pytest.fixture
def opens(tmp_path: Path) -> Iterator[Opens]:
    with contextlib.ExitStack() as stack:

        def connection() -> sqlite3.Connection:
            made = sqlite3.connect(tmp_path / "db", timeout=0.1)
            return stack.enter_context(contextlib.closing(made))

        with connection() as first:
            PROGRESS.create_table(first.cursor())
            first.execute("CREATE TABLE billed (seq INTEGER)")
        yield connection


def changes(
    numbers: Iterable[int], *, part: int = 0, epoch: int = 1, name: str = "s", topic: str = "t"
) -> list[Record]:
    return [
        Record(
            RawRecord(
                partition=Partition(topic, part),
                offset=seq,
                key=None,
                value=value(seq, epoch=epoch, name=name),
            )
        )
        for seq in numbers
    ]


def applied(connection: sqlite3.Connection, records: list[Record]) -> list[int]:
    """Bill for what is new, in one transaction."""
    with connection:
        cursor = connection.cursor()
        found = PROGRESS.new_of(cursor, records)
        cursor.executemany("INSERT INTO billed VALUES (?)", [(each.seq,) for each in found])
    return seqs(found)


def test_what_is_delivered_again_is_applied_once(opens: Opens) -> None:
    connection = opens()
    assert applied(connection, changes([1, 2, 3])) == [1, 2, 3]
    assert applied(connection, changes([2, 3, 4])) == [4]
    assert applied(connection, changes([5, 5])) == [5]
    assert applied(opens(), changes([1, 5])) == []
    assert [seq for (seq,) in connection.execute("SELECT seq FROM billed")] == [1, 2, 3, 4, 5]


def test_an_effect_that_is_rolled_back_takes_its_position_with_it(opens: Opens) -> None:
    connection = opens()
    assert seqs(PROGRESS.new_of(connection.cursor(), changes([1, 2]))) == [1, 2]
    connection.rollback()  # as after an effect that failed
    assert applied(connection, changes([1, 2])) == [1, 2]


def test_each_partition_and_destination_has_a_position_of_its_own(opens: Opens) -> None:
    connection = opens()
    assert applied(connection, changes([9])) == [9]
    assert applied(connection, changes([3], part=1) + changes([4], name="other")) == [3, 4]


def test_names_that_differ_in_case_alone_have_positions_of_their_own(opens: Opens) -> None:
    connection = opens()
    assert applied(connection, changes([9], topic="shop.Orders")) == [9]
    assert applied(connection, changes([3, 4], topic="shop.orders")) == [3, 4]


@pytest.mark.parametrize(
    ("column", "taken", "stored"),
    [("subscriber", "BILLING", "billing"), ("topic", "T", "t"), ("destination", "S", "s")],
)
def test_a_table_that_takes_names_for_each_other_is_refused_with_the_statement_that_corrects_it(
    opens: Opens, column: str, taken: str, stored: str
) -> None:
    connection = opens()
    connection.execute("DROP TABLE aqueduct_progress")
    connection.execute(  # as MySQL's default collations compare
        "CREATE TABLE aqueduct_progress (subscriber TEXT COLLATE NOCASE, topic TEXT COLLATE NOCASE, "
        "part INT, destination TEXT COLLATE NOCASE, epoch INT, seq INT, "
        "PRIMARY KEY (subscriber, topic, part, destination))"
    )
    assert applied(connection, changes([9])) == [9]
    names = {"subscriber": "billing", "topic": "t", "destination": "s", column: taken}
    progress = SqlProgress(subscriber=names["subscriber"])
    records = changes([3, 10], topic=names["topic"], name=names["destination"])
    refusal = f"takes '{taken}' for '{stored}'.*run: ALTER TABLE aqueduct_progress MODIFY"
    with pytest.raises(InvalidSubscription, match=refusal):
        progress.new_of(connection.cursor(), records)
    assert applied(connection, changes([9, 10])) == [10]


def test_a_table_whose_names_a_driver_returns_as_bytes_is_read(opens: Opens) -> None:
    class Binary(sqlite3.Cursor):
        def fetchone(self) -> object:
            row = super().fetchone()
            return [bytearray(each, "utf-8") if isinstance(each, str) else each for each in row]

    connection = opens()
    assert applied(connection, changes([1])) == [1]
    assert seqs(PROGRESS.new_of(Binary(connection), changes([1, 2]))) == [2]


def test_a_later_epoch_is_later_whatever_its_number(opens: Opens) -> None:
    connection = opens()
    assert applied(connection, changes([9])) == [9]
    assert applied(connection, changes([5], epoch=2)) == [5]
    assert applied(connection, changes([10], epoch=1)) == []


@pytest.mark.remedy("client.ProgressMoved")
@pytest.mark.parametrize("before", [[], [1]], ids=["first", "later"])
def test_of_two_clients_that_apply_the_same_one_fails(opens: Opens, before: list[int]) -> None:
    slow, quick = opens(), opens()
    applied(quick, changes(before))

    class Overtaken(sqlite3.Cursor):
        def fetchone(self) -> object:
            row = super().fetchone()
            applied(quick, changes([2]))  # between reading the position and storing it
            return row

    with pytest.raises(ProgressMoved, match=r"topic=t.*Roll back the database transaction"), slow:
        PROGRESS.new_of(Overtaken(slow), changes([2, 3]))
    assert applied(slow, changes([2, 3])) == [3]


class IntegrityError(Exception):
    """As psycopg has it."""


class UniqueViolation(IntegrityError):
    sqlstate = "23505"


class SerializationFailure(Exception):
    sqlstate = "40001"


class InFailedSqlTransaction(Exception):
    sqlstate = "25P02"


class Postgres:
    """A cursor that behaves as psycopg's: an error ends its transaction, and is of a class of its own."""

    def __init__(self, connection: sqlite3.Connection, between: Callable[[], object]) -> None:
        self._cursor, self._between = connection.cursor(), between
        self._failed = False

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def execute(self, operation: str, parameters: tuple[object, ...] = ()) -> object:
        if self._failed:
            raise InFailedSqlTransaction
        try:
            return self._cursor.execute(operation.replace("%s", "?"), parameters)
        except sqlite3.IntegrityError as error:
            self._failed = True
            raise UniqueViolation from error

    def fetchone(self) -> object:
        row = self._cursor.fetchone()
        self._between()
        return row


def test_a_first_position_that_another_client_stores_meanwhile_is_recognized_with_psycopg(
    opens: Opens,
) -> None:
    slow, quick = opens(), opens()
    progress = SqlProgress(subscriber="billing", placeholder="%s")
    cursor = Postgres(slow, lambda: applied(quick, changes([1])))
    with pytest.raises(ProgressMoved) as raised:
        progress.new_of(cursor, changes([1, 2]) + changes([7], part=1))
    assert isinstance(raised.value.__cause__, UniqueViolation), "nothing was executed after it"
    slow.rollback()
    cursor = Postgres(slow, lambda: None)
    assert seqs(progress.new_of(cursor, changes([1, 2]) + changes([7], part=1))) == [2, 7]


class Deadlock(Exception):
    """As PyMySQL's OperationalError."""


@pytest.mark.parametrize("error", [SerializationFailure(), Deadlock(1213, "Deadlock found")])
def test_a_transaction_that_the_database_ended_for_another_one_is_to_be_repeated(
    opens: Opens, error: Exception
) -> None:
    class Ended(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = ()) -> Self:
            if sql.startswith("INSERT"):
                raise error
            super().execute(sql, parameters)
            return self

    with pytest.raises(ProgressMoved):
        PROGRESS.new_of(Ended(opens()), changes([1]))


def test_a_connection_without_transactions_is_refused_before_anything_is_stored(
    opens: Opens,
) -> None:
    connection = opens()
    connection.isolation_level = None
    with pytest.raises(NoTransaction, match="Turn autocommit off"):
        PROGRESS.new_of(connection.cursor(), changes([1]))
    connection.execute("BEGIN")
    assert seqs(PROGRESS.new_of(connection.cursor(), changes([1]))) == [1]


def test_the_drivers_own_errors_are_the_callers(opens: Opens) -> None:
    connection = opens()
    connection.execute("DROP TABLE aqueduct_progress")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        PROGRESS.new_of(connection.cursor(), changes([1]))
    other = SqlProgress(subscriber="billing", placeholder="%s")
    with pytest.raises(sqlite3.OperationalError, match="%"):
        other.new_of(opens().cursor(), changes([1]))
