"""Exactly once in MySQL, with PyMySQL: clients that apply the same changes at the same time."""

from __future__ import annotations

import contextlib
import threading
import uuid

import pymysql
import pytest

from aqueduct_client import SqlProgress
from aqueduct_client.errors import InvalidSubscription, NoTransaction, ProgressMoved
from devstack import Stack
from tests.unit.aqueduct_client.test_sql import changes

CLIENTS, BATCHES = 4, 12
PROGRESS = SqlProgress(subscriber="billing", placeholder="%s")


@pytest.fixture
def database(stack: Stack) -> str:
    name = f"billing_{uuid.uuid4().hex[:8]}"
    with contextlib.closing(connected(stack)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        PROGRESS.create_table(cursor)
        cursor.execute("CREATE TABLE bills (seq INT, part INT)")
    return name


def connected(stack: Stack, database: str | None = None) -> pymysql.Connection:
    return pymysql.connect(host="127.0.0.1", port=stack.mysql.port, user="root", database=database)


def test_each_change_is_applied_once_whatever_the_clients_contend_for(
    stack: Stack, database: str
) -> None:
    moved = []
    together = threading.Barrier(CLIENTS, timeout=150)

    def bill(isolation: str) -> None:
        with contextlib.closing(connected(stack, database)) as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            for number in range(BATCHES):
                together.wait()
                while not billed(connection, number):
                    moved.append(number)

    def billed(connection: pymysql.Connection, number: int) -> bool:
        records = [each for part in (1, 2) for each in changes([number + 1], part=part)]
        try:
            with connection.cursor() as cursor:
                for record in PROGRESS.new_of(cursor, records):
                    bill = record.seq, record.raw.partition.number
                    cursor.execute("INSERT INTO bills VALUES (%s, %s)", bill)
            connection.commit()
        except ProgressMoved:
            connection.rollback()
            return False
        return True

    levels = ("READ COMMITTED", "REPEATABLE READ") * (CLIENTS // 2)
    clients = [threading.Thread(target=bill, args=(each,)) for each in levels]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    with connected(stack, database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT seq, part FROM bills ORDER BY seq, part")
        assert list(cursor.fetchall()) == [(n + 1, part) for n in range(BATCHES) for part in (1, 2)]
    assert moved, "no two clients met"


def test_names_that_differ_in_case_alone_have_positions_of_their_own(
    stack: Stack, database: str
) -> None:
    with connected(stack, database) as connection, connection.cursor() as cursor:
        for topic, name in (("shop.Orders", "s"), ("shop.orders", "s"), ("shop.orders", "S")):
            records = changes([3, 4], topic=topic, name=name)
            assert len(PROGRESS.new_of(cursor, records)) == 2
        cursor.execute("DROP TABLE aqueduct_progress")
        cursor.execute(  # as an earlier version has made it
            "CREATE TABLE aqueduct_progress (subscriber VARCHAR(120) NOT NULL, topic VARCHAR(249) NOT NULL, "
            "part INTEGER NOT NULL, destination VARCHAR(120) NOT NULL, epoch BIGINT NOT NULL, "
            "seq BIGINT NOT NULL, PRIMARY KEY (subscriber, topic, part, destination))"
        )
        PROGRESS.create_table(cursor)
        assert len(PROGRESS.new_of(cursor, changes([9], topic="shop.Orders"))) == 1
        with pytest.raises(InvalidSubscription) as refused:
            PROGRESS.new_of(cursor, changes([3], topic="shop.orders"))
        cursor.execute(refused.value.detail.rpartition(": ")[2])
        assert len(PROGRESS.new_of(cursor, changes([3], topic="shop.orders"))) == 1
        assert len(PROGRESS.new_of(cursor, changes([9], topic="shop.Orders"))) == 0


@pytest.mark.remedy("client.NoTransaction")
def test_autocommit_is_refused(stack: Stack, database: str) -> None:
    with connected(stack, database) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        with pytest.raises(NoTransaction):
            PROGRESS.new_of(cursor, changes([1]))
        connection.begin()
        assert len(PROGRESS.new_of(cursor, changes([1]))) == 1
