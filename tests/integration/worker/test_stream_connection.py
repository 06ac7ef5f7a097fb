"""The connection under a stream of chunks: plain or encrypted, idle, closed, silent, or gone."""

import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from connectors.errors import SourceLost
from connectors.mysql.binlog.events import EventType
from connectors.mysql.server import session_variables
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.session_variables import Value
from devstack.mysql import Mysql
from tests.harness.servers import own_stack
from tests.harness.sql import run
from tests.integration.worker.proxy import wire_to
from tests.integration.worker.source import address_of, end_of
from tests.integration.worker.streams import (
    Reading,
    at,
    chunks_to,
    events_of,
    numbered,
    opened,
    sent,
    up_to,
)


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mysql]:
    """A MySQL of this module's own."""
    with numbered(tmp_path_factory.mktemp("connections")) as server:
        yield server


def test_a_lone_transaction_does_not_wait_for_another(mysql: Mysql) -> None:
    run(mysql, "CREATE TABLE chunks.lone (id int primary key)")
    reading = Reading(opened(address_of(mysql), at(end_of(mysql))))
    run(mysql, "INSERT INTO chunks.lone VALUES (1)")
    assert reading.came.wait(timeout=60)
    reading.stream.close()
    assert isinstance(reading.ended(), SourceLost)


class PlainAddress(SourceAddress):
    """An address that is reached without TLS."""

    def connection_settings(self) -> dict[str, object]:
        return super().connection_settings() | {"ssl_disabled": True}


WAYS = {"plain": PlainAddress, "encrypted": SourceAddress}


def address_by(way: str, mysql: Mysql) -> SourceAddress:
    """Root's, whom the server lets in without a password over either."""
    address = address_of(mysql, user="root", password="", heartbeat=60.0)
    return WAYS[way](**{name: getattr(address, name) for name in address.__dataclass_fields__})


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_connection_brings_the_same(mysql: Mysql, way: str) -> None:
    name = f"chunks.over_{way}"
    run(mysql, f"CREATE TABLE {name} (id int primary key auto_increment, v text)")
    begin = at(end_of(mysql))
    run(mysql, f"INSERT INTO {name} (v) SELECT repeat('x', 1500) FROM chunks.n")
    run(mysql, *[f"INSERT INTO {name} (v) VALUES ('one')"] * 200)
    end = end_of(mysql)
    found = events_of(chunks_to(mysql, begin, end, address_by(way, mysql)))
    assert found == sent(mysql, begin, end)


def test_a_server_waits_for_a_reader_that_takes_nothing(
    mysql: Mysql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does while Kafka is away; longer than other connections are waited for."""
    monkeypatch.setitem(
        cast("dict[str, Value]", session_variables._EVERYWHERE), "net_write_timeout", 1
    )
    run(mysql, "CREATE TABLE chunks.waiting (id int primary key auto_increment, v longtext)")
    begin = at(end_of(mysql))
    # More than the sockets hold.
    run(mysql, *["INSERT INTO chunks.waiting (v) SELECT repeat('x', 30000) FROM chunks.n"] * 2)
    stream = opened(address_of(mysql), begin)
    time.sleep(4)
    up_to(stream, end_of(mysql))
    stream.close()


@pytest.mark.parametrize("way", WAYS)
def test_closing_a_stream_ends_a_read_that_waits(mysql: Mysql, way: str) -> None:
    stream = opened(address_by(way, mysql), at(end_of(mysql)))
    sock = stream._connection._sock  # type: ignore[union-attr]
    assert isinstance(sock, ssl.SSLSocket) == (way == "encrypted")
    reading = Reading(stream)
    run(mysql, f"CREATE TABLE chunks.closing_{way} (id int)")
    assert reading.came.wait(timeout=60)
    stream.close()
    assert isinstance(reading.ended(), SourceLost)
    assert sock.fileno() == -1


def test_a_connection_that_falls_silent_is_lost_after_three_heartbeats(mysql: Mysql) -> None:
    with wire_to(mysql.host, mysql.port) as wire:
        address = replace(address_of(mysql, heartbeat=0.5), port=wire.port)
        reading = Reading(opened(address, at(end_of(mysql))))
        run(mysql, "CREATE TABLE chunks.silence (id int)")
        assert reading.came.wait(timeout=60)
        wire.stopped.set()
        error = reading.ended()
        assert isinstance(error, SourceLost)
        assert "nothing came for 1.5 s, three heartbeats" in str(error)
        assert f"coordinates={reading.found[-1].start.file}:" in str(error)


def test_a_server_that_only_beats_is_not_lost(mysql: Mysql) -> None:
    reading = Reading(opened(address_of(mysql, heartbeat=0.1), at(end_of(mysql))))
    beats = 0
    while beats < 6:
        reading.came.clear()
        run(
            mysql,
            "CREATE TABLE chunks.beats (id int)",
            "SELECT sleep(0.5)",
            "DROP TABLE chunks.beats",
        )
        assert reading.came.wait(timeout=60)
        beats = sum(chunk.passed.get(EventType.HEARTBEAT_V2, 0) for chunk in reading.found)
    reading.stream.close()
    reading.ended()


def test_a_server_that_goes_away_ends_the_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    with own_stack(tmp_path_factory.mktemp("gone"), services=("mysql",)) as running:
        mysql = running.mysql
        reading = Reading(opened(address_of(mysql), at(end_of(mysql))), room=lambda: False)
        run(mysql, "CREATE DATABASE gone", "CREATE TABLE gone.t (id int)")
        run(mysql, "INSERT INTO gone.t VALUES (1)")
        mysql.stop()
        assert isinstance(reading.ended(), SourceLost)
    # What had come whole was given out first.
    assert events_of(reading.found)[-1].type == EventType.XID
