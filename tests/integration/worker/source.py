"""A real MySQL as a test's source: run statements on it, and read their binlog events."""

from dataclasses import dataclass
from typing import Any

import orjson

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.lookup.start import Latest, first_offset
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.decoder import ABSENT, RowChange, RowDecoder
from connectors.mysql.schema.server_columns import end_of_binlog
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts, read_facts
from connectors.mysql.stream.replica import BinlogStream
from connectors.mysql.transaction_reader import TransactionReader
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.steps import End, Rows, Step, steps_of

SERVER_ID = 7101
REPLICA_UUID = "aaaaaaaa-0000-4000-8000-000000007101"


def address_of(mysql: Mysql, **more: Any) -> SourceAddress:
    """The address and credentials of our account at the server."""
    settings: dict[str, Any] = {
        "user": "aqueduct",
        "password": "aqueduct",
        "server_id": SERVER_ID,
        "replica_uuid": REPLICA_UUID,
    }
    return SourceAddress(host=mysql.host, port=mysql.port, **(settings | more))


def end_of(mysql: Mysql) -> Coordinates:
    """The end of the server's binlog."""
    with connected(mysql) as cursor:
        return end_of_binlog(cursor)[0]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A row as our decoder gives it, by column."""

    table: TableMap
    names: tuple[str, ...]
    change: RowChange

    def after(self) -> dict[str, Any]:
        """The row after the change."""
        assert self.change.after is not None
        return dict(zip(self.names, self.change.after, strict=True))

    def before(self) -> dict[str, Any]:
        """The row before the change."""
        assert self.change.before is not None
        return dict(zip(self.names, self.change.before, strict=True))


def between(mysql: Mysql, begin: Coordinates, end: Coordinates) -> list[Step]:
    """All steps of the transactions between two positions of the binlog."""
    facts = read_facts(address_of(mysql))
    stream = BinlogStream(
        address_of(mysql), SourceOffset(server_uuid=facts.server_uuid, coordinates=begin)
    )
    stream.open()
    found: list[Step] = []
    reader = TransactionReader(facts.server_uuid, facts.charsets)
    try:
        for step in steps_of(stream.chunks(lambda: True), reader):
            found.append(step)
            if isinstance(step, End) and step.end.order >= end.order:
                break
    finally:
        stream.close()
    return found


def written(mysql: Mysql, *statements: str, **more: Any) -> list[Step]:
    """Run statements and give the steps that the binlog holds of them."""
    begin = end_of(mysql)
    run(mysql, *statements, **more)
    return between(mysql, begin, end_of(mysql))


def decoded(mysql: Mysql, steps: list[Step]) -> list[Decoded]:
    """The rows among some steps."""
    facts = facts_of(mysql)
    found = []
    for step in steps:
        if isinstance(step, Rows):
            names = tuple(column.name or "" for column in step.table_map.columns)
            decoder = RowDecoder(step.table_map, facts.charsets)
            changes = list(decoder.decode(step.event_type, step.body))
            assert_compiled_alike(step, changes, facts)
            found += [Decoded(step.table_map, names, change) for change in changes]
    return found


def assert_compiled_alike(step: Rows, changes: list[RowChange], facts: ServerFacts) -> None:
    """The generated code returns the same rows as the plain readers."""
    compiled = CompiledDecoder(step.table_map, facts.charsets)
    texts = list(compiled.decode(step.event_type, step.body))
    names = [column.name or "" for column in step.table_map.columns]
    for text, change in zip(texts, changes, strict=True):
        for result, image in ((text.before, change.before), (text.after, change.after)):
            assert (result is None) == (image is None)
            if result is None or image is None or ABSENT in image:
                continue
            plain = orjson.dumps(dict(zip(names, image, strict=True)))
            assert orjson.loads(result) == orjson.loads(plain)


def facts_of(mysql: Mysql) -> ServerFacts:
    """The server's properties."""
    return read_facts(address_of(mysql))


def now(mysql: Mysql) -> SourceOffset:
    """The offset at the server's end, with GTIDs where it has them."""
    return first_offset(Latest(), facts_of(mysql), address_of(mysql))
