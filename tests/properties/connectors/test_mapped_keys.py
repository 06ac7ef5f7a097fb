"""Keys with a head, other columns and a place: generated code writes what the plain readers give."""

from __future__ import annotations

from unittest import mock

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.decoder import RowDecoder
from tests.properties.connectors.row_images import images, tables
from tests.unit.connectors.mysql.rows.row_events import CHARSETS, event

HEAD = '{"__shard":["m","d","t"],'


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    table=tables(),
    patterns=st.sampled_from([0, 32]),
    head=st.sampled_from(["{", HEAD]),
)
def test_a_key_is_its_head_its_columns_and_its_position_with_either_decoder(
    data: st.DataObject, table: TableMap, patterns: int, head: str
) -> None:
    column = st.integers(0, len(table.columns) - 1)
    key = data.draw(st.lists(column, unique=True, min_size=1))
    place = data.draw(st.lists(column, unique=True))
    body = event(table, [data.draw(images(table)) for _ in range(2)], present=2)
    with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
        ours = CompiledDecoder(table, CHARSETS, key=key, key_head=head, place=place)
    ((_, _, *keys, _),) = ours.rows(EventType.UPDATE_ROWS, body)
    (change,) = RowDecoder(table, CHARSETS).decode(EventType.UPDATE_ROWS, body)
    names = [one.name or "" for one in table.columns]
    for image, text in zip((change.before, change.after), keys, strict=True):
        values = dict(zip(names, image or (), strict=True))
        own, separator, rest = str(text).partition("\0")
        assert own.startswith(head)
        assert orjson.loads("{" + own.removeprefix(head)) == {
            names[at]: values[names[at]] for at in key
        }
        assert bool(separator) == bool(place)
        assert not place or orjson.loads(rest) == {names[at]: values[names[at]] for at in place}
