"""The bytes that a replica sends."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from connectors.errors import PositionGone
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.stream import dump_command

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
REPLICA = "aaaaaaaa-0000-4000-8000-000000000077"
ADDRESS = SourceAddress(
    host="db", port=3306, user="u", password="p", server_id=77, replica_uuid=REPLICA, heartbeat=2.5
)
OFFSET = SourceOffset(server_uuid=SOURCE, coordinates=Coordinates("b.000007", 1234))


def test_a_place_is_asked_for_by_file_and_offset() -> None:
    command, body = dump_command.request(ADDRESS, OFFSET, mariadb=False)
    assert command == 0x12
    assert body == struct.pack("<IHI", 1234, 2, 77) + b"b.000007"


def test_an_empty_set_asks_by_place_too() -> None:
    offset = replace(OFFSET, gtid_set=GtidSet())
    assert dump_command.request(ADDRESS, offset, mariadb=False)[0] == 0x12


@pytest.mark.parametrize("text", [f"{SOURCE}:1-5", f"{SOURCE}:1-5:tag:7"])
def test_a_set_of_gtids_is_asked_for_with_its_tags(text: str) -> None:
    gtids = GtidSet.parse(text)
    command, body = dump_command.request(ADDRESS, replace(OFFSET, gtid_set=gtids), mariadb=False)
    flags, server_id, name_size, pos, size = struct.unpack_from("<HIIQI", body)
    assert command == 0x1E
    assert (server_id, name_size, pos) == (77, 0, 4)
    # Flag 4 would have the server leave tagged transactions out.
    assert flags == 2
    assert body[22:] == gtids.encode()
    assert size == len(gtids.encode())


def test_an_offset_that_the_command_cannot_say_is_refused() -> None:
    far = replace(OFFSET, coordinates=Coordinates("b.000007", 1 << 32))
    with pytest.raises(PositionGone, match=r"b\.000007:4294967296"):
        dump_command.request(ADDRESS, far, mariadb=False)


def test_a_mariadb_gets_its_position_by_a_variable() -> None:
    offset = replace(OFFSET, gtid_set=MariadbGtidList.parse("0-1-5"))
    wanted = dump_command.settings(ADDRESS, offset, mariadb=True)
    assert wanted["slave_connect_state"] == "0-1-5"
    assert wanted["mariadb_slave_capability"] == 4
    assert dump_command.request(ADDRESS, offset, mariadb=True) == (
        0x12,
        struct.pack("<IHI", 4, 0, 77),
    )


def test_a_replica_says_who_it_is_and_when_it_wants_a_sign_of_life() -> None:
    wanted = dump_command.settings(ADDRESS, OFFSET, mariadb=False)
    assert wanted["master_heartbeat_period"] == 2_500_000_000
    assert wanted["replica_uuid"] == wanted["slave_uuid"] == REPLICA


def test_a_registration_holds_the_host_that_is_reported() -> None:
    packet = dump_command.registration(replace(ADDRESS, report_host="worker-1"))
    assert int.from_bytes(packet[:3], "little") == len(packet) - 4
    assert packet[4:] == b"\x15" + struct.pack("<I", 77) + b"\x08worker-1\0\0" + struct.pack(
        "<HII", 3306, 0, 0
    )
