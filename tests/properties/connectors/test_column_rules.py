"""Generated code passes a column rule what the plain readers pass it."""

from __future__ import annotations

from unittest import mock

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows import compiled as made_patterns
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.decoder import ColumnRule, RowDecoder, Value, ruled
from tests.properties.connectors.row_images import images, tables
from tests.properties.examples import examples
from tests.unit.connectors.mysql.rows.row_events import CHARSETS, event


def shown(value: Value) -> Value:
    """A rule that shows a value with its type, so that no two ways may give it differently."""
    return f"{type(value).__name__} {value}"


@settings(deadline=None, max_examples=examples(100))
@given(data=st.data(), table=tables(), patterns=st.sampled_from([0, 32]))
def test_generated_code_gives_a_rule_what_the_plain_readers_give_it(
    data: st.DataObject, table: TableMap, patterns: int
) -> None:
    rows = [data.draw(images(table)) for _ in range(2)]
    body = event(table, rows, present=2)
    rules: dict[str, ColumnRule] = {one.name or "": shown for one in table.columns}
    with mock.patch.object(made_patterns, "_MOST_PATTERNS", patterns):
        ours = CompiledDecoder(table, CHARSETS, rules=rules)
    ((before, after, old_key, new_key, _),) = ours.rows(EventType.UPDATE_ROWS, body)
    (change,) = RowDecoder(table, CHARSETS).decode(EventType.UPDATE_ROWS, body)
    names = [one.name or "" for one in table.columns]
    places = dict.fromkeys(range(len(names)), shown)
    for image, text, key in ((change.before, before, old_key), (change.after, after, new_key)):
        plain = dict(zip(names, ruled(image or (), places), strict=True))
        assert orjson.loads(text or "") == plain
        wanted = {names[index]: plain[names[index]] for index in table.primary_key or ()}
        assert (key and orjson.loads(key)) == (wanted or None)
