"""The topic of records: rows and a TRUNCATE of one table have that of its route."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.piece import Piece
from tables.rules.mapping.forms import from_yaml
from tests.unit.app.worker.pipeline.actions import TABLES, RowsOf, Truncate
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import (
    RULES,
    Record,
    Versions,
    first_cursor,
    records_of,
    run,
    versions_of,
)

TABLE = TABLES[0]
COLUMN = "note"
OLDER = "aq.as-it-was-called"


def ops(pieces: list[Piece]) -> list[tuple[str, str]]:
    """Topic and kind of each record of a row."""
    found = [(one.topic, one.op) for one in records_of(pieces) if "__" not in one.topic]
    return [one for one in found if one[1] != "tombstone"]


def history() -> Source:
    rows = RowsOf(TABLE, "c", ((1, 1),))
    return Source([[rows], [Truncate(TABLE)], [rows]], gtids=True)


def pieces_with(known: Versions) -> list[Piece]:
    source = history()
    cursor = first_cursor(source)
    return run(source.chunks(source.first, (False,)), cursor, known)


def test_rows_and_a_truncate_go_to_the_topic_of_the_route_once_it_changed() -> None:
    (version,) = versions_of(pieces_with({}))
    topic = version.topic
    older = replace(version, topic=OLDER, partitions=3)
    found = pieces_with({TABLE: older})
    assert ops(found) == [(topic, "c"), (topic, "t"), (topic, "c")]
    assert {topic} == {name for piece in found for name in piece.partitions}
    (moved,) = versions_of(found)
    assert (moved.version, moved.topic, moved.partitions) == (2, topic, 1)


def test_a_truncate_before_the_first_row_of_a_new_topic_has_no_version() -> None:
    source = Source([[Truncate(TABLE)]], gtids=True)
    older = replace(versions_of(pieces_with({}))[0], topic=OLDER)
    pieces = run(source.chunks(source.first, (False,)), first_cursor(source), {TABLE: older})
    (record,) = [one for one in records_of(pieces) if one.op == "t"]
    assert record.topic != OLDER
    assert record.value["source"]["schema"] is None


@pytest.mark.parametrize("mapped", [False, True])
def test_a_truncate_that_is_omitted_has_no_record_and_no_number(*, mapped: bool) -> None:
    text = (
        f"tables: {{{'.'.join(TABLE)}: {{topic: t, truncates: {'omit' if mapped else 'record'}}}}}"
    )
    routes = (
        replace(RULES.routes, mapping=from_yaml(text))
        if mapped
        else replace(RULES.routes, truncates="omit")
    )
    source = history()
    pieces = run(
        source.chunks(source.first, (False,)),
        first_cursor(source),
        {},
        replace(RULES, routes=routes),
    )
    assert [op for _, op in ops(pieces)] == ["c", "c"]
    found = [
        one.value["source"]["seq"] for one in records_of(pieces) if "source" in (one.value or {})
    ]
    assert sorted(found) == [1, 2, 3]
    assert pieces[-1].seq == 3


MAPPED = """
tables:
  sales:
    from: [{table}]
    topic: sales
    partitions: 4
    tags: {{"": every, {column}: some}}
    tag_topics: [some, every]
    {more}
"""


@pytest.mark.parametrize("more", ["", "partition_by: [{column}]"])
@pytest.mark.parametrize("merged", [False, True])
def test_records_are_again_on_the_topics_of_their_tags(more: str, merged: bool) -> None:
    text = MAPPED.format(table=TABLE[1], column=COLUMN, more=more.format(column=COLUMN))
    routes = replace(
        RULES.routes, mapping=from_yaml(text), merged=merged, destination=RULES.destination
    )
    rows = RowsOf(TABLE, "c", ((1, 1), (2, 2), (3, 3))), RowsOf(TABLE, "u", ((1, 1), (2, 7)))
    source = Source([list(rows), [Truncate(TABLE)]], gtids=True)
    chunks, rules = source.chunks(source.first, (False,)), replace(RULES, routes=routes)
    pieces = run(chunks, first_cursor(source), {}, rules)
    start = f"aq.__shard.{RULES.destination}." if merged else "aq."
    found: dict[str, list[Record]] = {name: [] for name in ("", "__tag.some.", "__tag.every.")}
    for one in records_of(pieces):
        name = one.topic.removeprefix(start).removesuffix("sales")
        if name in found:
            found[name].append(replace(one, topic=""))
    own = found[""]
    assert len({one.partition for one in own}) > 1
    assert found["__tag.every."] == own
    some = [one for one in own if "some" in dict(one.headers)["tags"].decode().split(",")]
    assert found["__tag.some."] == some
    assert 0 < len(some) < len(own)
    assert pieces[0].topics[f"{start}__tag.some.sales"] == 4


def test_a_piece_names_its_topics_and_their_partitions() -> None:
    (piece, *_) = pieces_with({})
    assert piece.topics["aq.shop." + TABLE[1]] == 1
    assert piece.topics.keys() >= {batch.topic for batch in piece.batches}
