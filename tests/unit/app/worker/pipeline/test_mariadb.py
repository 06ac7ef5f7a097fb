"""A MariaDB's chunks through the stage: their records, and compressed rows that are filtered."""

from __future__ import annotations

from dataclasses import replace

from app.worker.pipeline.number import Numbers
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import CapturedChunk
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tables.state.cursor import Cursor
from tests.made import SERVER, START, chunk_of, int_rows, int_table, table_map, xid
from tests.unit.app.worker.pipeline.runs import RULES, Record, records_of, spec_of
from tests.unit.connectors.mysql.mariadb_made import annotation, compressed_rows, gtid

OTHER = replace(int_table(2, "t"), database="other")


def run(chunk: Chunk) -> tuple[Piece, list[Record]]:
    offset = SourceOffset(server_uuid=SERVER, coordinates=START, gtid_set=MariadbGtidList())
    cursor = Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)
    spec = spec_of(replace(RULES, statements=True), cursor, {})
    decoded = replace(spec, mariadb=True).make().decode(CapturedChunk(chunk), ())
    decoded.number(Numbers.of(cursor), [])
    (piece,) = decoded.encode()
    assert piece.error is None
    return piece, [record for record in records_of([piece]) if record.value.get("op")]


def test_compressed_rows_are_published_and_filtered_as_plain_ones_are() -> None:
    table = int_table(1)
    events = (
        *(gtid(5, domain=3), table_map(OTHER), compressed_rows(int_rows(OTHER, 1, 2, 3))),
        *(annotation("INSERT …"), table_map(table), compressed_rows(int_rows(table, 4, 5)), xid()),
    )
    piece, (first, second) = run(chunk_of(*events))
    source = first.value["source"]
    assert (source["connector"], source["gtid"], source["row"]) == ("mariadb", "3-7-5", 3)
    assert source["query"] == "INSERT …"
    assert [one.value["after"] for one in (first, second)] == [{"c": 4}, {"c": 5}]
    assert piece.trace.gtids == [("3-7", 5, 5)]
    assert piece.counts.events == {
        (16, "decoded"): 1,
        (19, "decoded"): 2,
        (160, "passed"): 1,
        (162, "decoded"): 1,
        (169, "decoded"): 1,
        (169, "filtered"): 1,
    }


def test_compressed_rows_that_nobody_wants_are_not_unpacked() -> None:
    damaged = bytearray(compressed_rows(int_rows(OTHER, 1, 2, 3)))
    damaged[-1] ^= 1
    piece, records = run(chunk_of(gtid(5), table_map(OTHER), bytes(damaged), xid()))
    assert records == []
    assert piece.counts.events[169, "filtered"] == 1
    assert piece.trace.gtids == [("0-7", 5, 5)]
