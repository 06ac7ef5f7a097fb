"""An old server as a test's source: what its binlog file holds of some statements, and rows out of that."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.rows.decoder import ABSENT, Image, RowDecoder
from connectors.mysql.schema.table_map_completion import described
from connectors.mysql.server.facts import ServerFacts, read_facts
from devstack.mysql import Mysql
from tests.golden.load import steps_of
from tests.harness.definitions import read_definition
from tests.harness.sql import connected, run
from tests.integration.worker.source import address_of, assert_compiled_alike, end_of
from tests.steps import Rows, Step


@cache
def facts_of(mysql: Mysql) -> ServerFacts:
    """The server's properties, read once."""
    return read_facts(address_of(mysql))


def charsets_of(mysql: Mysql) -> Charsets:
    """The server's character sets."""
    return facts_of(mysql).charsets


def written(mysql: Mysql, *statements: str, **more: Any) -> list[Step]:
    """Run statements and give the steps that the binlog's file holds of them."""
    begin = end_of(mysql)
    run(mysql, *statements, **more)
    end = end_of(mysql)
    assert begin.file == end.file
    return steps_of(mysql.data / end.file, charsets_of(mysql), begin=begin.pos, end=end.pos)


def complete(mysql: Mysql, table_map: TableMap) -> TableMap:
    """The table map, completed by the server's current definition."""
    with connected(mysql) as cursor:
        known = read_definition(cursor, table_map.database, table_map.table)
    return described(table_map, known.columns, charsets_of(mysql))


@dataclass(frozen=True, slots=True)
class Row:
    """A changed row, by column; what the binlog does not hold is not in it."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None


def rows(mysql: Mysql, steps: list[Step]) -> Iterator[Row]:
    """The rows among some steps; the tables' present definitions are what they were then."""
    charsets, maps = charsets_of(mysql), dict[tuple[str, str, int], TableMap]()
    for step in steps:
        if not isinstance(step, Rows):
            continue
        bare = step.table_map
        key = (bare.database, bare.table, bare.table_id)
        if key not in maps:
            maps[key] = complete(mysql, bare)
        names = [column.name or "" for column in maps[key].columns]
        changes = list(RowDecoder(maps[key], charsets).decode(step.event_type, step.body))
        assert_compiled_alike(replace(step, table_map=maps[key]), changes, facts_of(mysql))
        for change in changes:
            yield Row(_named(names, change.before), _named(names, change.after))


def _named(names: list[str], image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    held = zip(names, image, strict=True)
    return {name: value for name, value in held if value is not ABSENT}
