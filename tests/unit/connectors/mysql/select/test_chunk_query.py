"""The SELECTs of chunks, by a database that understands them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mysql.select.chunk_query import chunk_query, last_row_query

_DIGITS = st.integers(0, 3)
Key = tuple[int, ...]


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@given(data=st.data())
def test_rows_are_those_between_two_keys_in_their_order(columns: int, data: st.DataObject) -> None:
    key = st.tuples(*[_DIGITS] * columns)
    rows = data.draw(st.sets(key, max_size=30))
    after, until = data.draw(st.none() | key), data.draw(st.none() | key)
    where = data.draw(st.sampled_from([None, "`k0` = 1 OR `k0` = 2 -- some"]))
    names = [f"k{n}" for n in range(columns)]
    query = chunk_query(
        ("main", "t"),
        ", ".join(names),
        key=names,
        after=_literals(after),
        limit=7,
        until=_literals(until),
        where=where,
    )
    wanted = [
        row
        for row in sorted(rows)
        if (after is None or row > after)
        and (until is None or row <= until)
        and (where is None or row[0] in (1, 2))
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE t ({', '.join(names)})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * columns)})", rows)
        assert database.execute(query).fetchall() == wanted[:7]
        last = database.execute(last_row_query(("main", "t"), "*", key=names)).fetchall()
    assert last == sorted(rows)[-1:]


def _literals(key: Key | None) -> list[str] | None:
    return None if key is None else [str(value) for value in key]
